/** Fills a map with a crew of workers. It takes the messages of a session that trains a run, and gives its answers. */

import { connected } from "./workers.js";

/** Milliseconds until a new map trains, as a slider that is dragged asks for many; and from one picture to the next. */
const SETTLED = 60;
const PICTURES = 80;
const CREW = "Worker" in globalThis ? Math.min(8, navigator.hardwareConcurrency || 1) : 1;

/** All rows of a column of one map, in one trial. @typedef {{ map: number, column: number, trial: number }} Job */
/** @typedef {{ job: Job | null, tell: (message: any) => void }} Member of the crew; `job` is under way */

/** Returns a function that sends messages to a crew.
 * @param {(message: any) => void} handle its answers @returns {(message: any) => void} */
export function crewed(handle) {
  const crew = new MapCrew(handle);
  return (message) => crew.receive(message);
}

class MapCrew {
  /** @param {(message: any) => void} handle */
  constructor(handle) {
    this.handle = handle;
    this.id = 0;
    this.playing = false;
    /** @type {Record<string, any>} */
    this.values = {};
    /** @type {import("./map_session.js").Fills | null} */
    this.fills = null;
    /** @type {Job[]} */
    this.jobs = [];
    /** What is known of every cell and trial, by measure. @type {Record<string, Float64Array>} */
    this.measures = {};
    /** The shares of the last picture, over those of the map before it, and of which columns they are. */
    this.shown = { columns: "", shares: new Float64Array(0) };
    this.ended = 0;
    this.total = 0;
    this.trials = 0;
    this.starting = 0;
    this.drawing = false;
    this.due = false;
    /** @type {Member[]} */
    this.members = Array.from({ length: CREW }, () => {
      /** @type {Member} */
      const member = { job: null, tell: connected((message) => this.hear(member, message)) };
      return member;
    });
  }

  /** @param {any} message of the page */
  receive(message) {
    if (message.type === "load") for (const member of this.members) member.tell(message);
    else if (message.type === "begin") this.begin(message);
    else if (message.type === "play") this.play(message.playing);
    else if (message.type === "step") this.employ(this.members[0], true);
  }

  /** @param {{ id: number, values: Record<string, any>, playing: boolean }} message */
  begin({ id, values, playing }) {
    Object.assign(this, { id, values, playing, fills: null, jobs: [], drawing: false, due: false });
    clearTimeout(this.starting);
    for (const member of this.members) {
      if (member.job) member.tell({ type: "stop" });
      member.job = null;
    }
    this.members[0].tell({ type: "begin", id, values });
  }

  /** Trains on, or stops after the jobs that are under way. @param {boolean} playing */
  play(playing) {
    this.playing = playing;
    for (const member of this.members) this.employ(member);
  }

  /** Gives a member the next job, if it has none. @param {Member} member @param {boolean} anyway */
  employ(member, anyway = false) {
    const { id, values, fills } = this;
    if (!fills || member.job || !(this.playing || anyway)) return;
    member.job = this.jobs.shift() ?? null;
    if (!member.job) return;
    this.mark();
    member.tell({ type: "train", id, values, fills, ...member.job });
  }

  /** @param {Member} member @param {any} message */
  hear(member, message) {
    if (message.id !== this.id) return;
    if (message.type === "begun") this.begun(message);
    else if (message.type === "trained") this.keep(message);
    else if (message.type === "record") this.pictured(message);
    else if (message.type === "idle") {
      member.job = null;
      this.employ(member);
      this.mark();
    } else if (message.type === "failed") {
      this.playing = false;
      this.handle(message);
    }
  }

  /** Takes what there is to be filled. @param {any} message */
  begun({ id, furniture, fills, trials }) {
    const cells = mapsOf(fills) * fills.rows * fills.columns.length;
    const columns = JSON.stringify([fills.rows, fills.columns]);
    const known = this.shown.columns === columns ? this.shown.shares : new Float64Array(cells).fill(NaN);
    this.fills = fills;
    this.trials = trials;
    this.jobs = jobsOf(fills, trials);
    this.total = cells * trials;
    this.ended = 0;
    this.measures = { done: new Float64Array(this.total), active: new Float64Array(cells), before: known };
    for (const name of fills.results) this.measures[name] = new Float64Array(this.total).fill(NaN);
    this.shown = { columns, shares: known };
    this.handle({ type: "begun", id, furniture, total: this.total });
    this.draw();
    this.starting = setTimeout(() => this.play(this.playing), SETTLED);
  }

  /** Keeps what a training has come to, in float32 as the library does. @param {any} message */
  keep({ map, trial, column, row, results }) {
    const { rows, columns } = /** @type {import("./map_session.js").Fills} */ (this.fills);
    const at = ((map * rows + row - 1) * columns.length + column) * this.trials + trial;
    this.measures.done[at] = 1;
    for (const [name, value] of Object.entries(results)) this.measures[name][at] = Math.fround(value);
    this.ended += 1;
    this.draw();
  }

  /** Marks the cells that train. */
  mark() {
    if (!this.fills) return;
    const { rows, columns } = this.fills;
    const { active } = this.measures;
    active.fill(0);
    for (const { job } of this.members) {
      if (!job) continue;
      for (let row = 0; row < rows; row++) active[(job.map * rows + row) * columns.length + job.column] = 1;
    }
    this.draw();
  }

  /** Asks for a picture, as soon as the last one is there. */
  draw() {
    this.due = this.drawing;
    if (this.drawing) return;
    this.drawing = true;
    const { id, ended: step, total } = this;
    this.members[0].tell({ type: "draw", id, measures: this.measures, step, total });
  }

  /** Shows a picture, and asks for the next one where more has come. @param {any} message */
  pictured(message) {
    const maps = message.pictures[""].panels.flat(2).filter((/** @type {any} */ one) => one.mark === "Shares");
    const shares = maps.flatMap((/** @type {any} */ { share, before }) =>
      Array.from(share.data, (one, cell) => (Number.isFinite(one) ? one : before.data[cell])),
    );
    this.shown = { ...this.shown, shares: Float64Array.from(shares) };
    if (message.ended) this.playing = false;
    this.handle({ ...message, diverged: {} });
    setTimeout(() => {
      if (message.id !== this.id) return;
      this.drawing = false;
      if (this.due) this.draw();
    }, PICTURES);
  }
}

/** How many maps there are. @param {import("./map_session.js").Fills} fills */
const mapsOf = ({ maps }) => Math.max(1, maps[1].length);

/** The jobs in their order: the first trials of every cell, column after column, then the others.
 * @param {import("./map_session.js").Fills} fills @param {number} trials */
function jobsOf(fills, trials) {
  const { columns, first } = fills;
  const looks = Math.min(first, trials);
  /** @param {number} begin @param {number} end @returns {Job[]} */
  const some = (begin, end) =>
    columns.flatMap((_, column) =>
      Array.from({ length: mapsOf(fills) * (end - begin) }, (_, number) => {
        const map = number % mapsOf(fills);
        return { map, column, trial: begin + Math.floor(number / mapsOf(fills)) };
      }),
    );
  return [...some(0, looks), ...some(looks, trials)];
}
