/** Drawing on a canvas in the style of `moe_lab.theme`: colours with fixed meanings, each with a second cue. */
import { DECLARED } from "./declared.js";

/** @typedef {[number, number]} Place x and y in CSS pixels from the upper left corner */
/** @typedef {{context: CanvasRenderingContext2D, width: number, height: number, scale: number}} Sheet */
/** @typedef {{dash?: number[], alpha?: number}} LineLooks */
/**
 * @typedef {{size?: number, bold?: boolean, colour?: string, align?: CanvasTextAlign, base?: CanvasTextBaseline,
 *   turn?: number}} TextLooks
 */

export const THEME = DECLARED.theme;
export const FONT = "system-ui, -apple-system, 'Segoe UI', Roboto, 'DejaVu Sans', sans-serif";

/**
 * Clears a canvas and gives it the screen's own pixels; what is drawn is measured in CSS pixels.
 * @param {HTMLCanvasElement} canvas
 * @returns {Sheet}
 */
export function sheetOf(canvas) {
  const scale = window.devicePixelRatio || 1;
  const width = canvas.clientWidth;
  const height = canvas.clientHeight;
  const across = Math.round(width * scale);
  const down = Math.round(height * scale);
  if (canvas.width !== across || canvas.height !== down) {
    canvas.width = across;
    canvas.height = down;
  }
  const context = contextOf(canvas);
  context.setTransform(scale, 0, 0, scale, 0, 0);
  context.clearRect(0, 0, width, height);
  return { context, width, height, scale };
}

/**
 * @param {HTMLCanvasElement} canvas
 * @returns {CanvasRenderingContext2D}
 */
export function contextOf(canvas) {
  const context = canvas.getContext("2d");
  if (!context) throw new Error("this browser cannot draw on a canvas");
  return context;
}

/**
 * Begins a path through points.
 * @param {CanvasRenderingContext2D} context
 * @param {Place[]} points
 */
function trace(context, points) {
  context.beginPath();
  for (const [x, y] of points) context.lineTo(x, y);
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {Place[]} points
 * @param {string} colour
 * @param {number} width
 * @param {LineLooks} looks
 */
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

/**
 * Fills the area that points surround.
 * @param {CanvasRenderingContext2D} context
 * @param {Place[]} points
 * @param {string} colour
 * @param {number} alpha
 */
export function area(context, points, colour, alpha = 1) {
  context.save();
  context.fillStyle = colour;
  context.globalAlpha *= alpha;
  trace(context, points);
  context.fill();
  context.restore();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} words
 * @param {number} x
 * @param {number} y
 * @param {TextLooks} looks
 */
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

/**
 * Corners on a circle.
 * @param {number} count
 * @param {number} turn the angle of the first one
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @returns {Place[]}
 */
function corners(count, turn, x, y, radius) {
  return Array.from({ length: count }, (_, corner) => {
    const angle = turn + (2 * Math.PI * corner) / count;
    return [x + radius * Math.cos(angle), y + radius * Math.sin(angle)];
  });
}

const UP = -Math.PI / 2;

/**
 * Markers by their names in matplotlib: corners, the angle of the first one, and how much larger than a circle.
 * @type {{[shape: string]: [number, number, number]}}
 */
const SHAPES = {
  s: [4, Math.PI / 4, 1.25],
  D: [4, 0, 1.32],
  "^": [3, UP, 1.42],
  v: [3, -UP, 1.42],
  p: [5, UP, 1.15],
  h: [6, UP, 1.15],
  8: [8, Math.PI / 8, 1.1],
};

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} shape
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 */
function outline(context, shape, x, y, radius) {
  if (shape === "*") {
    const tips = corners(5, UP, x, y, radius);
    const notches = corners(5, UP + Math.PI / 5, x, y, 0.42 * radius);
    trace(context, tips.flatMap((tip, corner) => [tip, notches[corner]]));
  } else if (shape in SHAPES) {
    const [count, turn, larger] = SHAPES[shape];
    trace(context, corners(count, turn, x, y, larger * radius));
  } else {
    context.beginPath();
    context.arc(x, y, radius, 0, 2 * Math.PI);
  }
  context.closePath();
}

/**
 * @param {CanvasRenderingContext2D} context
 * @param {string} shape the marker's name in matplotlib
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 * @param {string} colour
 * @param {number} edge width of its white edge
 */
export function mark(context, shape, x, y, radius, colour, edge = 0) {
  outline(context, shape, x, y, radius);
  context.fillStyle = colour;
  context.fill();
  if (!edge) return;
  context.strokeStyle = "white";
  context.lineWidth = edge;
  context.lineJoin = "round";
  context.stroke();
}

/**
 * The mark of an expert: its shape and its number.
 * @param {CanvasRenderingContext2D} context
 * @param {number} expert counted from 0
 * @param {number} x
 * @param {number} y
 * @param {number} radius
 */
export function head(context, expert, x, y, radius) {
  const { colour, shape, on } = THEME.experts[expert % THEME.experts.length];
  mark(context, shape, x, y, radius, colour, 1.5);
  const heavier = shape === "^" ? 0.18 : shape === "v" ? -0.18 : 0; // the widest part of a triangle is not its middle
  const looks = { size: Math.max(8, 1.25 * radius), bold: true, colour: on };
  text(context, String(expert + 1), x, y + heavier * radius + 0.5, { ...looks, align: "center", base: "middle" });
}

/**
 * Moves numbers apart, as little as needed, to a least distance and between bounds.
 * @param {number[]} wanted
 * @param {number} gap
 * @param {number} low
 * @param {number} high
 * @returns {number[]}
 */
export function spread(wanted, gap, low, high) {
  const order = wanted.map((_, place) => place).sort((one, other) => wanted[one] - wanted[other]);
  const places = [...wanted];
  for (let round = 0; round < 20; round++) {
    for (let next = 1; next < order.length; next++) {
      const short = gap - (places[order[next]] - places[order[next - 1]]);
      if (short <= 0) continue;
      places[order[next]] += short / 2;
      places[order[next - 1]] -= short / 2;
    }
    for (const one of order) places[one] = Math.min(high, Math.max(low, places[one]));
  }
  return places;
}

/**
 * Moves marks in the plane until no two are nearer than `gap`, as `moe_lab.placement.push_apart`.
 * @param {Place[]} points
 * @param {number} gap
 * @returns {Place[]}
 */
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

/**
 * Moves two marks that are too near away from one another.
 * @param {Place} one
 * @param {Place} other
 * @param {number} gap
 * @param {number} angle in which they part where they stand on one spot
 */
function part(one, other, gap, angle) {
  const distance = Math.hypot(one[0] - other[0], one[1] - other[1]);
  if (!(distance < gap)) return;
  const near = distance < 1e-6;
  const across = near ? Math.cos(angle) : (one[0] - other[0]) / distance;
  const down = near ? Math.sin(angle) : (one[1] - other[1]) / distance;
  const by = (gap - distance) / 2;
  one[0] += across * by;
  one[1] += down * by;
  other[0] -= across * by;
  other[1] -= down * by;
}
