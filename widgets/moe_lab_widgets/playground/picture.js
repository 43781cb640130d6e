/** The Lab's three panels. Each function draws a panel whole and returns what stands where in it. */
import { THEME, area, contextOf, head, line, mark, pushedApart, sheetOf, spread, text } from "./drawing.js";
import { filled, median, quantile } from "./plain.js";
import { ALIGNMENT, percent } from "./words.js";

/** @typedef {import("./words.js").Rec} Rec */
/** @typedef {import("./drawing.js").Place} Place */
/** @typedef {import("./drawing.js").Context} Context */
/** @typedef {{total: number, overlap: number,
 *   example: {roles: Int8Array, sides: Int8Array, faces: Float32Array | null}}} Run */
/** @typedef {{mixture: Place[], cnn: Place[]}} Pinned steps and medians of an earlier run */
/** @typedef {{values: {[knob: string]: any}, run: Run, records: Rec[], shown: number, focus: number,
 *   pinned: Pinned | null}} View `shown` is the record, `focus` the expert that is followed, or -1 */
/** @typedef {{expert: number, side?: number, patch?: number}} Spot */
/** @typedef {(x: number, y: number) => Spot | null} Finder what stands at a place of a panel */
/** @typedef {{lines: number, across: number, band: number, high: number, cell: number, pitch: number}} Layout */

const NUMBERS = ALIGNMENT.numbers;
/** @type {["cnn", "mixture"]} */
const MODELS = ["cnn", "mixture"];

/** How strongly an expert is drawn. @type {(view: View, expert: number) => number} */
const strength = (view, expert) => (view.focus < 0 || view.focus === expert ? 1 : 0.22);

/** @param {number} count @returns {number[]} */
const upTo = (count) => Array.from({ length: count }, (_, place) => place);

/** The best expert's coverage of each class. @type {(record: Rec) => number[]} */
export const bestOf = ({ coverage }) => [0, 1].map((side) => Math.max(...coverage.filter((_, at) => at % 2 === side)));

/** The place of the patch that decides the class. @type {(view: View, side: number) => number} */
export const signalOf = ({ run, values: { patches: n } }, side) => run.example.roles.indexOf(0, side * n) - side * n;

/** Whether an expert keeps a patch of the example.
 * @type {(view: View, side: number, expert: number, patch: number) => boolean} */
export function keeps({ records, shown, values: { experts, patches } }, side, expert, patch) {
  return records[shown].example[(side * experts + expert) * patches + patch] === 1;
}

// ---- 1: where routers point ----

/** @param {HTMLCanvasElement} canvas @param {View} view @returns {Finder} */
export function drawPlane(canvas, view) {
  const { context, width, height } = sheetOf(canvas);
  const { records, shown, values } = view;
  const left = 44;
  const size = Math.min(width - left - 8, height - 44);
  const unit = size / 2.44;
  const middle = [left + (width - left - 8 - size) / 2 + 1.14 * unit, 4 + 1.28 * unit];
  /** @type {(x: number, y: number) => Place} */
  const at = (x, y) => [middle[0] + x * unit, middle[1] - y * unit];
  furnishPlane(context, view, at);
  for (const cosines of records[shown].cosines.slice(1, 1 + NUMBERS.MOST_LINES)) {
    for (const router of upTo(values.experts)) {
      const [x, y] = at(cosines[2 * router], cosines[2 * router + 1]);
      context.globalAlpha = 0.7;
      if (Number.isFinite(x + y)) mark(context, "circle", x, y, 1.9, THEME.reference);
    }
  }
  const few = values.experts <= 4;
  const ways = upTo(values.experts).map((router) => {
    const way = records.slice(few ? 0 : Math.max(0, shown - 24), shown + 1).map(({ cosines: [own] }) => own);
    return way.map((own) => at(own[2 * router], own[2 * router + 1])).filter(([x, y]) => Number.isFinite(x + y));
  });
  const wide = few ? 2.4 : 1.8;
  for (const [router, way] of ways.entries()) {
    context.globalAlpha = strength(view, router);
    line(context, way, THEME.paper, wide + 2, { alpha: 0.6 });
    line(context, way, THEME.experts[router % THEME.experts.length].colour, wide);
  }
  const radius = few ? 8.5 : 7.5;
  const heads = pushedApart(ways.map((way) => way[way.length - 1] ?? at(0, 0)), 2.5 * radius);
  for (const [router, [x, y]] of heads.entries()) {
    context.globalAlpha = strength(view, router);
    head(context, router, x, y, radius);
  }
  return (x, y) => {
    const gaps = heads.map((one) => Math.hypot(one[0] - x, one[1] - y));
    const expert = gaps.indexOf(Math.min(...gaps));
    return gaps[expert] < 18 ? { expert } : null;
  };
}

/** Axes, and the ellipse of unit vectors, tinted by the nearer o: only there can the cosines be.
 * @param {Context} context @param {View} view @param {(x: number, y: number) => Place} at */
function furnishPlane(context, { run: { overlap }, values }, at) {
  const angle = Math.acos(Math.max(-1, Math.min(1, overlap)));
  /** @type {(from: number, turn: number) => Place[]} */
  const arc = (from, turn) => upTo(81).map((part) => {
    const phi = from + (part / 80) * turn;
    return at(Math.cos(phi), Math.cos(phi - angle));
  });
  for (const half of [0, 1]) area(context, arc(angle / 2 - Math.PI + half * Math.PI, Math.PI), THEME.tint[half]);
  const [west, south] = at(-1.12, -1.16);
  const [east, north] = at(1.2, 1.26);
  line(context, [at(-1.12, 0), at(1.2, 0)], THEME.rule, 0.8);
  line(context, [at(0, -1.16), at(0, 1.26)], THEME.rule, 0.8);
  line(context, arc(0, 2 * Math.PI), THEME.reference, 1);
  line(context, [[west, north], [west, south], [east, south]], THEME.reference, 0.8);
  for (const tick of [-1, 0, 1]) {
    const [x, y] = at(tick, tick);
    const words = String(tick).replace("-", "−");
    text(context, words, x, south + 14, { align: "center" });
    text(context, words, west - 5, y, { align: "right", base: "middle" });
  }
  const labels = ALIGNMENT.patterns[values.source].map((/** @type {string} */ pattern, /** @type {number} */ side) =>
    filled(ALIGNMENT.words.AXIS, { name: THEME.names[side], pattern }));
  const centred = { align: /** @type {CanvasTextAlign} */ ("center") };
  text(context, labels[0], (west + east) / 2, south + 32, { colour: THEME.classes[0], ...centred });
  const upwards = { colour: THEME.classes[1], turn: -Math.PI / 2, ...centred };
  text(context, labels[1], west - 26, (south + north) / 2, upwards);
  const twins = overlap > 0.5 ? 0.15 : 0; // names of near twins part, so that heads hide neither
  const named = [at(1.07, overlap - twins - 0.04), at(overlap - 1.4 * twins, 1.1)];
  for (const [side, [x, y]] of [at(1, overlap), at(overlap, 1)].entries()) {
    const looks = { size: 15, bold: true, colour: THEME.classes[side] };
    mark(context, "star", x, y, 9, THEME.classes[side], 1);
    text(context, THEME.names[side], ...named[side], side ? { ...looks, ...centred } : looks);
  }
}

// ---- 2: what each expert receives ----

/** The largest tiles that fit; more lines for each expert only where that makes them clearly larger.
 * @type {(n: number, k: number, width: number, height: number) => Layout} */
function arranged(n, k, width, height) {
  /** @type {Layout[]} */
  const layouts = [1, 2, 3, 4].map((lines) => {
    const across = Math.ceil(n / lines);
    const band = Math.min(height / k, lines * 36 + 6);
    const high = Math.floor((band - 2) / lines);
    const cell = Math.max(3, Math.floor(Math.min(width / across - (width / across < 12 ? 1 : 3), high - 1, 34)));
    return { lines, across, band, high, cell, pitch: Math.min(width / across, 1.6 * cell + 4) };
  });
  return layouts.reduce((best, one) => (one.cell > 1.25 * best.cell ? one : best));
}

/** @param {string} colour "#rrggbb" @returns {number[]} */
const partsOf = (colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));

/** A patch as it looks, `size` pixels wide. @type {(view: View, patch: number, size: number) => HTMLCanvasElement} */
function faceOf({ values, run: { example } }, patch, size) {
  const made = document.createElement("canvas");
  const whole = Math.floor(size / 8) * 8;
  const wide = example.faces ? (whole && whole >= 0.75 * size ? whole : size) : size; // a whole multiple of 8 is sharp
  const edge = Math.floor((size - wide) / 2);
  const pixels = new ImageData(size, size);
  const side = Math.max(0, example.sides[patch]);
  const colours = [THEME.classes[side], "#ffffff", THEME.background, THEME.pale[side], THEME.paper, THEME.ink];
  const [own, white, background, pale, paper, ink] = colours.map(partsOf);
  const light = paper.map((part, channel) => 0.85 * pale[channel] + 0.15 * part);
  const bars = side ? [0.36, 0.64] : [0.5]; // o1 has one bar, o2 has two
  const grain = Math.max(2, Math.round(size / 12));
  for (let at = 0; at < size * size; at++) {
    const x = at % size;
    const y = Math.floor(at / size);
    let colour = background;
    if (example.faces) {
      const cell = [x, y].map((one) => Math.floor(((one - edge) * 8) / wide));
      const inside = cell.every((one) => one >= 0 && one < 8);
      const dark = inside ? Math.min(1, Math.max(0, example.faces[patch * 64 + cell[1] * 8 + cell[0]])) : 0;
      colour = paper.map((part, channel) => part + dark * (ink[channel] - part));
    } else if (example.roles[patch] === 0) {
      const high = y >= size / 4 && y < 0.75 * size;
      colour = high && bars.some((centre) => Math.abs(x + 0.5 - centre * size) < size / 16) ? white : own;
    } else if (example.roles[patch] === 1) {
      const lean = side ? x - y + size : x + y; // stripes lean to the side that they imitate
      colour = lean % Math.max(4, Math.round(size / 4)) < Math.max(1, size / 8) ? pale : light;
    }
    const noise = example.faces ? 0 : 40 * values.noise * grainAt(patch, Math.floor(x / grain), Math.floor(y / grain));
    pixels.data.set([...colour.map((part) => part + noise), 255], 4 * at);
  }
  made.width = size;
  made.height = size;
  contextOf(made).putImageData(pixels, 0, 0);
  return made;
}

/** Numbers from -1 to 1 that look random and stay: the grain of synthetic patches stands for their noise.
 * @type {(patch: number, x: number, y: number) => number} */
function grainAt(patch, x, y) {
  const wave = Math.sin(12.9898 * x + 78.233 * y + 37.719 * patch) * 43758.5453;
  return 2 * (wave - Math.floor(wave)) - 1;
}

/** The faces of the run on show, which are made once for each size. */
const drawnFaces = { run: /** @type {Run | null} */ (null), size: 0, faces: /** @type {HTMLCanvasElement[]} */ ([]) };

/** @param {View} view @param {number} size */
function facesOf(view, size) {
  if (drawnFaces.run !== view.run || drawnFaces.size !== size) {
    const faces = upTo(2 * view.values.patches).map((patch) => faceOf(view, patch, size));
    Object.assign(drawnFaces, { run: view.run, size, faces });
  }
  return drawnFaces.faces;
}

/** @param {HTMLCanvasElement} canvas @param {View} view @returns {Finder} */
export function drawPatches(canvas, view) {
  const { context, width, height, scale } = sheetOf(canvas);
  const { patches: n, experts: k, source } = view.values;
  const left = 28;
  const right = 26;
  const room = (height - 6) / 2;
  const layout = arranged(n, k, width - left - right, room - 36);
  const { lines, across, band, high, pitch } = layout;
  const cell = Math.round(layout.cell * scale) / scale;
  const faces = facesOf(view, Math.round(cell * scale));
  for (const side of [0, 1]) {
    const top = side * room + 20;
    const signal = signalOf(view, side);
    const strong = { bold: true, colour: THEME.classes[side] };
    const pattern = `${THEME.names[side]} (${ALIGNMENT.patterns[source][side]})`;
    const title = `class ${THEME.signs[side]}:  one patch is ${pattern}`;
    text(context, title, 0, top - 7, { size: 13, ...strong });
    /** @param {number} expert @param {number} patch */
    const corner = (expert, patch) => [
      Math.round((left + pitch * (patch % across)) * scale) / scale,
      Math.round((top + band * expert + high * Math.floor(patch / across) + (high - cell) / 2) * scale) / scale,
    ];
    const ends = Math.min(width - right + 14, left + pitch * across + 16);
    for (const expert of upTo(k)) {
      const centre = top + band * expert + (lines * high) / 2;
      const firm = strength(view, expert);
      context.globalAlpha = firm;
      head(context, expert, 11, centre, band > 22 ? 8 : Math.max(4.5, 0.36 * band));
      for (const patch of upTo(n)) {
        const [x, y] = corner(expert, patch);
        const kept = keeps(view, side, expert, patch);
        context.globalAlpha = 1;
        context.fillStyle = THEME.pale[side];
        const tall = lines > 1 || expert === k - 1 ? cell : band;
        if (patch === signal) context.fillRect(x - 1, y - 1, cell + 2, tall + 2);
        context.globalAlpha = firm * (kept ? 1 : patch === signal ? 0.42 : 0.2);
        context.drawImage(faces[side * n + patch], x, y, cell, cell);
        context.globalAlpha = firm;
        const wide = cell < 12 ? 1 : 2;
        const out = cell >= 12 && cell < 24 ? 1.5 : 0; // a small tile has no margin that a frame could take
        context.strokeStyle = THEME.experts[expert % THEME.experts.length].colour;
        context.lineWidth = wide;
        const edge = cell - wide + 2 * out;
        if (kept) context.strokeRect(x + wide / 2 - out, y + wide / 2 - out, edge, edge);
      }
      const there = keeps(view, side, expert, signal);
      const looks = { bold: there, colour: there ? THEME.classes[side] : THEME.reference };
      const size = there ? 16 : 12;
      text(context, there ? "✔" : "✗", ends, centre, { size, align: "center", base: "middle", ...looks });
    }
    context.globalAlpha = 1;
    const foot = top + band * (k - 1) + lines * high + 14;
    const under = Math.min(corner(0, signal)[0] + cell / 2 - 5, width - 34);
    if (lines === 1) text(context, `▲ ${THEME.names[side]}`, under, foot, { size: 13, ...strong });
  }
  return (x, y) => {
    const side = y < room ? 0 : 1;
    const inside = y - side * room - 20;
    const expert = Math.floor(inside / band);
    if (inside < 0 || expert >= k) return null;
    const row = Math.floor((inside - expert * band) / high);
    const column = Math.floor((x - left) / pitch);
    const patch = row * across + column;
    return x < left || column >= across || row >= lines || patch >= n ? { expert } : { expert, side, patch };
  };
}

// ---- 3: what comes out ----

/** @param {HTMLCanvasElement} canvas @param {View} view */
export function drawCurves(canvas, view) {
  const { context, width, height } = sheetOf(canvas);
  const { run, values, pinned } = view;
  const [left, top, right, bottom] = [42, 8, width - 74, height - 34];
  /** @type {(step: number, share: number) => Place} */
  const at = (step, share) => [
    left + (step / run.total) * (right - left),
    bottom - ((Math.max(0.4, share) - 0.4) / 0.61) * (bottom - top),
  ];
  line(context, [at(0, 0.5), at(run.total, 0.5)], THEME.rule, 0.8);
  text(context, "guessing", right - 3, at(0, 0.5)[1] + 14, { align: "right" });
  line(context, [[left, top], [left, bottom], [right, bottom]], THEME.reference, 0.8);
  for (const share of [0.5, 0.75, 1]) {
    text(context, percent(share), left - 6, at(0, share)[1], { align: "right", base: "middle" });
  }
  text(context, "0", left, bottom + 15, { align: "center" });
  text(context, String(run.total), right, bottom + 15, { align: "center" });
  text(context, "SGD step", (left + right) / 2, bottom + 29, { size: 13, colour: THEME.ink, align: "center" });
  const records = view.records.slice(0, view.shown + 1);
  const ends = MODELS.map((model) => {
    const colour = model === "cnn" ? THEME.reference : THEME.ink;
    const old = pinned?.[model].filter(([step]) => step <= run.total) ?? [];
    line(context, old.map(([step, share]) => at(step, share)), colour, 1.3, { dash: [1.5, 3] });
    if (values.trials > NUMBERS.MOST_LINES) drawBands(context, records, model, colour, at, right);
    else drawTrials(context, records, model, colour, at);
    const middles = records.map((one) => median(one[model]));
    const way = records.map((one, place) => at(one.step, middles[place])).filter(([, y]) => Number.isFinite(y));
    line(context, way, colour, model === "cnn" ? 2.2 : 2.8, { dash: model === "cnn" ? [5, 2.5] : [] });
    return middles[middles.length - 1];
  });
  const heights = ends.map((end) => at(0, Number.isFinite(end) ? end : 0.5)[1]);
  for (const [place, y] of spread(heights, 34, top + 14, bottom - 18).entries()) {
    const looks = { size: 13, bold: true, colour: place ? THEME.ink : THEME.muted };
    text(context, ALIGNMENT.models[MODELS[place]], right + 8, y - 3, looks);
    text(context, percent(ends[place]), right + 8, y + 13, looks);
  }
}

/** A thin line for each of a few trials.
 * @param {Context} context @param {Rec[]} records @param {"mixture" | "cnn"} model @param {string} colour
 * @param {(step: number, share: number) => Place} at */
function drawTrials(context, records, model, colour, at) {
  for (const trial of upTo(records[0][model].length)) {
    const way = records.map((one) => at(one.step, one[model][trial])).filter(([, y]) => Number.isFinite(y));
    line(context, way, colour, 0.7, { alpha: 0.45, dash: model === "cnn" ? [3, 1.5] : [] });
  }
}

/** Bands that hold 90 % and half of many trials, and at the right edge how many trials are at which height now.
 * @param {Context} context @param {Rec[]} records @param {"mixture" | "cnn"} model @param {string} colour
 * @param {(step: number, share: number) => Place} at @param {number} right */
function drawBands(context, records, model, colour, at, right) {
  const some = records.filter((one) => one[model].some(Number.isFinite));
  for (const [low, high] of NUMBERS.BANDS) {
    const under = some.map((one) => at(one.step, quantile(one[model], low)));
    const over = some.map((one) => at(one.step, quantile(one[model], high)));
    area(context, [...under, ...over.reverse()], colour, 0.16);
  }
  const counts = upTo(44).fill(0); // 40 steps of the axis, and two beyond each end
  for (const share of records[records.length - 1][model]) {
    if (Number.isFinite(share)) counts[2 + Math.min(39, Math.max(0, Math.floor(((share - 0.4) / 0.61) * 40)))] += 1;
  }
  const kernel = [1, 4, 6, 4, 1];
  const smooth = upTo(40).map((step) => kernel.reduce((sum, part, near) => sum + part * counts[step + near], 0));
  const most = Math.max(...smooth, 1e-9);
  /** @type {Place[]} */
  const outline = smooth.map((count, step) => {
    const share = 0.4 + (0.61 * (step + 0.5)) / 40;
    return [right - (28 * count) / most, at(0, share)[1]];
  });
  area(context, [[right, outline[0][1]], ...outline, [right, outline[39][1]]], colour, 0.3);
  line(context, outline, colour, 1.3, { dash: model === "cnn" ? [3, 1.5] : [] });
}

/** @param {HTMLCanvasElement} canvas @param {View} view @returns {Finder} */
export function drawCoverage(canvas, view) {
  const { context, width, height } = sheetOf(canvas);
  const record = view.records[view.shown];
  const k = view.values.experts;
  const [left, top, right, bottom] = [42, 8, width - 74, height - 24];
  const slot = (right - left) / k;
  /** @param {number} share */
  const up = (share) => bottom - share * (bottom - top);
  for (const share of [0, 0.5, 1]) {
    line(context, [[left, up(share)], [right, up(share)]], share ? THEME.rule : THEME.reference, 0.8);
    text(context, percent(share), left - 6, up(share), { align: "right", base: "middle" });
  }
  const best = bestOf(record);
  const bar = Math.min(0.36 * slot, 30);
  for (const expert of upTo(k)) {
    context.globalAlpha = strength(view, expert);
    for (const side of [0, 1]) {
      const share = record.coverage[2 * expert + side] || 0;
      const y = up(Math.max(share, NUMBERS.SMALLEST_BAR));
      context.fillStyle = share >= best[side] - 1e-9 ? THEME.classes[side] : THEME.pale[side];
      context.fillRect(left + (expert + 0.5) * slot + (side - 1) * bar + 0.5, y, bar - 1, bottom - y);
    }
    head(context, expert, left + (expert + 0.5) * slot, bottom + 13, k > 5 ? 6.5 : 7.5);
  }
  context.globalAlpha = 1;
  for (const [side, y] of spread(best.map((share) => up(share || 0)), 16, top + 4, bottom - 4).entries()) {
    const words = `${THEME.names[side]} ${percent(best[side])}`;
    text(context, words, right + 8, y + 4, { bold: true, colour: THEME.classes[side] });
  }
  return (x) => {
    const expert = Math.floor((x - left) / slot);
    return expert >= 0 && expert < k ? { expert } : null;
  };
}
