/** A pen for the axes of a panel: places along them, styles, and what curves of many trials are made of. */

import { THEME, area, line, text } from "./drawing.js";
import { quantile } from "./plain.js";

/** Numbers with their shape. @typedef {{ sizes: number[], data: ArrayLike<number> }} Table */
/** @typedef {{ left: number, top: number, width: number, height: number }} Box */
/** What is under a place, in words, which expert it belongs to, and what may be carried from there.
 * @typedef {{ box: Box, words: string, thing: number, carry?: import("./carried.js").Carry }} Spot */
/** @typedef {CanvasRenderingContext2D} Context */

export const POINT = 100 / 72;
export const TEXT = 10.5 * POINT;
export const SMALL = 9.5 * POINT;
export const MOST_LINES = 12;
const BANDS = [
  [0.05, 0.95, 0.13],
  [0.25, 0.75, 0.22],
];

/** @type {Record<string, { colour: string, shape: string, line: number[], median: number[] }>} */
export const STYLES = {
  model: { colour: THEME.ink, shape: "circle", line: [], median: [] },
  other: { colour: THEME.reference, shape: "square", line: [3.7, 1.6], median: [3, 1.5] },
  found: { colour: THEME.found, shape: "circle", line: [4, 2], median: [4, 2] },
};
[
  [4, 1.5],
  [1, 1.2],
  [6, 1.5, 1, 1.5],
  [2.5, 2.5],
].forEach((median, place) => {
  STYLES[`other ${place + 1}`] = { ...STYLES.other, median };
});
/** @type {Record<string, string>} */
export const INKS = {
  model: THEME.ink,
  other: THEME.reference,
  ink: THEME.ink,
  muted: THEME.muted,
  failure: THEME.failure,
  rule: THEME.rule,
  found: THEME.found,
  gold: THEME.gold,
  axis: THEME.rule,
  ...Object.fromEntries([1, 2, 3, 4].map((place) => [`other ${place}`, THEME.reference])),
  "class 1": THEME.classes[0],
  "class 2": THEME.classes[1],
};

/** A row of a table of numbers. @param {Table} table @param {number} row @returns {number[]} */
export const rowOf = ({ sizes, data }, row) =>
  Array.from({ length: sizes[1] }, (_, place) => data[row * sizes[1] + place]);

/** The names of rows or columns. @param {string | string[]} pattern @param {number} count @param {number} first */
export const namesOf = (pattern, count, first = 1) =>
  Array.isArray(pattern)
    ? pattern.slice(0, count)
    : Array.from({ length: count }, (_, place) => pattern.replace("{}", String(first + place)));

export class AxesPen {
  /** @param {Context} context @param {number} focus @param {number} width of the panel */
  constructor(context, focus, width) {
    this.context = context;
    this.focus = focus;
    this.width = width;
    /** @type {Spot[]} */
    this.spots = [];
    this.box = { left: 0, top: 0, width: 0, height: 0 };
    /** @type {any} */
    this.scales = null;
    /** @type {any} */
    this.table = null;
    /** @type {any} */
    this.map = null;
    /** @type {any} */
    this.strip = null;
    this.plane = "";
  }

  /** Turns to other axes. @param {Box} box */
  turnTo(box) {
    this.box = box;
    this.scales = null;
    this.table = null;
    this.map = null;
  }

  /** A place along x in pixels. @param {number} value */
  x(value) {
    const { box, scales, table } = this;
    if (table) return box.left + (value + 0.5) * table.wide;
    const [low, high] = scales.x;
    if (scales.log?.includes("x")) return box.left + (box.width * Math.log(value / low)) / Math.log(high / low);
    return box.left + (box.width * (value - low)) / (high - low);
  }

  /** @param {number} value */
  y(value) {
    const { box, scales, table } = this;
    if (table) return box.top + (value + 0.5) * table.high;
    const [low, high] = scales.y;
    if (scales.log?.includes("y")) return box.top + box.height * (1 - Math.log(value / low) / Math.log(high / low));
    return box.top + box.height * (1 - (value - low) / (high - low));
  }

  /** A place in pixels. @param {number} x @param {number} y @returns {[number, number]} */
  at(x, y) {
    return [this.x(x), this.y(y)];
  }

  /** How strongly an expert is drawn, while one may be followed. @param {number} expert */
  strength(expert) {
    return this.focus < 0 || this.focus === expert ? 1 : 0.22;
  }

  /** Has the pointer find words around a place. @param {number} x @param {number} y @param {number} reach
   * @param {string} words @param {number} thing */
  spot(x, y, reach, words, thing) {
    this.spots.push({ box: { left: x - reach, top: y - reach, width: 2 * reach, height: 2 * reach }, words, thing });
  }

  /** A value as the vertical axis has it. @param {number} value */
  read(value) {
    const percent = (this.scales?.percent ?? "").includes("y");
    return percent ? `${(100 * value).toFixed(1)} %` : String(Number(value.toPrecision(3)));
  }

  /** Draws what ends at the edge of the axes. @param {() => void} draw */
  inside(draw) {
    const { context, box } = this;
    context.save();
    context.beginPath();
    context.rect(box.left - 1, box.top - 2, box.width + 2, box.height + 4);
    context.clip();
    draw();
    context.restore();
  }

  /** @param {string} words @param {number} x @param {number} y @param {import("./drawing.js").TextLooks} looks */
  write(words, x, y, looks = {}) {
    const { size = SMALL } = looks;
    const lines = words.split("\n");
    lines.forEach((one, place) => {
      const down = 1.25 * size * (place - (lines.length - 1) / 2);
      text(this.context, one, x, y + down, { base: "middle", size, ...looks });
    });
  }
}

/** Places of a curve, without the records that there are not yet.
 * @param {Table} x @param {(row: number) => number} height @param {AxesPen} pen */
export function pointsOf(x, height, pen) {
  /** @type {[number, number][]} */
  const points = [];
  for (let row = 0; row < x.data.length; row++) {
    const at = height(row);
    if (Number.isFinite(x.data[row]) && Number.isFinite(at)) points.push([pen.x(x.data[row]), pen.y(at)]);
  }
  return points;
}

/** A number as an axis has it. @param {number} value @param {boolean} percent */
export const tickOf = (value, percent) =>
  percent ? `${Math.round(100 * value)} %` : String(Number(value.toPrecision(6))).replace("-", "−");

/** @param {number} share */
export const shadeOf = (share) => THEME.ramp[Math.round(255 * Math.min(Math.max(share, 0.04), 1))];

/** Draws the bands that hold half and nine tenths of many trials, and how they lie now.
 * @param {AxesPen} pen @param {any} one @param {number[]} known @param {string} colour */
export function bands(pen, one, known, colour) {
  const some = known
    .map((row) => ({
      row,
      values: rowOf(one.y, row)
        .filter(Number.isFinite)
        .sort((a, b) => a - b),
    }))
    .filter(({ values }) => values.length);
  if (!some.length) return;
  for (const [low, high, alpha] of BANDS) {
    /** @param {number} share @returns {[number, number][]} */
    const edge = (share) => some.map(({ row, values }) => [pen.x(one.x.data[row]), pen.y(quantile(values, share))]);
    area(pen.context, [...edge(low), ...edge(high).reverse()], colour, alpha);
  }
  const { values } = some[some.length - 1];
  const [steps, widest, kernel] = [40, 0.15, [1, 4, 6, 4, 1]];
  const { top, height } = pen.box;
  const counts = Array(steps).fill(0);
  for (const value of values) {
    const share = Math.min(Math.max(1 - (pen.y(value) - top) / height, 0), 1);
    counts[Math.min(steps - 1, Math.floor(steps * share))] += 1;
  }
  const mirrored = (/** @type {number} */ at) => counts[at < 0 ? -at - 1 : at >= steps ? 2 * steps - 1 - at : at];
  const smooth = counts.map(
    (_, at) => kernel.reduce((sum, weight, shift) => sum + weight * mirrored(at + shift - 2), 0) / 16,
  );
  const most = Math.max(...smooth);
  const right = pen.box.left + pen.box.width;
  /** @type {[number, number][]} */
  const outline = [];
  smooth.forEach((count, at) => {
    if (count)
      outline.push([right - (widest * pen.box.width * count) / most, top + height * (1 - (at + 0.5) / steps)]);
  });
  if (outline.length < 2) return;
  const shape = /** @type {[number, number][]} */ ([
    [right, outline[0][1]],
    ...outline,
    [right, outline[outline.length - 1][1]],
  ]);
  area(pen.context, shape, colour, 0.3);
  line(pen.context, [...shape, shape[0]], colour, 1.3 * POINT);
}
