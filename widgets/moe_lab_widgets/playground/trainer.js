/** Trials in training: `moe_lab.patch_routing.training`. */
import { LIBRARY } from "./library.js";
import { FixedMoE, JointMoE, evaluate, evaluateByPatch, untilWrong } from "./model.js";
import { Stream } from "./streams.js";

/** @typedef {import("./tasks.js").Values} Values */
/** @typedef {import("./tasks.js").Task} Task */
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

/** A trial of the alignment page: a mixture and a CNN on the same samples. */
export class Trial {
  /** @param {Task} task @param {Values} values @param {number} number @param {number} epochs */
  constructor(task, values, number, epochs) {
    const { seed, samples, experts, patches_per_expert: kept, neurons: m } = values;
    const { dimension: d, patches: n, rate } = task;
    const train = task.sample(samples, number, seed, "train");
    this.test = task.sample(LIBRARY.testSamples, number, seed, "test");
    this.signals = task.signals();
    this.order = new Order(seed, number, samples);
    this.joint = new JointMoE(startOf(seed, number, m, d), routersOf(seed, number, experts, n, d), kept);
    this.alone = FixedMoE.cnn(startOf(seed, number, m, d), [train, this.test]);
    this.mixture = new Learner(this.joint, train, rate, epochs);
    this.cnn = new Learner(this.alone, train, rate, epochs);
    this.shown = { mixture: -1, cnn: -1 }; // steps at which the measures below were taken
    this.measured = this.lost();
    this.accuracy = NaN; // of the CNN
    this.measure();
    this.first = this.measured.cosines;
  }

  step() {
    const chosen = this.order.next();
    this.mixture.step(chosen);
    this.cnn.step(chosen);
  }

  /** Evaluates both models, unless they have ended since and are measured. */
  measure() {
    const { mixture, cnn, shown, test, joint, alone } = this;
    if (shown.mixture !== mixture.steps) {
      this.measured = mixture.diverged ? this.lost() : measure(joint, test, this.signals);
      shown.mixture = mixture.steps;
    }
    if (shown.cnn !== cnn.steps) {
      const wrong = test.shared ? evaluateByPatch(alone, test) : evaluate(alone, test).wrong;
      this.accuracy = cnn.diverged ? NaN : 1 - wrong;
      shown.cnn = cnn.steps;
    }
  }

  /** What is measured of a mixture whose loss is no longer finite. @returns {Measured} */
  lost() {
    const { experts } = this.joint;
    const nothing = new Float64Array(2 * experts).fill(NaN);
    const example = new Uint8Array(2 * experts * this.test.n);
    return { accuracy: NaN, coverage: nothing, cosines: nothing, example };
  }

  /** The largest change of a cosine since the start. */
  get moved() {
    const changes = this.measured.cosines.map((cosine, place) => Math.abs(cosine - this.first[place]));
    return Math.max(0, ...changes.filter((change) => !Number.isNaN(change)));
  }

  get ended() {
    return this.mixture.ended && this.cnn.ended;
  }
}

/** All trials of a setting, step by step. */
export class Training {
  /** @param {Task} task @param {Values} values */
  constructor(task, values) {
    const epoch = Math.ceil(values.samples / LIBRARY.batch);
    const epochs = Math.max(1, Math.ceil(values.steps / epoch));
    this.total = epochs * epoch;
    this.step = 0;
    this.trials = Array.from({ length: values.trials }, (_, number) => new Trial(task, values, number, epochs));
  }

  advance() {
    this.step += 1;
    for (const trial of this.trials) trial.step();
  }

  get ended() {
    return this.trials.every((trial) => trial.ended);
  }

  /** What the page draws: of all trials accuracy and cosines, of the first also coverage and the examples. */
  record() {
    const { trials, step, total, ended } = this;
    for (const trial of trials) trial.measure();
    const [{ measured: { coverage, example } }] = trials;
    /** @param {"mixture" | "cnn"} model */
    const work = (model) => trials.reduce((sum, trial) => sum + trial[model].model.work, 0);
    return {
      step, total, ended, coverage, example,
      mixture: Float64Array.from(trials, ({ measured }) => measured.accuracy),
      cnn: Float64Array.from(trials, ({ accuracy }) => accuracy),
      cosines: trials.map(({ measured }) => measured.cosines),
      best: trials.map(({ measured }) => bestCoverage(measured.coverage)),
      moved: Math.max(...trials.map(({ moved }) => moved)),
      work: { mixture: work("mixture"), cnn: work("cnn") },
    };
  }
}
