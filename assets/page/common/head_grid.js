// A grid of buttons, one for each head: one stop for the tab key, arrow keys inside.

/** Move the focus through rows of buttons. */
export function stepThrough(event, cells) {
  const [down, right] = { ArrowUp: [-1, 0], ArrowDown: [1, 0], ArrowLeft: [0, -1],
    ArrowRight: [0, 1] }[event.key] ?? [0, 0];
  const row = cells.findIndex((line) => line.includes(document.activeElement));
  const next = cells[row + down]?.[cells[row]?.indexOf(document.activeElement) + right];
  if (!(down || right) || !next) return;
  event.preventDefault();
  document.activeElement.tabIndex = -1;
  next.tabIndex = 0;
  next.focus();
}
