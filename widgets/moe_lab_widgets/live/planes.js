/** Planes of parameters: a loss from above, and the path of a descent over it. */

import { THEME, line, text } from "./drawing.js";
import { POINT, SMALL } from "./pen.js";
import { upTo } from "./plain.js";

/** Shades of a map. */
const LEVELS = 16;
/** The darkest one, as a part of the ramp. */
const DARKEST = 0.62;

/** @type {Record<string, (this: import("./pen.js").AxesPen, one: any) => void>} */
export const OF_PLANES = {
  PlaneAxes({ x_name, y_name, name }) {
    const { left, top, width, height } = this.box;
    const looks = { colour: THEME.muted, align: /** @type {CanvasTextAlign} */ ("center"), size: SMALL };
    this.scales = { x: [-1, 1], y: [-1, 1] };
    this.write(x_name, left + width / 2, top + height + 14, looks);
    text(this.context, y_name, left - 14, top + height / 2, { ...looks, turn: -Math.PI / 2 });
    this.plane = name;
  },
  Relief({ values: { sizes, data } }) {
    const [side] = sizes;
    if (!Array.from(data).every(Number.isFinite)) return;
    const { context, box } = this;
    const { a: scale } = context.getTransform();
    const pixels = Math.max(1, Math.round(box.width * scale));
    const sheet = new OffscreenCanvas(pixels, pixels);
    const brush = /** @type {OffscreenCanvasRenderingContext2D} */ (sheet.getContext("2d"));
    const image = brush.createImageData(pixels, pixels);
    const bands = bandsOf(data, side, pixels);
    const shades = upTo(LEVELS).map((level) =>
      numbersOf(THEME.ramp[Math.round((255 * DARKEST * level) / (LEVELS - 1))]),
    );
    const edge = numbersOf(THEME.muted);
    for (let row = 0; row < pixels; row++) {
      for (let column = 0; column < pixels; column++) {
        const at = row * pixels + column;
        const band = bands[at];
        const border = (row && bands[at - pixels] !== band) || (column && bands[at - 1] !== band);
        const into = 4 * ((pixels - 1 - row) * pixels + column);
        for (let part = 0; part < 3; part++) {
          const shade = shades[band][part];
          image.data[into + part] = border ? 0.75 * shade + 0.25 * edge[part] : shade;
        }
        image.data[into + 3] = 255;
      }
    }
    brush.putImageData(image, 0, 0);
    context.drawImage(sheet, box.left, box.top, box.width, box.height);
    this.spots.push({ box: { ...box }, words: this.plane, thing: -1 });
  },
  Trail({ x, y, name }) {
    /** @type {[number, number][]} */
    const points = [];
    for (let row = 0; row < x.data.length; row++) {
      if (Number.isFinite(x.data[row]) && Number.isFinite(y.data[row]))
        points.push(this.at(x.data[row], y.data[row]));
    }
    line(this.context, points, THEME.paper, 4.6 * POINT);
    line(this.context, points, THEME.ink, 2.2 * POINT);
    for (const [across, down] of points) this.spot(across, down, 4, name, -1);
  },
};

/** Which band each of some pixels is in, the first row at the bottom: even steps of the root of what a function has
 * beyond its least value. @param {ArrayLike<number>} values @param {number} side @param {number} pixels */
function bandsOf(values, side, pixels) {
  const all = Array.from(values);
  const least = all.reduce((low, value) => Math.min(low, value), Infinity);
  const roots = all.map((value) => Math.sqrt(value - least));
  const most = roots.reduce((high, value) => Math.max(high, value), 0) || 1;
  const places = upTo(pixels).map((pixel) => {
    const at = (pixel * (side - 1)) / Math.max(1, pixels - 1);
    const low = Math.min(Math.floor(at), side - 2);
    return { low, part: at - low };
  });
  const bands = new Uint8Array(pixels * pixels);
  places.forEach(({ low, part }, row) => {
    const line = upTo(side).map(
      (column) => roots[low * side + column] * (1 - part) + roots[(low + 1) * side + column] * part,
    );
    places.forEach(({ low: from, part: beyond }, column) => {
      const value = (line[from] * (1 - beyond) + line[from + 1] * beyond) / most;
      bands[row * pixels + column] = Math.min(Math.floor(value * LEVELS), LEVELS - 1);
    });
  });
  return bands;
}

/** The parts of a colour "#rrggbb". @param {string} colour */
const numbersOf = (colour) => [1, 3, 5].map((at) => Number.parseInt(colour.slice(at, at + 2), 16));
