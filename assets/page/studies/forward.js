// Forward pass: one token from its id to the probabilities, station by station.

import { className, percent, say } from "../common/boot.js";
import { fill, make } from "../common/dom.js";
import { figure, fillTokenRow, firstNumbers, vectorStrip } from "../common/charts.js";

export function build(place, choose) {
  const tokens = make("div", { role: "group" });
  const flow = make("div", { class: "flow" });
  place.append(tokens, flow);

  return function draw(data) {
    tokens.setAttribute("aria-label", say("forward_tokens"));
    fillTokenRow(tokens, data.pieces, data.token, (token) => choose({ token }));
    data.ids.forEach((id, i) => tokens.children[i].append(make("small", {}, String(id))));
    const at = Object.fromEntries(data.stations.map((stop) => [stop.name, stop]));
    const piece = data.pieces[data.token];
    const isMean = data.pooling === "mean";
    fill(flow,
      idsCard(data, piece),
      sign("↓"),
      row(card(say("forward_token"), at.token,
        say("forward_token_from", { id: data.ids[data.token] })),
        sign("+"),
        card(say("forward_segment"), at.segment, say("forward_segment_from", { id: data.segment })),
        sign("+"),
        card(say("forward_position"), at.position, say("forward_position_from", { id: data.token }))),
      sign("↓"),
      row(card(say("forward_sum"), at.sum), sign("→", "onward"),
        card(say("forward_norm"), at.norm, say("forward_norm_from"))),
      sign("↓"),
      layersTable(data.stations.filter(({ name }) => name === "layer")),
      ...(at.final ? [sign("↓"), card(say("forward_final"), at.final)] : []),
      data.token > 0 && !isMean && at.read ? make("p", { class: "aside" }, say("forward_left", { piece }))
        : null,
      ...(at.read ? [sign("↓"), row(
        isMean ? card(say("forward_read_mean"), at.read, say("forward_read_mean_from"))
          : card(say("forward_read_cls"), at.read, say("forward_read_cls_from")),
        sign("→", "onward"), card(say("forward_pooled"), at.pooled, say("forward_pooled_from")))] : []),
      ...(data.classes.length ? [sign("↓"), answerTable(data)]
        : [make("p", { class: "aside" }, say("forward_no_classifier"))]));
  };
}

function sign(text, kind = "") {
  return make("span", { class: `sign ${kind}`, "aria-hidden": "true" }, text);
}

function row(...cards) {
  return make("div", { class: "flow-row" }, ...cards);
}

function title(name, shape) {
  return make("header", {}, make("h3", {}, name), make("code", { class: "shape" }, shape));
}

function idsCard({ ids, token, vocabulary }, piece) {
  return make("section", { class: "card", "data-station": "ids" },
    title(say("forward_ids"), `(1, ${ids.length})`),
    make("p", { class: "numbers" }, ids.slice(0, 6).join("\u2002") + (ids.length > 6 ? "\u2002…" : "")),
    make("p", { class: "stats" }, say("forward_ids_of", { piece, id: ids[token],
      vocabulary: vocabulary.toLocaleString("en") })));
}

/** A station: shape, strip, first numbers, mean and standard deviation of the chosen token's vector. */
function card(name, stop, from = "") {
  return make("section", { class: "card", "data-station": stop.name },
    title(name, stop.shape),
    make("div", { class: "scaled" }, vectorStrip(stop.values, stop.limit),
      make("span", { class: "stats" }, `±${figure(stop.limit)}`)),
    make("p", { class: "numbers" }, firstNumbers(stop.values)),
    make("p", { class: "stats" }, say("forward_mean_std", { mean: figure(stop.mean),
      std: figure(stop.std) })),
    make("p", { class: "stats" }, from && `${from} · `, say("forward_length", { norm: figure(stop.norm) })));
}

function layersTable(layers) {
  return make("section", { class: "card", "data-station": "layers" },
    title(say("forward_layers"), `${layers[0].shape} × ${layers.length}`),
    make("table", {},
      make("thead", {}, make("tr", {}, ...[say("layer"),
        `${say("forward_vector")} (${say("forward_scale", { limit: figure(layers[0].limit) })})`,
        say("forward_norm_short"), say("forward_moved")].map((text) => make("th", { scope: "col" }, text)))),
      make("tbody", {}, ...layers.map((stop) => make("tr", { "data-layer": stop.layer },
        make("th", { scope: "row" }, String(stop.layer)),
        make("td", { class: "wide" }, vectorStrip(stop.values, stop.limit)),
        make("td", {}, figure(stop.norm)), make("td", {}, figure(stop.moved)))))));
}

function answerTable({ classes, logits, probabilities }) {
  const best = probabilities.indexOf(Math.max(...probabilities));
  return make("section", { class: "card", "data-station": "answer" },
    title(say("forward_answer"), `(1, ${classes.length})`),
    make("table", {},
      make("thead", {}, make("tr", {}, make("th", { scope: "col" }, say("forward_class")),
        make("th", { scope: "col" }, say("forward_logit")),
        make("th", { scope: "col", colspan: 2 }, say("forward_probability")))),
      make("tbody", {}, ...classes.map((item, i) => {
        const bar = make("span", { class: "share" });
        bar.style.width = `${100 * probabilities[i]}%`;
        bar.style.background = item.colour;
        return make("tr", { "data-class": item.key, class: i === best ? "best" : null },
          make("th", { scope: "row" }, className(item)), make("td", {}, figure(logits[i])),
          make("td", { class: "wide" }, bar), make("td", {}, percent(probabilities[i])));
      }))));
}
