/** What each operation of torch is, by the name of its dispatcher: loops over operands, set up once. */

import { BY_INDEX } from "./by_index.js";
import {
  LOOPS,
  accumulate,
  accumulateCount,
  accumulateLargest,
  accumulateSmallest,
  accumulateSquares,
  cumulate,
  largestOf,
  logSoftmax,
  logSumExp,
  softmax,
  softmaxes,
  softmaxSlope,
  sortLine,
} from "./kernels.js";
import { dimensionOf, numberOf, part, without } from "./layout.js";
import { OPERATIONS_OF_LAB } from "./of_engine.js";

/** @typedef {import("./engine.js").Engine} Engine */
/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Loop} Loop */
/** @typedef {() => void} Act */
/** An operation with its arguments, of which places are not yet operands; and the program that it belongs to.
 * @typedef {{ given: any[], named: Record<string, any>, results: Operand[], name: string, overload: string,
 *   program: string }} Asked */
/** @typedef {(this: Engine, asked: Asked) => Act | Act[]} Maker */

/** What does an operation; an error where a page cannot. @param {Engine} engine @param {string} name as torch has it
 * @param {Omit<Asked, "name" | "overload">} asked @returns {Act} */
export function madeOf(engine, name, asked) {
  const [base, overload] = name.split(".");
  const plain = base.replace(/(?<=\w)_$/, ""); // what is written in place is told by where it is written
  const make = MAKERS[plain] ?? OPERATIONS_OF_LAB[plain] ?? (LOOPS[plain] ? elementwise : undefined);
  if (!make) throw new Error(`a page cannot do the operation ${name}`);
  const acts = [make.call(engine, { ...asked, name: plain, overload })].flat();
  return acts.length === 1 ? acts[0] : () => acts.forEach((act) => act());
}

/** Which numbers an operation takes besides its operands: name, place among its arguments, and what is usual.
 * @type {Record<string, [string, number, number]>} */
const FACTORS = { add: ["alpha", 2, 1], sub: ["alpha", 2, 1], rsub: ["alpha", 2, 1] };

/** @type {Maker} */
function elementwise({ given, named, results: [output], name }) {
  const factor = FACTORS[name];
  const inputs = given.slice(0, factor ? 2 : 3).map((one) => this.operand(one));
  const number = factor ? (named[factor[0]] ?? given[factor[1]] ?? factor[2]) : 1;
  if (factor) inputs.push(this.operand(number));
  return this.overOrQuick(LOOPS[name], Number(number) === 1 ? this.quick[name] : undefined, output, ...inputs);
}

/** @type {Maker} */
function nothing() {
  return [];
}

/** @param {number} value @returns {Maker} */
const filling = (value) =>
  function fill({ results: [output] }) {
    return this.filled(output, value);
  };

/** @param {number} place of the number among the arguments @returns {Maker} */
const fillingWith = (place) =>
  function fill({ given, results: [output] }) {
    return this.filled(output, given[place]);
  };

/** What is more than a loop over an output, by name.
 * @type {Record<string, Maker>} */
const MAKERS = {
  empty: nothing,
  new_empty: nothing,
  new_empty_strided: nothing,
  empty_like: nothing,
  zeros: filling(0),
  zeros_like: filling(0),
  new_zeros: filling(0),
  ones: filling(1),
  ones_like: filling(1),
  new_ones: filling(1),
  zero: filling(0),
  fill: fillingWith(1),
  full: fillingWith(1),
  full_like: fillingWith(1),
  new_full: fillingWith(2),
  scalar_tensor: fillingWith(0),
  eye({ results: [output] }) {
    const [rows, columns] = output.sizes;
    const diagonal = {
      ...output,
      sizes: [Math.min(rows, columns)],
      strides: [output.strides[0] + output.strides[1]],
    };
    return [this.filled(output, 0), this.filled(diagonal, 1)];
  },
  arange({ given, results: [output], overload }) {
    const [begin, step] = overload === "default" ? [0, 1] : [given[0], given[2] ?? 1];
    return () => {
      for (let i = 0; i < output.sizes[0]; i++) this.heap[output.offset + i * output.strides[0]] = begin + i * step;
    };
  },
  linspace({ given, results: [output] }) {
    const [begin, end, count] = given.map(Number);
    const step = (end - begin) / (count - 1);
    return () => {
      for (let i = 0; i < count; i++) {
        const value = 2 * i < count ? begin + i * step : end - (count - 1 - i) * step; // as torch rounds
        this.heap[output.offset + i * output.strides[0]] = value;
      }
    };
  },
  _to_copy({ given, results: [output] }) {
    const input = this.operand(given[0]);
    const loop =
      output.kind === input.kind ? "copy" : ({ b: "truth", i: "truncate", f: "copy" }[output.kind] ?? "copy");
    return this.over(LOOPS[loop], output, input);
  },
  copy({ given, results: [output] }) {
    const [, source] = given.map((one) => this.operand(one));
    return this.over(LOOPS.copy, output, source);
  },
  pow({ given, results: [output] }) {
    const [base, power] = given.map((one) => this.operand(one));
    if (given[1] === 2) return this.overOrQuick(LOOPS.mul, this.quick.mul, output, base, base);
    return this.over(LOOPS.pow, output, base, power);
  },
  bitwise_not({ given, results: [output] }) {
    if (output.kind !== "b") throw new Error("a page cannot invert the bits of numbers");
    return this.over(LOOPS.invert, output, this.operand(given[0]));
  },
  rsub({ given, named, results: [output] }) {
    const factor = this.operand(named.alpha ?? given[2] ?? 1);
    return this.over(LOOPS.sub, output, this.operand(given[1]), this.operand(given[0]), factor);
  },
  clamp({ given, named, results: [output] }) {
    const [low, high] = [given[1] ?? named.min ?? -Infinity, given[2] ?? named.max ?? Infinity];
    if (high === Infinity) {
      return this.overOrQuick(LOOPS.maximum, this.quick.maximum, output, this.operand(given[0]), this.operand(low));
    }
    return this.over(LOOPS.clamp, output, this.operand(given[0]), this.operand(low), this.operand(high));
  },
  relu({ given, results: [output] }) {
    return this.overOrQuick(LOOPS.maximum, this.quick.maximum, output, this.operand(given[0]), this.operand(0));
  },
  clamp_min({ given, results: [output] }) {
    const [input, low] = given.map((one) => this.operand(one));
    return this.overOrQuick(LOOPS.maximum, this.quick.maximum, output, input, low);
  },
  threshold_backward({ given, results: [output] }) {
    const inputs = given.map((one) => this.operand(one));
    return this.overOrQuick(
      LOOPS.threshold_backward,
      given[2] === 0 ? this.quick.kept : undefined,
      output,
      ...inputs,
    );
  },
  masked_fill({ given, results: [output] }) {
    const [input, mask, value] = given.map((one) => this.operand(one));
    return this.over(LOOPS.where, output, mask, value, input);
  },
  constant_pad_nd({ given, results: [output] }) {
    const input = this.operand(given[0]);
    /** @type {number[]} */
    const pads = given[1];
    let [inner, stays] = [output, input];
    for (let pair = 0; 2 * pair < pads.length; pair++) {
      const d = output.sizes.length - 1 - pair;
      const [before, after] = pads.slice(2 * pair, 2 * pair + 2); // what is negative is cut off
      const count = input.sizes[d] + Math.min(0, before) + Math.min(0, after);
      inner = part(inner, d, Math.max(0, before), count);
      stays = part(stays, d, Math.max(0, -before), count);
    }
    return [this.filled(output, given[2] ?? 0), this.over(LOOPS.copy, inner, stays)];
  },
  softplus_backward({ given, results: [output] }) {
    return this.over(LOOPS.softplus_backward, output, ...given.slice(0, 2).map((one) => this.operand(one)));
  },
  log_sigmoid_forward({ given, results: [output] }) {
    return this.over(LOOPS.logSigmoid, output, this.operand(given[0]));
  },
  slice_backward({ given, results: [output] }) {
    const [slope, , dimension, start, , step] = given;
    const d = dimensionOf(dimension, output.sizes.length);
    const input = this.operand(slope);
    const begin = dimensionOf(start ?? 0, output.sizes[d]);
    const strides = output.strides.map((stride, own) => (own === d ? stride * step : stride));
    const cut = { ...part(output, d, begin, input.sizes[d]), strides };
    return [this.filled(output, 0), this.over(LOOPS.copy, cut, input)];
  },
  nan_to_num({ given, results: [output] }) {
    return this.over(LOOPS.nan_to_num, output, this.operand(given[0]), this.operand(given[1] ?? 0));
  },
  cat({ given, results: [output] }) {
    const d = dimensionOf(given[1] ?? 0, output.sizes.length);
    let begin = 0;
    return given[0].map((/** @type {any} */ one) => {
      const input = this.operand(one);
      if (input.sizes.length < output.sizes.length) return () => {}; // torch leaves out empty lists
      begin += input.sizes[d];
      return this.over(LOOPS.copy, part(output, d, begin - input.sizes[d], input.sizes[d]), input);
    });
  },
  stack({ given, results: [output] }) {
    const d = dimensionOf(given[1] ?? 0, output.sizes.length);
    return given[0].map((/** @type {any} */ one, /** @type {number} */ place) =>
      this.over(LOOPS.copy, without(part(output, d, place, 1), d), this.operand(one)),
    );
  },

  // ---- reductions ----

  sum({ given, results: [output] }) {
    return this.reduced(accumulate, 0, this.operand(given[0]), given[1], output);
  },
  mean({ given, results: [output] }) {
    const input = this.operand(given[0]);
    const count = this.operand(numberOf(input.sizes) / numberOf(output.sizes));
    return [...this.reduced(accumulate, 0, input, given[1], output), this.over(LOOPS.div, output, output, count)];
  },
  count_nonzero({ given, results: [output] }) {
    return this.reduced(accumulateCount, 0, this.operand(given[0]), given[1], output);
  },
  linalg_vector_norm({ given, results: [output] }) {
    if ((given[1] ?? 2) !== 2) throw new Error("a page knows the Euclidean norm alone");
    const squares = this.reduced(accumulateSquares, 0, this.operand(given[0]), given[2], output);
    return [...squares, this.over(LOOPS.sqrt, output, output)];
  },
  amax({ given, results: [output] }) {
    return this.reduced(accumulateLargest, -Infinity, this.operand(given[0]), given[1], output);
  },
  amin({ given, results: [output] }) {
    return this.reduced(accumulateSmallest, Infinity, this.operand(given[0]), given[1], output);
  },
  max({ given, results, overload }) {
    const [output, places] = results;
    const input = this.operand(given[0]);
    if (overload === "default") return this.reduced(accumulateLargest, -Infinity, input, null, output);
    return largest.call(this, input, given[1], output, places);
  },
  all({ given, results: [output] }) {
    const input = this.operand(given[0]);
    if (input.kind !== "b") throw new Error("a page asks of truths alone whether all hold");
    return this.reduced(accumulateSmallest, 1, input, given[1], output);
  },
  any({ given, results: [output] }) {
    const input = this.operand(given[0]);
    if (input.kind !== "b") throw new Error("a page asks of truths alone whether any holds");
    return this.reduced(accumulateLargest, 0, input, given[1], output);
  },
  min({ given, results: [output], overload }) {
    if (overload !== "default") throw new Error("a page knows the smallest of all numbers alone");
    return this.reduced(accumulateSmallest, Infinity, this.operand(given[0]), null, output);
  },
  argmax({ given, results: [output] }) {
    const input = this.operand(given[0]);
    if ((given[1] ?? null) === null && input.sizes.length !== 1) {
      throw new Error("a page knows the place of the largest along a dimension alone");
    }
    const scratch = { ...output, offset: this.heap.length - 1, strides: output.sizes.map(() => 0) };
    return largest.call(this, input, given[1] ?? 0, scratch, output);
  },
  logsumexp({ given, results: [output] }) {
    const input = this.operand(given[0]);
    const [dimension, ...more] = [given[1]].flat();
    if (more.length) throw new Error("a page sums exponentials along one dimension alone");
    const d = dimensionOf(dimension, input.sizes.length);
    const line = output.sizes.length === input.sizes.length ? without(output, d) : output;
    return this.along(logSumExp, d, [
      [line, false],
      [input, true],
    ]);
  },

  // ---- along a dimension ----

  _softmax: lines(softmax, softmaxes),
  _softmax_backward_data({ given, results: [output] }) {
    const [slope, result] = given.map((one) => this.operand(one));
    return this.along(softmaxSlope, dimensionOf(given[2], output.sizes.length), [
      [output, true],
      [slope, true],
      [result, true],
    ]);
  },
  _log_softmax: lines(logSoftmax),
  cumsum: lines(cumulate),
  sort({ given, named, results: [values, places], overload }) {
    const stable = overload === "stable";
    const input = this.operand(given[0]);
    const d = dimensionOf(named.dim ?? given[stable ? 2 : 1] ?? -1, input.sizes.length);
    const down = this.operand(named.descending ?? given[stable ? 3 : 2] ?? false);
    return this.along(
      sortLine,
      d,
      [
        [values, true],
        [input, true],
        [places, true],
      ],
      down.offset,
    );
  },

  ...BY_INDEX,

  // ---- matrices ----

  bmm({ given, results: [output], program }) {
    return this.product(output, given, program);
  },
  mm({ given, results: [output], program }) {
    return this.product(output, given, program);
  },
  baddbmm({ given, named, results: [output], program }) {
    if ((named.beta ?? given[3] ?? 1) !== 1) throw new Error("a page adds a product to the whole of a tensor alone");
    const factor = this.operand(named.alpha ?? given[4] ?? 1);
    const product = this.product(output, given.slice(1, 3), program);
    return [product, this.over(LOOPS.add, output, this.operand(given[0]), output, factor)];
  },
};

/** @param {Loop} loop @param {import("./kernels.js").WideLoop} [wide] @returns {Maker} */
function lines(loop, wide = undefined) {
  return function make({ given, results: [output] }) {
    const input = this.operand(given[0]);
    /** @type {[Operand, boolean][]} */
    const both = [
      [output, true],
      [input, true],
    ];
    return this.along(loop, dimensionOf(given[1], input.sizes.length), both, 0, wide);
  };
}

/** @this {Engine} @param {Operand} input @param {number} dimension @param {Operand} values @param {Operand} places */
function largest(input, dimension, values, places) {
  const d = dimensionOf(dimension, input.sizes.length);
  const kept = places.sizes.length === input.sizes.length;
  const flat = [values, places].map((one) => (kept ? without(one, d) : one));
  return this.along(largestOf, d, [
    [flat[0], false],
    [input, true],
    [flat[1], false],
  ]);
}
