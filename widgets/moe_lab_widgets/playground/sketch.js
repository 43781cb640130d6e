/** Marks that are dragged on a picture before a run, to where numbers will end: an SVG over the canvas, in the picture's own
 * pixels. Each is a slider for keys and screen readers. Without a handle, once the run goes on, what was drawn stays. */

const SVG_SPACE = "http://www.w3.org/2000/svg";
const PAPER_OF_SKETCH = "#FBFAF7";
const OF_SKETCH = `
.moe-lab-sketch { position: absolute; left: 0; top: 0; pointer-events: none; overflow: hidden; touch-action: none; }
.moe-lab-sketch g { pointer-events: all; cursor: grab; outline: none; touch-action: none; }
.moe-lab-sketch g:active { cursor: grabbing; }
.moe-lab-sketch g circle.halo { fill: transparent; stroke: transparent; stroke-width: 2.5; }
.moe-lab-sketch g:focus-visible circle.halo { stroke: #0072B2; }
.moe-lab-sketch text { font: bold 13px sans-serif; text-anchor: middle; paint-order: stroke; stroke: ${PAPER_OF_SKETCH}; stroke-width: 4px; }
`;
/** How far a key moves a mark along its axis. @type {Record<string, number>} */
const SKETCH_KEYS = {
  ArrowUp: 0.02,
  ArrowRight: 0.02,
  ArrowDown: -0.02,
  ArrowLeft: -0.02,
  PageUp: 0.1,
  PageDown: -0.1,
};

/** A mark: what it stands for, its colour, and its place on the other axis, in the picture's pixels.
 * @typedef {{ name: string, colour: string, across: number }} SketchMark */
/** Where levels are drawn: along `low` to `high`, which lie at `from` and `to`; their line from `left` to `right`.
 * @typedef {{ upright: boolean, low: number, high: number, log: boolean, percent: boolean, from: number, to: number,
 *   left: number, right: number, marks: SketchMark[] }} SketchPlaces */

/** @param {string} kind @param {Record<string, string | number>} attributes @param {Element[]} children @returns {any} */
function inSvg(kind, attributes, ...children) {
  const made = document.createElementNS(SVG_SPACE, kind);
  for (const [name, value] of Object.entries(attributes)) made.setAttribute(name, String(value));
  made.append(...children);
  return made;
}

/** A level as it is written. @param {{ percent: boolean }} looks @param {number} level */
export function levelIn({ percent }, level) {
  if (percent) return `${Math.round(100 * level)} %`;
  return Math.abs(level) >= 20 ? String(Math.round(level)) : String(Number(level.toPrecision(2)));
}

export class SketchMarks {
  /** @param {(levels: (number | null)[]) => void} told takes all levels when one has been moved; null where none was */
  constructor(told) {
    this.told = told;
    /** @type {any} */
    this.root = null;
    /** @type {(number | null)[]} */
    this.levels = [];
    this.shown = "";
  }

  /** Takes the marks away. */
  clear() {
    this.root?.remove();
    this.root = null;
  }

  /** Moves the keyboard to the first mark. */
  focus() {
    this.root?.querySelector("g")?.focus();
  }

  /** Shows the marks over a canvas. A page asks for them at every frame: what is shown already stays.
   * @param {HTMLElement} host which holds it @param {HTMLCanvasElement} canvas
   * @param {number[]} view left, top, width and height of the part of the picture that it shows
   * @param {SketchPlaces} places @param {(number | null)[]} levels @param {boolean} open whether they may be moved */
  show(host, canvas, view, places, levels, open) {
    const wanted = JSON.stringify([view, places, levels, open, canvas.clientWidth, canvas.clientHeight]);
    if (this.root?.parentNode === host && wanted === this.shown) return;
    this.shown = wanted;
    const held = this.root?.contains(document.activeElement)
      ? document.activeElement?.getAttribute("aria-label")
      : null;
    this.clear();
    this.levels = places.marks.map((_, number) => levels[number] ?? null);
    const size = `width: ${canvas.clientWidth}px; height: ${canvas.clientHeight}px`;
    const about = { class: "moe-lab-sketch", viewBox: view.join(" "), style: size, role: "group" };
    const style = inSvg("style", {});
    style.textContent = OF_SKETCH;
    this.root = inSvg("svg", { ...about, "aria-label": "your prediction: marks to move with the arrow keys" }, style);
    const joined = inSvg("polyline", {
      fill: "none",
      stroke: "#595D68",
      "stroke-width": 2,
      "stroke-dasharray": "2 4",
    });
    if (!places.upright) this.root.append(joined);
    const lays = places.marks.map((mark, number) => this.mark(places, mark, number, open, () => lay()));
    const lay = () => {
      const drawn = places.marks.flatMap((mark, number) => {
        const level = this.levels[number];
        return level === null ? [] : [`${along(places, level)},${mark.across}`];
      });
      joined.setAttribute("points", drawn.join(" "));
      for (const one of lays) one();
    };
    lay();
    host.append(this.root);
    if (held)
      for (const one of this.root.querySelectorAll("g")) if (one.getAttribute("aria-label") === held) one.focus();
  }

  /** Adds a mark; returns what puts it where it belongs.
   * @param {SketchPlaces} places @param {SketchMark} mark @param {number} number @param {boolean} open
   * @param {() => void} lay puts all marks where they belong @returns {() => void} */
  mark(places, { name, colour, across }, number, open, lay) {
    const { upright, low, high, left, right } = places;
    const line = inSvg("line", { stroke: colour, "stroke-width": 2, "stroke-dasharray": "2 4" });
    const dot = inSvg("circle", { r: 7, stroke: colour, "stroke-width": 3 });
    const words = inSvg("text", { fill: colour });
    const arrows = inSvg("path", {
      fill: colour,
      d: upright ? "M-4 -10l4 -6l4 6zM-4 10l4 6l4 -6z" : "M-10 -4l-6 4l6 4zM10 -4l6 4l-6 4z",
    });
    const about = { role: "slider", tabindex: 0, "aria-label": `${name}: your prediction` };
    const range = {
      "aria-valuemin": low,
      "aria-valuemax": high,
      "aria-orientation": upright ? "vertical" : "horizontal",
    };
    const handle = inSvg("g", { ...about, ...range }, inSvg("circle", { class: "halo", r: 13 }), arrows, dot, words);
    if (upright) this.root.append(line);
    if (open) this.root.append(handle);
    /** @param {number} share of the axis */
    const move = (share) => {
      this.levels[number] = levelAt(places, Math.min(Math.max(share, 0), 1));
      lay();
    };
    const shareOf = () =>
      (along(places, this.levels[number] ?? levelAt(places, 0.5)) - places.from) / (places.to - places.from);
    const tell = () => this.told([...this.levels]);
    let gripped = false;
    handle.addEventListener("pointerdown", (/** @type {PointerEvent} */ event) => {
      event.preventDefault();
      event.stopPropagation();
      handle.focus();
      handle.setPointerCapture(event.pointerId);
      gripped = true;
    });
    handle.addEventListener("pointermove", (/** @type {PointerEvent} */ event) => {
      if (!gripped) return;
      const at = new DOMPoint(event.clientX, event.clientY).matrixTransform(this.root.getScreenCTM().inverse());
      move(((upright ? at.y : at.x) - places.from) / (places.to - places.from));
    });
    for (const kind of ["pointerup", "pointercancel"]) {
      handle.addEventListener(kind, () => {
        if (gripped) tell();
        gripped = false;
      });
    }
    handle.addEventListener("keydown", (/** @type {KeyboardEvent} */ event) => {
      const far = SKETCH_KEYS[event.key];
      if (!far) return;
      event.preventDefault();
      event.stopPropagation();
      move(shareOf() + far);
      tell();
    });
    return () => {
      const level = this.levels[number];
      const at = along(places, level ?? levelAt(places, 0.5));
      handle.setAttribute("transform", upright ? `translate(${across} ${at})` : `translate(${at} ${across})`);
      for (const [end, place] of Object.entries({ x1: left, y1: at, x2: right, y2: at }))
        line.setAttribute(end, place);
      line.style.display = level === null ? "none" : "";
      dot.setAttribute("fill", level === null ? PAPER_OF_SKETCH : colour); // hollow until it has been moved
      const shown = level === null ? "?" : levelIn(places, level);
      words.textContent = upright ? `${name} ${shown}` : "";
      words.setAttribute("y", number % 2 || at < Math.min(places.from, places.to) + 34 ? 32 : -20); // not over each other
      handle.setAttribute("aria-valuenow", (level ?? levelAt(places, 0.5)).toPrecision(3));
      handle.setAttribute("aria-valuetext", level === null ? "not drawn yet" : shown);
    };
  }
}

/** Where a level lies, in the picture's pixels. @param {SketchPlaces} places @param {number} level */
function along({ low, high, log, from, to }, level) {
  const share = log ? Math.log(level / low) / Math.log(high / low) : (level - low) / (high - low);
  return from + share * (to - from);
}

/** The level at a share of the axis. @param {SketchPlaces} places @param {number} share */
function levelAt({ low, high, log }, share) {
  return log ? low * (high / low) ** share : low + share * (high - low);
}
