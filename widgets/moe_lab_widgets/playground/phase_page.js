/** The map page: a map of trainings that fills while workers train it. */
import { Board, CALM, element, find, fromAddress, openPage, toAddress, toPython } from "./controls.js";
import { PHASE, PhaseMap, judged, phaseCaption, rangeWords, rangesOf, say } from "./phase_map.js";
import { cellAt, drawCovered, drawMap, drawNeeded } from "./phase_picture.js";
import { percent, percentOf } from "./plain.js";
import { PRODUCT } from "./product.js";
import { connected } from "./workers.js";

/** @typedef {import("./phase_picture.js").Spot} Spot */
/** @typedef {{samples: number, trial: number}} Job all l of one N, in one trial */
/** @typedef {{job: Job | null, tell: (message: any) => void}} Member of the crew that trains; `job` is under way */

const SETTLED = 60; // milliseconds until a new map trains: a slider that is dragged asks for many
const CREW = "Worker" in window ? Math.min(8, navigator.hardwareConcurrency || 1) : 1;
/** @type {{[key: string]: [number, number]}} rows and columns */
const MOVES = { ArrowUp: [1, 0], ArrowDown: [-1, 0], ArrowLeft: [0, -1], ArrowRight: [0, 1] };

/** What the page shows: `before` are the shares of the maps before, `answer` is the range of l that was predicted. */
const view = {
  map: new PhaseMap(PHASE.defaults.synthetic),
  before: /** @type {number[][] | null} */ (null),
  jobs: /** @type {Job[]} */ ([]),
  id: 0,
  playing: !CALM,
  story: -1,
  said: /** @type {string[]} */ ([]),
  failed: "",
  answer: /** @type {number[] | null} */ (null),
  focus: /** @type {Spot | null} */ (null),
};

// ---- training ----

/** @type {Member[]} */
const crew = [];
let starting = 0;
let board = /** @type {Board} */ (/** @type {unknown} */ (null));

/** Begins the map that the knobs say. @param {boolean} playing or a prediction is waited for */
function begin(playing) {
  const { map, before } = view;
  const now = new PhaseMap(board.values);
  const comparable = String([map.kept, map.samples]) === String([now.kept, now.samples]);
  const shares = map.cells.map((row, place) =>
    row.map(({ done, share }, column) => (done ? share : before?.[place][column] ?? NaN)));
  Object.assign(view, { map: now, jobs: now.jobs(), id: view.id + 1, answer: null, focus: null, failed: "" });
  view.before = comparable ? shares : null;
  for (const member of crew) {
    if (member.job) member.tell({ type: "stop" });
    member.job = null;
  }
  ask();
  view.playing = playing;
  clearTimeout(starting);
  starting = setTimeout(() => crew.forEach(employ), SETTLED);
  draw();
}

/** Trains on, or stops after the jobs that are under way. @param {boolean} playing */
function play(playing) {
  view.playing = playing;
  crew.forEach(employ);
  draw();
}

/** Gives a member the next job, if it has none. @param {Member} member */
function employ(member) {
  if (!view.playing || member.job) return;
  member.job = view.jobs.shift() ?? null;
  if (!member.job) return;
  const { samples, trial } = member.job;
  const each = view.map.kept.map((kept) => ({ patches_per_expert: kept }));
  const jobs = [{ trial, values: { samples }, each }];
  member.tell({ type: "map", id: view.id, values: view.map.values, passes: PHASE.map.passes, jobs });
}

/** @param {Member} member @param {any} message */
function hear(member, message) {
  if (message.id !== view.id) return;
  if (message.type === "trained") view.map.add({ ...message, kept: message.patches_per_expert });
  if (message.type === "failed") {
    view.playing = false;
    view.failed = say("FAILED", { words: message.words });
  }
  if (message.type === "idle") {
    member.job = null;
    employ(member);
  }
  if (view.map.full) view.playing = false;
  draw();
}

// ---- what the page shows ----

let due = 0;

/** Paints with the next frame. */
function draw() {
  due ||= requestAnimationFrame(() => {
    due = 0;
    paint();
  });
}

/** Paints the page. */
function paint() {
  const { map, playing, answer } = view;
  const running = crew.flatMap(({ job }) => (job ? [job.samples] : []));
  const waiting = !map.ended && !running.length;
  drawMap(find("map"), map, { before: view.before, running, focus: view.focus });
  drawNeeded(find("needed"), map);
  drawCovered(find("covered"), map);
  const words = phaseCaption(map, running.length ? Math.min(...running) : undefined);
  const verdict = answer && map.full ? judged(map, answer) : "";
  find("caption").textContent = words;
  find("progress").textContent = say("PROGRESS", { done: map.ended, total: map.total });
  find("play").textContent = playing ? "Pause" : map.full ? "Replay" : waiting ? "Play" : "Continue";
  find("question").hidden = playing || !waiting;
  const see = map.full ? PHASE.stories[view.story]?.see : "";
  find("see").textContent = [...view.said, verdict, see].filter(Boolean).join(" ");
  const lost = map.lost ? say(map.lost > 1 ? "TROUBLES" : "TROUBLE", { lost: map.lost }) : "";
  find("alarm").textContent = view.failed || lost;
  showSpot();
  if (!playing) tellAloud(`${words} ${verdict}`);
  if (find("numbers").open) fillTable();
}

/** Says what stands now, to those who hear the page. @param {string} words */
function tellAloud(words) {
  const { map } = view;
  if (find("told").textContent !== words) find("told").textContent = words;
  const columns = [map.needed().map((samples) => neededWords(samples)), coverageWords()];
  for (const [place, id] of ["needed", "covered"].entries()) {
    const rows = columns[place].map((own, row) => `${say("AT", { kept: map.kept[row] })}: ${own}`);
    find(id).setAttribute("aria-label", `${PHASE.panels[place + 1].title}. ${rows.join("; ")}.`);
  }
  find("map").setAttribute("aria-label", `${PHASE.panels[0].title}. ${words}`);
}

/** @param {number} samples that an l needs */
function neededWords(samples) {
  if (Number.isNaN(samples)) return "–";
  return Number.isFinite(samples) ? String(samples) : say("MORE_THAN", { most: view.map.samples.at(-1) });
}

/** Coverage of every l. */
function coverageWords() {
  const column = view.map.covered();
  return view.map.cells.map((row) => (column === undefined ? "–" : percent(row[column].coverage)));
}

/** Says the numbers of the cell in focus. */
function showSpot() {
  const { map, focus } = view;
  const cell = focus ? map.cells[focus.row][focus.column] : null;
  const place = focus ? { kept: map.kept[focus.row], samples: map.samples[focus.column] } : {};
  const words = cell ? { ...place, ...cell, coverage: percentOf(cell.coverage) } : {};
  find("spot").textContent = say(cell ? (cell.done ? "CELL" : "CELL_EMPTY") : "TIP", words);
}

/** Fills the table of numbers: l from the top down, as in the picture. */
function fillTable() {
  const { map } = view;
  /** @param {string} words @param {string} scope */
  const head = (words, scope) => element("th", { textContent: words, scope });
  const titles = ["patches kept", ...map.samples.map((samples) => `N = ${samples}`), "needed", "coverage"];
  const first = element("tr");
  first.append(...titles.map((words) => head(words, "col")));
  const [needed, coverage] = [map.needed().map(neededWords), coverageWords()];
  const rows = map.cells.map((cells, place) => {
    const shares = cells.map(({ right, done }) => (done ? `${right}/${done}` : "–"));
    const row = element("tr");
    row.append(head(say("AT", { kept: map.kept[place] }), "row"));
    row.append(...[...shares, needed[place], coverage[place]].map((words) => element("td", { textContent: words })));
    return row;
  });
  find("table").replaceChildren(first, ...rows.reverse());
}

/** Asks for a prediction: each answer starts the map. */
function ask() {
  const buttons = rangesOf(view.map.kept).map((range) => {
    const button = element("button", { type: "button", textContent: rangeWords(range, view.map.kept) });
    button.addEventListener("click", () => {
      view.answer = range;
      play(true);
      find("play").focus({ preventScroll: true });
    });
    return button;
  });
  find("question").replaceChildren(find("asked"), ...buttons);
}

// ---- the page ----

/** Takes the values of a story or an address, or of moved knobs. @param {number} story @param {string[]} said */
function change(story, said, playing = !CALM) {
  Object.assign(view, { story, said });
  find("story").value = String(story);
  const { source, training, patches, distractors, noise, seed } = board.values;
  const others = `n ${patches} · distractors ${distractors} · noise ${noise} · seed ${seed}`;
  find("summary").textContent = `${source} · ${training} · ${others}`;
  find("python").textContent = toPython(PHASE, board.values);
  const address = toAddress(PHASE, board.values);
  if (location.hash !== address) history.replaceState(null, "", address);
  begin(playing);
  const { map } = view;
  const small = map.trials > map.first ? say("SMALL", { first: map.first }) : "";
  const experts = say(training === "joint" ? "JOINT_EXPERTS" : "OWN_EXPERTS", { experts: board.values.experts });
  find("trained").textContent = say("TRAINED", { training, experts, trials: map.trials, small });
}

/** Opens the map that the address names; without one, the first story. */
function openAddress() {
  const { wanted, said } = fromAddress(PHASE, location.hash);
  change(location.hash.length > 1 ? -1 : 0, [...said, ...board.put(wanted)]);
}

/** Reads a cell. @param {Spot | null} focus */
function read(focus) {
  view.focus = focus;
  draw();
}

/** Moves from cell to cell. @param {KeyboardEvent} event */
function walk(event) {
  const move = MOVES[event.key];
  if (!move) return;
  event.preventDefault();
  const { map, focus } = view;
  /** @param {number} place @param {number} count */
  const within = (place, count) => Math.max(0, Math.min(count - 1, place));
  const row = focus ? within(focus.row + move[0], map.kept.length) : 0;
  read({ row, column: focus ? within(focus.column + move[1], map.samples.length) : 0 });
}

/** Fills the page with what does not change, and lets it hear its visitor. */
function open() {
  board = new Board(PHASE, find("knobs"), find("others"), (said) => change(-1, said), (said) => {
    view.said = said;
    draw();
  });
  for (let number = 0; number < CREW; number++) {
    /** @type {Member} */
    const member = { job: null, tell: connected((message) => hear(member, message)) };
    member.tell({ type: "load", text: find("recorded").textContent });
    crew.push(member);
  }
  const texts = { asked: "QUESTION", same: "SAME", border: "BORDER" };
  for (const [id, key] of Object.entries(texts)) find(id).textContent = say(key, {});
  find("from").textContent = PHASE.panels[1].note;
  find("play").addEventListener("click", () => (view.map.full || view.failed ? begin(true) : play(!view.playing)));
  find("reset").addEventListener("click", () => begin(false));
  find("story").addEventListener("change", () => {
    const place = Number(find("story").value);
    if (place >= 0) change(place, board.put(PHASE.stories[place].values), false);
  });
  /** @type {HTMLCanvasElement} */
  const canvas = find("map");
  /** @param {PointerEvent} event */
  const point = ({ offsetX, offsetY }) => read(cellAt(canvas, view.map, offsetX, offsetY));
  canvas.addEventListener("pointermove", point);
  canvas.addEventListener("pointerdown", point);
  for (const kind of ["pointerleave", "blur"]) canvas.addEventListener(kind, () => read(null));
  canvas.addEventListener("keydown", walk);
  addEventListener("hashchange", openAddress);
  openAddress();
}

openPage(PHASE, open, draw, PRODUCT);
