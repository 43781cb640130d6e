/** Marks of experts that are pruned (`moe_lab.drawing.pruning_marks`). */

import { THEME, line, mark } from "./drawing.js";
import { INKS, POINT, SMALL, TEXT } from "./pen.js";
import { upTo } from "./plain.js";
import { written } from "./written.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */

const CROWDED = 24;
const STRIP_CAP = 0.02;
/** Heights, where 0 is no change and 1 where the axis ends: rows below the changes, and the bars of the scores. */
const STRIP_AT = { numbers: -0.15, patterns: -0.26, lost: -0.35, scores: -0.9, top: -0.53, lowest: -0.4 };
/** The gap between the halves, in columns by expert. */
const HALVES_APART = 0.034;
/** Each block stands for 5 %; how wide one is, where its place is 1; and from one gauge to the next. */
const BLOCKS = 20;
const BLOCK = 0.85;
const GAUGE = 9.2;
/** @type {Record<string, [string, number]>} the shape of a mark, and its radius */
const POINT_SHAPES = { dot: ["circle", 4.9], small: ["circle", 2.8], cross: ["✖", 4], square: ["square", 3.1] };
/** @type {Record<string, number[]>} */
const LINE_DASHES = { dashed: [4, 1.5], dotted: [1, 1.65] };

/** Where the experts stand. @param {number} experts */
const standsOf = (experts) => upTo(experts).map((one) => (one < experts / 2 ? one : one + HALVES_APART * experts));

/** @this {AxesPen} @param {{ experts: number, most: number, bound: number, name: string }} one */
function stripTable({ experts, most, bound, name }) {
  const { box, context } = this;
  const x = standsOf(Math.round(experts));
  this.scales = { x: [-0.5, x[x.length - 1] + 0.5], y: [STRIP_AT.scores, 1] };
  this.strip = { most, x };
  const [left, right] = [box.left, box.left + box.width];
  for (const tick of upTo(Math.ceil(most))) {
    this.write(String(tick), left - 8, this.y(tick / most), { colour: THEME.muted, align: "right" });
  }
  this.write(name, left - 40, box.top + 88, { colour: THEME.ink });
  for (const height of [0, STRIP_AT.scores]) {
    const ends = /** @type {[number, number][]} */ ([left, right].map((at) => [at, this.y(height)]));
    line(context, ends, THEME.reference, 0.8 * POINT);
  }
  const dashed = /** @type {[number, number][]} */ ([left, right].map((at) => [at, this.y(bound / most)]));
  line(context, dashed, THEME.ink, 1.4 * POINT, { dash: [7 * POINT, 2.8 * POINT] });
  const half = x.length / 2;
  const middle = (x[half - 1] + x[half]) / 2;
  for (const between of [
    [STRIP_AT.lost, 1.13],
    [STRIP_AT.scores, STRIP_AT.top],
  ]) {
    const ends = /** @type {[number, number][]} */ (between.map((at) => this.at(middle, at)));
    line(context, ends, THEME.rule, POINT);
  }
  [(middle - 0.5) / 2, (middle + x[x.length - 1] + 0.5) / 2].forEach((at, side) => {
    const looks = {
      size: TEXT,
      bold: true,
      colour: THEME.classes[side],
      align: /** @type {CanvasTextAlign} */ ("center"),
    };
    this.write(`experts that vote ${THEME.signs[side]}`, this.x(at), this.y(1.09), looks);
  });
}

/** @this {AxesPen} @param {any} one */
function strip({ change, scores, stays, pruned, carries, lost, notable }) {
  const { context } = this;
  const { most, x } = /** @type {any} */ (this.strip);
  const experts = change.data.length;
  /** @param {number} at @param {number} wide @param {number} low @param {number} high @param {string} colour */
  const bar = (at, wide, low, high, colour) => {
    const [left, right, one, other] = [this.x(at - wide / 2), this.x(at + wide / 2), this.y(low), this.y(high)];
    context.fillStyle = colour;
    context.fillRect(left, Math.min(one, other), right - left, Math.abs(one - other));
  };
  const centred = { size: SMALL, align: /** @type {CanvasTextAlign} */ ("center") };
  for (const expert of upTo(experts)) {
    const at = x[expert];
    const side = expert < experts / 2 ? 0 : 1;
    const [stay, score] = [Boolean(stays.data[expert]), scores.data[expert]];
    const colour = stay ? THEME.classes[side] : THEME.reference;
    const wide = stay ? 0.75 : 0.4;
    const height = Math.min(Math.max(change.data[expert] / most, STRIP_AT.lowest), 1);
    context.globalAlpha = this.strength(expert);
    bar(at, wide, 0, height, colour);
    bar(at, wide, height - STRIP_CAP / 2, height + STRIP_CAP / 2, colour);
    if (stay && pruned) bar(at, 0.85, STRIP_AT.numbers - 0.05, STRIP_AT.numbers + 0.05, colour);
    if (Number.isFinite(score)) {
      bar(
        at,
        wide,
        STRIP_AT.scores,
        STRIP_AT.scores + score * (STRIP_AT.top - STRIP_AT.scores) + STRIP_CAP / 2,
        stay ? THEME.ink : THEME.reference,
      );
    }
    const ink = pruned ? (stay ? "white" : THEME.reference) : THEME.classes[side];
    this.write(String(expert + 1), this.x(at), this.y(STRIP_AT.numbers), { ...centred, colour: ink, bold: stay });
    if (change.data[expert] >= notable && experts < CROWDED) {
      const words = `${change.data[expert] > most ? "▲" : ""}${change.data[expert].toFixed(1)}`;
      this.write(words, this.x(at), this.y(height) - 10, { ...centred, colour, bold: true });
    }
    const pattern = { ...centred, size: TEXT, bold: true, colour: THEME.classes[side] };
    if (carries.data[expert]) this.write(THEME.names[side], this.x(at), this.y(STRIP_AT.patterns), pattern);
    if (lost.data[expert])
      this.write("✖", this.x(at), this.y(STRIP_AT.lost), { ...centred, size: TEXT, colour: THEME.failure });
    context.globalAlpha = 1;
    const [left, right, top, bottom] = [this.x(at - 0.5), this.x(at + 0.5), this.y(1), this.y(STRIP_AT.scores)];
    const told = [
      `expert ${expert + 1}, votes ${THEME.signs[side]}: Δ ${change.data[expert].toFixed(2)}`,
      carries.data[expert] ? `carries ${THEME.names[side]}` : "",
      pruned ? (stay ? "stays" : "is pruned") : "",
    ];
    const words = told.filter(Boolean).join(", ");
    this.spots.push({ box: { left, top, width: right - left, height: bottom - top }, words, thing: expert });
  }
}

/** @this {AxesPen} @param {any} one */
function series({ x, y, style, name = "", words, shape = "", dash = "", width = 1.5 }) {
  const known = upTo(x.data.length).filter((place) => Number.isFinite(y.data[place]));
  const points = known.map((place) => this.at(x.data[place], y.data[place]));
  const dashes = (LINE_DASHES[dash] ?? []).map((part) => part * width * POINT);
  line(this.context, points, INKS[style], width * POINT, { dash: dashes });
  const [kind, size] = POINT_SHAPES[shape] ?? ["", 0];
  const told = name + written(words);
  points.forEach(([left, top], place) => {
    if (kind === "✖") this.write(kind, left, top, { colour: INKS[style], size: 2.4 * size, align: "center" });
    else if (kind) mark(this.context, kind, left, top, size, INKS[style], 1);
    if (told) {
      const [at, value] = [x.data[known[place]], this.read(y.data[known[place]])];
      this.spot(left, top, 6, `${told}: ${value} at ${Number(at.toFixed(2))}`, -1);
    }
  });
}

/** @this {AxesPen} @param {any} one */
function span({ x, low, high, style, name, aside = 0 }) {
  if (!Number.isFinite(low) || !Number.isFinite(high)) return;
  const at = this.x(x) + aside;
  const ends = /** @type {[number, number][]} */ ([low, high].map((value) => [at, this.y(value)]));
  line(this.context, ends, INKS[style], 5 * POINT, { alpha: 0.45 });
  const [bottom, top] = ends.map(([, height]) => height);
  const box = { left: at - 5, top, width: 10, height: bottom - top };
  this.spots.push({ box, words: `${name}: ${this.read(low)} to ${this.read(high)}`, thing: -1 });
}

/** @this {AxesPen} @param {any} one */
function gauges({ titles, shares, words, notes }) {
  const { context } = this;
  this.scales = { x: [0, BLOCKS / 2], y: [GAUGE * titles.length - 1.6, 0] };
  titles.forEach((/** @type {string} */ title, /** @type {number} */ place) => {
    const top = GAUGE * place;
    this.write(title, this.x(0), this.y(top + 0.4), { colour: THEME.muted, size: TEXT });
    this.write(written(words[place]), this.x(0), this.y(top + 2.3), { bold: true, size: 19 * POINT });
    for (const block of upTo(BLOCKS)) {
      const [x, y] = [block % (BLOCKS / 2), top + 4.4 + Math.floor(block / (BLOCKS / 2))];
      const full = Math.min(Math.max((shares[place] || 0) * BLOCKS - block, 0), 1);
      for (const [share, colour] of /** @type {[number, string][]} */ ([
        [1, THEME.background],
        [full > 0.1 ? full : 0, THEME.ink],
      ])) {
        const [left, right] = [this.x(x), this.x(x + BLOCK * share)];
        const [above, below] = [this.y(y - BLOCK / 2), this.y(y + BLOCK / 2)];
        context.fillStyle = colour;
        context.fillRect(left, Math.min(above, below), right - left, Math.abs(below - above));
      }
    }
    this.write(written(notes[place]), this.x(0), this.y(top + 6.6), { colour: THEME.muted });
    const [left, above] = this.at(0, top);
    const [right, below] = this.at(BLOCKS / 2, top + 7);
    const box = { left, top: above, width: right - left, height: below - above };
    this.spots.push({ box, words: `${title}: ${written(words[place])}, ${written(notes[place])}`, thing: -1 });
  });
}

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_PRUNING = {
  StripTable: stripTable,
  Strip: strip,
  Series: series,
  Span: span,
  Gauges: gauges,
};
