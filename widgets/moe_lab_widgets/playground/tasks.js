/** Samples of n patches, one of which decides the class: the library's tasks, number for number. */
import { DIGITS } from "./digits.js";
import { LIBRARY } from "./library.js";
import { Stream } from "./streams.js";

/** @typedef {{[knob: string]: any}} Values */
/** @typedef {"train" | "test"} Split */
/** @typedef {{index: Int32Array, roles: Int8Array, sides: Int8Array}} Patches of every sample, n each */
/**
 * @typedef {object} Samples of one trial, as in `moe_lab.patch_routing.data`
 * @property {number} count N
 * @property {number} n
 * @property {number} d
 * @property {Float64Array} bank rows of d numbers
 * @property {Int32Array} index the rows of every sample's patches
 * @property {Int8Array} labels
 * @property {Int32Array} signal the place of the patch that decides the class
 * @property {Int8Array} roles
 * @property {Int8Array} sides
 * @property {boolean} shared whether samples share their patches
 * @property {Int32Array} images of every patch; empty unless they are digits
 */
/** @typedef {DigitTask | PatternTask} Task */

const ROLE = LIBRARY.roles;

/** A whole number below `count`. @param {number} uniform @param {number} count */
const wholeOf = (uniform, count) => Math.min(Math.floor(uniform * count), count - 1);

/** Moves the patches of each sample, of which the signal is the first, to random places.
 * @param {number} count @param {number} n @param {Patches} patches @param {Stream} stream */
function shuffled(count, n, { index, roles, sides }, stream) {
  const drawn = stream.uniforms(count * n);
  const signal = new Int32Array(count);
  const to = { index: index.slice(), roles: roles.slice(), sides: sides.slice() };
  for (let sample = 0; sample < count; sample++) {
    const begin = sample * n;
    const places = Int32Array.from({ length: n }, (_, place) => place);
    places.sort((one, other) => drawn[begin + one] - drawn[begin + other] || one - other);
    for (let patch = 0; patch < n; patch++) {
      to.index[begin + places[patch]] = index[begin + patch];
      to.roles[begin + places[patch]] = roles[begin + patch];
      to.sides[begin + places[patch]] = sides[begin + patch];
    }
    signal[sample] = places[0];
  }
  const labels = Int8Array.from({ length: count }, (_, sample) => sample % 2);
  return { ...to, signal, labels };
}

/** Patches of which the first of each sample is the signal, and the others background.
 * @param {number} count @param {number} n */
function unshuffled(count, n) {
  const roles = new Int8Array(count * n).fill(ROLE.background);
  const sides = new Int8Array(count * n).fill(-1);
  for (let sample = 0; sample < count; sample++) {
    roles[sample * n] = ROLE.signal;
    sides[sample * n] = sample % 2;
  }
  return { index: Int32Array.from({ length: count * n }, (_, patch) => patch), roles, sides };
}

// ---- digits ----

/** The 8x8 digits: `grey` from 0 to 1, `pixels` centred and of length one, `norms` their lengths before. */
export class Images {
  /** @param {Uint8Array} columns see `moe_lab_widgets.playground.constants.packed_digits` */
  constructor(columns) {
    const count = columns.length / 65;
    const labels = columns.slice(0, count);
    const order = Array.from(labels.keys()).sort((one, other) => labels[one] - labels[other] || one - other);
    this.count = count;
    this.labels = labels;
    this.grey = new Float64Array(count * 64);
    this.mean = new Float64Array(64);
    for (let pixel = 0; pixel < 64; pixel++) {
      for (const [place, image] of order.entries()) {
        this.grey[image * 64 + pixel] = columns[(pixel + 1) * count + place] / LIBRARY.digits.levels;
      }
      for (let image = 0; image < count; image++) this.mean[pixel] += this.grey[image * 64 + pixel];
      this.mean[pixel] /= count;
    }
    this.pixels = this.grey.map((grey, place) => grey - this.mean[place % 64]);
    /** @param {number} _ @param {number} image */
    const norm = (_, image) => Math.hypot(...this.pixels.subarray(64 * image, 64 * image + 64));
    this.norms = Float64Array.from({ length: count }, norm);
    this.pixels.forEach((value, place) => (this.pixels[place] = value / this.norms[place >> 6]));
    const seen = new Int32Array(10);
    /** @type {{train: number[], test: number[]}} images that occur in training and in test samples */
    this.pools = { train: [], test: [] };
    labels.forEach((label, image) => {
      this.pools[seen[label]++ % LIBRARY.digits.testEvery ? "train" : "test"].push(image);
    });
  }

  static async unpacked() {
    const packed = Uint8Array.from(atob(DIGITS), (letter) => letter.charCodeAt(0));
    const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("deflate-raw"));
    return new Images(new Uint8Array(await new Response(stream).arrayBuffer()));
  }
}

/** `moe_lab.patch_routing.DigitTask` of the 8x8 digits. */
export class DigitTask {
  /** @param {Values} values @param {Images} images */
  constructor({ patches, noise }, images) {
    this.patches = patches;
    this.noise = noise;
    this.images = images;
    this.dimension = 64;
    this.rate = LIBRARY.digits.rate;
  }

  /** The mean training image of each class's digit, of length one. */
  signals() {
    const { labels, pixels, pools } = this.images;
    return LIBRARY.digits.pair.map((digit) => {
      const mean = new Float64Array(64);
      for (const image of pools.train) {
        if (labels[image] === digit) for (let i = 0; i < 64; i++) mean[i] += pixels[image * 64 + i];
      }
      const norm = Math.hypot(...mean);
      return mean.map((value) => value / norm);
    });
  }

  /** @param {number} count @param {number} trial @param {number} seed @param {Split} split @returns {Samples} */
  sample(count, trial, seed, split) {
    const { patches: n, noise, images: { labels, pixels, pools } } = this;
    const uniform = new Stream(seed, trial, `${split}/images`).uniforms(count * n);
    const digits = LIBRARY.digits.pair;
    const irrelevant = pools[split].filter((image) => !digits.includes(labels[image]));
    const relevant = digits.map((digit) => pools[split].filter((image) => labels[image] === digit));
    const patches = unshuffled(count, n);
    patches.index = patches.index.map((patch) => {
      const from = patch % n ? irrelevant : relevant[(patch / n) % 2];
      return from[Math.floor(uniform[patch] * from.length)];
    });
    const placed = shuffled(count, n, patches, new Stream(seed, trial, `${split}/places`));
    const samples = { ...placed, count, n, d: 64, bank: pixels, shared: true, images: placed.index };
    if (!noise) return samples;
    const drawn = new Stream(seed, trial, `${split}/noise`);
    const bank = new Float64Array(count * n * 64);
    for (let place = 0; place < bank.length; place++) {
      bank[place] = drawn.normal() * (noise / 8) + pixels[placed.index[place >> 6] * 64 + (place & 63)];
    }
    return { ...samples, index: unshuffled(count, n).index, bank, shared: false };
  }
}

// ---- synthetic patches ----

/** `moe_lab.patch_routing.PatternTask` of two classes. */
export class PatternTask {
  /** @param {Values} values */
  constructor(values) {
    this.values = values;
    this.patches = values.patches;
    this.dimension = LIBRARY.patterns.dimension;
    this.rate = LIBRARY.patterns.rate;
    this.sets = LIBRARY.patterns.sets;
    const imitated = values.distractors > 0 && values.gap > 0;
    this.imitators = imitated ? Math.max(1, Math.floor(this.sets / 4)) : 0; // sets that imitate each class
  }

  /** The first two coordinates of o_1, which are those of o_2 in the other order: the root of their Gram matrix. */
  corner() {
    const far = Math.sqrt(1 + this.values.delta_d);
    const near = Math.sqrt(1 - this.values.delta_d);
    return [(far + near) / 2, (far - near) / 2];
  }

  signals() {
    const [own, other] = this.corner();
    return [[own, other], [other, own]].map((pair) =>
      new Float64Array(this.dimension).map((_, i) => pair[i] ?? 0));
  }

  /** The centre of every set of irrelevant patterns, a unit vector. @param {number} trial @param {number} seed */
  centres(trial, seed) {
    const { dimension: d, sets, imitators, values: { gap, delta_d, delta_r } } = this;
    const [own, other] = this.corner();
    const common = new Stream(seed, trial, "patterns/common").uniforms(sets);
    const outside = new Stream(seed, trial, "patterns/outside");
    const centres = new Float64Array(sets * d);
    for (let set = 0; set < sets; set++) {
      const side = set < 2 * imitators ? Math.floor(set / imitators) : -1;
      const lean = side < 0 ? 0 : gap / 2 - side * gap;
      const length = side < 0 ? 0 : gap * Math.sqrt(1 / (2 * (1 - delta_d)));
      const room = Math.sqrt((1 + delta_d) / 2) * Math.sqrt(0.9025 - Math.min(length, 0.9) ** 2);
      const both = Math.min(Math.max(delta_r - Math.abs(lean), 0), room) * (-1 + 2 * common[set]);
      const [first, second] = [both + lean, both - lean]; // inner products with o_1 and o_2
      const [u, v] = [first - delta_d * second, second - delta_d * first].map((one) => one / (1 - delta_d * delta_d));
      const centre = centres.subarray(set * d, set * d + d);
      let square = 0;
      for (let i = 2; i < d; i++) square += (centre[i] = outside.normal()) ** 2;
      centre[0] = u * own + v * other;
      centre[1] = u * other + v * own;
      const scale = Math.sqrt(1 - centre[0] ** 2 - centre[1] ** 2) / Math.sqrt(square);
      for (let i = 2; i < d; i++) centre[i] *= scale;
    }
    return centres;
  }

  /** The sets, roles and sides of patches before they are shuffled.
   * @param {number} count @param {(purpose: string) => Stream} stream */
  arranged(count, stream) {
    const { patches: n, imitators, sets: all, values: { distractors } } = this;
    const patches = unshuffled(count, n);
    const neutral = all - 2 * imitators;
    const sets = Int32Array.from(stream("sets").uniforms(count * n), (one) => 2 * imitators + wholeOf(one, neutral));
    const sides = stream("side");
    const chosen = stream("distractors");
    for (let sample = 0; imitators && sample < count; sample++) {
      const side = wholeOf(sides.uniform(), 2);
      for (let patch = sample * n + 1; patch <= sample * n + distractors; patch++) {
        sets[patch] = side * imitators + wholeOf(chosen.uniform(), imitators);
        patches.roles[patch] = ROLE.distractor;
        patches.sides[patch] = side;
      }
    }
    return { patches, sets };
  }

  /** @param {number} count @param {number} trial @param {number} seed @param {Split} split @returns {Samples} */
  sample(count, trial, seed, split) {
    const { patches: n, dimension: d, sets: all, values: { delta_r, noise } } = this;
    /** @param {string} purpose */
    const stream = (purpose) => new Stream(seed, trial, `${split}/${purpose}`);
    const { patches, sets } = this.arranged(count, stream);
    const centres = this.centres(trial, seed);
    const signals = this.signals();
    const ball = stream("ball");
    const drawn = stream("noise");
    const radius = (0.5 * Math.sqrt((1 - delta_r ** 2) / (d * all ** 2))) / Math.sqrt(d - 2);
    const bank = new Float64Array(count * n * d);
    for (let patch = 0; patch < count * n; patch++) {
      const centre = centres.subarray(sets[patch] * d, sets[patch] * d + d);
      const row = bank.subarray(patch * d, patch * d + d);
      let before = 0;
      let after = 0;
      for (let i = 2; i < d; i++) {
        row[i] = (-1 + 2 * ball.uniform()) * radius + centre[i];
        before += centre[i] * centre[i];
        after += row[i] * row[i];
      }
      const shrinkage = Math.sqrt(before / after);
      for (let i = 0; i < d; i++) row[i] = i < 2 ? centre[i] : row[i] * shrinkage;
      if (patch % n === 0) row.set(signals[(patch / n) % 2]);
      if (noise) for (let i = 0; i < d; i++) row[i] += drawn.normal() * (noise / Math.sqrt(d));
    }
    const placed = shuffled(count, n, patches, stream("places"));
    return { ...placed, count, n, d, bank, shared: false, images: new Int32Array(0) };
  }
}

/** @param {Values} values @param {() => Promise<Images>} images */
export async function taskOf(values, images) {
  return values.source === "digits" ? new DigitTask(values, await images()) : new PatternTask(values);
}
