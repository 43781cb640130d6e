/** Patches in which a visitor draws, on a pad of as many cells as a patch has pixels. */

import { element } from "./controls.js";
import { upTo } from "./plain.js";

/** What the run makes of the samples: the patches that experts keep, (class, expert, patch), and words.
 * @typedef {{ kept: import("./pen.js").Table, said: any }} Found */

/** The side of a pad, in its own pixels. */
const PAD = 176;
/** Where arrow keys lead. @type {Record<string, [number, number]>} right and down */
export const MOVES = { ArrowUp: [0, -1], ArrowDown: [0, 1], ArrowLeft: [-1, 0], ArrowRight: [1, 0] };

export class Sketchpad {
  /** @param {Record<string, string>} words @param {(ink: Float64Array) => void} changed takes the ink of all patches,
   *   NaN where nothing is drawn */
  constructor(words, changed) {
    this.words = words;
    this.changed = changed;
    /** The ink of patches that are drawn, by class and patch. @type {Map<number, Map<number, Float64Array>>} */
    this.inks = new Map();
    /** @type {HTMLElement | null} */
    this.pad = null;
  }

  /** Forgets all drawings. */
  clear() {
    this.inks.clear();
    this.close();
  }

  close() {
    this.pad?.remove();
    this.pad = null;
  }

  /** Marks with what is drawn, and with what experts keep of it. @param {any[]} marks @param {Found | undefined} found */
  laid(marks, found) {
    return marks.map((one) => {
      const own = one.mark === "Tiles" ? this.inks.get(one.side) : undefined;
      if (!own || !found) return one;
      const [, experts, patches] = found.kept.sizes;
      const kept = {
        sizes: [experts, patches],
        data: Array.from(found.kept.data).slice(one.side * experts * patches, (one.side + 1) * experts * patches),
      };
      const ink = Float64Array.from(one.ink.data);
      for (const [patch, drawn] of own) ink.set(drawn, patch * drawn.length);
      return { ...one, kept, ink: { sizes: one.ink.sizes, data: ink } };
    });
  }

  /** Opens a pad over a panel, on which a patch can be drawn anew.
   * @param {HTMLElement} sheet @param {{ side: number, ink: import("./pen.js").Table }} tiles the mark of its sample
   * @param {number} patch @param {number} classes @param {{ title: string, left: boolean }} looks */
  open(sheet, { side, ink }, patch, classes, { title, left }) {
    this.close();
    const [patches, wide] = ink.sizes;
    const each = wide * wide;
    const first = Float64Array.from(ink.data).slice(patch * each, (patch + 1) * each);
    const cells = Float64Array.from(this.inks.get(side)?.get(patch) ?? first);
    const canvas = element("canvas", { width: PAD, height: PAD, tabIndex: 0 });
    const context = /** @type {CanvasRenderingContext2D} */ (canvas.getContext("2d"));
    const size = PAD / wide;
    const pen = getComputedStyle(document.documentElement).getPropertyValue("--own");
    let at = 0;
    /** What a stroke leaves in its cells. @type {number | null} */
    let stroke = null;

    const paint = () => {
      upTo(each).forEach((cell) => {
        context.fillStyle = `rgb(${upTo(3).map(() => Math.round(255 * (1 - cells[cell])))})`;
        context.fillRect((cell % wide) * size, Math.floor(cell / wide) * size, size - 1, size - 1);
      });
      context.lineWidth = 2;
      context.strokeStyle = pen;
      context.strokeRect((at % wide) * size + 1, Math.floor(at / wide) * size + 1, size - 3, size - 3);
    };
    const tell = () => {
      const own = this.inks.get(side) ?? new Map();
      this.inks.set(side, own.set(patch, cells.slice()));
      const all = new Float64Array(classes * patches * each).fill(NaN);
      for (const [number, some] of this.inks)
        for (const [place, drawn] of some) all.set(drawn, (number * patches + place) * each);
      this.changed(all);
    };
    /** @param {PointerEvent} event */
    const cellUnder = ({ offsetX, offsetY }) => {
      const [x, y] = [offsetX, offsetY].map((one) => Math.max(0, Math.min(wide - 1, Math.floor(one / size))));
      return y * wide + x;
    };
    /** @param {PointerEvent} event */
    const draw = (event) => {
      if (stroke === null) return;
      at = cellUnder(event);
      cells[at] = stroke;
      paint();
    };
    canvas.addEventListener("pointerdown", (event) => {
      canvas.setPointerCapture(event.pointerId);
      stroke = cells[cellUnder(event)] > 0.5 ? 0 : 1;
      draw(event);
    });
    canvas.addEventListener("pointermove", draw);
    canvas.addEventListener("pointerup", () => {
      stroke = null;
      tell();
    });
    canvas.addEventListener("keydown", (event) => {
      const move = MOVES[event.key];
      const [x, y] = [at % wide, Math.floor(at / wide)];
      if (move) {
        const [across, down] = [x + move[0], y + move[1]];
        if (across >= 0 && across < wide && down >= 0 && down < wide) at = down * wide + across;
      } else if (event.key === " ") {
        cells[at] = cells[at] > 0.5 ? 0 : 1;
        tell();
      } else return;
      event.preventDefault();
      paint();
    });
    /** @param {string} words @param {() => void} act */
    const button = (words, act) => {
      const made = element("button", { type: "button", textContent: words });
      made.addEventListener("click", act);
      return made;
    };
    const empty = button("Empty", () => {
      cells.fill(0);
      paint();
      tell();
    });
    const done = button("Done", () => {
      this.close();
      sheet.querySelector("canvas")?.focus();
    });
    canvas.setAttribute("role", "application");
    canvas.setAttribute("aria-label", `${title}. ${this.words.PEN}`);
    this.pad = element("div", { className: left ? "pad" : "pad right" });
    this.pad.setAttribute("role", "group");
    this.pad.setAttribute("aria-label", title);
    this.pad.addEventListener("keydown", (event) => {
      if (event.key === "Escape") done.click();
    });
    const hint = element("p", { className: "note", textContent: this.words.PAD });
    this.pad.append(element("p", { textContent: title }), canvas, hint, empty, done);
    sheet.append(this.pad);
    paint();
    canvas.focus({ preventScroll: true });
  }
}
