/** The map page's three panels: the map, and beside its rows the samples needed and the coverage. */
import { THEME, line, mark, sheetOf, text } from "./drawing.js";
import { say } from "./phase_map.js";

/** @typedef {import("./phase_map.js").PhaseMap} PhaseMap */
/** @typedef {{row: number, column: number}} Spot */
/** @typedef {{before: number[][] | null, running: number[], focus: Spot | null}} Shown beside the map itself */

const EDGES = { top: 8, bottom: 46, left: 46, right: 54 };
const FAINT = 0.08; // a share that hardly differs from paper: an edge shows that the cell has run
const INSET = 6.5; // by which the border runs inside its rows, so that it never lies on l*
const FEWEST_N = 17; // limits of N, the same for every map
const MOST_N = 1000;
const BEYOND_N = 930; // where "more than the largest N" stands

/** The rows of a map on a canvas, row 0 at the bottom. @param {HTMLCanvasElement} canvas @param {PhaseMap} map */
function rowsOf(canvas, map, left = 24, right = 16) {
  const sheet = sheetOf(canvas);
  const bottom = sheet.height - EDGES.bottom;
  const high = (bottom - EDGES.top) / map.kept.length;
  const rows = map.kept.map((_, row) => bottom - (row + 0.5) * high);
  const looks = /** @type {const} */ ({ align: "right", base: "middle" });
  map.kept.forEach((kept, row) => text(sheet.context, String(kept), left - 8, rows[row], looks));
  return { ...sheet, left, right: sheet.width - right, bottom, high, rows };
}

/** @typedef {ReturnType<typeof rowsOf>} Rows */

/** The line of l*, below its own row. @param {Rows} at @param {PhaseMap} map */
function drawStar({ context, left, right, bottom, high }, map, name = "") {
  if (!map.ended || !(map.star <= map.kept.length + 1)) return; // before, it would give the prediction away
  const y = bottom - (map.star - 1) * high;
  line(context, [[left, y], [right + 4, y]], THEME.paper, 5);
  line(context, [[left, y], [right + 4, y]], THEME.ink, 2, { dash: [8, 4] });
  text(context, name, right + 8, y, { colour: THEME.ink, bold: true, base: "middle" });
}

/** Words below a panel's axis. @param {Rows} at @param {[number, string][]} ticks @param {string[]} titles */
function drawBelow({ context, left, right, bottom }, ticks, titles) {
  for (const [x, words] of ticks) text(context, words, x, bottom + 15, { align: "center", size: 11.5 });
  titles.forEach((words, number) =>
    text(context, words, (left + right) / 2, bottom + 30 + 14 * number, { align: "center", colour: THEME.ink }));
}

/** @param {HTMLCanvasElement} canvas @param {PhaseMap} map @param {Shown} shown */
export function drawMap(canvas, map, shown) {
  const at = rowsOf(canvas, map, EDGES.left, EDGES.right);
  const { context, left, right, bottom, high, rows } = at;
  const wide = (right - left) / map.samples.length;
  const middles = map.samples.map((_, column) => left + (column + 0.5) * wide);
  drawHatching(context, left, EDGES.top, right, bottom);
  for (const [row, cells] of map.cells.entries()) {
    for (const [column, cell] of cells.entries()) {
      const before = cell.full ? NaN : shown.before?.[row][column] ?? NaN;
      const running = !cell.full && shown.running.includes(map.samples[column]);
      const middle = /** @type {[number, number]} */ ([middles[column], rows[row]]);
      drawCell(context, middle, [wide, high], { ...cell, before, running, trials: map.trials });
    }
  }
  drawBorder(at, map, wide);
  drawStar(at, map, say("L_STAR", { l_star: map.star }));
  drawBelow(at, map.samples.map((samples, column) => [middles[column], String(samples)]), [say("ACROSS", {})]);
  const looks = /** @type {const} */ ({ colour: THEME.ink, align: "center", turn: -Math.PI / 2 });
  text(context, say("UP", {}), 14, (EDGES.top + bottom) / 2, looks);
  if (!shown.focus) return;
  context.strokeStyle = THEME.ink;
  context.lineWidth = 3;
  context.strokeRect(left + shown.focus.column * wide, rows[shown.focus.row] - high / 2, wide, high);
}

/**
 * Draws a cell, smaller until all its trainings have ended; the map before shows around it.
 * @param {CanvasRenderingContext2D} context
 * @param {[number, number]} middle
 * @param {[number, number]} place its width and height
 * @param {{done: number, share: number, full: boolean, before: number, running: boolean, trials: number}} cell
 */
function drawCell(context, middle, place, { done, share, full, before, running, trials }) {
  const part = full ? 1 : 0.6 + (0.3 * done) / trials;
  /** @param {number} part of its place @param {number} less pixels @param {string} colour */
  const box = (part, less, colour) => {
    const [width, height] = place.map((side) => part * side - less);
    context.fillStyle = colour;
    context.fillRect(middle[0] - width / 2, middle[1] - height / 2, width, height);
  };
  if (!Number.isNaN(before)) {
    box(1, 0, THEME.paper);
    context.globalAlpha = 0.3;
    box(1, 2, rampOf(before));
    context.globalAlpha = 1;
  }
  if (running) box(part, -4, THEME.ink);
  if (running || done) box(part, full ? 0 : 2, THEME.paper);
  if (!done) return;
  if (share < FAINT) box(part, 2, THEME.rule);
  box(part, share < FAINT ? 4 : 2, rampOf(share));
  const colour = share >= 0.5 ? "white" : THEME.ink;
  text(context, String(Math.round(100 * share)), ...middle, { colour, align: "center", base: "middle" });
}

/** The colour of a share. @param {number} share */
const rampOf = (share) => THEME.ramp[Math.min(255, Math.floor(256 * share))];

/** Pale diagonal lines, where nothing has run. @param {CanvasRenderingContext2D} context
 * @param {number} left @param {number} top @param {number} right @param {number} bottom */
function drawHatching(context, left, top, right, bottom) {
  context.save();
  context.beginPath();
  context.rect(left, top, right - left, bottom - top);
  context.clip();
  for (let x = left; x < right + bottom - top; x += 7) {
    line(context, [[x, top], [x - bottom + top, bottom]], THEME.rule, 1, { alpha: 0.6 });
  }
  context.restore();
}

/** The line from which on at least 90 % succeed, dashed until the map is full.
 * @param {Rows} at @param {PhaseMap} map @param {number} wide of a column */
function drawBorder({ context, left, bottom, high }, map, wide) {
  /** @type {[number, number][][]} */
  const parts = [[]];
  map.enough().forEach((column, row) => {
    const part = parts[parts.length - 1];
    if (Number.isNaN(column)) {
      if (part.length) parts.push([]);
      return;
    }
    const x = left + column * wide + INSET / 2;
    const last = part[part.length - 1];
    let low = bottom - row * high;
    if (last && last[0] !== x) { // the horizontal part lies inside the row that succeeds there
      const shift = x > last[0] ? INSET : -INSET;
      last[1] += shift;
      low += shift;
    }
    part.push([x, low], [x, bottom - (row + 1) * high]);
  });
  const dash = map.full ? [] : [6, 3];
  for (const part of parts) line(context, part, "white", 5);
  for (const part of parts) line(context, part, THEME.failure, 2.6, { dash });
}

/** The cell of the map under a point of its canvas. @param {HTMLCanvasElement} canvas @param {PhaseMap} map
 * @param {number} x @param {number} y @returns {Spot | null} */
export function cellAt(canvas, map, x, y) {
  const wide = (canvas.clientWidth - EDGES.left - EDGES.right) / map.samples.length;
  const high = (canvas.clientHeight - EDGES.top - EDGES.bottom) / map.kept.length;
  const column = Math.floor((x - EDGES.left) / wide);
  const row = Math.floor((canvas.clientHeight - EDGES.bottom - y) / high);
  return map.cells[row]?.[column] ? { row, column } : null;
}

/** @param {HTMLCanvasElement} canvas @param {PhaseMap} map */
export function drawNeeded(canvas, map) {
  const at = rowsOf(canvas, map);
  const { context, left, right, bottom, rows } = at;
  /** @param {number} samples */
  const x = (samples) => left + ((right - left) * Math.log(samples / FEWEST_N)) / Math.log(MOST_N / FEWEST_N);
  const ticks = [20, 60, 200, 600];
  for (const samples of ticks) line(context, [[x(samples), EDGES.top], [x(samples), bottom]], THEME.rule, 0.7);
  drawStar(at, map);
  const more = say("NEEDED_MORE", { most: map.samples[map.samples.length - 1] });
  drawBelow(at, ticks.map((samples) => [x(samples), String(samples)]), [more]);
  const needed = map.needed();
  for (const [row, samples] of needed.entries()) {
    if (!row || !Number.isFinite(samples + needed[row - 1])) continue;
    line(context, [[x(needed[row - 1]), rows[row - 1]], [x(samples), rows[row]]], THEME.failure, 2.4);
  }
  for (const [row, samples] of needed.entries()) {
    if (samples === Infinity) {
      const looks = /** @type {const} */ ({ colour: THEME.failure, size: 16, align: "center", base: "middle" });
      text(context, "▷", x(BEYOND_N), rows[row], looks);
    }
    if (!Number.isFinite(samples)) continue;
    mark(context, "circle", x(samples), rows[row], 5, THEME.failure);
    if (!map.cells[row].every(({ full }) => full)) mark(context, "circle", x(samples), rows[row], 3.2, THEME.paper);
  }
}

/** Coverage of the worse class, at the largest N of which every l has it.
 * @param {HTMLCanvasElement} canvas @param {PhaseMap} map */
export function drawCovered(canvas, map) {
  const at = rowsOf(canvas, map, 24, 24);
  const { context, left, right, high, rows } = at;
  const column = map.covered();
  const title = column === undefined ? "" : `N = ${map.samples[column]}`;
  drawStar(at, map);
  drawBelow(at, [[left, "0 %"], [(left + right) / 2, "50 %"], [right, "100 %"]], [title]);
  if (column === undefined) return;
  context.fillStyle = rampOf(0.6);
  for (const [row, cells] of map.cells.entries()) {
    context.fillRect(left, rows[row] - 0.31 * high, (right - left) * cells[column].coverage, 0.62 * high);
  }
}
