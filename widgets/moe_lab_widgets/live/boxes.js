/** The patches of a sample, and which of them have a place at which expert, as boxes in a row for each expert. */

import { THEME, head, line } from "./drawing.js";
import { INKS, SMALL, TEXT } from "./pen.js";
import { upTo } from "./plain.js";
import { facesOf } from "./tiles.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */
/** @typedef {import("./pen.js").Table} Table */
/** A mark `Places`. @typedef {{ weights: Table, refused: Table, lost: Table, side: number, roles: Table,
 *   sides: Table }} Places */

/** Pixels from one patch to the next at most, of a patch, and of a row. */
const WIDEST = 40;
const TALLEST = 26;
const DOWN = 18;
/** Shades of a box. */
const SHADES = 5;

/** Where the rows of boxes are. @param {AxesPen} pen @param {number} patches @param {number} experts */
function rowsOfBoxes({ box }, patches, experts) {
  const across = Math.min(box.width / patches, WIDEST);
  const tile = Math.min(across, TALLEST);
  const down = Math.min((box.height - tile) / (experts + 1), DOWN);
  /** The top of a row, the last one of what is lost. @param {number} row */
  const top = (row) => box.top + tile + down * row + (row === experts ? 4 : 0);
  /** @param {number} patch */
  const left = (patch) => box.left + across * patch;
  return { across, tile, down, top, left };
}

/** Draws a mark `PlaceTable`. @this {AxesPen} @param {any} one */
function placeTable(one) {
  const [experts, patches] = one.shape.map(Math.round);
  const { box, context } = this;
  const { down, top } = rowsOfBoxes(this, patches, experts);
  this.write(one.title.text, box.left - 30, box.top - 14, { bold: true, size: TEXT, colour: INKS[one.style] });
  for (const expert of upTo(experts)) {
    context.globalAlpha = this.strength(expert);
    head(context, expert, box.left - 14, top(expert) + down / 2, down >= 15 ? 8 : 5.6);
  }
  context.globalAlpha = 1;
  const looks = { size: SMALL, colour: THEME.muted, align: /** @type {CanvasTextAlign} */ ("right") };
  this.write("lost", box.left - 6, top(experts) + down / 2, looks);
}

/** Draws a mark `Places`. @this {AxesPen} @param {Places} one */
function placesOfPatches(one) {
  const { context } = this;
  const [experts, patches] = one.weights.sizes;
  const { across, tile, down, top, left } = rowsOfBoxes(this, patches, experts);
  const wide = Math.min(tile - 3, across - 2);
  const faces = facesOf(one, Math.max(1, Math.round(wide * context.getTransform().a)));
  for (const patch of upTo(patches)) {
    const middle = left(patch) + across / 2;
    context.drawImage(faces[patch], middle - wide / 2, this.box.top, wide, wide);
    for (const expert of upTo(experts)) {
      const at = expert * patches + patch;
      const level = Math.round((SHADES - 1) * one.weights.data[at]) / (SHADES - 1);
      const box = { left: left(patch) + 1, top: top(expert) + 1, width: across - 2, height: down - 2 };
      context.globalAlpha = (level || 0.4) * this.strength(expert);
      context.fillStyle = level ? THEME.experts[expert % THEME.experts.length].colour : THEME.background;
      context.fillRect(box.left, box.top, box.width, box.height);
      context.globalAlpha = 1;
      const refused = Boolean(one.refused.data[at]);
      if (refused) cross(context, middle, top(expert) + down / 2);
      const said = refused ? "asked, no place left" : level ? "has a place" : "no place";
      const words = `class ${THEME.signs[one.side]}, patch ${patch + 1}, expert ${expert + 1}: ${said}`;
      this.spots.push({ box, words, thing: expert });
    }
    const box = { left: left(patch) + 1, top: top(experts) + 1, width: across - 2, height: down - 2 };
    const lost = Boolean(one.lost.data[patch]);
    if (lost) {
      context.fillStyle = THEME.ink;
      context.fillRect(box.left, box.top, box.width, box.height);
    }
    const words = `class ${THEME.signs[one.side]}, patch ${patch + 1}: ${lost ? "lost" : "not lost"}`;
    this.spots.push({ box, words, thing: -1 });
  }
  const signal = Array.from(one.roles.data).indexOf(0);
  context.strokeStyle = THEME.classes[one.side];
  context.lineWidth = 1;
  context.strokeRect(left(signal), this.box.top - 2, across, top(experts) + down + 3 - this.box.top);
}

/** @param {CanvasRenderingContext2D} context @param {number} x @param {number} y */
function cross(context, x, y) {
  for (const lean of [-3, 3]) {
    /** @type {[number, number][]} */
    const ends = [
      [x - 3, y - lean],
      [x + 3, y + lean],
    ];
    line(context, ends, THEME.muted, 1.6);
  }
}

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_BOXES = {
  PlaceTable: placeTable,
  Places: placesOfPatches,
};
