// An example of the page: its text is sent, and the view that shows it opens.

import { open } from "./studies.js";

export function showExample({ tab, text, options = {} }) {
  open(tab === "attention" ? "heatmap" : tab, options);
  window.microscope.say(text);
}
