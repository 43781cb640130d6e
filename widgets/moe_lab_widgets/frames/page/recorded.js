// Shows recorded runs without a kernel: a list of them, sliders that snap to what was recorded, settings and code.
//
// A part of a page (see ../document.py) holds a catalogue:
//   { lab, runs: [{ name, see, file | run, values }, ...],
//     grid: { name, see, knobs: [{ label, words: [...] }], start: [...], names, axes: [[...], ...], values, files: { "0,1": file } } | null }
// An address such as #lab=NAME&noise=1.0 (see engine/linking.py) opens the run whose values are nearest.
// A run is what Recording.plain() returns; one in a file of its own arrives by a call of moeLabRecorded. Its question is
//   { asks, answers: [{ words, verdict }, ...], without: what runs it without an answer }

const arrived = new Map(), loading = new Map();

window.moeLabRecorded = (file, run) => arrived.set(file, run);

function load(file) {
  // By a script, because a page opened from a disk may not fetch.
  if (!loading.has(file)) {
    const loaded = new Promise((found, failed) => {
      const script = make("script", { src: file });
      const ended = () => (arrived.has(file) ? found(arrived.get(file)) : failed(new Error("its file is missing or broken")));
      script.addEventListener("load", ended);
      script.addEventListener("error", ended);
      document.head.append(script);
    });
    loaded.catch(() => loading.delete(file)); // the next choice tries again
    loading.set(file, loaded);
  }
  return loading.get(file);
}

export async function developed(run) {
  // Returns a recording's Film. Throws where it is damaged: gzip has a checksum.
  const packed = Uint8Array.from(atob(run.frames), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const film = new Film();
  film.feed(new Uint8Array(await new Response(stream).arrayBuffer()));
  if (!film.order.length || film.order.length !== run.captions.length) throw new RangeError(`${film.order.length} frames for ${run.captions.length} captions`);
  film.order.forEach((record, place) => Object.assign(film.at(place), { caption: run.captions[place], progress: run.progress[place] }));
  return film;
}

function apart(wanted, found, spans) {
  // How far two settings are apart: numbers by the span of all that were recorded, words by being others.
  let sum = 0;
  for (const [name, value] of Object.entries(found)) {
    const asked = wanted.get(name);
    if (asked === null) continue;
    if (typeof value === "number" && Number.isFinite(+asked)) sum += Math.min(1, Math.abs(+asked - value) / (spans[name] || Math.abs(value) || 1));
    else sum += asked.toLowerCase() === String(value).toLowerCase() ? 0 : 1;
  }
  return sum;
}

class Recorded {
  constructor(root) {
    const find = (name) => root.querySelector(`.moe-lab-${name}`);
    this.catalogue = JSON.parse(find("catalogue").textContent);
    this.root = root;
    this.player = null; // until the first run is chosen
    this.asked = 0;
    [this.choice, this.sliders, this.shown, this.status, this.values, this.code] = ["choice", "sliders", "show", "status", "values", "code"].map(find);
    root.dataset.alive = "true";
    this.code.open = false;
    this.values.open = Boolean(this.catalogue.runs[0].run);
    this.code.querySelector("button").addEventListener("click", () => this.copy());
    this.offer();
    if (this.linked && this.catalogue.runs[0].run) return; // the address asks for another
    if (this.catalogue.runs[0].run) this.open(this.catalogue.runs[0]); // it is here already
    else {
      const start = make("button", { type: "button", class: "moe-lab-start" }, "▶ Play the recorded run");
      start.addEventListener("click", () => { start.disabled = true; this.open(this.chosen(), "play"); });
      this.shown.before(start);
      this.start = start;
    }
  }
  offer() {
    // Makes the list of runs, and the sliders.
    const { runs, grid } = this.catalogue;
    if (runs.length < 2 && !grid) return;
    this.list = make("select", {}, ...runs.map((run, i) => make("option", { value: i }, run.name)));
    if (grid) this.list.append(make("option", { value: "grid" }, grid.name));
    this.see = make("p", {});
    this.choice.append(make("label", {}, "Run: ", this.list), this.see);
    this.list.addEventListener("change", () => {
      this.tell();
      this.open(this.chosen(), window.matchMedia("(prefers-reduced-motion: reduce)").matches ? "end" : "play");
    });
    this.knobs = (grid ? grid.knobs : []).map((knob, i) => {
      const words = make("output", {});
      const slider = make("input", { type: "range", min: 0, max: knob.words.length - 1, step: 1, value: grid.start[i], "aria-label": knob.label });
      slider.addEventListener("input", () => { this.linked = ""; this.tell(); this.open(this.chosen(), "same"); });
      const row = make("div", {}, make("span", {}, knob.label), words, slider);
      row.hidden = knob.words.length < 2; // recorded at one value
      this.sliders.append(row);
      return { slider, words, knob };
    });
    this.tell();
    this.list.addEventListener("input", () => { this.linked = ""; });
    window.addEventListener("hashchange", () => this.follow());
    this.follow();
  }
  candidates() {
    // Every run that can be chosen: its place in the list, those of the sliders, and its values.
    const { runs, grid } = this.catalogue;
    const cells = Object.keys(grid?.files ?? {}).map((key) => {
      const places = key.split(",").map(Number);
      return { choice: "grid", places, values: { ...grid.values, ...Object.fromEntries(grid.names.map((name, i) => [name, grid.axes[i][places[i]]])) } };
    });
    return [...runs.map(({ values }, i) => ({ choice: String(i), values })).filter(({ values }) => values), ...cells];
  }
  follow() {
    // Opens the run that the address asks for, or the nearest.
    const wanted = new URLSearchParams(window.location.hash.slice(1)), all = this.candidates();
    if (!this.catalogue.lab || wanted.get("lab") !== this.catalogue.lab || !all.length) return;
    const spans = {};
    for (const name of Object.keys(all[0].values)) {
      const numbers = all.map(({ values }) => values[name]).filter((value) => typeof value === "number");
      if (numbers.length) spans[name] = Math.max(...numbers) - Math.min(...numbers);
    }
    const gaps = all.map(({ values }) => apart(wanted, values, spans)), least = Math.min(...gaps);
    const { choice, places } = all[gaps.indexOf(least)];
    this.list.value = choice;
    places?.forEach((place, i) => { this.knobs[i].slider.value = place; });
    this.linked = least ? "This is the recorded run nearest to the link. " : "This is the run of the link. ";
    this.tell();
    this.open(this.chosen());
    const folded = this.root.closest("details");
    if (folded) folded.open = true;
    this.root.scrollIntoView();
  }
  tell() {
    // Says what to see in the chosen run, and what the sliders stand at.
    const { runs, grid } = this.catalogue, sliding = this.list.value === "grid";
    this.see.textContent = (this.linked ?? "") + ((sliding ? grid.see : runs[+this.list.value].see) || "");
    this.sliders.hidden = !sliding;
    for (const { slider, words, knob } of this.knobs) {
      words.textContent = knob.words[+slider.value];
      slider.setAttribute("aria-valuetext", knob.words[+slider.value]);
    }
  }
  chosen() {
    const { runs, grid } = this.catalogue;
    if (!this.list) return runs[0];
    return this.list.value === "grid" ? { file: grid.files[this.knobs.map(({ slider }) => slider.value).join()] } : runs[+this.list.value];
  }
  async open(entry, then = "end") {
    // Shows a run: plays it, or shows its end, or the place of the last one. The latest call wins.
    const mine = ++this.asked;
    this.player?.stop();
    this.say(entry.run ? "" : "Loading …");
    try {
      const run = entry.run ?? await load(entry.file), film = await developed(run);
      if (mine !== this.asked) return;
      this.put(run, film, then);
      this.say("");
    } catch (error) {
      if (mine === this.asked) this.refuse(error);
    }
  }
  put(run, film, then) {
    const stage = { smallest: SMALLEST, ...run.stage };
    const before = this.player, part = before && !before.following ? before.place / Math.max(before.film.last, 1) : 1;
    if (!before) {
      const place = make("div");
      this.player = new Player(place, film, stage);
      this.player.failed = (error) => this.refuse(error);
      this.shown.replaceChildren(place);
      this.start?.remove();
    }
    this.player.show(film, stage, then === "same" ? Math.round(part * film.last) : film.last);
    this.values.querySelector("dl").replaceChildren(...run.values.map(([label, value]) => make("div", {}, make("dt", {}, label), make("dd", {}, value))));
    this.code.querySelector("code").textContent = run.code;
    this.code.querySelector("span").textContent = "";
    if (then === "play") { this.player.choose(0, false); this.player.play(); }
    if (run.question && !before) this.ask(run.question);
  }
  ask({ asks, answers, without }) {
    // Opens the run at its start with a question; an answer plays it, and the end says what the answer was worth.
    const said = make("p", { role: "status" }, asks), box = make("div", { class: "moe-lab-choice moe-lab-question" }, said);
    const { player } = this;
    const begin = ({ words, verdict }) => {
      box.replaceChildren(said);
      said.textContent = verdict ? `${asks} ${words}` : "";
      player.chosen = (record) => { if (record === null) said.textContent = verdict; };
      player.choose(0, false);
      if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) player.choose(player.film.last); else player.play();
    };
    for (const answer of [...answers, { words: without, verdict: "" }]) {
      const button = make("button", { type: "button" }, answer.words);
      button.addEventListener("click", () => begin(answer));
      box.append(button);
    }
    this.shown.before(box);
    player.choose(0, false);
  }
  say(words, trouble = false) {
    this.status.textContent = words;
    this.status.classList.toggle("moe-lab-trouble", trouble);
  }
  refuse(error) {
    // The picture stays; another run can be chosen.
    if (this.start) this.start.disabled = false;
    const able = "DecompressionStream" in window;
    this.say(able ? `This run cannot be shown (${error.message || error.name}).` : "This browser is too old to play recorded runs; the picture is their end.", true);
  }
  copy() {
    const said = this.code.querySelector("span"), code = this.code.querySelector("code");
    const select = () => {
      const range = document.createRange(), selection = window.getSelection();
      range.selectNodeContents(code);
      selection.removeAllRanges();
      selection.addRange(range);
      said.textContent = document.execCommand("copy") ? "copied" : "press Ctrl+C to copy";
    };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => { said.textContent = "copied"; }, select);
    else select();
  }
}

for (const root of document.querySelectorAll(".moe-lab-recorded:not([data-alive])")) new Recorded(root);
