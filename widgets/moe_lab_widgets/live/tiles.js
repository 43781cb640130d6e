/** The patches of a sample as small pictures, in a row for each expert: framed where the expert keeps them. */

import { THEME, contextOf, head, text } from "./drawing.js";
import { INKS, TEXT } from "./pen.js";
import { upTo } from "./plain.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */
/** @typedef {import("./pen.js").Table} Table */
/** @typedef {{ lines: number, across: number, band: number, high: number, cell: number, pitch: number }} Layout */
/** A mark `Tiles`. @typedef {{ kept: Table, side: number, roles: Table, sides: Table, ink?: Table, grain?: number }} Tiles */

/** The widest a tile may be, and from one line of tiles to the next; pixels. */
const LARGEST = 32;
const FADED = 0.2;
const FADED_SIGNAL = 0.42;

/** The largest tiles that fit; more lines for each expert only where that makes them clearly larger.
 * @type {(n: number, k: number, width: number, height: number) => Layout} */
function arranged(n, k, width, height) {
  const layouts = [1, 2, 3, 4].map((lines) => {
    const across = Math.ceil(n / lines);
    const band = Math.min(height / k, lines * (LARGEST + 2) + 6);
    const high = Math.floor((band - 2) / lines);
    const gap = width / across < 12 ? 1 : 2;
    const cell = Math.max(3, Math.floor(Math.min(width / across - gap, high - 1, LARGEST)));
    return { lines, across, band, high, cell, pitch: Math.min(width / across, 1.6 * cell + 4) };
  });
  return layouts.reduce((best, one) => (one.cell > 1.25 * best.cell ? one : best));
}

/** Where the heads and the rows of tiles of a class are. @param {AxesPen} pen @param {number} patches
 * @param {number} experts */
function rowsOfTiles({ box }, patches, experts) {
  const layout = arranged(patches, experts, box.width, box.height);
  /** @param {number} expert */
  const middle = (expert) => box.top + layout.band * expert + (layout.lines * layout.high) / 2;
  /** @param {number} expert @param {number} patch */
  const corner = (expert, patch) => [
    box.left + layout.pitch * (patch % layout.across),
    box.top +
      layout.band * expert +
      layout.high * Math.floor(patch / layout.across) +
      (layout.high - layout.cell) / 2,
  ];
  return { layout, middle, corner };
}

/** Draws a mark `TileTable`. @this {AxesPen} @param {any} one */
function tileTable(one) {
  const [experts, patches] = one.shape.map(Math.round);
  const { layout, middle } = rowsOfTiles(this, patches, experts);
  const { box, context } = this;
  const title = { bold: true, size: TEXT, colour: INKS[one.style] };
  this.write(one.title.text, box.left - 22, box.top - 14, title);
  for (const expert of upTo(experts)) {
    context.globalAlpha = this.strength(expert);
    head(context, expert, box.left - 16, middle(expert), layout.band > 24 ? 9.3 : Math.max(4.5, 0.36 * layout.band));
  }
  context.globalAlpha = 1;
}

/** Draws a mark `Tiles`. @this {AxesPen} @param {Tiles} one */
function tiles(one) {
  const { box, context } = this;
  const [experts, patches] = one.kept.sizes;
  const { layout, middle, corner } = rowsOfTiles(this, patches, experts);
  const signal = Array.from(one.roles.data).indexOf(0);
  const name = THEME.names[one.side];
  const scale = context.getTransform().a;
  const cell = Math.round(layout.cell * scale) / scale;
  const faces = facesOf(one, Math.round(cell * scale));
  /** On a pixel of the screen. @param {number} at */
  const sharp = (at) => Math.round(at * scale) / scale;
  for (const expert of upTo(experts)) {
    const firm = this.strength(expert);
    for (const patch of upTo(patches)) {
      const [x, y] = corner(expert, patch).map(sharp);
      const kept = Boolean(one.kept.data[expert * patches + patch]);
      context.globalAlpha = 1;
      context.fillStyle = THEME.pale[one.side];
      const tall = layout.lines > 1 || expert === experts - 1 ? cell : layout.band;
      if (patch === signal) context.fillRect(x - 1, y - 1, cell + 2, tall + 2);
      context.globalAlpha = firm * (kept ? 1 : patch === signal ? FADED_SIGNAL : FADED);
      context.drawImage(faces[patch], x, y, cell, cell);
      context.globalAlpha = firm;
      const wide = cell < 12 ? 1 : 2;
      context.strokeStyle = THEME.experts[expert % THEME.experts.length].colour;
      context.lineWidth = wide;
      if (kept) context.strokeRect(x + wide / 2, y + wide / 2, cell - wide, cell - wide);
      const what = patch === signal ? `, ${name}` : "";
      const words = `class ${THEME.signs[one.side]}, expert ${expert + 1}, patch ${patch + 1}${what}: ${kept ? "kept" : "left"}`;
      const under = { left: x, top: y, width: layout.pitch, height: layout.high };
      this.spots.push({ box: under, words, thing: expert, carry: { side: one.side, place: patch, count: patches } });
    }
    const there = Boolean(one.kept.data[expert * patches + signal]);
    const colour = there ? THEME.classes[one.side] : THEME.reference;
    const looks = /** @type {import("./drawing.js").TextLooks} */ ({ align: "center", base: "middle", colour });
    text(context, there ? "✔" : "✗", box.left + box.width + 16, middle(expert), {
      size: there ? 18 : 14,
      bold: there,
      ...looks,
    });
  }
  context.globalAlpha = 1;
  const foot = box.top + layout.band * (experts - 1) + layout.lines * layout.high + 12;
  const under = corner(0, signal)[0] + cell / 2 + 7;
  const looks = { bold: true, colour: THEME.classes[one.side], align: /** @type {CanvasTextAlign} */ ("center") };
  this.write(`▲ ${name}`, under, foot, { size: TEXT, ...looks });
}

// ---- how patches look ----

/** Faces of the samples on show by what they show and how large, as a run keeps its samples.
 * @type {Map<string, HTMLCanvasElement[]>} */
const MADE = new Map();
const MOST_MADE = 8;

/** How patches look.
 * @typedef {{ side: number, roles: Table, sides: Table, ink?: Table, grain?: number }} Looks */

/** Pictures of patches. @param {Looks} one @param {number} size in pixels of the screen */
export function facesOf(one, size) {
  const ink = Array.from(one.ink?.data ?? []).reduce((sum, value, place) => sum + value * (1 + (place % 97)), 0);
  const key = JSON.stringify([
    size,
    one.side,
    one.grain,
    Array.from(one.roles.data),
    Array.from(one.sides.data),
    ink,
  ]);
  let found = MADE.get(key);
  if (!found) {
    if (MADE.size >= MOST_MADE) MADE.delete(MADE.keys().next().value ?? "");
    found = upTo(one.roles.data.length).map((patch) => faceOf(one, patch, size));
    MADE.set(key, found);
  }
  return found;
}

/** @param {string} colour "#rrggbb" @returns {number[]} */
const partsOf = (colour) => [1, 3, 5].map((place) => parseInt(colour.slice(place, place + 2), 16));

/** A patch as it looks, `size` pixels of the screen wide. @param {Looks} one @param {number} patch
 * @param {number} size */
function faceOf(one, patch, size) {
  const made = document.createElement("canvas");
  const side = Math.max(0, one.sides.data[patch]);
  const colourAt = one.ink ? inkAt(one.ink, patch, size) : patternAt(one.roles.data[patch], side, size);
  const grain = one.ink ? 0 : 40 * Math.min(one.grain ?? 0, 2);
  const coarse = Math.max(2, Math.round(size / 12));
  const pixels = new ImageData(size, size);
  for (let at = 0; at < size * size; at++) {
    const [x, y] = [at % size, Math.floor(at / size)];
    const noise = grain && grain * grainAt(patch, Math.floor(x / coarse), Math.floor(y / coarse));
    pixels.data.set([...colourAt(x, y).map((part) => part + noise), 255], 4 * at);
  }
  made.width = size;
  made.height = size;
  contextOf(made).putImageData(pixels, 0, 0);
  return made;
}

/** The colours of an image, enlarged by a whole number where one nearly fits, which is sharp.
 * @param {Table} ink @param {number} patch @param {number} size */
function inkAt({ sizes: [, high, wide], data }, patch, size) {
  const whole = Math.floor(size / wide) * wide;
  const shown = whole && whole >= 0.75 * size ? whole : size;
  const edge = Math.floor((size - shown) / 2);
  const [paper, dark] = [THEME.paper, THEME.ink].map(partsOf);
  return (/** @type {number} */ x, /** @type {number} */ y) => {
    const [column, row] = [x, y].map((one) => Math.floor(((one - edge) * wide) / shown));
    const inside = column >= 0 && column < wide && row >= 0 && row < high;
    const share = inside ? data[(patch * high + row) * wide + column] : 0;
    return paper.map((part, channel) => part + share * (dark[channel] - part));
  };
}

/** The colours of a synthetic patch: o1 has one bar, o2 has two; stripes lean to the class that they imitate.
 * @param {number} role @param {number} side @param {number} size */
function patternAt(role, side, size) {
  const colours = [THEME.classes[side], "#ffffff", THEME.background, THEME.pale[side], THEME.paper].map(partsOf);
  const [own, white, flat, pale, paper] = colours;
  const light = paper.map((part, channel) => 0.85 * pale[channel] + 0.15 * part);
  const bars = side ? [0.36, 0.64] : [0.5];
  return (/** @type {number} */ x, /** @type {number} */ y) => {
    if (role === 0) {
      const high = y >= size / 4 && y < 0.75 * size;
      return high && bars.some((centre) => Math.abs(x + 0.5 - centre * size) < size / 16) ? white : own;
    }
    if (role !== 1) return flat;
    const lean = side ? x - y + size : x + y;
    return lean % Math.max(4, Math.round(size / 4)) < Math.max(1, size / 8) ? pale : light;
  };
}

/** Numbers from -1 to 1 that look random and stay: the grain of synthetic patches stands for their noise.
 * @type {(patch: number, x: number, y: number) => number} */
function grainAt(patch, x, y) {
  const wave = Math.sin(12.9898 * x + 78.233 * y + 37.719 * patch) * 43758.5453;
  return 2 * (wave - Math.floor(wave)) - 1;
}

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_TILES = {
  TileTable: tileTable,
  Tiles: tiles,
};
