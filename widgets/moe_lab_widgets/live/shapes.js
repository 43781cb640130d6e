/** Marks of single experts and points, and outlines. */

import { THEME, area, head, line, mark, pushedApart } from "./drawing.js";
import { INKS, POINT, SMALL, TEXT } from "./pen.js";
import { upTo } from "./plain.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */
/** @typedef {import("./pen.js").Table} Table */

/** The colours of a class, from strong to weak. @type {Record<string, { strong: string, pale: string, tint: string }>} */
const CLASS_COLOURS = Object.fromEntries(
  [0, 1].map((side) => [
    `class ${side + 1}`,
    { strong: THEME.classes[side], pale: THEME.pale[side], tint: THEME.tint[side] },
  ]),
);

/** How the shapes of `Points` look.
 * @type {Record<string, { shape: string, radius: number, edge: number, edgeColour?: string, hollow?: boolean,
 *   alpha?: number }>} */
const SIGNS = {
  dot: { shape: "circle", radius: 1.9, edge: 0, alpha: 0.75 },
  star: { shape: "star", radius: 10, edge: 1 },
  target: { shape: "star", radius: 12, edge: 1, edgeColour: THEME.ink },
  ring: { shape: "circle", radius: 5.5, edge: 1.4, hollow: true },
  disc: { shape: "circle", radius: 6, edge: 1.4, edgeColour: THEME.paper },
  ...Object.fromEntries(
    ["left", "right", "up", "down"].map((shape) => [shape, { shape, radius: 5, edge: 1.4, edgeColour: THEME.paper }]),
  ),
  cross: { shape: "cross", radius: 6, edge: 0 },
  hollow: { shape: "down", radius: 4, edge: 1.4, hollow: true },
};

/** Experts up to which numbers stand above their bars. */
const FEW = 4;

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_EXPERTS = {
  Outline({ x, y, style, filled, name }) {
    const points = pointsAt(this, x, y);
    if (filled) area(this.context, points, CLASS_COLOURS[style].tint);
    else line(this.context, points, INKS[style], POINT);
    if (name) for (const [across, down] of points) this.spot(across, down, 5, name, -1);
  },
  Points({ x, y, style, shape, name, most }) {
    const { context } = this;
    const look = SIGNS[shape ?? "dot"];
    pointsAt(this, x, y)
      .slice(0, Math.min(Number(most ?? Infinity), x.data.length))
      .filter((point) => point.every(Number.isFinite))
      .forEach(([across, down]) => {
        context.globalAlpha = look.alpha ?? 1;
        const [inside, edge] = look.hollow ? [THEME.paper, INKS[style]] : [INKS[style], look.edgeColour ?? "white"];
        if (look.shape === "cross") this.write("✖", across, down, { colour: inside, align: "center", size: TEXT });
        else mark(context, look.shape, across, down, look.radius, inside, look.edge, edge);
        if (name) this.spot(across, down, 4, name, -1);
      });
    context.globalAlpha = 1;
  },
  Ways({ x, y, latest, width, size, apart, name }) {
    const { context } = this;
    const [rows, experts] = x.sizes;
    const known = upTo(rows).filter((row) =>
      upTo(experts).every((one) => Number.isFinite(x.data[row * experts + one] + y.data[row * experts + one])),
    );
    if (!known.length) return;
    const shown = known.slice(-Math.min(known.length, Number(latest)));
    const ways = upTo(experts).map((one) =>
      shown.map((row) => this.at(x.data[row * experts + one], y.data[row * experts + one])),
    );
    ways.forEach((way, one) => {
      context.globalAlpha = this.strength(one);
      line(context, way, THEME.experts[one % THEME.experts.length].colour, width * POINT);
    });
    const gap = Math.abs(this.x(apart) - this.x(0));
    pushedApart(
      ways.map((way) => way[way.length - 1]),
      gap,
    ).forEach(([across, down], one) => {
      context.globalAlpha = this.strength(one);
      head(context, one, across, down, (size * POINT) / 2.1);
      this.spot(across, down, 10, name.replace("{}", String(one + 1)), one);
    });
    context.globalAlpha = 1;
  },
  Heads({ count, y, size, down }) {
    upTo(Math.round(count)).forEach((one) => {
      this.context.globalAlpha = this.strength(one);
      head(this.context, one, this.x(one), this.y(y) + (down ?? 0), (size * POINT) / 2.1);
    });
    this.context.globalAlpha = 1;
  },
  Bars({ heights, strong, styles, names, least }) {
    const { context } = this;
    const [experts, parts] = heights.sizes;
    const wide = Math.abs(this.x(0.34) - this.x(0));
    const foot = this.y(0);
    for (const one of upTo(experts)) {
      context.globalAlpha = this.strength(one);
      for (const part of upTo(parts)) {
        const place = one * parts + part;
        const height = heights.data[place];
        const colours = CLASS_COLOURS[styles[part]];
        const left = this.x(one + 0.36 * (part - (parts - 1) / 2)) - wide / 2;
        const top = this.y(Math.max(height, least ?? 0));
        context.fillStyle = strong.data[place] ? colours.strong : colours.pale;
        context.fillRect(left, top, wide, foot - top);
        const words = `${names[part].replace("{}", String(one + 1))}: ${this.read(height)}`;
        const box = { left, top: Math.min(top, foot - 8), width: wide, height: Math.max(foot - top, 8) };
        this.spots.push({ box, words, thing: one });
      }
    }
    context.globalAlpha = 1;
  },
  Stacks({ full, hollow, names }) {
    const { context } = this;
    const wide = Math.abs(this.x(0.7) - this.x(0));
    const [, most] = this.scales.y;
    /** @param {number} one @param {number} part @param {number} from @param {number} to @param {number} value */
    const bar = (one, part, from, to, value) => {
      const box = { left: this.x(one) - wide / 2, top: this.y(to), width: wide, height: this.y(from) - this.y(to) };
      if (box.height <= 0) return;
      if (part) context.strokeRect(box.left + 0.5, box.top + 0.5, wide - 1, box.height - 0.5);
      else context.fillRect(box.left, box.top, wide, box.height);
      this.spots.push({
        box,
        words: `${names[part].replace("{}", String(one + 1))}: ${this.read(value)}`,
        thing: one,
      });
    };
    const experts = upTo(full.data.length);
    for (const one of experts) {
      const [own, more] = [full.data[one], hollow.data[one]];
      const above = Math.min(own + more, most);
      context.globalAlpha = this.strength(one);
      context.strokeStyle = THEME.reference;
      context.lineWidth = 1;
      context.fillStyle = THEME.experts[one % THEME.experts.length].colour;
      bar(one, 1, own, above, more);
      bar(one, 0, 0, Math.min(own, most), own);
      const looks = { size: SMALL, colour: THEME.muted, align: /** @type {CanvasTextAlign} */ ("center") };
      if (experts.length <= FEW) this.write((own + more).toFixed(1), this.x(one), this.y(above) - 9, looks);
    }
    context.globalAlpha = 1;
  },
};

/** @param {AxesPen} pen @param {Table} x @param {Table} y @returns {[number, number][]} */
const pointsAt = (pen, x, y) => Array.from(x.data, (across, place) => pen.at(across, y.data[place]));
