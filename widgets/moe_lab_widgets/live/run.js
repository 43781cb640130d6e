/** A run of a recorded Lab: fills the draws from the library's random streams, takes steps, measures, keeps the history.
 * As `moe_lab.core.training.Training` does. */

import { Engine } from "./engine.js";
import { placesIn } from "./places.js";
import { Stream } from "./streams.js";

/** @typedef {import("./places.js").Place} Place */
/** @typedef {"uniform" | "float32" | "normal" | "gumbel" | "order" | "whole"} Kind */
/** Raw numbers (trial, ...) of a purpose; of several streams along the second axis; orders of so many things. Before
 * them others are drawn of each stream: their kind, how many, and things. Of steps in blocks, the numbers of a block,
 * and those of a step.
 * @typedef {{ place: Place, purpose: string, kind: Kind, several: number, things: number, block: number[],
 *   before: [Kind, number, number][] }} Draw */
/** When trials may end, in steps, and where it is told whether a run is over.
 * @typedef {{ every: number, last: Place }} Ending */
/** @typedef {import("./places.js").Programs & { draws: Draw[], stepDraws: Draw[], values: Record<string, Place>,
 *   choices: Record<string, string[]>,
 *   first: Place, ended: Place, step: Place, total: Place, steps: Record<string, Place>, ends: Record<string, Ending>, stages: Record<string, number[]>,
 *   history: { run: string, measure: string, place: Place }[],
 *   state: Record<string, { loss: Place, active: Place }>, finite: string[],
 *   measured: Record<string, Record<string, Place>>, pictures: Record<string, any> }} Recorded */

/** Of a run: how many steps, or passes over the data, at most; how many from one record to the next, Infinity for the
 * last record alone; the first trial's number; and raw numbers that other runs of the seed have drawn, to be kept.
 * @typedef {{ seed: number, steps?: number, passes?: number, every: number, first?: number,
 *   drawn?: Map<string, Float64Array> | null }} Plan */

export class Run {
  /** @param {Recorded} recorded @param {Record<string, any>} values of the knobs
   * @param {Plan} plan */
  constructor(recorded, values, { seed, steps = 0, passes = 0, every, first = 0, drawn = null }) {
    this.recorded = recorded;
    this.names = Object.keys(recorded.state);
    const { programs, buffers, constants, ...read } = recorded;
    const kept = new Set([...placesIn(read)].map((place) => place.buffer));
    this.engine = new Engine(recorded, [...kept]);
    this.seed = seed;
    /** Steps after which trials may end, by run. @type {Record<string, number>} */
    this.epochs = Object.fromEntries(
      Object.entries(recorded.ends).map(([name, one]) => [name, Math.ceil(one.every)]),
    );
    /** The step after which each stage of a run ends. @type {Record<string, number[]>} */
    this.stageEnds = Object.fromEntries(Object.entries(recorded.stages).map(([name, some]) => [name, sumsOf(some)]));
    /** The stage of each run, counted from 0. */
    this.stage = Object.fromEntries(this.names.map((name) => [name, 0]));
    const epoch = Math.max(1, ...Object.values(this.epochs));
    const staged = Object.values(this.stageEnds).map((ends) => ends[ends.length - 1]);
    this.total = staged.length ? Math.max(...staged) : (passes || Math.ceil(steps / epoch)) * epoch;
    this.firstTrial = first;
    this.drawn = drawn;
    this.every = every;
    this.step = 0;
    this.trials = recorded.state[this.names[0]].loss.sizes[0];
    /** Records of each run in its history; and the step at which it has ended by itself, or NaN. */
    this.rows = Object.fromEntries(this.names.map((name) => [name, 0]));
    this.over = Object.fromEntries(this.names.map((name) => [name, NaN]));
    /** Where the numbers of steps come from, for each of their draws. @type {Map<string, Source>[]} */
    this.sources = recorded.stepDraws.map(() => new Map());
    this.diverged = Object.fromEntries(this.names.map((name) => [name, new Uint8Array(this.trials)]));
    this.finished = Object.fromEntries(this.names.map((name) => [name, new Uint8Array(this.trials)]));
    /** What pictures read of the models themselves, once it is asked for. @type {number[] | null} */
    this.seen = null;
    this.see(values);
    this.engine.set(recorded.total.buffer, this.total);
    for (const place of Object.values(recorded.steps)) this.engine.set(place.buffer, NaN);
    for (const { place } of recorded.history) this.engine.set(place.buffer, NaN);
    for (const draw of recorded.draws) this.fillOnce(draw);
    for (const name of Object.keys(programs)) if (name.startsWith("begin/")) this.engine.run(name);
    this.fillStep();
    if (every < Infinity) this.record();
  }

  /** Buffers that steps write and pictures read. */
  readByPictures() {
    const [read, written] = [new Set(), new Set()];
    for (const [name, operations] of Object.entries(this.recorded.programs)) {
      for (const [, given, named, results] of operations) {
        if (name.startsWith("marks")) for (const { buffer } of placesIn([given, named])) read.add(buffer);
        if (name.startsWith("step/")) for (const { buffer } of results) written.add(buffer);
      }
    }
    return [...read].filter((buffer) => written.has(buffer));
  }

  /** Takes the values of the knobs; a choice that is read as a number is its place among all.
   * @param {Record<string, any>} values */
  see(values) {
    const { recorded, engine } = this;
    for (const [name, { buffer }] of Object.entries(recorded.values)) {
      const choices = recorded.choices[name];
      engine.set(buffer, choices ? choices.indexOf(values[name]) : values[name]);
    }
  }

  /** A copy of what pictures read of the present record. @returns {Map<number, any>} by buffer */
  kept() {
    const { first, ended, step, steps, history, measured } = this.recorded;
    const places = [...placesIn([first, ended, step, steps, history, measured])];
    const buffers = [...places.map(({ buffer }) => buffer), ...(this.seen ??= this.readByPictures())];
    return new Map(buffers.map((buffer) => [buffer, this.engine.view(buffer).slice()]));
  }

  /** Puts back what `kept` has copied. @param {Map<number, any>} copies */
  putBack(copies) {
    for (const [buffer, values] of copies) this.engine.view(buffer).set(values);
  }

  /** Whether no trial is still training. */
  get ended() {
    return this.names.every((name) => this.finished[name].every(Boolean));
  }

  /** Fills the raw numbers that a run begins with, which others of the same seed may have drawn. @param {Draw} draw */
  fillOnce(draw) {
    const into = this.engine.view(draw.place.buffer);
    const key = JSON.stringify([this.seed, this.firstTrial, this.trials, { ...draw, place: draw.place.sizes }]);
    const known = this.drawn?.get(key);
    if (known) into.set(known);
    else this.fill(draw, new Map());
    if (this.drawn && !known) this.drawn.set(key, into.slice());
  }

  /** Fills raw numbers, from where their streams are. @param {Draw} draw @param {Map<string, Source>} sources that have
   * begun */
  fill({ place, purpose, kind, several, things, before }, sources) {
    const into = this.engine.view(place.buffer);
    const each = into.length / this.trials / (several || 1);
    let at = 0;
    for (let trial = 0; trial < this.trials; trial++) {
      for (let number = 0; number < (several || 1); number++) {
        const name = purpose.replace("{}", String(several ? number : things));
        let source = sources.get(`${trial} ${name}`);
        if (!source) {
          source = new Source(new Stream(this.seed, this.firstTrial + trial, name));
          for (const [own, count, of] of before) source.take(own, new Float64Array(count), of);
          sources.set(`${trial} ${name}`, source);
        }
        source.take(kind, into.subarray(at, at + each), things);
        at += each;
      }
    }
  }

  /** Fills the raw numbers of the step that comes next: measures may read them. */
  fillStep() {
    this.recorded.stepDraws.forEach((draw, number) => {
      const [most, each] = draw.block;
      const steps = draw.block.length ? Math.max(1, Math.floor(most / each)) : Infinity;
      const block = Math.floor(this.step / steps);
      if (block && this.step % steps === 0) this.sources[number].clear();
      const purpose = draw.block.length ? draw.purpose.replace("{}", String(block)) : draw.purpose;
      this.fill({ ...draw, purpose }, this.sources[number]);
    });
  }

  /** Takes a step, and records where one is due; returns whether it has. */
  advance() {
    for (const name of this.names) this.takeStep(name);
    this.step += 1;
    this.fillStep();
    for (const [name, every] of Object.entries(this.epochs)) {
      if (this.step % every === 0) this.endTrials(name);
    }
    for (const name of this.names) if (this.step === this.lastOf(name) && this.step < this.total) this.close(name);
    const due = this.step % this.every === 0 || this.step >= this.total || this.ended;
    if (due) this.record();
    return due;
  }

  /** Takes a step of a run that has not ended, in the stage that it is in. @param {string} name */
  takeStep(name) {
    if (this.step >= this.lastOf(name)) return;
    const stage = this.stageEnds[name]?.findIndex((end) => this.step < end) ?? 0;
    if (stage > this.stage[name]) {
      this.stage[name] = stage;
      this.engine.run(`enter/${this.inStage(name)}`);
    }
    this.engine.run(`step/${this.inStage(name)}`);
  }

  /** What a run's programs are named after in its stage (`tidying.in_stage`). @param {string} name */
  inStage(name) {
    return this.stage[name] ? `${name}~${this.stage[name]}` : name;
  }

  /** The step after which a run ends. @param {string} name */
  lastOf(name) {
    const ends = this.stageEnds[name];
    return ends ? ends[ends.length - 1] : this.total;
  }

  /** Ends trials by the rule of a run. @param {string} name */
  endTrials(name) {
    const { recorded, engine } = this;
    engine.set(recorded.ends[name].last.buffer, this.step >= this.lastOf(name) ? 1 : 0);
    engine.run(`end/${name}`);
    this.close(name);
  }

  /** Looks which trials of a run have ended; where none is left, that is where the run ends. @param {string} name */
  close(name) {
    this.look(name);
    if (Number.isNaN(this.over[name]) && this.finished[name].every(Boolean)) {
      this.measure(name, true);
      this.keep(name, this.rows[name]++);
      this.over[name] = this.step;
    }
  }

  /** Reads which trials of a run have ended or diverged. @param {string} name */
  look(name) {
    const { loss, active } = this.recorded.state[name];
    const [losses, still] = [this.engine.read(loss), this.engine.read(active)];
    for (let trial = 0; trial < this.trials; trial++) {
      if (!Number.isFinite(losses[trial])) this.diverged[name][trial] = 1;
      if (this.diverged[name][trial] || !still[trial] || this.step >= this.lastOf(name))
        this.finished[name][trial] = 1;
    }
  }

  /** Records all runs. One that has ended by itself keeps its last values while others go on, as one further record. */
  record() {
    const { recorded, engine } = this;
    for (const name of this.names) {
      if (Number.isNaN(this.over[name])) {
        this.measure(name, this.step === 0 || this.step >= this.lastOf(name));
        this.keep(name, this.rows[name]++);
        if (this.finished[name].every(Boolean)) this.over[name] = this.step; // all have diverged, or it is the last
      } else if (this.step > this.over[name]) this.keep(name, this.rows[name]);
    }
    engine.set(recorded.first.buffer, this.step === 0 ? 1 : 0);
    engine.set(recorded.step.buffer, this.step);
    engine.set(recorded.ended.buffer, this.ended ? 1 : 0);
  }

  /** Measures a run. @param {string} name @param {boolean} whole */
  measure(name, whole) {
    const { recorded, engine } = this;
    const programs = [this.step === 0 ? "first" : "", whole ? "whole" : "", "measure"];
    engine.run(programs.map((one) => `${one}/${this.inStage(name)}`).find((one) => one in recorded.programs) ?? "");
    if (this.step) this.look(name); // before the first step there is no loss
    for (const measure of recorded.finite) {
      engine.read(recorded.measured[name][measure]).forEach((value, at, values) => {
        if (!Number.isFinite(value)) this.diverged[name][Math.floor((at * this.trials) / values.length)] = 1;
      });
    }
    this.diverged[name].forEach((lost, trial) => {
      if (!lost) return;
      this.finished[name][trial] = 1;
      this.lose(name, trial);
    });
  }

  /** Keeps what pictures read of a run. @param {string} name @param {number} number of the record */
  keep(name, number) {
    const { recorded, engine } = this;
    const steps = engine.view(recorded.steps[name].buffer);
    const row = Math.min(number, steps.length - 1);
    steps[row] = this.step;
    for (const { run, measure, place } of recorded.history) {
      if (run !== name) continue;
      const values = engine.read(recorded.measured[run][measure]);
      engine.view(place.buffer).set(values, row * values.length);
    }
  }

  /** Replaces what was measured of a trial that has diverged. @param {string} name @param {number} trial */
  lose(name, trial) {
    for (const place of Object.values(this.recorded.measured[name])) {
      const own = this.engine.view(place.buffer);
      const each = own.length / this.trials;
      own.fill(NaN, trial * each, (trial + 1) * each);
    }
  }

  /** The marks of the axes, and the notes. @param {string} key of a picture */
  furniture(key) {
    this.engine.run(`furniture${key}`);
    return this.recorded.pictures[key].furniture;
  }

  /** The marks and the sentence of the present record. @param {string} key of a picture */
  picture(key) {
    this.engine.run(`marks${key}`);
    return this.recorded.pictures[key];
  }
}

/** The sums of the first numbers, of the first two, and so on. @param {number[]} numbers */
function sumsOf(numbers) {
  let total = 0;
  return numbers.map((number) => (total += Math.ceil(number)));
}

/** Numbers of a stream, and what is left of its orders. */
class Source {
  /** @param {Stream} stream */
  constructor(stream) {
    this.stream = stream;
    this.left = new Int32Array(0);
  }

  /** Fills with the next numbers. @param {Kind} kind @param {Float64Array | Int32Array | Uint8Array} into
   * @param {number} things of an order */
  take(kind, into, things) {
    const { stream } = this;
    if (kind === "order") {
      let left = this.left;
      while (left.length < into.length) left = Int32Array.of(...left, ...stream.permutation(things));
      into.set(left.subarray(0, into.length));
      this.left = left.subarray(into.length);
      return;
    }
    for (let i = 0; i < into.length; i++) {
      if (kind === "normal") into[i] = stream.normal();
      else if (kind === "gumbel") into[i] = stream.gumbel();
      else if (kind === "whole") into[i] = Math.floor((stream.word() / 4294967296) * things);
      else into[i] = kind === "float32" ? (stream.word() >>> 8) / 16777216 : stream.uniform();
    }
  }
}
