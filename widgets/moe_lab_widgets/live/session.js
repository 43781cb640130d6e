/** Trains for a page, in a worker or beside it: takes messages, and answers with records that can be drawn. */

import { drawable } from "./marks.js";
import { upTo } from "./plain.js";
import { Run } from "./run.js";
import { instantiate } from "./template.js";

/** Milliseconds of steps after which a page may be heard again. */
const AT_ONCE = 40;
/** Milliseconds in which it is heard: browsers leave as many between timers that follow one another anyway. */
const BREATH = 4;

export class Session {
  /** @param {(message: any) => void} post takes the answers */
  constructor(post) {
    this.post = post;
    this.id = 0;
    this.pause = 0;
    this.playing = false;
    this.timer = 0;
    /** @type {Run | null} */
    this.run = null;
    /** @type {import("./template.js").Document | null} */
    this.document = null;
    /** Whether records may be drawn anew. */
    this.again = false;
    /** What each record's pictures read, where they may.
     * @type {{ copies: Map<number, any>, diverged: Record<string, number[]> }[]} */
    this.records = [];
    /** Records that are to be drawn anew, the next one last. @type {number[]} */
    this.stale = [];
    this.refreshing = 0;
  }

  /** @param {any} message */
  receive(message) {
    this.guarded(() => {
      if (message.type === "load") this.document = JSON.parse(message.text);
      else if (message.type === "begin") this.begin(message);
      else if (message.type === "step") this.toRecord();
      else if (message.type === "look") this.look(message.values);
      else if (message.type === "speed") this.pause = message.pause;
      if (message.type === "play" || message.type === "begin") this.play(message.playing);
    });
  }

  /** Does something; where it fails, the run stops, and that is told. @param {() => void} act */
  guarded(act) {
    try {
      act();
    } catch (error) {
      this.playing = false;
      this.post({ type: "failed", id: this.id, words: error instanceof Error ? error.message : String(error) });
    }
  }

  /** @param {{ id: number, values: Record<string, any>, every: number }} message */
  begin({ id, values, every }) {
    this.id = id;
    this.run = null;
    if (!this.document) throw new Error("a page must load what was recorded before it begins");
    const run = new Run(instantiate(this.document, values), values, {
      seed: values.seed,
      steps: values[this.document.lab.length],
      every,
    });
    const furniture = this.furniture(run);
    this.run = run;
    this.records = [];
    this.stale = [];
    const drawn = Object.values(run.recorded.pictures).some((picture) => picture.drawn?.kept);
    this.again = drawn || Boolean(this.document.lab.knobs?.some((/** @type {any} */ knob) => knob.looks));
    this.post({ type: "begun", id, furniture, total: run.total });
    this.tell();
  }

  /** The marks of the axes of each picture. @param {Run} run */
  furniture(run) {
    const keys = Object.keys(run.recorded.pictures);
    return Object.fromEntries(keys.map((key) => [key, drawable(run.engine, run.furniture(key))]));
  }

  /** Draws all records anew, with other values of what only decides what is seen. @param {Record<string, any>} values */
  look(values) {
    const { run, records } = this;
    if (!run) return;
    run.see(values);
    this.post({ type: "furnished", id: this.id, furniture: this.furniture(run) });
    this.stale = upTo(records.length);
    this.refresh();
  }

  /** Draws stale records anew, the latest first, until a page may be heard again: it may have yet others. */
  refresh() {
    clearTimeout(this.refreshing);
    const { records, stale } = this;
    const run = /** @type {Run} */ (this.run);
    const begun = performance.now();
    while (stale.length && performance.now() - begun < AT_ONCE) {
      const index = /** @type {number} */ (stale.pop());
      const { copies, diverged } = records[index];
      run.putBack(copies);
      this.post({ ...this.drawn(run), diverged, index });
    }
    if (records.length) run.putBack(records[records.length - 1].copies);
    if (stale.length) this.refreshing = setTimeout(() => this.guarded(() => this.refresh()), BREATH);
  }

  /** @param {boolean} playing */
  play(playing) {
    this.playing = playing;
    clearTimeout(this.timer);
    if (playing) this.timer = setTimeout(() => this.go(), BREATH);
  }

  /** Takes steps until a record is due or a page should be heard, and goes on later. */
  go() {
    if (!this.run || this.run.ended || !this.playing) return;
    const { run } = this;
    const begun = performance.now();
    let due = false;
    this.guarded(() => {
      while (!due && performance.now() - begun < AT_ONCE) due = run.advance();
      if (due) this.tell();
    });
    this.timer = setTimeout(() => this.go(), due ? Math.max(this.pause, BREATH) : BREATH);
  }

  /** Takes steps until a record is due. */
  toRecord() {
    if (!this.run || this.run.ended) return;
    while (!this.run.advance());
    this.tell();
  }

  /** Posts the present record. */
  tell() {
    const run = /** @type {Run} */ (this.run);
    const message = this.drawn(run);
    if (this.again) this.records.push({ copies: run.kept(), diverged: message.diverged });
    this.post(message);
  }

  /** What there is to draw of the present record. @param {Run} run */
  drawn(run) {
    const pictures = Object.fromEntries(
      Object.keys(run.recorded.pictures).map((key) => {
        const { furniture, ...shown } = run.picture(key);
        return [key, drawable(run.engine, shown)];
      }),
    );
    const diverged = Object.fromEntries(run.names.map((name) => [name, Array.from(run.diverged[name])]));
    const [step, ended] = [run.recorded.step, run.recorded.ended].map((place) => run.engine.read(place)[0]);
    return { type: "record", id: this.id, step, ended: Boolean(ended), pictures, diverged };
  }
}
