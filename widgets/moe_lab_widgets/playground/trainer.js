/** Trials in training: `moe_lab.patch_routing.training`. */
import { LIBRARY } from "./library.js";
import { FixedMoE, JointMoE, evaluate, untilWrong } from "./model.js";
import { Stream } from "./streams.js";

/** @typedef {import("./tasks.js").Samples} Samples */
/** @typedef {{accuracy: number, coverage: Float64Array, cosines: Float64Array, example: Uint8Array}} Measured
 * of a mixture: by expert and class; `example` says which patches of the two examples experts keep */

/** Random numbers that a model starts from, the same in a trial for every model.
 * @param {number} seed @param {number} trial @param {number} m neurons @param {number} d */
export function startOf(seed, trial, m, d) {
  const neurons = new Stream(seed, trial, "experts").normals(m * d, 1 / Math.sqrt(m));
  return { neurons, outputs: new Stream(seed, trial, "outputs").normals(m), d };
}

/** @param {number} seed @param {number} trial @param {number} k @param {number} n @param {number} d */
export function routersOf(seed, trial, k, n, d) {
  return new Stream(seed, trial, "routers").normals(k * d, 1 / (n * n * Math.sqrt(d)));
}

/** The order in which training samples are used: successive permutations, cut into batches. */
export class Order {
  /** @param {number} seed @param {number} trial @param {number} samples */
  constructor(seed, trial, samples) {
    this.stream = new Stream(seed, trial, `order/${samples}`);
    this.samples = samples;
    this.waiting = /** @type {number[]} */ ([]);
  }

  next() {
    while (this.waiting.length < LIBRARY.batch) this.waiting.push(...this.stream.permutation(this.samples));
    return this.waiting.splice(0, LIBRARY.batch);
  }
}

/** A model in training. It ends at zero training error, at the epoch limit, or when its loss is no longer finite. */
export class Learner {
  /** @param {JointMoE | FixedMoE} model @param {Samples} train @param {number} rate @param {number} epochs */
  constructor(model, train, rate, epochs) {
    this.model = model;
    this.train = train;
    this.rate = rate;
    this.epoch = Math.ceil(train.count / LIBRARY.batch);
    this.last = epochs * this.epoch;
    this.steps = 0;
    this.ended = false;
    this.diverged = false;
  }

  /** @param {number[]} chosen */
  step(chosen) {
    if (this.ended) return;
    const { loss } = this.model.step(this.train, chosen, this.rate);
    this.steps += 1;
    this.diverged = !Number.isFinite(loss);
    if (this.steps % this.epoch === 0 && !this.diverged) this.look();
    this.ended ||= this.diverged;
  }

  /** Looks, after an epoch, whether training is to end. */
  look() {
    const isLast = this.steps >= this.last;
    const { wrong, loss } = (isLast ? evaluate : untilWrong)(this.model, this.train);
    this.ended = wrong === 0 || isLast;
    this.diverged = !Number.isFinite(loss);
  }
}

/** The best expert's coverage of each class. @param {Float64Array} coverage by expert and class */
export const bestCoverage = (coverage) =>
  Float64Array.of(...[0, 1].map((side) => Math.max(...coverage.filter((_, place) => place % 2 === side))));

/** Evaluates a mixture on test samples. @param {JointMoE} model @param {Samples} test @param {Float64Array[]} signals
 * @returns {Measured} */
export function measure(model, test, signals) {
  const { experts, kept, d, routers } = model;
  const { n, signal, labels } = test;
  const coverage = new Float64Array(2 * experts);
  const example = new Uint8Array(2 * experts * n);
  const counts = [0, 1].map((side) => labels.filter((label) => label === side).length);
  const { wrong } = evaluate(model, test, (block) => {
    for (const [slot, place] of model.room.chosen.entries()) {
      const row = Math.floor(slot / kept);
      const expert = Math.floor(row / block.length);
      const sample = block[row % block.length];
      const side = labels[sample];
      if (place === signal[sample]) coverage[2 * expert + side] += 1 / counts[side];
      if (sample < 2) example[(sample * experts + expert) * n + place] = 1;
    }
  });
  const cosines = new Float64Array(2 * experts).map((_, place) => {
    const router = routers.subarray((place >> 1) * d, ((place >> 1) + 1) * d);
    const product = router.reduce((sum, weight, i) => sum + weight * signals[place % 2][i], 0);
    return product / Math.max(Math.hypot(...router), 1e-30);
  });
  return { accuracy: 1 - wrong, coverage, cosines, example };
}
