/** Tables of estimates that are matched with true parameters (`moe_lab.drawing.match_marks`). */

import { THEME } from "./drawing.js";
import { cosineIn, rowsOfMatches } from "./numbers.js";
import { INKS, POINT, SMALL, TEXT, shadeOf } from "./pen.js";
import { upTo } from "./plain.js";
import { written } from "./written.js";

/** @typedef {import("./pen.js").AxesPen} AxesPen */

/** Pixels of the widest table, of the highest with its row of gates, and of a cell that has room for its number. */
const WIDE_TABLE = 184;
const HIGH_TABLE = 220;
const ROOMY_CELL = 34;
/** Of a cell, between the table and the gates. */
const GATES_GAP = 0.4;
const SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉";
/** Shades in the key, and the width of each. */
const KEY_STEPS = 6;
const KEY_WIDTH = 34;

/** @type {Record<string, (this: AxesPen, one: any) => void>} */
export const OF_MATCHES = {
  MatchTable(one) {
    const { box, context } = this;
    const k = Math.round(one.k);
    const cell = Math.min(WIDE_TABLE / k, HIGH_TABLE / (k + 1 + GATES_GAP));
    this.scales = { x: [-0.5, box.width / cell - 0.5], y: [box.height / cell - 0.5, -0.5] };
    const bottom = box.top + box.height;
    this.write(`true regressors a₁${k === 2 ? ", " : " … "}a${SUBSCRIPTS[k - 1]}`, box.left, box.top - 10);
    const last = k === 2 ? "" : ` … w${SUBSCRIPTS[k - 2]}`;
    this.write(`gates w₁${last} and the true ones`, box.left, this.y(k + 0.5 + GATES_GAP) + 10);
    if (!one.note) return;
    const turned = { turn: -Math.PI / 2, align: /** @type {CanvasTextAlign} */ ("center") };
    this.write("estimates", box.left - 14, box.top + (k * cell) / 2, turned);
    for (const step of upTo(KEY_STEPS)) {
      const share = step / (KEY_STEPS - 1);
      context.fillStyle = shadeOf(share);
      context.fillRect(box.left + step * KEY_WIDTH, bottom + 16, KEY_WIDTH - 1, 17);
      const looks = { colour: share >= 0.5 ? "white" : THEME.ink, align: /** @type {CanvasTextAlign} */ ("center") };
      this.write(String(Number(share.toPrecision(3))), box.left + (step + 0.5) * KEY_WIDTH, bottom + 25, looks);
    }
    this.write(one.note, box.left + KEY_STEPS * KEY_WIDTH + 8, bottom + 25);
    this.write(one.under, box.left, bottom + 51);
  },
  Matches(one) {
    const { context } = this;
    const k = one.cosines.sizes[0];
    const size = this.x(1) - this.x(0);
    const colour = INKS[one.style];
    const [left, top] = this.at(-0.5, -0.5);
    this.write(written(one.head), left, top - 46, { colour, bold: true, size: TEXT });
    this.write(written(one.progress), left, top - 29, { colour, bold: true, size: TEXT });
    /** @param {number} row @param {number} column @param {number} value @param {string} name @param {boolean} framed */
    const shade = (row, column, value, name, framed) => {
      const box = { left: this.x(column - 0.5), top: this.y(row - 0.5), width: size, height: size };
      context.fillStyle = shadeOf(value);
      context.fillRect(box.left, box.top, size - 1, size - 1);
      if (framed) {
        context.strokeStyle = THEME.ink;
        context.lineWidth = 1;
        context.strokeRect(box.left, box.top, size - 1, size - 1);
      }
      const words = cosineIn(value, one.least);
      const looks = { colour: value >= 0.5 ? "white" : THEME.ink, align: /** @type {CanvasTextAlign} */ ("center") };
      if (size >= ROOMY_CELL) this.write(words, this.x(column), this.y(row), { ...looks, size: SMALL });
      this.spots.push({ box, words: `${name}: ${words}`, thing: -1 });
    };
    for (const place of upTo(k * k)) {
      const [row, column] = [Math.floor(place / k), place % k];
      const name = `estimate ${row + 1}, true regressor a${SUBSCRIPTS[column]}`;
      shade(row, column, one.cosines.data[place], name, row === column);
    }
    for (const gate of upTo(k - 1)) {
      shade(k + GATES_GAP, gate, one.gates.data[gate], `gate w${SUBSCRIPTS[gate]} and the true one`, false);
    }
    const looks = { align: /** @type {CanvasTextAlign} */ ("center"), size: SMALL };
    rowsOfMatches(one).forEach(({ sign, own, good }, row) => {
      const [x, y] = this.at(k - 0.5, row);
      const ink = good ? THEME.found : THEME.failure;
      this.write(sign, x + 11, y, { ...looks, colour: ink, bold: true, size: 14 * POINT });
      this.write(own, x + 35, y, looks);
    });
    const gates = Array.from(/** @type {ArrayLike<number>} */ (one.gates.data));
    const worst = gates.some(Boolean) ? `worst ${cosineIn(Math.min(...gates), one.least)}` : "–";
    this.write(worst, this.x(k - 0.5) + 18, this.y(k + GATES_GAP), looks);
  },
};
