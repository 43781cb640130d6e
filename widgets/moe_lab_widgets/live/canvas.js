/** Draws the marks of a panel (`moe_lab.drawing.marks`) on a canvas. It knows no Lab. */

import { THEME, line, mark, sheetOf, spread, text } from "./drawing.js";
import {
  AxesPen,
  INKS,
  MOST_LINES,
  POINT,
  STYLES,
  TEXT,
  bands,
  namesOf,
  pointsOf,
  rowOf,
  shadeOf,
  tickOf,
} from "./pen.js";
import { MARKS_OF_LAB } from "./of_page.js";
import { median } from "./plain.js";
import { written } from "./written.js";

/** @typedef {{ title: string, width: number, margins: number[], above: number, rows: number[],
 *   columns: number, gap: number }} Panel */
/** @typedef {import("./pen.js").Box} Box */
/** @typedef {import("./pen.js").Spot} Spot */
/** @typedef {[number, number]} Place */

/** The height of a picture in its own pixels, of which a page leaves out what is far above a panel's axes. */
const HEIGHT = 448;
/** Dashes of a bound. */
const BOUND = [11, 5.5];
/** A cell has room for a number from this width and height on. */
const ROOMY = [20, 14];
/** Draws a panel, as wide as the canvas, and makes the canvas as high as it needs.
 * @param {HTMLCanvasElement} canvas @param {Panel} panel @param {any[][]} furniture marks of each of its axes
 * @param {any[][]} marks of a record @param {any[][]} pinned curves of another run
 * @param {number} focus the expert that is followed, or -1 @param {number} scale how much larger than in a notebook
 * @returns {Spot[]} what there is under the pointer */
export function drawPanel(canvas, panel, furniture, marks, pinned, focus, scale) {
  const head = panel.margins[2] - panel.above;
  canvas.style.height = `${Math.round((HEIGHT - head) * scale)}px`;
  const { context, width } = sheetOf(canvas);
  context.scale(scale, scale);
  context.translate(0, -head);
  const axes = new AxesPen(context, focus, width / scale);
  boxesOf(panel, width / scale).forEach((box, place) => {
    axes.turnTo(box);
    for (const one of [...(furniture[place] ?? []), ...(marks[place] ?? [])]) {
      const drawn = MARKS[one.mark] ?? MARKS_OF_LAB[one.mark];
      if (!drawn) throw new Error(`a page cannot draw ${one.mark}`);
      drawn.call(axes, one);
    }
    for (const one of pinned[place] ?? []) PINNED[one.mark].call(axes, one);
  });
  return axes.spots.map(({ box, ...rest }) => ({
    ...rest,
    box: {
      left: box.left * scale,
      top: (box.top - head) * scale,
      width: box.width * scale,
      height: box.height * scale,
    },
  }));
}

/** Where a prediction is drawn in a panel: the part of the picture that its canvas shows, and places in it.
 * @param {HTMLCanvasElement} canvas @param {Panel} panel @param {any[]} furniture of the axes @param {any} sketch
 * @param {number} scale @returns {{ view: number[], places: import("./sketch.js").SketchPlaces }} */
export function sketchIn(canvas, panel, furniture, sketch, scale) {
  const [wide, high] = [canvas.clientWidth / scale, canvas.clientHeight / scale];
  const pen = new AxesPen(/** @type {any} */ (null), -1, wide);
  pen.turnTo(boxesOf(panel, wide)[sketch.axes]);
  pen.scales = furniture.find(({ mark }) => mark === "Scales");
  const { left, top, width, height } = pen.box;
  const upright = !sketch.rows.length;
  const [low, most] = upright ? pen.scales.y : pen.scales.x;
  const { log, percent } = sketch;
  const ends = upright ? { from: top + height, to: top } : { from: left, to: left + width };
  const marks = sketch.names.flatMap((/** @type {string} */ name, /** @type {number} */ number) => {
    const across = upright ? left + (width * (number + 1)) / (sketch.names.length + 1) : pen.y(sketch.rows[number]);
    if (!upright && (across < top || across > top + height)) return [];
    return [{ name, colour: INKS[sketch.styles[number]], across }];
  });
  const places = { upright, log, percent, low, high: most, ...ends, left, right: left + width, marks };
  return { view: [0, panel.margins[2] - panel.above, wide, high], places };
}

/** Where the axes of a panel are. @param {Panel} panel @param {number} width @returns {Box[]} */
function boxesOf({ margins: [left, right, top, bottom], rows, columns, gap }, width) {
  const all = rows.reduce((sum, row) => sum + row, 0);
  const free = HEIGHT - top - bottom - (rows.length - 1) * gap;
  const wide = (width - left - right - (columns - 1) * gap) / columns;
  /** @type {Box[]} */
  const boxes = [];
  let from = top;
  for (const row of rows) {
    const height = (free * row) / all;
    for (let c = 0; c < columns; c++) boxes.push({ left: left + c * (wide + gap), top: from, width: wide, height });
    from += height + gap;
  }
  return boxes;
}

/** How the marks are drawn that are kept of another run.
 * @type {Record<string, (this: AxesPen, one: any) => void>} */
export const PINNED = {
  Curves({ x, y, style }) {
    const points = pointsOf(x, (row) => median(rowOf(y, row)), this);
    this.inside(() => line(this.context, points, STYLES[style].colour, 2.6, { dash: [2, 4] }));
  },
  Series(one) {
    const pinned = { ...one, name: "pinned: ", shape: "small", width: 1.1 };
    if (one.pinned) MARKS_OF_LAB.Series.call(this, pinned);
  },
  Track(one) {
    MARKS_OF_LAB.Track.call(this, { ...one, style: "other", name: "pinned", unsure: "pinned" });
  },
};

/** How the marks are drawn that many Labs have.
 * @type {Record<string, (this: AxesPen, one: any) => void>} */
const MARKS = {
  Scales(one) {
    const { box, context } = this;
    const [left, right, top, bottom] = [box.left, box.left + box.width, box.top, box.top + box.height];
    this.scales = one;
    line(
      context,
      [
        [left, top],
        [left, bottom],
        [right, bottom],
      ],
      THEME.reference,
      0.8 * POINT,
    );
    const looks = { colour: THEME.muted };
    const percent = one.percent ?? "";
    for (const [place, tick] of (one.x_ticks ?? []).entries()) {
      if (!Number.isFinite(tick)) continue;
      line(
        context,
        [
          [this.x(tick), bottom],
          [this.x(tick), bottom + 4],
        ],
        THEME.reference,
        0.8 * POINT,
      );
      const words = one.x_words?.[place] ?? tickOf(tick, percent.includes("x"));
      this.write(words, this.x(tick), bottom + 14, { ...looks, align: "center" });
    }
    const ticks = (one.y_ticks ?? []).filter(Number.isFinite);
    ticks.forEach((/** @type {number} */ tick, /** @type {number} */ place) => {
      const last = one.last_y && place === ticks.length - 1;
      if (!one.last_y && !one.bare?.includes("y"))
        line(
          context,
          [
            [left - 4, this.y(tick)],
            [left, this.y(tick)],
          ],
          THEME.reference,
          0.8 * POINT,
        );
      const words = last ? one.last_y : (one.y_words?.[place] ?? tickOf(tick, percent.includes("y")));
      this.write(words, left - 8, this.y(tick), { ...looks, align: "right" });
    });
    /** @param {string} style */
    const named = (style) => ({
      size: TEXT,
      colour: INKS[style ?? "ink"],
      align: /** @type {CanvasTextAlign} */ ("center"),
    });
    if (one.x_name) {
      const pad = one.x_pad ?? ((one.x_ticks ?? []).length < 3 ? -0.5 : 4);
      const down = 0.625 * TEXT * (one.x_name.split("\n").length - 1);
      this.write(one.x_name, left + box.width / 2, bottom + 33 + down + (pad - 4) * POINT, named(one.x_style));
    }
    if (one.y_name) {
      const looks = { ...named(one.y_style), turn: -Math.PI / 2 };
      text(context, one.y_name, left - 31, top + box.height / 2, looks);
    }
  },
  Table(one) {
    const { box } = this;
    const [rows, columns] = one.shape.map(Math.round);
    const room = one.heads ? (this.width - box.left) / columns : box.width / columns;
    const wide = Math.min(one.widest ?? 90, room);
    const high = Math.min(one.highest ?? 60, box.height / rows);
    const names = { rows: namesOf(one.rows, rows), columns: namesOf(one.columns, columns) };
    const heads = (one.heads ?? []).map(written);
    const ofExperts = one.columns === "expert {}";
    this.table = { wide, high, ...names, columns: heads.length ? heads : names.columns, ofExperts };
    names.rows.forEach((name, row) => {
      const firm = Boolean(one.firm?.[row]);
      const looks = {
        colour: firm ? THEME.ink : THEME.muted,
        bold: firm,
        align: /** @type {CanvasTextAlign} */ ("right"),
      };
      this.write(name, box.left - 7, this.y(row), looks);
    });
    heads.forEach((/** @type {string} */ words, /** @type {number} */ column) => {
      this.write(words, this.x(column), box.top - 10, { colour: THEME.muted, align: "center" });
    });
    const under = box.top + rows * high;
    if (one.numbered) {
      for (let column = 0; column < columns; column++) {
        this.write(String(column + 1), this.x(column), under + 11, { colour: THEME.muted, align: "center" });
      }
    }
    if (one.below) this.write(one.below, box.left, under + 29, { colour: THEME.ink, size: TEXT });
  },
  Level(one) {
    const { box } = this;
    if (one.style === "bound") {
      bound(this, one.at, written(one.words));
      return;
    }
    const dashed = (one.style ?? "dashed") === "dashed";
    const width = dashed ? 1 : ({ rule: 0.6, axis: 0.8 }[/** @type {string} */ (one.style)] ?? 1.2);
    const points = /** @type {[number, number][]} */ (
      one.upright
        ? [
            [this.x(one.at), box.top],
            [this.x(one.at), box.top + box.height],
          ]
        : [
            [box.left, this.y(one.at)],
            [box.left + box.width, this.y(one.at)],
          ]
    );
    line(this.context, points, INKS[one.style] ?? THEME.muted, width * POINT, { dash: dashed ? [8, 4] : [] });
  },
  Key(one) {
    const { box, context } = this;
    const [count, wide, high] = [5, 30, 17];
    const left = box.left + box.width - count * wide - (one.unit ? 14 : 0);
    for (let step = 0; step < count; step++) {
      const share = step / (count - 1);
      context.fillStyle = shadeOf(share);
      context.fillRect(left + step * wide, box.top - 23, wide - 1, high - 1);
      const looks = { colour: share >= 0.5 ? "white" : THEME.ink, align: /** @type {CanvasTextAlign} */ ("center") };
      this.write(
        String(Number((one.most * share).toPrecision(3))),
        left + (step + 0.5) * wide,
        box.top - 14.5,
        looks,
      );
    }
    if (one.unit) this.write(one.unit, box.left + box.width, box.top - 14.5, { colour: THEME.muted, align: "right" });
  },
  Title(one) {
    this.write(written(one.words), this.box.left - (one.left ?? 0), this.box.top - 19, {
      bold: true,
      colour: THEME.ink,
    });
  },
  Note(one) {
    const { box } = this;
    const from = one.under === false ? box.top : box.top + box.height;
    this.write(written(one.words), box.left + one.right, from + one.down, { colour: INKS[one.style ?? "muted"] });
  },
  Curves(one) {
    const style = STYLES[one.style];
    const trials = one.y.sizes[1];
    const known = Array.from({ length: one.x.data.length }, (_, row) => row).filter((row) =>
      Number.isFinite(one.x.data[row]),
    );
    this.inside(() => {
      if (trials > 1 && trials <= MOST_LINES) {
        for (let trial = 0; trial < trials; trial++) {
          const points = pointsOf(one.x, (row) => one.y.data[row * trials + trial], this);
          const firm = trial === 0 && one.firm !== false;
          const looks = { dash: style.line.map((dash) => dash * POINT), alpha: firm ? 0.95 : 0.45 };
          line(this.context, points, style.colour, (firm ? 1.3 : 0.7) * POINT, looks);
        }
      } else if (trials > MOST_LINES) bands(this, one, known, style.colour);
      const points = pointsOf(one.x, (row) => median(rowOf(one.y, row)), this);
      const dash = style.median.map((part) => part * (one.width ?? 2.6) * POINT);
      line(this.context, points, style.colour, (one.width ?? 2.6) * POINT, { dash });
      for (const [place, [x, y]] of points.entries()) {
        const value = median(rowOf(one.y, known[place]));
        const words = `${one.name}, median: ${this.read(value)} at step ${one.x.data[known[place]]}`;
        this.spots.push({ box: { left: x - 6, top: y - 6, width: 12, height: 12 }, words, thing: -1 });
      }
    });
  },
  Ends(one) {
    const { box } = this;
    const heights = one.heights.map((/** @type {number} */ at) =>
      Math.min(Math.max((box.top + box.height - this.y(at)) / box.height, 0), 1),
    );
    const known = heights.find(Number.isFinite) ?? 0.5;
    const places = spread(
      heights.map((/** @type {number} */ at) => (Number.isFinite(at) ? at : known)),
      one.apart ?? 0.14,
      0.1,
      0.95,
    );
    places.forEach((place, number) => {
      const y = box.top + (1 - place) * box.height;
      const size = one.size === undefined ? TEXT : one.size * POINT;
      const looks = { size, bold: true, colour: INKS[one.styles[number]] };
      this.write(written(one.words[number]), box.left + box.width + 8, y, looks);
    });
  },
  Lines(one) {
    const things = one.y.sizes[1];
    let last = -1;
    for (let row = 0; row < one.x.data.length; row++) if (Number.isFinite(one.x.data[row])) last = row;
    if (last < 0) return;
    this.inside(() => {
      for (let thing = 0; thing < things; thing++) {
        const points = pointsOf(one.x, (row) => one.y.data[row * things + thing], this);
        const alpha = this.strength(thing);
        const { colour } = THEME.experts[thing % THEME.experts.length];
        const dash = thing % 8 < 4 ? [] : [4 * 1.7 * POINT, 1.5 * 1.7 * POINT];
        line(this.context, points, colour, (this.focus === thing ? 3 : 1.7) * POINT, { dash, alpha });
        points.forEach(([x, y], place) => {
          const words = `expert ${thing + 1}: ${this.read(one.y.data[place * things + thing])} at step ${one.x.data[place]}`;
          this.spots.push({ box: { left: x - 5, top: y - 5, width: 10, height: 10 }, words, thing });
        });
      }
    });
    const ends = rowOf(one.y, last);
    if (!ends.every(Number.isFinite)) return;
    /** @type {Map<number, number[]>} */
    const near = new Map();
    const apart = one.apart ?? 0.1;
    const order = ends.map((_, thing) => thing).sort((a, b) => ends[b] - ends[a] || a - b);
    for (const thing of order.filter((own) => ends[own] >= (one.least ?? 0.04))) {
      const place = Math.round(ends[thing] / apart);
      near.set(place, [...(near.get(place) ?? []), thing + 1]);
    }
    const most = one.most ?? 2;
    for (const [place, group] of near) {
      const words =
        group
          .sort((a, b) => a - b)
          .slice(0, most)
          .join(" ") + (group.length > most ? " …" : "");
      this.write(words, this.x(one.x.data[last]) + 6, this.y(place * apart), { bold: true, colour: THEME.ink });
    }
  },
  Cells(one) {
    const { context, table } = this;
    const [rows, columns] = one.shades.sizes;
    const roomy = table.wide >= ROOMY[0] && table.high >= ROOMY[1];
    const small = Math.min(table.wide, 1.6 * table.high) < 34;
    for (let row = 0; row < rows; row++) {
      for (let column = 0; column < columns; column++) {
        const [share, value] = [one.shades.data[row * columns + column], one.numbers.data[row * columns + column]];
        const box = {
          left: this.x(column) - table.wide / 2,
          top: this.y(row) - table.high / 2,
          width: table.wide,
          height: table.high,
        };
        context.fillStyle = shadeOf(Number.isFinite(share) ? share : 0);
        context.fillRect(box.left, box.top, box.width - 1, box.height - 1);
        const words = written({ text: one.forms[column % one.forms.length], numbers: [value] });
        if (roomy && !(value < Number(one.least ?? -Infinity))) {
          const size = small ? Math.min(one.size ?? 10.5, 9.5) : (one.size ?? 10.5);
          const colour = share >= 0.5 ? "white" : THEME.ink;
          this.write(words, this.x(column), this.y(row) + 0.5, { size: size * POINT, colour, align: "center" });
        }
        if (table.ofExperts && this.focus === column) {
          context.strokeStyle = THEME.ink;
          context.lineWidth = 1.5;
          context.strokeRect(box.left + 0.5, box.top + 0.5, box.width - 2, box.height - 2);
        }
        const name = [table.rows[row], table.columns[column]].filter(Boolean).join(", ");
        this.spots.push({ box, words: `${name}: ${words}`, thing: table.ofExperts ? column : -1 });
      }
    }
  },
  Swarm(one) {
    const style = STYLES[one.style];
    const values = Array.from(/** @type {ArrayLike<number>} */ (one.values.data));
    const order = values.map((_, trial) => trial).sort((a, b) => values[a] - values[b] || a - b);
    const count = values.length;
    const shown =
      count <= MOST_LINES
        ? values.map((_, trial) => trial)
        : Array.from({ length: MOST_LINES }, (_, rank) => order[Math.floor(((rank + 0.5) / MOST_LINES) * count)]);
    const [low] = this.scales.y;
    const center = median(values);
    const reach = one.reach ?? 0.22;
    if (center >= low) {
      const ends = /** @type {[number, number][]} */ (
        [-reach, reach].map((aside) => [this.x(one.place + aside), this.y(center)])
      );
      line(this.context, ends, style.colour, 3 * POINT);
    }
    const apart = Math.min(9, 62 / Math.max(shown.length - 1, 1));
    /** @type {[number, number][]} */
    const taken = [];
    for (const trial of shown.filter((own) => Number.isFinite(values[own])).sort((a, b) => values[a] - values[b])) {
      const y = this.y(Math.max(values[trial], low));
      const near = new Set(taken.filter(([height]) => Math.abs(height - y) < 8).map(([, turn]) => turn));
      let turn = 0;
      for (let step = 0; near.has(turn); step++) turn = step % 2 ? -(step + 1) / 2 : step / 2 + 1;
      taken.push([y, turn]);
      const x = this.x(one.place) + turn * apart;
      const bad = Boolean(one.bad.data[trial]);
      if (bad) this.write("✖", x, y, { colour: THEME.failure, align: "center", size: TEXT });
      else mark(this.context, values[trial] < low ? "down" : style.shape, x, y, 5.2, style.colour, 1);
      const words = `${one.name}, trial ${trial + 1}: ${this.read(values[trial])}`;
      this.spots.push({ box: { left: x - 6, top: y - 6, width: 12, height: 12 }, words, thing: -1 });
    }
  },
  Writing(one) {
    const size = (one.size ?? 10.5) * POINT;
    const y = this.y(one.y) + (one.down ?? 0);
    if (one.each) {
      Array.from(/** @type {ArrayLike<number>} */ (one.each.data)).forEach((firm, thing) => {
        const colour = firm ? INKS[one.style ?? "ink"] : THEME.reference;
        this.write(String(thing + 1), this.x(thing), y, { size, bold: Boolean(firm), colour, align: "center" });
      });
      return;
    }
    const looks = { size, bold: Boolean(one.bold), colour: INKS[one.style ?? "ink"], align: one.align ?? "center" };
    this.write(written(one.words), this.x(one.x) + (one.right ?? 0), y, looks);
  },
};

/** Draws a line across a map that is named, or lies below a row beside it. @param {AxesPen} pen @param {number} at
 * @param {string} words */
function bound(pen, at, words) {
  const { box, context } = pen;
  if (!Number.isFinite(at)) return;
  const y = pen.y(at);
  /** @type {Place[]} */
  const ends = [
    [box.left, y],
    [box.left + box.width + (words ? 4 : 0), y],
  ];
  if (words) line(context, ends, THEME.paper, 5 * POINT);
  line(context, ends, THEME.ink, 2 * POINT, { dash: BOUND });
  if (words) pen.write(words, box.left + box.width + 12, y, { colour: THEME.ink, bold: true, size: TEXT });
}
