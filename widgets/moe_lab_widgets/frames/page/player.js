// Shows a Film: canvas, time slider, playing, caption, full screen, and what a pointer is over. Needs no kernel.

const STYLE = `
.moe-lab-screen { --paper: #FBFAF7; --ink: #1B1B25; --muted: #595D68; color: var(--ink); max-width: 100%; }
.moe-lab-screen .moe-lab-view { position: relative; background: var(--paper); }
.moe-lab-screen canvas { display: block; width: 100%; background: var(--paper); }
.moe-lab-screen .moe-lab-row { position: relative; overflow-x: auto; margin: 0 auto; max-width: max(600px, calc(var(--moe-lab-room, 9999px) * var(--moe-lab-shape))); }
.moe-lab-screen .moe-lab-row canvas { max-width: none; }
.moe-lab-screen .moe-lab-caption { margin: 0; padding: 2px 14px; height: calc(2.6 * var(--moe-lab-words, 15px) + 5px); overflow-y: auto; font: var(--moe-lab-words, 15px)/1.3 sans-serif; background: var(--paper); box-sizing: border-box; }
.moe-lab-screen .moe-lab-time { display: flex; gap: 8px; align-items: center; height: calc(var(--moe-lab-line, 26px) + 4px); font: var(--moe-lab-size, 13px) sans-serif; color: var(--jp-ui-font-color1, var(--ink)); }
.moe-lab-screen .moe-lab-time input { flex: 1 1 120px; min-width: 120px; margin: 0; accent-color: #0B5F5A; }
.moe-lab-screen .moe-lab-time button { min-width: var(--moe-lab-line, 26px); height: var(--moe-lab-line, 26px); padding: 0 6px; font: inherit; color: inherit; border: 1px solid #8a8f99; border-radius: 3px; background: transparent; cursor: pointer; }
.moe-lab-screen .moe-lab-time button.moe-lab-play { min-width: 6em; }
.moe-lab-screen .moe-lab-time [hidden] { display: none; }
.moe-lab-screen .moe-lab-time output { text-align: right; font-variant-numeric: tabular-nums; white-space: nowrap; }
.moe-lab-screen .moe-lab-tip { position: absolute; z-index: 5; pointer-events: none; padding: 2px 8px; font: 13px/1.4 sans-serif; background: var(--ink); color: white; border-radius: 3px; white-space: pre; }
.moe-lab-screen :focus-visible { outline: 2px solid #0072B2; outline-offset: 1px; }
.moe-lab-screen:fullscreen { --moe-lab-words: 20px; --moe-lab-size: 17px; --moe-lab-line: 34px; --moe-lab-room: calc(100vh - 120px); padding: 8px; overflow: auto; box-sizing: border-box; background: var(--paper); }
`;
const REACH = 10; // pixels from a point or a line at which a pointer is over it
const NARROW = 600; // CSS pixels below which panels are stacked; JupyterLab leaves 620 of a window of 800
const SMALLEST = 0.84; // of a stacked picture: its smallest words, 13 px high, are 11 px high
const LARGEST_STACKED = 1.25;
const PLAY = "▶ Play", PAUSE = "⏸ Pause";

function make(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export class Player {
  // stage: { width, height: CSS pixels of the picture, scale: picture's pixels for each, spans: [[left, right], ...] of panels,
  // smallest: the scale below which panels are stacked rather than shrunk; without it they are stacked on narrow pages,
  // rate: frames per second; without it a run plays for about 6 seconds }
  // steered: whether a button elsewhere calls `play` and `stop`, so that there is none here
  constructor(root, film, stage, steered = false) {
    this.film = film;
    this.stage = stage;
    this.place = -1; // of the frame on show, in film.order
    this.following = true;
    this.atStart = false; // the user has asked for the run's first record, which the page may not have yet
    this.chosen = () => {};
    this.touched = () => {};
    this.laid = () => {};
    this.failed = null; // told of a frame that cannot be painted; without it repaint throws
    this.canvas = make("canvas", { role: "img", "aria-label": "" });
    this.rows = [{ canvas: this.canvas, view: null, named: [] }];
    this.caption = make("p", { class: "moe-lab-caption", "aria-live": "polite" });
    this.button = make("button", { type: "button", class: "moe-lab-play", title: "Play the run from here; at its end, from the start" }, PLAY);
    this.button.hidden = steered;
    this.slider = make("input", { type: "range", min: 0, max: 0, value: 0, step: 1, "aria-label": "time: the run's records, from the start to now", title: "An earlier moment of the run: drag, or press the arrow keys" });
    this.count = make("output", { title: "How far the run was at the moment on show" });
    this.large = make("button", { type: "button", title: "Full screen; Esc leaves it", "aria-label": "Full screen" });
    this.large.innerHTML = '<svg viewBox="0 0 14 14" width="14" height="14" aria-hidden="true"><path d="M1 5V1h4M9 1h4v4M13 9v4H9M5 13H1V9" fill="none" stroke="currentColor" stroke-width="2"/></svg>'; // few fonts have a sign
    this.large.hidden = !document.fullscreenEnabled;
    this.tip = make("div", { class: "moe-lab-tip", hidden: "" });
    this.bar = make("div", { class: "moe-lab-time" }, this.button, this.slider, this.count, this.large);
    this.view = make("div", { class: "moe-lab-view" }, make("div", { class: "moe-lab-row" }, this.canvas), this.tip);
    root.classList.add("moe-lab-screen");
    root.append(make("style", {}, STYLE), this.view, this.bar, this.caption);
    this.root = root;
    this.slider.addEventListener("pointerdown", () => this.touched());
    this.slider.addEventListener("focus", () => this.touched());
    this.slider.addEventListener("input", () => {
      this.stop();
      this.choose(+this.slider.value);
      this.atStart = this.place === 0;
    });
    this.slider.addEventListener("keydown", (event) => this.key(event));
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    this.large.addEventListener("click", () => {
      if (document.fullscreenElement) document.exitFullscreen(); else (root.closest(".moe-lab") ?? root).requestFullscreen();
    });
    this.watch(this.rows[0]);
    this.resized = new ResizeObserver(() => this.lay());
    this.resized.observe(this.view);
    this.lay();
  }
  lay() {
    // Chooses the rows of panels, each a canvas, and their sizes.
    const { width, height, scale, spans, smallest } = this.stage;
    this.root.style.setProperty("--moe-lab-shape", width / height);
    const css = this.canvas.parentElement.clientWidth || width;
    this.magnified = css / width;
    const least = smallest ?? (css < NARROW ? SMALLEST : 0), ratio = window.devicePixelRatio || 1;
    const rows = width * least <= css || spans.length < 2 ? [[0, width]] : stacked(spans, css / least);
    const fitting = rows.map(([left, right]) => css / (right - left)).filter((one) => one >= least);
    const common = rows.length > 1 ? Math.min(...fitting, LARGEST_STACKED) : css / width;
    while (this.rows.length > rows.length) this.rows.pop().canvas.parentElement.remove();
    rows.forEach(([left, right], i) => {
      const shown = Math.max((right - left) * (css / (right - left) < least ? least : common), 1); // CSS pixels
      const wide = Math.max(Math.round(shown * ratio), 1), k = wide / ((right - left) * scale);
      const row = this.rows[i] ?? this.add();
      row.view = { x: left * scale, wide: (right - left) * scale, high: height * scale, left: 0, top: 0, scale: k };
      size(row.canvas, wide, Math.round(height * scale * k));
      row.canvas.style.width = rows.length > 1 ? `${shown}px` : "";
    });
    this.root.classList.toggle("moe-lab-stacked", rows.length > 1);
    this.repaint();
    this.offerKeys();
    this.laid();
  }
  add() {
    // Another row; one that is wider than the page scrolls sideways.
    const row = { canvas: make("canvas", { "aria-hidden": "true" }), view: null, named: [] };
    this.tip.before(make("div", { class: "moe-lab-row" }, row.canvas));
    this.watch(row);
    this.rows.push(row);
    return row;
  }
  watch(row) {
    row.canvas.addEventListener("pointermove", (event) => this.point(event, row));
    row.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
  }
  show(film, stage, place) {
    // Shows another film.
    this.stop();
    [this.film, this.stage] = [film, stage];
    this.following = place === film.last;
    this.place = place;
    this.slider.max = Math.max(film.last, 0);
    this.lay();
    this.choose(place, false);
  }
  repaint() {
    const frame = this.film.at(this.place);
    if (!frame) return;
    try {
      for (const row of this.rows) row.named = paint(row.canvas, frame, [row.view]);
    } catch (error) {
      if (!this.failed) throw error;
      this.stop();
      this.failed(error);
      return;
    }
    if (this.caption.textContent !== frame.caption) {
      this.caption.textContent = frame.caption;
      this.canvas.setAttribute("aria-label", frame.caption);
      this.offerKeys();
    }
    this.root.dataset.record = this.film.order[this.place];
  }
  offerKeys() {
    // A caption that is longer than its place scrolls, with the keyboard, too.
    if (this.caption.scrollHeight > this.caption.clientHeight + 1) this.caption.tabIndex = 0; else this.caption.removeAttribute("tabindex");
  }
  update() {
    // The film has other frames: goes to the newest, or stays with the record on show.
    const last = this.film.last, shown = +this.root.dataset.record;
    if (this.atStart && this.film.order[0] < shown) { this.choose(0); this.atStart = true; }
    else if (this.following) this.place = last;
    else {
      const found = this.film.order.indexOf(shown);
      this.place = found >= 0 ? found : Math.min(Math.max(this.place, 0), last);
    }
    this.slider.max = Math.max(last, 0);
    this.slider.value = this.place;
    this.tell();
  }
  tell() {
    const words = this.film.at(this.place)?.progress ?? "";
    if (this.count.textContent === words) return;
    this.count.textContent = words;
    this.count.style.minWidth = `${Math.max(parseInt(this.count.style.minWidth) || 0, words.length)}ch`; // the slider keeps its length
    this.slider.setAttribute("aria-valuetext", words);
  }
  choose(place, told = true) {
    // Shows a frame; the last one follows the run.
    if (told) this.atStart = false;
    this.place = Math.min(Math.max(place, 0), this.film.last);
    this.following = this.place === this.film.last;
    this.slider.value = this.place;
    this.tell();
    this.repaint();
    if (told) this.chosen(this.following ? null : this.film.order[this.place]);
  }
  key(event) {
    // Moves by records; a notebook around would take the keys for itself.
    const far = Math.max(Math.round(this.film.last / 10), 1);
    const moves = { ArrowLeft: -1, ArrowDown: -1, ArrowRight: 1, ArrowUp: 1, PageDown: -far, PageUp: far, Home: -Infinity, End: Infinity };
    if (!(event.key in moves)) return;
    event.preventDefault();
    event.stopPropagation();
    this.stop();
    this.choose(this.place + moves[event.key]);
    this.atStart = event.key === "Home";
  }
  play() {
    this.touched();
    if (this.film.last < 1) { this.chosen(null); return; }
    if (this.place >= this.film.last) this.choose(0, false);
    this.button.textContent = PAUSE;
    const rate = this.stage.rate ?? Math.min(Math.max(this.film.last / 6, 15), 60); // frames per second
    let begun = null;
    const from = this.place;
    const step = (now) => {
      begun ??= now;
      const place = from + Math.floor((now - begun) * rate / 1000);
      if (place !== this.place) this.choose(place, false);
      if (!this.timer) return; // the frame could not be painted
      if (this.place >= this.film.last) this.stop(); else this.timer = requestAnimationFrame(step);
    };
    this.timer = requestAnimationFrame(step);
  }
  stop() {
    if (!this.timer) return;
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.button.textContent = PLAY;
    this.chosen(this.following ? null : this.film.order[this.place]);
  }
  point(event, row) {
    // Says what is under the pointer.
    const box = row.canvas.getBoundingClientRect(), around = this.view.getBoundingClientRect(), ratio = row.canvas.width / box.width;
    const words = under(row.named, (event.clientX - box.left) * ratio, (event.clientY - box.top) * ratio, REACH * ratio);
    this.tip.hidden = !words;
    if (!words) return;
    this.tip.textContent = words;
    const wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.max(Math.min(event.clientX - around.left + 14, around.width - wide), 0)}px`;
    this.tip.style.top = `${event.clientY - around.top + 16}px`;
  }
  mark(marks, places, levels, open) {
    // Shows SketchMarks over the row of panels that holds them.
    const { scale } = this.stage, middle = (places.left + places.right) / 2;
    const row = this.rows.find(({ view }) => middle * scale >= view.x && middle * scale < view.x + view.wide) ?? this.rows[0];
    const { x, wide, high } = row.view;
    marks.show(row.canvas.parentElement, row.canvas, [x, 0, wide, high].map((one) => one / scale), places, levels, open);
  }
  close() {
    this.stop();
    this.resized.disconnect();
  }
}

// Panels put into rows that are at most so many pixels wide, unless one panel is wider.
function stacked(spans, widest) {
  const rows = [];
  for (const [left, right] of spans) {
    const row = rows[rows.length - 1];
    if (row && right - row[0] <= widest) row[1] = right; else rows.push([left, right]);
  }
  return rows;
}

function size(canvas, wide, high) {
  if (canvas.width !== wide || canvas.height !== high) [canvas.width, canvas.height] = [wide, high];
}

// The words for a place on the canvas: of the nearest named point or line, else of the last box that holds it.
export function under(named, x, y, reach) {
  let best = null, words = "";
  for (const one of named) {
    const { view } = one, toX = (v) => (v - view.x) * view.scale + view.left, toY = (v) => v * view.scale + view.top;
    if (one.box) {
      const [left, top, wide, high] = one.box, u = (x - toX(left)) / (wide * view.scale), v = (y - toY(top)) / (high * view.scale);
      if (best === null && u >= 0 && u < 1 && v >= 0 && v < 1) words = sayBox(one, u, v) || words;
      continue;
    }
    const near = nearest(one, x, y, toX, toY);
    if (near.distance <= (best ?? reach)) {
      best = near.distance;
      words = sayPoint(one.name, near.x, near.y);
    }
  }
  return words;
}

function nearest({ points, unit, line }, x, y, toX, toY) {
  let best = { distance: Infinity, x: 0, y: 0 };
  for (let i = 0; i < points.length; i += 2) {
    let px = points[i] * unit, py = points[i + 1] * unit;
    if (line && i + 2 < points.length) {
      const [ax, ay, bx, by] = [toX(px), toY(py), toX(points[i + 2] * unit), toY(points[i + 3] * unit)];
      const length = (bx - ax) ** 2 + (by - ay) ** 2;
      const t = length ? Math.min(Math.max(((x - ax) * (bx - ax) + (y - ay) * (by - ay)) / length, 0), 1) : 0;
      px += t * (points[i + 2] * unit - px);
      py += t * (points[i + 3] * unit - py);
    }
    const distance = Math.hypot(toX(px) - x, toY(py) - y);
    if (distance < best.distance) best = { distance, x: px, y: py };
  }
  return best;
}

// A name: { name, x: [words, low, high, left, right, log, percent], y: the same with bottom and top } in the picture's pixels.
function sayPoint(name, x, y) {
  const parts = [name.name];
  for (const [axis, at] of [[name.x, x], [name.y, y]]) if (axis) parts.push(`${axis[0]} ${value(axis, at)}`);
  return parts.join("\n");
}

function value([, low, high, from, to, log, percent], at) {
  const t = Math.min(Math.max((at - from) / (to - from), 0), 1);
  const found = log ? low * (high / low) ** t : low + t * (high - low);
  if (percent) return `${(100 * found).toFixed(0)} %`;
  const size = Math.abs(high - low);
  return log ? found.toPrecision(2) : size >= 20 ? found.toFixed(0) : found.toFixed(size >= 2 ? 1 : 2);
}

// A name: { name, rows, columns } of a table's words; or { name, parts } of boxes in their order.
function sayBox({ name, part }, u, v) {
  if (name.parts) return name.parts[part] ?? "";
  if (!name.rows) return name.name;
  const row = name.rows[Math.floor(v * name.rows.length)], column = name.columns[Math.floor(u * name.columns.length)];
  return [name.name, `${row}, ${column}`].filter(Boolean).join("\n");
}
