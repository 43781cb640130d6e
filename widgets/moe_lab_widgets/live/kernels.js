/** What operations do with numbers, as loops over a row. All numbers lie in one heap, so that a row is a place and a
 * stride; a plain number is a place with stride 0. `layout` decides how often a loop is called, and on which rows. */

/** @typedef {Float64Array} Heap */
/** A loop over n numbers: an output o and inputs p, q, r, each with its stride.
 * @typedef {(h: Heap, n: number, o: number, os: number, p: number, ps: number, q: number, qs: number, r: number,
 *   rs: number) => void} Loop */

/** A loop over many lines side by side, of n numbers each: an output o and an input p, each with the distance of a
 * line's numbers. @typedef {(h: Heap, n: number, count: number, o: number, os: number, p: number, ps: number) => void}
 *   WideLoop */

/** @type {Loop} */
const copy = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = h[p];
};
/** p + r q. @type {Loop} */
const add = (h, n, o, os, p, ps, q, qs, r) => {
  const factor = h[r];
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] + factor * h[q];
};
/** p - r q. @type {Loop} */
const subtract = (h, n, o, os, p, ps, q, qs, r) => {
  const factor = h[r];
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] - factor * h[q];
};
/** @type {Loop} */
const multiply = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] * h[q];
};
/** @type {Loop} */
const divide = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] / h[q];
};
/** @type {Loop} */
const floorDivide = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = Math.floor(h[p] / h[q]);
};
/** The remainder with the sign of the divisor. @type {Loop} */
const remainder = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] - h[q] * Math.floor(h[p] / h[q]);
};
/** @type {Loop} */
const power = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) {
    const by = h[q];
    h[o] = by === 2 ? h[p] * h[p] : by === 3 ? h[p] * h[p] * h[p] : h[p] ** by;
  }
};
/** @type {Loop} */
const and = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] & h[q];
};
/** @type {Loop} */
const or = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] | h[q];
};
/** @type {Loop} */
const greater = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] > h[q] ? 1 : 0;
};
/** @type {Loop} */
const atLeast = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] >= h[q] ? 1 : 0;
};
/** @type {Loop} */
const less = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] < h[q] ? 1 : 0;
};
/** @type {Loop} */
const atMost = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] <= h[q] ? 1 : 0;
};
/** @type {Loop} */
const equal = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] === h[q] ? 1 : 0;
};
/** @type {Loop} */
const unequal = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] !== h[q] ? 1 : 0;
};
/** The larger; NaN where one is. @type {Loop} */
const larger = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] >= h[q] || h[p] !== h[p] ? h[p] : h[q];
};
/** The smaller; NaN where one is. @type {Loop} */
const smaller = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] <= h[q] || h[p] !== h[p] ? h[p] : h[q];
};
/** p, but 0 where q is at most r. @type {Loop} */
const thresholded = (h, n, o, os, p, ps, q, qs, r, rs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs, r += rs) h[o] = h[q] <= h[r] ? 0 : h[p];
};
/** q where p is true, else r. @type {Loop} */
const choose = (h, n, o, os, p, ps, q, qs, r, rs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs, r += rs) h[o] = h[p] ? h[q] : h[r];
};
/** p plus the product of q and r. @type {Loop} */
const addProduct = (h, n, o, os, p, ps, q, qs, r, rs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs, r += rs) h[o] = h[p] + h[q] * h[r];
};
/** p within q and r; NaN stays. @type {Loop} */
const clamp = (h, n, o, os, p, ps, q, qs, r, rs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs, r += rs) {
    const value = h[p];
    h[o] = value < h[q] ? h[q] : value > h[r] ? h[r] : value;
  }
};

// ---- of one number ----

/** @type {Loop} */
const negate = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = -h[p];
};
/** @type {Loop} */
const invert = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = h[p] ? 0 : 1;
};
/** @type {Loop} */
const truth = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = h[p] !== 0 ? 1 : 0;
};
/** @type {Loop} */
const missing = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = h[p] !== h[p] ? 1 : 0;
};
/** @type {Loop} */
const rsqrt = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = 1 / Math.sqrt(h[p]);
};
/** @type {Loop} */
const truncate = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.trunc(h[p]);
};
/** @type {Loop} */
const floor = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.floor(h[p]);
};
/** @type {Loop} */
const ceiling = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.ceil(h[p]);
};
/** @type {Loop} */
const cosine = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.cos(h[p]);
};
/** @type {Loop} */
const arcCosine = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.acos(h[p]);
};
/** @type {Loop} */
const absolute = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.abs(h[p]);
};
/** @type {Loop} */
const sign = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.sign(h[p]) || 0; // of NaN, too
};
/** @type {Loop} */
const root = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.sqrt(h[p]);
};
/** @type {Loop} */
const reciprocal = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = 1 / h[p];
};
/** @type {Loop} */
const exponential = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.exp(h[p]);
};
/** @type {Loop} */
const logarithm = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.log(h[p]);
};
/** @type {Loop} */
const sigmoid = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = 1 / (1 + Math.exp(-h[p]));
};
/** log(1 + exp(p)), as torch: p itself above 20. @type {Loop} */
const softplus = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = h[p] > 20 ? h[p] : Math.log1p(Math.exp(h[p]));
};
/** log of the sigmoid. @type {Loop} */
const logSigmoid = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.min(h[p], 0) - Math.log1p(Math.exp(-Math.abs(h[p])));
};
/** p by the slope of log of the sigmoid at q. @type {Loop} */
const logSigmoidSlope = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] / (1 + Math.exp(h[q]));
};
/** p by the slope of softplus at q. @type {Loop} */
const softplusSlope = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[q] > 20 ? h[p] : h[p] / (1 + Math.exp(-h[q]));
};
/** p by the slope of the sigmoid where it is q. @type {Loop} */
const sigmoidSlope = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] * (1 - h[q]) * h[q];
};
/** p times 2 to the power q. @type {Loop} */
const shift = (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p] * 2 ** h[q];
};
/** @type {Loop} */
const hyperbolicTangent = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] = Math.tanh(h[p]);
};
/** -p log p. @type {Loop} */
const entropy = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) {
    const value = h[p];
    h[o] = value > 0 ? -value * Math.log(value) : value === 0 ? 0 : value < 0 ? -Infinity : NaN;
  }
};
const ROOT = Math.sqrt(2 * Math.PI);
/** How likely a normal number is beyond z >= 0, over the density there: near 0 by a series, far out by a continued
 * fraction. @param {number} z */
function beyond(z) {
  if (z > 3) {
    let below = z;
    for (let k = 120; k > 0; k--) below = z + k / below;
    return 1 / below;
  }
  let [sum, term] = [z, z];
  for (let k = 3; term > 1e-17 * sum; k += 2) sum += term *= (z * z) / k;
  return 0.5 * ROOT * Math.exp(0.5 * z * z) - sum;
}
/** The number that a normal one is below with probability p: Halley's steps towards it. @type {Loop} */
const normalQuantile = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) {
    const share = Math.min(h[p], 1 - h[p]);
    let z = Math.sqrt(-2 * Math.log(2 * share));
    for (let step = 0, off = 1; step < 12 && Math.abs(off) > 1e-16 && z < Infinity; step++) {
      off = beyond(z) - share * ROOT * Math.exp(0.5 * z * z);
      z = Math.max(0, z + off / (1 - 0.5 * z * off));
    }
    h[o] = h[p] < 0.5 ? -z : z;
  }
};
/** q where p is NaN; infinite numbers become the largest. @type {Loop} */
const withoutNaN = (h, n, o, os, p, ps, q) => {
  for (let i = 0; i < n; i++, o += os, p += ps) {
    const value = h[p];
    h[o] = value !== value ? h[q] : Math.min(Math.max(value, -Number.MAX_VALUE), Number.MAX_VALUE);
  }
};

/** Loops by the name of the operation, without the underscore of what is written in place.
 * @type {Record<string, Loop>} */
export const LOOPS = {
  add,
  sub: subtract,
  mul: multiply,
  div: divide,
  floor_divide: floorDivide,
  remainder,
  pow: power,
  bitwise_and: and,
  bitwise_or: or,
  gt: greater,
  ge: atLeast,
  lt: less,
  le: atMost,
  eq: equal,
  ne: unequal,
  maximum: larger,
  minimum: smaller,
  threshold_backward: thresholded,
  where: choose,
  addcmul: addProduct,
  clamp,
  neg: negate,
  floor,
  ceil: ceiling,
  cos: cosine,
  acos: arcCosine,
  abs: absolute,
  sign,
  sqrt: root,
  reciprocal,
  exp: exponential,
  log: logarithm,
  sigmoid,
  softplus,
  sigmoid_backward: sigmoidSlope,
  softplus_backward: softplusSlope,
  log_sigmoid_backward: logSigmoidSlope,
  logSigmoid,
  __lshift_: shift, // as without what says that one writes in place
  logical_and: and,
  isnan: missing,
  tanh: hyperbolicTangent,
  special_entr: entropy,
  special_ndtri: normalQuantile,
  nan_to_num: withoutNaN,
  clone: copy,
  copy,
  truth,
  invert,
  rsqrt,
  truncate,
};

// ---- sums, into an output of which several rows may be one number ----

/** Adds a row. @type {Loop} */
export const accumulate = (h, n, o, os, p, ps) => {
  if (os === 0) {
    let sum = h[o];
    for (let i = 0; i < n; i++, p += ps) sum += h[p];
    h[o] = sum;
  } else for (let i = 0; i < n; i++, o += os, p += ps) h[o] += h[p];
};
/** Adds a row's squares. @type {Loop} */
export const accumulateSquares = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) h[o] += h[p] * h[p];
};
/** Counts what is not 0. @type {Loop} */
export const accumulateCount = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) if (h[p] !== 0) h[o] += 1;
};
/** Keeps the largest; NaN once there is one. @type {Loop} */
export const accumulateLargest = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) if (!(h[p] <= h[o]) && h[o] === h[o]) h[o] = h[p];
};
/** Keeps the smallest; NaN once there is one. @type {Loop} */
export const accumulateSmallest = (h, n, o, os, p, ps) => {
  for (let i = 0; i < n; i++, o += os, p += ps) if (!(h[p] >= h[o]) && h[o] === h[o]) h[o] = h[p];
};

// ---- along a line: n numbers from p on, into a line from o on, and maybe another from q on ----

/** @type {Loop} */
export const softmax = (h, n, o, os, p, ps) => {
  let most = -Infinity;
  for (let i = 0; i < n; i++) if (!(h[p + i * ps] <= most)) most = h[p + i * ps];
  let sum = 0;
  for (let i = 0; i < n; i++) sum += h[o + i * os] = Math.exp(h[p + i * ps] - most);
  for (let i = 0; i < n; i++) h[o + i * os] /= sum;
};
/** Lines of a softmax that are taken together. */
const TOGETHER = 512;
const LARGEST = new Float64Array(TOGETHER);
const SUMS = new Float64Array(TOGETHER);
/** The softmax of many lines that lie side by side: n numbers each, at the distances os and ps from one another.
 * @type {WideLoop} */
export const softmaxes = (h, n, count, o, os, p, ps) => {
  for (let begin = 0; begin < count; begin += TOGETHER) {
    const some = Math.min(TOGETHER, count - begin);
    LARGEST.fill(-Infinity);
    SUMS.fill(0);
    for (let j = 0; j < n; j++) {
      const from = p + begin + j * ps;
      for (let i = 0; i < some; i++) if (!(h[from + i] <= LARGEST[i])) LARGEST[i] = h[from + i];
    }
    for (let j = 0; j < n; j++) {
      const [from, into] = [p + begin + j * ps, o + begin + j * os];
      for (let i = 0; i < some; i++) SUMS[i] += h[into + i] = Math.exp(h[from + i] - LARGEST[i]);
    }
    for (let j = 0; j < n; j++) {
      const into = o + begin + j * os;
      for (let i = 0; i < some; i++) h[into + i] /= SUMS[i];
    }
  }
};
/** The gradient of a softmax: from p, that of its result, and the result q. @type {Loop} */
export const softmaxSlope = (h, n, o, os, p, ps, q, qs) => {
  let sum = 0;
  for (let i = 0; i < n; i++) sum += h[p + i * ps] * h[q + i * qs];
  for (let i = 0; i < n; i++) h[o + i * os] = h[q + i * qs] * (h[p + i * ps] - sum);
};
/** @type {Loop} */
export const logSoftmax = (h, n, o, os, p, ps) => {
  logSumExp(h, n, o, 0, p, ps, 0, 0, 0, 0);
  const all = h[o];
  for (let i = 0; i < n; i++) h[o + i * os] = h[p + i * ps] - all;
};
/** Into the one number at o. @type {Loop} */
export const logSumExp = (h, n, o, _, p, ps) => {
  let most = -Infinity;
  for (let i = 0; i < n; i++) if (!(h[p + i * ps] <= most)) most = h[p + i * ps];
  let sum = 0;
  for (let i = 0; i < n; i++) sum += Math.exp(h[p + i * ps] - most);
  h[o] = Math.abs(most) === Infinity ? most : most + Math.log(sum);
};
/** @type {Loop} */
export const cumulate = (h, n, o, os, p, ps) => {
  let sum = 0;
  for (let i = 0; i < n; i++) h[o + i * os] = sum += h[p + i * ps];
};
/** The first of the largest numbers, a NaN before all, at o, and its place at q. @type {Loop} */
export const largestOf = (h, n, o, _, p, ps, q) => {
  let most = h[p];
  let place = 0;
  for (let i = 1; i < n; i++) {
    const value = h[p + i * ps];
    if (value > most || (value !== value && most === most)) {
      most = value;
      place = i;
    }
  }
  h[o] = most;
  h[q] = place;
};

/** Room for a line and its order. @param {number} n */
const roomFor = (n) => ({
  places: new Int32Array(n),
  values: new Float64Array(n),
  keys: new Float64Array(n),
  halves: [new Int32Array(n), new Int32Array(n)],
});
let ORDER = roomFor(64);
/** How many numbers are sorted one by one before runs of them are merged. */
const RUN = 8;
/** The order of the keys, equal ones as they come: runs are sorted, and merged two by two. @param {number} n */
function merged(n) {
  const { keys } = ORDER;
  let [from, into] = ORDER.halves;
  for (let begin = 0; begin < n; begin += RUN) {
    for (let i = begin; i < Math.min(begin + RUN, n); i++) {
      let place = i;
      for (; place > begin && keys[from[place - 1]] > keys[i]; place--) from[place] = from[place - 1];
      from[place] = i;
    }
  }
  for (let wide = RUN; wide < n; wide *= 2) {
    for (let begin = 0; begin < n; begin += 2 * wide) {
      const [middle, end] = [Math.min(begin + wide, n), Math.min(begin + 2 * wide, n)];
      let [one, other] = [begin, middle];
      for (let place = begin; place < end; place++) {
        const first = one < middle && (other >= end || keys[from[one]] <= keys[from[other]]);
        into[place] = first ? from[one++] : from[other++];
      }
    }
    [from, into] = [into, from];
  }
  return from;
}
/** Sorts a line, equal numbers in the order in which they come, NaN as the largest. r: 1 for the largest first.
 * @type {Loop} */
export const sortLine = (h, n, o, os, p, ps, q, qs, r) => {
  if (ORDER.places.length < n) ORDER = roomFor(2 * n);
  const { places, values } = ORDER;
  const down = h[r] !== 0;
  if (n > 64) {
    for (let i = 0; i < n; i++) {
      const value = h[p + i * ps];
      ORDER.keys[i] = (value !== value ? Infinity : value) * (down ? -1 : 1);
    }
    const order = merged(n);
    for (let i = 0; i < n; i++) values[i] = h[p + (places[i] = order[i]) * ps];
  } else {
    for (let i = 0; i < n; i++) {
      const value = h[p + i * ps];
      let place = i;
      while (place > 0 && (down ? before(value, values[place - 1]) : before(values[place - 1], value))) {
        values[place] = values[place - 1];
        places[place] = places[place - 1];
        place--;
      }
      values[place] = value;
      places[place] = i;
    }
  }
  for (let i = 0; i < n; i++) {
    h[o + i * os] = values[i];
    h[q + i * qs] = places[i];
  }
};
/** Whether a number is larger than another. @param {number} one @param {number} other */
const before = (one, other) => one > other || (one !== one && other === other);

// ---- by an index ----

/** Reads along a dimension, whose stride is given: from p on, at the places in q. @param {number} stride
 * @returns {Loop} */
export const gathering = (stride) => (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o] = h[p + h[q] * stride];
};
/** Writes p along a dimension of the output, whose stride is given, at the places in q. @param {number} stride
 * @returns {Loop} */
export const scattering = (stride) => (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o + h[q] * stride] = h[p];
};
/** Adds p along a dimension of the output, whose stride is given, at the places in q. @param {number} stride
 * @returns {Loop} */
export const adding = (stride) => (h, n, o, os, p, ps, q, qs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs) h[o + h[q] * stride] += h[p];
};
/** Reads at two indices, q and r, whose strides are given. @param {number} first @param {number} second
 * @returns {Loop} */
export const indexing = (first, second) => (h, n, o, os, p, ps, q, qs, r, rs) => {
  for (let i = 0; i < n; i++, o += os, p += ps, q += qs, r += rs) h[o] = h[p + h[q] * first + h[r] * second];
};
