/** An image that is cut into patches, with the heads of the experts that keep them, and a frame around its object. */

import { THEME, head } from "./drawing.js";
import { POINT, SMALL } from "./pen.js";
import { upTo } from "./plain.js";
import { written } from "./written.js";

/** How much of a patch that no expert keeps is covered. */
const COVER = 0.72;
/** The size of a head: its part of the room that it has, and pixels at most. */
const HEAD_SHARE = 0.31;
const LARGEST_HEAD = 11;

/** @type {Record<string, (this: import("./pen.js").AxesPen, one: any) => void>} */
export const OF_IMAGES = {
  ImageAxes() {},
  PatchedImage({ ink, patches, kept, lit, box, above, below, firm }) {
    const { context, box: room } = this;
    const [side] = ink.sizes;
    const unit = Math.floor(Math.min(room.width, room.height) / side);
    const whole = unit * side;
    const { left, top } = room;
    context.fillStyle = THEME.paper;
    context.fillRect(left, top, whole, whole);
    context.fillStyle = THEME.ink;
    const each = side / patches;
    for (const pixel of upTo(side * side)) {
      const [row, column] = [Math.floor(pixel / side), pixel % side];
      const patch = Math.floor(row / each) * patches + Math.floor(column / each);
      const value = Math.min(Math.max(ink.data[pixel], 0), 1) * (lit.data[patch] ? 1 : 1 - COVER);
      context.globalAlpha = Number.isFinite(value) ? value : 0;
      context.fillRect(left + column * unit, top + row * unit, unit, unit);
    }
    context.globalAlpha = 1;
    context.fillStyle = THEME.rule;
    const edge = whole / patches;
    for (const place of upTo(patches + 1)) {
      context.fillRect(left + place * edge - 0.5, top, 1, whole);
      context.fillRect(left, top + place * edge - 0.5, whole, 1);
    }
    const [down, across, high, wide] = Array.from(box.data, (one) => one * unit);
    if (high && wide) {
      context.strokeStyle = THEME.classes[0];
      context.lineWidth = 3;
      context.strokeRect(left + across - 1, top + down - 1, wide + 2, high + 2);
    }
    const experts = kept.sizes[0];
    const rows = Math.ceil(Math.sqrt(experts));
    const radius = Math.min((HEAD_SHARE * edge) / rows, LARGEST_HEAD);
    for (const patch of upTo(patches * patches)) {
      const [x, y] = [left + edge * (patch % patches), top + edge * Math.floor(patch / patches)];
      const own = upTo(experts).filter((expert) => kept.data[expert * patches * patches + patch]);
      const names = own.map((expert) => expert + 1).join(", ");
      const words = `patch ${patch + 1}: ${names ? `kept by ${names}` : "no expert is drawn here"}`;
      this.spots.push({ box: { left: x, top: y, width: edge, height: edge }, words, thing: -1 });
      for (const expert of own) {
        const at = [expert % rows, Math.floor(expert / rows)].map((place) => (edge * (place + 0.5)) / rows);
        context.globalAlpha = this.strength(expert);
        head(context, expert, x + at[0], y + at[1], radius);
        this.spot(x + at[0], y + at[1], radius, `expert ${expert + 1}`, expert);
      }
      context.globalAlpha = 1;
    }
    this.write(written(above), left, top - 12, { bold: true, colour: THEME.classes[0], size: SMALL });
    const looks = { bold: Boolean(firm), colour: firm ? THEME.ink : THEME.reference, size: 10.5 * POINT };
    this.write(written(below), left, top + whole + 13, looks);
  },
};
