// Shows a Film: canvas, caption, time slider, playing again, and what a pointer is over. Needs no kernel.

const STYLE = `
.moe-lab-screen { --paper: #FBFAF7; --ink: #1B1B25; --muted: #595D68; position: relative; color: var(--ink); max-width: 100%; }
.moe-lab-screen canvas { display: block; width: 100%; background: var(--paper); }
.moe-lab-screen .moe-lab-caption { margin: 0; padding: 2px 14px; height: calc(2.6 * var(--moe-lab-words, 15px) + 5px); overflow-y: auto; font: var(--moe-lab-words, 15px)/1.3 sans-serif; background: var(--paper); box-sizing: border-box; }
.moe-lab-screen .moe-lab-time { display: flex; gap: 8px; align-items: center; height: calc(var(--moe-lab-line, 26px) + 4px); font: var(--moe-lab-size, 13px) sans-serif; color: var(--jp-ui-font-color1, var(--ink)); }
.moe-lab-screen .moe-lab-time input { flex: 1 1 120px; min-width: 120px; margin: 0; accent-color: #0B5F5A; }
.moe-lab-screen .moe-lab-time button { min-width: 6.5em; height: var(--moe-lab-line, 26px); font: inherit; color: inherit; border: 1px solid #8a8f99; border-radius: 3px; background: transparent; cursor: pointer; }
.moe-lab-screen .moe-lab-time output { min-width: 6em; text-align: right; }
.moe-lab-screen .moe-lab-tip { position: absolute; z-index: 5; pointer-events: none; padding: 2px 8px; font: 13px/1.4 sans-serif; background: var(--ink); color: white; border-radius: 3px; white-space: pre; }
.moe-lab-screen :focus-visible { outline: 2px solid #0072B2; outline-offset: 1px; }
`;
const REACH = 10; // pixels from a point or a line at which a pointer is over it
const NARROW = 600; // CSS pixels below which panels are stacked; JupyterLab leaves 620 of a window of 800

function make(kind, attributes = {}, ...children) {
  const element = document.createElement(kind);
  for (const [name, value] of Object.entries(attributes)) element.setAttribute(name, value);
  element.append(...children);
  return element;
}

export class Player {
  // stage: { width, height: CSS pixels of the picture, scale: picture's pixels for each, spans: [[left, right], ...] of panels }
  constructor(root, film, stage) {
    this.film = film;
    this.stage = stage;
    this.place = -1; // of the frame on show, in film.order
    this.following = true;
    this.chosen = () => {};
    this.touched = () => {};
    this.views = [];
    this.named = [];
    this.canvas = make("canvas", { role: "img", "aria-label": "" });
    this.caption = make("p", { class: "moe-lab-caption", "aria-live": "polite" });
    this.button = make("button", { type: "button" }, "▶ replay");
    this.slider = make("input", { type: "range", min: 0, max: 0, value: 0, step: 1, "aria-label": "time: the run's records, from the start to now" });
    this.count = make("output", {});
    this.tip = make("div", { class: "moe-lab-tip", hidden: "" });
    this.bar = make("div", { class: "moe-lab-time" }, this.button, this.slider, this.count);
    root.classList.add("moe-lab-screen");
    root.append(make("style", {}, STYLE), this.canvas, this.caption, this.bar, this.tip);
    this.root = root;
    this.slider.addEventListener("pointerdown", () => this.touched());
    this.slider.addEventListener("focus", () => this.touched());
    this.slider.addEventListener("input", () => { this.stop(); this.choose(+this.slider.value); });
    this.slider.addEventListener("keydown", (event) => this.key(event));
    this.button.addEventListener("click", () => (this.timer ? this.stop() : this.play()));
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => { this.tip.hidden = true; });
    this.resized = new ResizeObserver(() => this.lay());
    this.resized.observe(root);
    this.lay();
  }
  lay() {
    // Chooses the size of the canvas, and where each part of the picture goes.
    const { width, height, scale, spans } = this.stage, css = this.root.clientWidth || width;
    const ratio = window.devicePixelRatio || 1, wide = Math.max(Math.round(css * ratio), 1);
    if (css >= NARROW || spans.length < 2) {
      this.views = [{ x: 0, wide: width * scale, high: height * scale, left: 0, top: 0, scale: wide / (width * scale) }];
      this.size(wide, Math.round(wide * height / width));
    } else {
      let top = 0;
      this.views = spans.map(([left, right]) => {
        const view = { x: left * scale, wide: (right - left) * scale, high: height * scale, left: 0, top, scale: wide / ((right - left) * scale) };
        top = Math.round(top + view.high * view.scale);
        return view;
      });
      this.size(wide, top);
    }
    this.repaint();
  }
  size(wide, high) {
    if (this.canvas.width !== wide || this.canvas.height !== high) [this.canvas.width, this.canvas.height] = [wide, high];
  }
  repaint() {
    const frame = this.film.at(this.place);
    if (!frame) return;
    this.named = paint(this.canvas, frame, this.views);
    if (this.caption.textContent !== frame.caption) {
      this.caption.textContent = frame.caption;
      this.canvas.setAttribute("aria-label", frame.caption);
    }
    this.root.dataset.record = this.film.order[this.place];
  }
  update() {
    // The film has other frames: goes to the newest, or stays with the record on show.
    const last = this.film.last, shown = +this.root.dataset.record;
    if (this.following) this.place = last;
    else {
      const found = this.film.order.indexOf(shown);
      this.place = found >= 0 ? found : Math.min(Math.max(this.place, 0), last);
    }
    this.slider.max = Math.max(last, 0);
    this.slider.value = this.place;
    this.tell();
  }
  tell() {
    const words = this.film.last < 0 ? "" : `${this.place + 1} of ${this.film.last + 1}`;
    if (this.count.textContent !== words) this.count.textContent = words;
  }
  choose(place, told = true) {
    // Shows a frame; the last one follows the run.
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
  }
  play() {
    this.touched();
    if (this.film.last < 1) return;
    if (this.place >= this.film.last) this.choose(0, false);
    this.button.textContent = "⏸ stop";
    const rate = Math.min(Math.max(this.film.last / 6, 15), 60);
    let begun = null, from = this.place;
    const step = (now) => {
      begun ??= now;
      const place = from + Math.floor((now - begun) * rate / 1000);
      if (place !== this.place) this.choose(place, false);
      if (this.place >= this.film.last) this.stop(); else this.timer = requestAnimationFrame(step);
    };
    this.timer = requestAnimationFrame(step);
  }
  stop() {
    if (!this.timer) return;
    cancelAnimationFrame(this.timer);
    this.timer = null;
    this.button.textContent = "▶ replay";
    this.chosen(this.following ? null : this.film.order[this.place]);
  }
  point(event) {
    // Says what is under the pointer.
    const box = this.canvas.getBoundingClientRect(), ratio = this.canvas.width / box.width;
    const x = (event.clientX - box.left) * ratio, y = (event.clientY - box.top) * ratio;
    const words = under(this.named, x, y, REACH * ratio);
    this.tip.hidden = !words;
    if (!words) return;
    this.tip.textContent = words;
    const left = event.clientX - box.left, wide = this.tip.offsetWidth;
    this.tip.style.left = `${Math.min(left + 14, box.width - wide)}px`;
    this.tip.style.top = `${event.clientY - box.top + 16}px`;
  }
  close() {
    this.stop();
    this.resized.disconnect();
  }
}

// The words for a place on the canvas: of the nearest named point or line, else of the last box that holds it.
function under(named, x, y, reach) {
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
