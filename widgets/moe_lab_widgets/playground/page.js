/** The alignment page: it asks the engine for the run that the knobs say, and shows what has come of it. */
import { Board, CALM, element, find, fromAddress, openPage, toAddress, toPython } from "./controls.js";
import { DECLARED } from "./declared.js";
import { tellHeight } from "./inside.js";
import { median } from "./plain.js";
import { bestOf, drawCoverage, drawCurves, drawPatches, drawPlane, keeps, signalOf } from "./picture.js";
import { ALIGNMENT, caption, divergedWords, judgedWords, manyOf, percent, told } from "./words.js";
import { connected } from "./workers.js";

/** @typedef {import("./words.js").Rec} Rec */
/** @typedef {import("./picture.js").Finder} Finder */
/** @typedef {import("./picture.js").Spot} Spot */

/** @type {["mixture", "cnn"]} */
const BOTH = ["mixture", "cnn"];
const TIP = `${matchMedia("(hover: none)").matches ? "Touch" : "Point at"} a patch or an expert to follow it.`;
const ICONS = { play: "M3 1.5v13l11-6.5z", pause: "M3 1.5h3.6v13H3zM9.4 1.5H13v13H9.4z" };

/** What the page shows; `story` is a place in the stories or -1, `answer` what was predicted. */
const view = {
  values: /** @type {import("./controls.js").Values} */ ({}),
  run: /** @type {any} */ (null),
  records: /** @type {Rec[]} */ ([]),
  shown: 0,
  focus: -1,
  held: -1,
  pinned: /** @type {any} */ (null),
  playing: !CALM,
  story: -1,
  answer: "",
  said: /** @type {string[]} */ ([]),
  failed: "",
};

// ---- training ----

const asking = { id: 0, busy: false, again: false };
const finders = new Map(/** @type {[HTMLCanvasElement, Finder][]} */ ([]));
let tell = /** @type {(message: any) => void} */ (() => {});
let board = /** @type {Board} */ (/** @type {unknown} */ (null));

/** Starts the run that the knobs say; while another start is under way, once that is done. */
function begin() {
  asking.again = asking.busy;
  if (asking.busy) return;
  asking.busy = true;
  asking.id += 1;
  view.answer = "";
  view.failed = "";
  const pace = { playing: view.playing, pause: Number(find("speed").value) };
  tell({ type: "start", id: asking.id, values: board.values, ...pace });
}

/** @param {any} message of the engine */
function hear(message) {
  if (message.id !== asking.id) return;
  if (message.type === "started" || message.type === "failed") asking.busy = false;
  if (asking.again && !asking.busy) {
    begin();
  } else if (message.type === "started") {
    Object.assign(view, { run: message, values: board.values, records: [], shown: 0 });
  } else if (message.type === "record") {
    if (isLatest()) view.shown = view.records.length;
    view.records.push(message);
    if (message.ended) view.playing = false;
  } else if (message.type === "failed") {
    view.playing = false;
    view.failed = told("FAILED", { words: message.words });
  }
  draw();
}

/** Whether the latest record is on show, and those that come will be. */
const isLatest = () => view.shown >= view.records.length - 1;

const hasEnded = () => Boolean(view.records[view.records.length - 1]?.ended);

/** @param {boolean} playing */
function play(playing) {
  view.playing = playing;
  view.shown = view.records.length - 1;
  if (playing && (hasEnded() || view.failed)) begin();
  else tell({ type: playing ? "play" : "pause" });
  draw();
}

/** One record further: an earlier one is shown, or the next one is trained. */
function step() {
  view.playing = false;
  if (isLatest()) tell({ type: "step" });
  else tell({ type: "pause" });
  view.shown = Math.min(view.shown + 1, view.records.length - 1);
  draw();
}

/** Takes the values of a story or an address, or of moved knobs. @param {number} story @param {string[]} said */
function change(story, said) {
  if (hasEnded() && !CALM && story < 0) view.playing = true; // what was changed is to be seen
  Object.assign(view, { story, said });
  find("story").value = String(story);
  const { source, patches_per_expert: l, experts: k, patches: n, samples: N, noise, seed } = board.values;
  find("summary").textContent = `${source} · l ${l} · k ${k} · n ${n} · N ${N} · noise ${noise} · seed ${seed}`;
  find("python").textContent = toPython(ALIGNMENT, board.values);
  const address = toAddress(ALIGNMENT, board.values);
  if (location.hash !== address) history.replaceState(null, "", address);
  begin();
  draw();
}

/** Shows a story at step 0, with its question. @param {number} place */
function tellStory(place) {
  if (place < 0) return;
  view.playing = false;
  change(place, board.put(ALIGNMENT.stories[place].values));
}

/** Opens the run that the address names; without one, the first story. */
function openAddress() {
  const { wanted, said } = fromAddress(ALIGNMENT, location.hash);
  change(location.hash.length > 1 ? -1 : 0, [...said, ...board.put(wanted)]);
}

// ---- what the page shows ----

let due = 0;

/** Paints with the next frame. */
function draw() {
  due ||= requestAnimationFrame(() => {
    due = 0;
    find("alarm").textContent = view.failed;
    if (view.records.length) paint();
  });
}

/** Paints the page. */
function paint() {
  const { records, shown, values, run, playing } = view;
  const now = records[shown];
  const last = records[records.length - 1];
  finders.set(find("plane"), drawPlane(find("plane"), view));
  finders.set(find("patches"), drawPatches(find("patches"), view));
  finders.set(find("coverage"), drawCoverage(find("coverage"), view));
  drawCurves(find("curves"), view);
  lookAgain();
  showWork(now, records[1]);
  const words = caption(values, now);
  find("caption").textContent = words;
  find("at").textContent = `${now.step} of ${now.total}`;
  const expected = Math.round(run.total / (records[1]?.step || 1));
  find("scrub").max = String(last.ended ? records.length - 1 : Math.max(records.length - 1, expected));
  find("scrub").value = String(shown);
  find("scrub").setAttribute("aria-valuetext", `step ${now.step} of ${now.total}`);
  find("play").querySelector("path").setAttribute("d", playing ? ICONS.pause : ICONS.play);
  find("play").querySelector("span").textContent = playing ? "Pause" : last.ended ? "Replay" : "Play";
  find("step").disabled = last.ended && isLatest();
  find("pin").disabled = records.length < 2 && !view.pinned;
  find("question").hidden = playing || last.step > 0;
  const verdict = view.answer && last.ended ? judgedWords(view.answer, last) : "";
  const see = last.ended && view.story >= 0 ? ALIGNMENT.stories[view.story].see : "";
  find("see").textContent = [...view.said, verdict, see].filter(Boolean).join(" ");
  find("alarm").textContent = view.failed || divergedWords(values, now);
  showNotes();
  if (!playing) tellAloud(`${words} ${verdict}`);
  if (find("numbers").open) fillTable(now);
}

/** Writes the notes of the panels. */
function showNotes() {
  const { patches_per_expert: kept, trials } = view.values;
  const { MOST_LINES: drawn, SHOWN } = ALIGNMENT.numbers;
  const others = trials - 1;
  const key = others === 0 ? "TRIAL_ONE" : others === 1 ? "TRIALS_TWO" : others > drawn ? "TRIALS_SOME" : "TRIALS";
  const thick = trials > drawn ? "ACCURACY_MANY" : trials > 1 ? "ACCURACY" : "ACCURACY_ONE";
  find("others-note").textContent = told(key, { shown: SHOWN + 1, others, drawn });
  find("framed").textContent = told(kept > 1 ? "FRAMED" : "FRAMED_ONE", { kept });
  find("each").textContent = told(thick, { trials });
  find("cover-note").textContent = told("COVERAGE", { shown: SHOWN + 1 });
}

/** Shows the multiplications so far; the bars end where the more costly model would be after all steps.
 * @param {Rec} now @param {Rec | undefined} first after the start */
function showWork(now, first) {
  const whole = first ? (Math.max(first.work.mixture, first.work.cnn) / first.step) * now.total : 1;
  for (const model of BOTH) {
    find(`work-${model}`).style.width = `${Math.min(100, (100 * now.work[model]) / whole)}%`;
    find(`count-${model}`).textContent = manyOf(now.work[model]);
  }
}

/** Says what stands now, to those who hear the page. @param {string} words */
function tellAloud(words) {
  const now = view.records[view.shown];
  const experts = Array.from(Array(view.values.experts).keys());
  if (find("told").textContent !== words) find("told").textContent = words;
  const reached = [0, 1].map((side) => {
    const found = experts.filter((expert) => keeps(view, side, expert, signalOf(view, side)));
    return `${DECLARED.theme.names[side]} reaches ${found.map((one) => `expert ${one + 1}`).join(", ") || "no expert"}`;
  });
  const accuracies = BOTH.map((model) => `${ALIGNMENT.models[model]} ${percent(median(now[model]))}`);
  const labels = {
    plane: experts.map((expert) => expertWords(expert).split(";")[0]).join("; "),
    patches: `In the examples ${reached.join(", ")}`,
    curves: `Median test accuracy at step ${now.step}: ${accuracies.join(", ")}`,
    coverage: bestOf(now).map((share, side) => `${DECLARED.theme.names[side]} ${percent(share)}`).join(", "),
  };
  for (const [id, label] of Object.entries(labels)) {
    find(id).setAttribute("aria-label", `${find(id).dataset.name}. ${label}.`);
  }
}

/** @param {number} expert @returns {string[]} */
function numbersOf(expert) {
  const { cosines: [own], coverage } = view.records[view.shown];
  const sides = [2 * expert, 2 * expert + 1];
  return [...sides.map((at) => own[at].toFixed(2).replace("-", "−")), ...sides.map((at) => percent(coverage[at]))];
}

/** @param {number} expert */
function expertWords(expert) {
  const [first, second, one, other] = numbersOf(expert);
  const cosines = `Expert ${expert + 1}: cos(w, o₁) = ${first}, cos(w, o₂) = ${second}`;
  return `${cosines}; it receives o₁ in ${one}, o₂ in ${other}.`;
}

/** Writes the numbers; the row of an expert begins with a button that follows it. @param {Rec} now */
function fillTable(now) {
  const table = find("table");
  if (table.rows.length !== view.values.experts) {
    table.replaceChildren(...Array.from({ length: view.values.experts }, (_, expert) => rowOf(expert)));
  }
  for (const [expert, row] of Array.from(table.rows).entries()) {
    row.querySelector("button").setAttribute("aria-pressed", String(view.held === expert));
    for (const [place, words] of numbersOf(expert).entries()) row.cells[place + 1].textContent = words;
  }
  find("pace").textContent = now.took ? `A record of all trials took ${Math.round(now.took)} ms here.` : "";
}

/** @param {number} expert */
function rowOf(expert) {
  const button = element("button", { type: "button", textContent: `expert ${expert + 1}` });
  button.addEventListener("click", () => {
    view.held = view.held === expert ? -1 : expert;
    follow(null);
    draw();
  });
  const header = element("th", { scope: "row" });
  header.append(button);
  const row = element("tr");
  row.append(header, ...Array.from({ length: 4 }, () => element("td")));
  return row;
}

// ---- pointing ----

/** @type {{canvas: HTMLCanvasElement, x: number, y: number} | null} */
let pointer = null;

/** What is under the pointer changes with the picture. */
function lookAgain() {
  if (pointer) follow(finders.get(pointer.canvas)?.(pointer.x, pointer.y) ?? null);
}

/** Follows the expert of a spot in all panels, or the one that was chosen in the table. @param {Spot | null} spot */
function follow(spot) {
  if (view.held >= view.values.experts) view.held = -1;
  const focus = spot ? spot.expert : view.held;
  find("tip").textContent = spot?.patch === undefined ? (focus < 0 ? TIP : expertWords(focus)) : patchWords(spot);
  if (focus === view.focus) return;
  view.focus = focus;
  draw();
}

/** @param {Spot} spot */
function patchWords({ side = 0, patch = 0 }) {
  const { run: { example }, values: { patches, experts } } = view;
  const names = DECLARED.theme.names;
  const at = side * patches + patch;
  const roles = [
    `${names[side]}, the patch that decides the class`,
    `a distractor that imitates ${names[example.sides[at]]}`,
    "a patch that does not matter",
  ];
  const kept = Array.from(Array(experts).keys()).filter((expert) => keeps(view, side, expert, patch));
  const by = `kept by expert${kept.length > 1 ? "s" : ""} ${kept.map((one) => one + 1).join(", ")}`;
  const where = `Patch ${patch + 1} of class ${DECLARED.theme.signs[side]}`;
  return `${where}: ${roles[example.roles[at]]}; ${kept.length ? by : "no expert keeps it"}.`;
}

/** @param {HTMLCanvasElement} canvas */
function listensTo(canvas) {
  /** @param {PointerEvent} event */
  const look = ({ offsetX, offsetY }) => {
    pointer = { canvas, x: offsetX, y: offsetY };
    if (view.records.length) lookAgain();
  };
  canvas.addEventListener("pointermove", look);
  canvas.addEventListener("pointerdown", look);
  canvas.addEventListener("pointerleave", () => {
    pointer = null;
    if (view.records.length) follow(null);
  });
}

// ---- the page ----

/** Keeps the medians on show, dotted, or lets them go. */
function pin() {
  /** @param {"mixture" | "cnn"} model */
  const way = (model) => view.records.map((one) => [one.step, median(one[model])]);
  view.pinned = view.pinned ? null : { mixture: way("mixture"), cnn: way("cnn") };
  find("pin").setAttribute("aria-pressed", String(Boolean(view.pinned)));
  draw();
}

/** Asks which model will be right more often: each answer starts the run. */
function ask() {
  find("asked").textContent = told("QUESTION");
  for (const answer of ["MIXTURE", "CNN", "SAME"]) {
    const button = element("button", { type: "button", textContent: told(`ANSWER_${answer}`) });
    button.addEventListener("click", () => {
      view.answer = answer;
      play(true);
      find("play").focus({ preventScroll: true });
    });
    find("question").append(button);
  }
}

/** Fills the page with what does not change, and lets it hear its visitor. */
function open() {
  board = new Board(ALIGNMENT, find("knobs"), find("others"), (said) => change(-1, said), (said) => {
    view.said = said;
    draw();
  });
  tell = connected(hear);
  find("same").textContent = told("SAME");
  find("work-title").textContent = told("WORK");
  find("work-note").textContent = told("WORK_NOTE");
  find("plane-note").textContent = ALIGNMENT.panels[0].note;
  find("tip").textContent = TIP;
  find("play").addEventListener("click", () => play(!view.playing));
  find("step").addEventListener("click", step);
  find("reset").addEventListener("click", () => {
    view.playing = false;
    begin();
  });
  find("scrub").addEventListener("input", () => {
    view.shown = Math.min(Number(find("scrub").value), view.records.length - 1);
    draw();
  });
  find("speed").addEventListener("change", () => tell({ type: "speed", pause: Number(find("speed").value) }));
  find("story").addEventListener("change", () => tellStory(Number(find("story").value)));
  find("pin").addEventListener("click", pin);
  for (const id of ["plane", "patches", "coverage"]) listensTo(find(id));
  addEventListener("hashchange", openAddress);
  ask();
  tellHeight();
  openAddress();
}

openPage(ALIGNMENT, open, draw);
