/** Marks of maps (`moe_lab.drawing.map_marks`). */

import { THEME, line, mark } from "./drawing.js";
import { INKS, POINT, SMALL, TEXT } from "./pen.js";
import { fixed, percent, upTo } from "./plain.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */
/** @typedef {import("./pen.js").Box} Box */
/** @typedef {[number, number]} Place */

/** A share that hardly differs from paper: an edge shows that the cell has run. */
const FAINT = 0.08;
/** The side of a cell that has only begun, as a share of its place; and how strong the map before is. */
const SMALLEST = 0.6;
const GHOST = 0.3;
/** By how many pixels the line runs inside its rows, so that it never lies on their boundaries. */
const INSET = 6.5;
/** Dashes of the line until all runs have ended. */
const UNSURE = [8, 4];
/** Pixels from which on a column has room for its numbers in their usual size; and beside a map without a key. */
const NARROW = 34;
const BESIDE = 62;
/** How thick a bar is, as a share of its row; of several that lie above one another, and how far apart. */
const THICK = 0.62;
const LIES = 0.27;
const AWAY = 0.34;

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_MAPS = {
  ShareTable(one) {
    const { context } = this;
    const { columns, across, up, key = NaN, first = 1 } = one;
    const rows = Math.round(one.rows);
    const narrow = Number.isFinite(key) && this.box.width / columns.length < NARROW; // then the map takes the place of its key
    const box = narrow ? { ...this.box, width: this.width - this.box.left - BESIDE } : this.box;
    this.box = box;
    this.scales = { x: [-0.5, columns.length - 0.5], y: [first - 0.5, first + rows - 0.5] };
    this.map = { ...one, first };
    const bottom = box.top + box.height;
    upTo(rows).forEach((row) => {
      this.write(String(first + row), box.left - 8, this.y(first + row), { align: "right" });
    });
    columns.forEach((/** @type {string} */ words, /** @type {number} */ column) => {
      this.write(words, this.x(column), bottom + 14, { align: "center", size: sizeIn(box.width / columns.length) });
    });
    const looks = { size: TEXT, colour: THEME.ink, align: /** @type {CanvasTextAlign} */ ("center") };
    this.write(across, box.left + box.width / 2, bottom + 33, looks);
    this.write(up, box.left - 31, box.top + box.height / 2, { ...looks, turn: -Math.PI / 2 });
    if (narrow || !Number.isFinite(key)) return;
    const left = box.left + box.width + key;
    upTo(256).forEach((place) => {
      context.fillStyle = THEME.ramp[place];
      context.fillRect(left, bottom - ((place + 1) * box.height) / 256, 12, box.height / 256 + 0.5);
    });
    for (const share of [0, 0.5, 1]) this.write(percent(share), left + 18, this.y(first - 0.5 + share * rows));
    const enough = this.y(first - 0.5 + 0.9 * rows);
    line(
      context,
      [
        [left, enough],
        [left + 12, enough],
      ],
      THEME.failure,
      2.6 * POINT,
    );
    this.write("90 %", left + 18, enough, { colour: THEME.failure, bold: true });
  },
  Shares(one) {
    const { map } = this;
    const [rows, columns] = one.share.sizes;
    const trials = Number(one.trials);
    const [wide, high] = [this.box.width / columns, this.box.height / rows];
    hatch(this);
    for (const cell of upTo(rows * columns)) {
      const [row, column] = [Math.floor(cell / columns), cell % columns];
      const [share, before, count] = [one.share, one.before, one.ended].map(({ data }) => data[cell]);
      const middle = this.at(column, map.first + row);
      const running = Boolean(one.running.data[cell]) && count < trials;
      drawCell(this, middle, [wide, high], { count, share, before, running, trials });
      const name = map.cell.replace("{}", String(map.first + row)).replace("{}", map.columns[column]);
      const right = Math.round(share * count);
      const words = count ? `${percent(share)}, ${right} of ${count} ${one.counted}` : "nothing has run";
      const box = { left: middle[0] - wide / 2, top: middle[1] - high / 2, width: wide, height: high };
      this.spots.push({ box, words: `${name}: ${words}`, thing: -1 });
    }
    const whole = upTo(rows * columns).every((cell) => one.ended.data[cell] >= trials);
    const dash = whole ? [] : UNSURE;
    const parts = border(this, Array.from(one.enough.data), map.first);
    for (const part of parts) line(this.context, part, "white", 5 * POINT);
    for (const part of parts) line(this.context, part, THEME.failure, 2.6 * POINT, { dash });
  },
  Track({ x, sure, edge, style, name, unsure, beyond }) {
    const values = Array.from(/** @type {ArrayLike<number>} */ (x.data));
    const points = values.map((value, row) => this.at(Number.isFinite(value) ? value : edge, row + 1));
    values.slice(1).forEach((value, row) => {
      if (Number.isFinite(value + values[row]))
        line(this.context, [points[row], points[row + 1]], INKS[style], 2.4 * POINT);
    });
    values.forEach((value, row) => {
      if (Number.isNaN(value)) return;
      const infinite = value === Infinity;
      if (infinite) this.write("▷", ...points[row], { colour: INKS[style], size: 16, align: "center" });
      else {
        mark(this.context, "circle", ...points[row], 5.5, INKS[style]);
        if (!sure.data[row]) mark(this.context, "circle", ...points[row], 3.4, THEME.paper);
      }
      const words = infinite ? beyond : `${sure.data[row] ? name : unsure}: ${value}`;
      this.spot(...points[row], 8, `row ${row + 1}: ${words}`, -1);
    });
  },
  Reaches({ low, middle, high, name, apart }) {
    const { context, box } = this;
    const rows = middle.data.length;
    const thick = (THICK * box.height) / rows;
    for (const row of upTo(rows)) {
      const [from, level, to] = [low, middle, high].map(({ data }) => data[row]);
      if (!Number.isFinite(level)) continue;
      const y = this.y(row + 1);
      context.fillStyle = rampOf(0.6);
      context.fillRect(this.x(0), y - thick / 2, this.x(level) - this.x(0), thick);
      if (to - from > 0.01) line(context, [this.at(from, row + 1), this.at(to, row + 1)], THEME.ink, 2 * POINT);
      const words = `row ${row + 1}: ${name} ${percent(level)}; ${apart}: ${percent(from)} to ${percent(to)}`;
      this.spots.push({ box: { ...box, top: y - thick / 2, height: thick }, words, thing: -1 });
    }
  },
  Lying({ values, first, styles, names }) {
    const { context } = this;
    const [rows, parts] = values.sizes;
    const high = Math.abs(this.y(1) - this.y(0));
    for (const place of upTo(rows * parts)) {
      const [row, part, value] = [first + Math.floor(place / parts), place % parts, values.data[place]];
      if (!Number.isFinite(value)) continue;
      const y = this.y(row + AWAY * ((parts - 1) / 2 - part));
      const box = {
        left: this.x(0),
        top: y - (LIES * high) / 2,
        width: this.x(value) - this.x(0),
        height: LIES * high,
      };
      context.fillStyle = INKS[styles[part]];
      context.fillRect(box.left, box.top, box.width, box.height);
      const words = `${names[part].replace("{}", String(row))}: ${percent(value)}`;
      this.spots.push({ box: { ...this.box, top: box.top, height: box.height }, words, thing: -1 });
    }
  },
};

/** The size of letters in a column. @param {number} wide */
const sizeIn = (wide) => (wide < NARROW ? 11 : SMALL);

/** The colour of a share. @param {number} share */
const rampOf = (share) => THEME.ramp[Math.min(255, Math.floor(256 * share))];

/** Draws a cell, smaller until all its runs have ended; the map before shows around it.
 * @param {AxesPen} pen @param {Place} middle @param {Place} place its width and height
 * @param {{ count: number, share: number, before: number, running: boolean, trials: number }} cell */
function drawCell(pen, middle, place, { count, share, before, running, trials }) {
  const { context } = pen;
  const full = count >= trials;
  const part = full ? 1 : SMALLEST + ((0.9 - SMALLEST) * count) / trials;
  /** @param {number} size of its place @param {number} less pixels @param {string} colour */
  const box = (size, less, colour) => {
    const [width, height] = place.map((side) => size * side - less);
    context.fillStyle = colour;
    context.fillRect(middle[0] - width / 2, middle[1] - height / 2, width, height);
  };
  if (full) box(1, 0, THEME.paper);
  else if (!Number.isNaN(before)) {
    box(1, 0, THEME.paper);
    context.globalAlpha = GHOST;
    box(1, 2, rampOf(before));
    context.globalAlpha = 1;
  }
  const looks = { align: /** @type {CanvasTextAlign} */ ("center"), size: sizeIn(place[0]) };
  if (running) {
    box(1, 2, THEME.ink);
    box(1, 8, "white");
    pen.write(`${count}/${trials}`, ...middle, { ...looks, colour: THEME.ink, bold: true });
  } else if (count) {
    if (share < FAINT) box(part, 2, THEME.rule);
    box(part, share < FAINT ? 4 : 2, rampOf(share));
    pen.write(fixed(100 * share, 0), ...middle, { ...looks, colour: share >= 0.5 ? "white" : THEME.ink });
  }
}

/** Draws pale diagonal lines, where nothing has run. @param {AxesPen} pen */
function hatch(pen) {
  const { left, top, width, height } = pen.box;
  const [ground, lines] = THEME.hatched;
  pen.context.fillStyle = ground;
  pen.context.fillRect(left, top, width, height);
  pen.inside(() => {
    for (let x = left; x < left + width + height; x += 7) {
      line(
        pen.context,
        [
          [x, top],
          [x - height, top + height],
        ],
        lines,
        1,
      );
    }
  });
}

/** The parts of the line from which on enough runs succeed.
 * @param {AxesPen} pen @param {number[]} columns of the rows @param {number} first the height of the lowest row */
function border(pen, columns, first) {
  /** @type {Place[][]} */
  const parts = [[]];
  columns.forEach((column, row) => {
    const part = parts[parts.length - 1];
    if (Number.isNaN(column)) {
      if (part.length) parts.push([]);
      return;
    }
    const x = pen.x(column - 0.5) + INSET / 2;
    const last = part[part.length - 1];
    let low = pen.y(first + row - 0.5);
    if (last && last[0] !== x) {
      const shift = x > last[0] ? INSET : -INSET; // the horizontal part lies inside the row that succeeds there
      last[1] += shift;
      low += shift;
    }
    part.push([x, low], [x, pen.y(first + row + 0.5)]);
  });
  return parts;
}
