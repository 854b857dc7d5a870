// Talking to the server: one POST per question, repeated while the server is away.

import { state } from "./store.js";

// Milliseconds between attempts: about two minutes in all, as long as a slow machine starts.
const PAUSES = [500, 1000, 2000, 4000, ...Array(20).fill(6000)];

/** The server understood and refused; its sentence is the message. */
export class Refused extends Error {}

/** The server could not be reached. */
export class Unreachable extends Error {}

async function askOnce(name, values) {
  let reply;
  try {
    reply = await fetch(`gradio_api/run/${name}`, {
      method: "POST",
      headers: { "Content-Type": "application/json" },
      body: JSON.stringify({ data: [...values, state.taught] }),
    });
  } catch (error) {
    throw new Unreachable(error.message);
  }
  const body = await reply.json().catch(() => ({}));
  const isAway = [502, 503, 504].includes(reply.status) && !body.error;  // a proxy says so, not us
  if (isAway) throw new Unreachable(reply.statusText);
  if (!body.data) throw new Refused(body.error ?? body.detail ?? reply.statusText);
  return body.data[0];
}

/** Ask the server; while it is away, `onAway` is told and the question is repeated. */
export async function ask(name, values, onAway = () => {}) {
  for (const pause of [...PAUSES, null]) {
    try {
      const answer = await askOnce(name, values);
      onAway(false);
      return answer;
    } catch (error) {
      if (!(error instanceof Unreachable)) onAway(false);
      if (!(error instanceof Unreachable) || pause === null) throw error;
      onAway(true);
      await new Promise((resolve) => setTimeout(resolve, pause));
    }
  }
}
