/** Drawing on a canvas in the style of `moe_lab.drawing.theme`: colours with fixed meanings, each with a second cue. */
import { DECLARED } from "./declared.js";

/** @typedef {CanvasRenderingContext2D} Context */
/** @typedef {[number, number]} Place x and y in CSS pixels from the upper left corner */
/** @typedef {{size?: number, bold?: boolean, colour?: string, align?: CanvasTextAlign, base?: CanvasTextBaseline,
 *   turn?: number}} TextLooks */

export const THEME = DECLARED.theme;
const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/** Gives a canvas, cleared, the screen's own pixels; what is drawn is measured in CSS pixels.
 * @param {HTMLCanvasElement} canvas */
export function sheetOf(canvas) {
  const scale = window.devicePixelRatio || 1;
  const { clientWidth: width, clientHeight: height } = canvas;
  canvas.width = Math.round(width * scale);
  canvas.height = Math.round(height * scale);
  const context = contextOf(canvas);
  context.scale(scale, scale);
  return { context, width, height, scale };
}

/** @type {(canvas: HTMLCanvasElement) => Context} */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  return context;
}

/** Begins a path. @param {Context} context @param {Place[]} points */
function trace(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
}

/** @param {Context} context @param {Place[]} points @param {string} colour @param {number} width
 * @param {{dash?: number[], alpha?: number}} looks */
export function line(context, points, colour, width, { dash = [], alpha = 1 } = {}) {
  if (points.length < 2) return;
  context.save();
  context.strokeStyle = colour;
  context.lineWidth = width;
  context.lineJoin = "round";
  context.lineCap = dash.length ? "butt" : "round";
  context.globalAlpha *= alpha;
  context.setLineDash(dash);
  trace(context, points);
  context.stroke();
  context.restore();
}

/** Fills what points surround. @param {Context} context @param {Place[]} points @param {string} colour
 * @param {number} alpha */
export function area(context, points, colour, alpha = 1) {
  context.save();
  context.fillStyle = colour;
  context.globalAlpha *= alpha;
  trace(context, points);
  context.fill();
  context.restore();
}

/** @param {Context} context @param {string} words @param {number} x @param {number} y @param {TextLooks} looks */
export function text(context, words, x, y, looks = {}) {
  const { size = 12, bold = false, colour = THEME.muted, align = "left", base = "alphabetic", turn = 0 } = looks;
  context.save();
  context.translate(x, y);
  context.rotate(turn);
  context.font = `${bold ? "600 " : ""}${size}px ${FONT}`;
  context.textAlign = align;
  context.textBaseline = base;
  context.fillStyle = colour;
  context.fillText(words, 0, 0);
  context.restore();
}

/** Corners on a circle, the first one at an angle `turn`.
 * @type {(count: number, turn: number, x: number, y: number, radius: number) => Place[]} */
function corners(count, turn, x, y, radius) {
  return Array.from({ length: count }, (_, corner) => {
    const angle = turn + (2 * Math.PI * corner) / count;
    return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
  });
}

const UP = -Math.PI / 2;
/** The corners of each shape, the angle of the first one, and how much larger than a circle it is.
 * @type {{[shape: string]: [number, number, number]}} */
const SHAPES = {
  circle: [32, 0, 1],
  square: [4, Math.PI / 4, 1.25],
  diamond: [4, 0, 1.32],
  up: [3, UP, 1.42],
  down: [3, -UP, 1.42],
  left: [3, Math.PI, 1.42],
  right: [3, 0, 1.42],
  5: [5, UP, 1.15],
  6: [6, UP, 1.15],
  8: [8, Math.PI / 8, 1.1],
};

/** @param {Context} context @param {string} shape one of the theme, or "star" @param {number} x @param {number} y
 * @param {number} radius @param {string} colour @param {number} edge width of its edge @param {string} edgeColour */
export function mark(context, shape, x, y, radius, colour, edge = 0, edgeColour = "white") {
  if (shape === "star") {
    const notches = corners(5, UP + Math.PI / 5, x, y, 0.42 * radius);
    trace(context, corners(5, UP, x, y, radius).flatMap((tip, place) => [tip, notches[place]]));
  } else {
    const [count, turn, larger] = SHAPES[shape];
    trace(context, corners(count, turn, x, y, larger * radius));
  }
  context.closePath();
  context.fillStyle = colour;
  context.fill();
  if (!edge) return;
  context.strokeStyle = edgeColour;
  context.lineWidth = edge;
  context.lineJoin = "round";
  context.stroke();
}

/** The mark of an expert, counted from 0: its shape and its number.
 * @param {Context} context @param {number} expert @param {number} x @param {number} y @param {number} radius */
export function head(context, expert, x, y, radius) {
  const { colour, shape, on } = THEME.experts[expert % THEME.experts.length];
  mark(context, shape, x, y, radius, colour, 1.5);
  const heavier = shape === "up" ? 0.18 : shape === "down" ? -0.18 : 0; // a triangle is not widest in its middle
  const looks = { size: Math.max(8, 1.25 * radius), bold: true, colour: on };
  text(context, String(expert + 1), x, y + heavier * radius + 0.5, { ...looks, align: "center", base: "middle" });
}

/** Moves numbers apart, as little as needed, to a least distance and between bounds.
 * @type {(wanted: number[], gap: number, low: number, high: number) => number[]} */
export function spread(wanted, gap, low, high) {
  const order = wanted.map((_, place) => place).sort((one, other) => wanted[one] - wanted[other]);
  const places = [...wanted];
  for (let round = 0; round < 20; round++) {
    for (let next = 1; next < order.length; next++) {
      const short = Math.max(0, gap - (places[order[next]] - places[order[next - 1]]));
      places[order[next]] += short / 2;
      places[order[next - 1]] -= short / 2;
    }
    for (const one of order) places[one] = Math.min(high, Math.max(low, places[one]));
  }
  return places;
}

/** Moves marks until no two are nearer than `gap`, as `moe_lab.drawing.label_layout.push_apart`.
 * @type {(points: Place[], gap: number) => Place[]} */
export function pushedApart(points, gap) {
  /** @type {Place[]} */
  const moved = points.map(([x, y]) => [x, y]);
  for (let round = 0; round < 20; round++) {
    for (let one = 0; one < moved.length; one++) {
      for (let other = 0; other < one; other++) part(moved[one], moved[other], gap, 2.4 * (one + other));
    }
  }
  return moved;
}

/** Parts two marks that are too near; those on one spot part in the direction `angle`.
 * @type {(one: Place, other: Place, gap: number, angle: number) => void} */
function part(one, other, gap, angle) {
  const distance = Math.hypot(one[0] - other[0], one[1] - other[1]);
  if (!(distance < gap)) return;
  const apart = distance > 1e-6 ? Math.atan2(one[1] - other[1], one[0] - other[0]) : angle;
  const across = (Math.cos(apart) * (gap - distance)) / 2;
  const down = (Math.sin(apart) * (gap - distance)) / 2;
  one[0] += across;
  one[1] += down;
  other[0] -= across;
  other[1] -= down;
}
