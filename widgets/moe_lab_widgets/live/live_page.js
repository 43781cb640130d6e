/** The page of a recorded Lab: asks a session for the run that the knobs say, and shows what has come of it. */

import { PINNED, drawPanel, sketchIn } from "./canvas.js";
import { Carried } from "./carried.js";
import { Board, CALM, element, find, fromAddress, labOf, needed, openPage, toAddress, toPython } from "./controls.js";
import { THEME } from "./drawing.js";
import { unfolded } from "./folding.js";
import { Asker } from "./goals.js";
import { tablesOf } from "./numbers.js";
import { connectedLab } from "./of_page.js";
import { filled } from "./plain.js";
import { PRODUCT } from "./product.js";
import { Question } from "./question.js";
import { MOVES, Sketchpad } from "./sketchpad.js";
import { written } from "./written.js";

/** @typedef {{ step: number, ended: boolean,
 *   pictures: Record<string, { panels: any[][][], sentence: any, drawn?: import("./sketchpad.js").Found,
 *   right?: number, seen?: any, trouble?: any, ends?: any, goals: import("./goals.js").Told[] }>,
 *   diverged: Record<string, number[]> }} Drawn */

const ICONS = { play: "M3 1.5v13l11-6.5z", pause: "M3 1.5h3.6v13H3zM9.4 1.5H13v13H9.4z" };
/** The height of a picture at scale 1, and of what should be seen beside it. */
const HIGH = 418;
const AROUND = 350;
const TIP = "Point at a cell, a curve or a mark to read it; the arrow keys go from one to the next.";
const TIP_CARRY = "Drag a patch to another place; Shift with an arrow key moves it, too.";
const TIP_DRAW = "Click one to draw in it, or press Enter.";

const recorded = unfolded(find("recorded").textContent);
/** @type {import("./controls.js").Lab & { title: string, panels: import("./canvas.js").Panel[], records: number, length: string,
 *   most_named: number, unit: string,
 *   missing: string[], diverged: Record<string, string>, question: import("./question.js").Asked | null,
 *   goals: import("./goals.js").Goal[], stories: { name: string, values: Record<string, any>, see: string }[] }} */
const lab = labOf(JSON.parse(recorded));
/** The values that this file begins with. @type {Record<string, any>} */
const start = JSON.parse(find("start").textContent);
const view = {
  /** @type {Record<string, any>} */
  furniture: {},
  /** @type {Drawn[]} */
  records: [],
  shown: 0,
  total: 0,
  playing: !CALM && !lab.question,
  id: 0,
  story: -1,
  focus: -1,
  failed: "",
  /** @type {string[]} */
  said: [],
  /** @type {any[][][] | null} curves of a pinned run, for each of the axes of each panel */
  pinned: null,
};
/** @type {{ sheet: HTMLElement, canvas: HTMLCanvasElement, note: HTMLElement, spots: import("./pen.js").Spot[], at: [number, number] }[]} */
const figures = [];
/** @type {(message: any) => void} */
let tell = () => {};
/** @type {Board} */
let board;
/** @type {Asker} */
let asker;
/** @type {Question | null} */
let question = null;
let waiting = false;
const carried = new Carried();
const pad = new Sketchpad(lab.words, (drawing) => tell({ type: "look", values: { ...board.values, drawing } }));

const isLatest = () => view.shown === view.records.length - 1;

/** What there is to draw of the record on show; nothing until a run has one. */
const pictureOnShow = () => view.records[view.shown]?.pictures[pictureName()];

/** The name of the picture that the knobs that are only viewed ask for. */
function pictureName() {
  const knob = lab.knobs.find((one) => one.view);
  return knob ? `/${board.values[knob.name]}` : "";
}

/** Begins the run that the knobs say. */
function begin() {
  const { values } = board;
  carried.clear();
  pad.clear();
  view.records = [];
  view.shown = 0;
  view.failed = "";
  view.id += 1;
  tell({
    type: "begin",
    id: view.id,
    values,
    every: Math.max(1, Math.round(values[lab.length] / lab.records)),
    playing: view.playing,
  });
  tellAddress();
}

/** Shows what makes the run: the address, with what differs from the defaults, and a line of Python. */
function tellAddress() {
  history.replaceState(null, "", toAddress(lab, board.values, needed));
  find("python").textContent = toPython(lab, board.values);
}

/** @param {any} message of the session */
function hear(message) {
  if (message.id !== view.id) return;
  if (message.type === "begun") Object.assign(view, { furniture: message.furniture, total: message.total });
  else if (message.type === "furnished") view.furniture = message.furniture;
  else if (message.index !== undefined) view.records[message.index] = message;
  else if (message.type === "failed") {
    view.playing = false;
    view.failed = filled(lab.words.FAILED, { words: message.words });
  } else {
    const follows = isLatest() || !view.records.length;
    view.records.push(message);
    if (follows) view.shown = view.records.length - 1;
    if (message.ended) view.playing = false;
  }
  draw();
}

/** Draws at the next frame of the screen. */
function draw() {
  if (waiting) return;
  waiting = true;
  requestAnimationFrame(() => {
    waiting = false;
    if (view.records.length) paint();
    else find("alarm").textContent = view.failed;
  });
}

/** How much larger than in a notebook the picture is: as large as the window has room for it. */
function scaleOf() {
  const whole = lab.panels.reduce((sum, { width }) => sum + width, 0);
  return Math.max(1, Math.min(find("panels").clientWidth / (whole + 40), (innerHeight - AROUND) / HIGH));
}

/** Shows the record on show. */
function paint() {
  const { records, shown, playing } = view;
  const now = records[shown];
  const last = records[records.length - 1];
  const name = pictureName();
  const picture = now.pictures[name];
  const furniture = view.furniture[name];
  const scale = scaleOf();
  figures.forEach((figure, place) => {
    const { note, axes } = furniture[place];
    figure.note.textContent = written(note);
    const pinned = view.pinned?.[place] ?? [];
    figure.spots = drawPanel(
      figure.canvas,
      lab.panels[place],
      axes,
      picture.panels[place].map((marks) => carried.laid(pad.laid(marks, picture.drawn))),
      pinned,
      view.focus,
      scale,
    );
    const ends = picture.panels[place].flat().filter((one) => one.mark === "Ends");
    const told = ends.flatMap((one) =>
      one.words.map((/** @type {any} */ words) => written(words).replace("\n", " ")),
    );
    figure.canvas.setAttribute("aria-label", [lab.panels[place].title, ...told].join(". "));
  });
  if (find("tip").textContent === TIP) find("tip").textContent = howToRead();
  const sentence = written(picture.sentence);
  const { total: steps } = view;
  find("caption").textContent = sentence;
  find("at").textContent = `${now.step} of ${steps} ${lab.unit}`.trim();
  const expected = Math.ceil(((records.length - 1) * steps) / (last.step || 1));
  find("scrub").max = String(last.ended ? records.length - 1 : Math.max(records.length - 1, expected));
  find("scrub").value = String(shown);
  find("scrub").setAttribute("aria-valuetext", `${lab.unit ? "" : "step "}${find("at").textContent}`);
  find("play")
    .querySelector("path")
    .setAttribute("d", playing ? ICONS.pause : ICONS.play);
  find("play").querySelector("span").textContent = playing ? "Pause" : last.ended ? "Replay" : "Play";
  find("step").disabled = last.ended && isLatest();
  find("pin").disabled = records.length < 2 && !view.pinned;
  question?.look(!asker.goal && !playing && last.step === 0, board.values, (levels, open, marks) => {
    const { panel, axes } = /** @type {import("./question.js").Sketch} */ (lab.question?.sketch);
    const { sheet, canvas } = figures[panel];
    const { view: part, places } = sketchIn(
      canvas,
      lab.panels[panel],
      furniture[panel].axes[axes],
      lab.question?.sketch,
      scale,
    );
    marks.show(sheet, canvas, part, places, levels, open);
  });
  asker.look(last.pictures[name].goals, last.ended, board.values);
  const see = last.ended && view.story >= 0 ? lab.stories[view.story].see : "";
  const { right, seen, ends } = last.pictures[name];
  const verdict = last.ended ? (question?.verdict({ right, seen: written(seen), ends: ends?.data }) ?? "") : "";
  find("see").textContent = [...view.said, written(picture.drawn?.said), carried.said, verdict, see]
    .filter(Boolean)
    .join(" ");
  find("alarm").textContent = view.failed || divergedWords(now) || written(picture.trouble);
  const aloud = [sentence, verdict].filter(Boolean).join(" ");
  if (!playing && find("told").textContent !== aloud) find("told").textContent = aloud;
  if (find("numbers").open) find("tables").replaceChildren(...tablesOf(lab.panels, furniture, picture));
}

/** Which trials have diverged, in the Lab's words. @param {Drawn} now */
function divergedWords(now) {
  return Object.entries(now.diverged)
    .map(([run, which]) => {
      const numbers = which.flatMap((lost, trial) => (lost ? [trial + 1] : []));
      if (!numbers.length) return "";
      const named = `trial${numbers.length > 1 ? "s" : ""} ${numbers.join(", ")}`;
      const trials = numbers.length > lab.most_named ? `${numbers.length} of ${which.length} trials` : named;
      return lab.diverged[run].replace("{trials}", trials);
    })
    .filter(Boolean)
    .join(" ");
}

// ---- what a visitor does ----

/** @param {boolean} playing */
function play(playing) {
  view.playing = playing;
  if (playing && view.records[view.records.length - 1]?.ended) begin();
  else {
    if (playing) view.shown = view.records.length - 1;
    tell({ type: "play", playing });
  }
  draw();
}

/** Starts the run of a prediction. */
function started() {
  play(true);
  find("play").focus({ preventScroll: true });
}

/** Goes back to the settings of a question, at step 0. @param {Record<string, any>} values */
function goBack(values) {
  view.said = board.put({ ...values });
  view.playing = false;
  begin();
}

/** Shows the next record, which may have to be made first. */
function step() {
  view.playing = false;
  tell({ type: "play", playing: false });
  if (isLatest()) tell({ type: "step" });
  else view.shown += 1;
  draw();
}

/** @param {string} entry of the menu: "goals 0", "stories 1"; empty for none */
function choose(entry) {
  const [kind, number] = entry.split(" ");
  asker.choose(kind === "goals" ? Number(number) : -1);
  view.story = kind === "stories" ? Number(number) : -1;
  view.said = board.put({ ...(asker.goal?.values ?? lab.stories[view.story]?.values ?? board.wanted) });
  view.playing = Boolean(asker.goal) || !lab.question;
  question?.reset();
  begin();
}

/** Takes a knob that was moved: another run, or another view of this one. @param {string[]} said @param {string} name */
function moved(said, name) {
  view.said = said;
  question?.moved();
  const knob = lab.knobs.find((one) => one.name === name);
  if (knob?.view || knob?.looks) {
    if (knob.looks) {
      pad.clear();
      tell({ type: "look", values: board.values });
    }
    tellAddress();
    draw();
    return;
  }
  view.story = -1;
  if (!asker.goal) find("menu").value = "";
  view.playing = asker.goal
    ? true
    : lab.question
      ? view.playing || view.records.some((one) => one.step > 0)
      : !CALM || view.playing;
  begin();
}

/** Keeps the curves on show, dotted, or lets them go. */
function pin() {
  const picture = pictureOnShow();
  if (!picture) return;
  view.pinned = view.pinned
    ? null
    : picture.panels.map((axes) => axes.map((marks) => marks.filter(({ mark }) => mark in PINNED)));
  find("pin").setAttribute("aria-pressed", String(Boolean(view.pinned)));
  draw();
}

/** What is said where the pointer is over nothing. */
function howToRead() {
  const carries = figures.some(({ spots }) => spots.some(({ carry }) => carry));
  return [TIP, carries ? TIP_CARRY : "", carries && pictureOnShow()?.drawn?.kept ? TIP_DRAW : ""]
    .filter(Boolean)
    .join(" ");
}

/** Reads what is under the pointer, and follows its expert in all panels.
 * @param {(typeof figures)[0]} figure @param {number} x @param {number} y @returns what may be carried from there */
function look(figure, x, y) {
  const inside = (/** @type {import("./pen.js").Spot} */ { box }) =>
    x >= box.left && x <= box.left + box.width && y >= box.top && y <= box.top + box.height;
  const spot = figure.spots.filter(inside).pop();
  figure.at = [x, y];
  find("tip").textContent = spot?.words ?? howToRead();
  figure.canvas.style.cursor = spot?.carry ? "grab" : "";
  if ((spot?.thing ?? -1) !== view.focus) {
    view.focus = spot?.thing ?? -1;
    draw();
  }
  return spot?.carry;
}

/** Shows that a patch lies elsewhere now, which changes nothing else. @param {number} place */
function laid(place) {
  carried.said = filled(lab.words.CARRIED, { place: place + 1 });
  paint();
}

/** Opens a pad for a patch, where the Lab can be shown other ones.
 * @param {(typeof figures)[0]} figure @param {import("./carried.js").Carry | undefined} carry */
function drawIn(figure, carry) {
  const picture = pictureOnShow();
  const found = picture?.drawn;
  if (!carry || !found?.kept) return;
  const tiles = picture.panels[figures.indexOf(figure)]
    .flat()
    .find(({ mark, side }) => mark === "Tiles" && side === carry.side);
  const patch = carried.orders.get(carry.side)?.[carry.place] ?? carry.place;
  const title = filled(lab.words.DRAW_IN, { sign: THEME.signs[carry.side], place: carry.place + 1 });
  const left = figure.at[0] > figure.canvas.clientWidth / 2;
  pad.open(figure.sheet, tiles, patch, found.kept.sizes[0], { title, left });
}

/** Moves the patch under the pointer by one place, and goes with it.
 * @param {(typeof figures)[0]} figure @param {number} far */
function shift(figure, far) {
  const from = look(figure, ...figure.at);
  const to = (from?.place ?? 0) + far;
  if (!from || to < 0 || to >= from.count) return;
  carried.move(from, to);
  laid(to);
  const there = figure.spots.find(
    ({ thing, carry }) => thing === view.focus && carry?.side === from.side && carry.place === to,
  );
  if (there) look(figure, there.box.left + there.box.width / 2, there.box.top + there.box.height / 2);
}

/** Goes to the nearest thing in a direction, and reads it. @param {(typeof figures)[0]} figure @param {KeyboardEvent} event */
function walk(figure, event) {
  const move = MOVES[event.key];
  if (event.key === "Enter") drawIn(figure, look(figure, ...figure.at));
  if (!move) return;
  event.preventDefault();
  const [x, y] = figure.at;
  if (event.shiftKey && move[0]) return shift(figure, move[0]);
  let [nearest, best] = [/** @type {[number, number] | null} */ (null), Infinity];
  for (const { box } of figure.spots) {
    const [across, down] = [box.left + box.width / 2 - x, box.top + box.height / 2 - y];
    const along = across * move[0] + down * move[1];
    const aside = Math.abs(across * move[1]) + Math.abs(down * move[0]);
    if (along > 1 && along + 3 * aside < best) {
      best = along + 3 * aside;
      nearest = [x + across, y + down];
    }
  }
  if (nearest) look(figure, ...nearest);
}

/** @param {number} place */
function addFigure(place) {
  const { title, width } = lab.panels[place];
  const figure = element("figure");
  const caption = element("figcaption");
  const note = element("p");
  const canvas = element("canvas");
  const sheet = element("div", { className: "sheet" });
  sheet.append(canvas);
  caption.append(element("b", { textContent: String(place + 1) }), element("h2", { textContent: title }), note);
  canvas.setAttribute("role", "img");
  canvas.setAttribute("aria-describedby", "tip");
  canvas.tabIndex = 0;
  figure.style.flex = `${width} 1 ${Math.round(0.8 * width)}px`;
  figure.append(caption, sheet);
  find("panels").append(figure);
  /** @type {(typeof figures)[0]} */
  const own = { sheet, canvas, note, spots: [], at: [0, 0] };
  figures.push(own);
  canvas.addEventListener("pointerdown", ({ offsetX, offsetY, pointerId }) => {
    carried.hold(look(own, offsetX, offsetY) ?? null);
    if (carried.held) canvas.setPointerCapture(pointerId);
  });
  canvas.addEventListener("pointermove", ({ offsetX, offsetY }) => {
    const under = look(own, offsetX, offsetY);
    if (!under || !carried.over(under)) return;
    laid(under.place);
    look(own, offsetX, offsetY);
  });
  canvas.addEventListener("pointerup", () => {
    if (carried.held && !carried.moved) drawIn(own, carried.held);
    carried.hold(null);
  });
  canvas.addEventListener("pointercancel", () => carried.hold(null));
  for (const kind of ["pointerleave", "blur"]) canvas.addEventListener(kind, () => look(own, 0, 0));
  canvas.addEventListener("keydown", (event) => walk(own, event));
}

/** Opens the run that the address asks for. */
function openAddress() {
  const { wanted, said } = fromAddress(lab, location.hash, start);
  view.said = [...said, ...board.put(wanted)];
  view.story = -1;
  asker.choose(-1);
  find("menu").value = "";
  question?.reset();
  begin();
}

/** Fills the page with what does not change, and lets it hear its visitor. */
function open() {
  find("title").textContent = lab.title;
  find("missing").textContent = lab.missing.join(" ");
  find("same").textContent = lab.words.SAME;
  find("tip").textContent = TIP;
  find("unit").textContent = lab.unit ? "" : "step";
  lab.panels.forEach((_, place) => addFigure(place));
  board = new Board(lab, find("knobs"), find("others"), moved, (said) => {
    view.said = said;
    draw();
  });
  asker = new Asker(lab);
  if (lab.goals.length) asker.count();
  else find("menu-name").textContent = "story";
  if (lab.question)
    question = new Question(lab.question, lab.words, find("question"), find("asked"), started, goBack);
  tell = connectedLab(hear);
  find("speed").closest("label").hidden = Boolean(lab.unit);
  tell({ type: "load", text: recorded });
  tell({ type: "speed", pause: Number(find("speed").value) });
  find("play").addEventListener("click", () => play(!view.playing));
  find("step").addEventListener("click", step);
  find("reset").addEventListener("click", () => {
    view.playing = false;
    question?.reset();
    begin();
  });
  find("scrub").addEventListener("input", () => {
    view.shown = Math.min(Number(find("scrub").value), view.records.length - 1);
    draw();
  });
  find("speed").addEventListener("change", () => tell({ type: "speed", pause: Number(find("speed").value) }));
  find("menu").addEventListener("change", () => choose(find("menu").value));
  find("pin").addEventListener("click", pin);
  addEventListener("hashchange", openAddress);
  openAddress();
}

openPage(lab, open, draw, PRODUCT); // where a browser is too old, the page says what it needs
