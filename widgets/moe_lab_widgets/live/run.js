/** A run of a recorded Lab: fills the draws from the library's random streams, takes steps, measures, keeps the history.
 * As `moe_lab.core.training.Training` does. */

import { Engine } from "./engine.js";
import { placesIn } from "./places.js";
import { Stream } from "./streams.js";

/** @typedef {import("./places.js").Place} Place */
/** Raw numbers (trial, ...) of a purpose; of several streams along the second axis.
 * @typedef {{ place: Place, purpose: string, kind: "uniform" | "float32" | "normal" | "gumbel", several: number }} Draw */
/** @typedef {import("./places.js").Programs & { draws: Draw[], stepDraws: Draw[], values: Record<string, Place>,
 *   first: Place, ended: Place, steps: Place, history: { run: string, measure: string, place: Place }[],
 *   state: Record<string, { loss: Place, active: Place }>, finite: string[],
 *   measured: Record<string, Record<string, Place>>, pictures: Record<string, any> }} Recorded */

export class Run {
  /** @param {Recorded} recorded @param {Record<string, number>} values of the knobs that are numbers
   * @param {{ seed: number, steps: number, every: number }} how many steps, and from one record to the next */
  constructor(recorded, values, { seed, steps, every }) {
    this.recorded = recorded;
    this.names = Object.keys(recorded.state);
    const { programs, buffers, constants, ...read } = recorded;
    const kept = new Set([...placesIn(read)].map((place) => place.buffer));
    this.engine = new Engine(recorded, [...kept]);
    this.seed = seed;
    this.total = steps;
    this.every = every;
    this.step = 0;
    this.row = 0;
    this.trials = recorded.state[this.names[0]].loss.sizes[0];
    this.rows = recorded.steps.sizes[0];
    /** @type {Map<string, Stream>} */
    this.streams = new Map();
    this.diverged = Object.fromEntries(this.names.map((name) => [name, new Uint8Array(this.trials)]));
    this.finished = Object.fromEntries(this.names.map((name) => [name, new Uint8Array(this.trials)]));
    for (const [name, place] of Object.entries(recorded.values)) this.engine.set(place.buffer, values[name]);
    this.engine.set(recorded.steps.buffer, NaN);
    for (const { place } of recorded.history) this.engine.set(place.buffer, NaN);
    for (const draw of recorded.draws) this.fill(draw);
    for (const name of this.names) this.engine.run(`begin/${name}`);
    this.record();
  }

  /** Whether no trial is still training. */
  get ended() {
    return this.names.every((name) => this.finished[name].every(Boolean));
  }

  /** Fills raw numbers, from where their streams are. @param {Draw} draw */
  fill({ place, purpose, kind, several }) {
    const into = this.engine.view(place.buffer);
    const each = into.length / this.trials / (several || 1);
    let at = 0;
    for (let trial = 0; trial < this.trials; trial++) {
      for (let number = 0; number < (several || 1); number++) {
        const stream = this.stream(trial, several ? purpose.replace("{}", String(number)) : purpose);
        for (let i = 0; i < each; i++) into[at++] = drawn(stream, kind);
      }
    }
  }

  /** @param {number} trial @param {string} purpose */
  stream(trial, purpose) {
    const key = `${trial} ${purpose}`;
    let found = this.streams.get(key);
    if (!found) this.streams.set(key, (found = new Stream(this.seed, trial, purpose)));
    return found;
  }

  /** Takes a step, and records where one is due; returns whether it has. */
  advance() {
    for (const draw of this.recorded.stepDraws) this.fill(draw);
    for (const name of this.names) this.engine.run(`step/${name}`);
    this.step += 1;
    const due = this.step % this.every === 0 || this.step >= this.total;
    if (due) this.record();
    return due;
  }

  /** Measures all runs, and keeps what pictures read of it. */
  record() {
    const { recorded, engine } = this;
    const last = this.step >= this.total;
    for (const name of this.names) {
      engine.run(`${this.step === 0 || last ? "whole" : "measure"}/${name}`);
      const { loss, active } = recorded.state[name];
      const must = recorded.finite.map((measure) => engine.read(recorded.measured[name][measure]));
      const [losses, still] = [engine.read(loss), engine.read(active)];
      for (let trial = 0; trial < this.trials; trial++) {
        const fine = [losses, ...must].every((values) => Number.isFinite(values[trial]));
        if (!fine) this.diverged[name][trial] = 1;
        if (!fine || !still[trial] || last) this.finished[name][trial] = 1;
        if (this.diverged[name][trial]) this.lose(name, trial);
      }
    }
    const row = Math.min(this.row, this.rows - 1);
    engine.view(recorded.steps.buffer)[row] = this.step;
    for (const { run, measure, place } of recorded.history) {
      const values = engine.read(recorded.measured[run][measure]);
      engine.view(place.buffer).set(values, row * values.length);
    }
    engine.set(recorded.first.buffer, this.row === 0 ? 1 : 0);
    engine.set(recorded.ended.buffer, this.ended ? 1 : 0);
    this.row += 1;
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

/** @param {Stream} stream @param {string} kind */
function drawn(stream, kind) {
  if (kind === "normal") return stream.normal();
  if (kind === "float32") return (stream.word() >>> 8) / 16777216;
  if (kind === "uniform") return stream.uniform();
  throw new Error(`a page cannot draw numbers of the kind ${kind}`);
}
