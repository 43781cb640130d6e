/** Runs the programs of a recorded Lab: lists of operations on buffers, all of which lie in one heap. */

import { LOOPS, accumulate, accumulateCount, accumulateLargest, accumulateSmallest, accumulateSquares, cumulate,
  gathering, indexing, largestOf, logSoftmax, logSumExp, scatterAdding, scattering, softmax, sortLine } from "./kernels.js";
import { dimensionOf, numberOf, overRows, part, stridesIn, without } from "./layout.js";
import { isScattered, multiplier, orthogonalise } from "./linear.js";
import { PRODUCT } from "./product.js";

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Loop} Loop */
/** A place in a buffer. @typedef {{ buffer: number, offset: number, sizes: number[], strides: number[] }} Place */
/** [name, arguments, named arguments, places of the results]
 * @typedef {[string, any[], Record<string, any>, Place[]]} Operation */
/** @typedef {() => void} Act */
/** @typedef {{ programs: Record<string, Operation[]>, buffers: [string, number][],
 *   constants: Record<string, number | string | number[]> }} Programs */

const PRODUCTS = new WebAssembly.Module(Uint8Array.from(atob(PRODUCT), (letter) => letter.charCodeAt(0)));
const PAGE = 65536;
/** Plain numbers of operations for which there is room. */
const MOST_NUMBERS = 4096;
/** Numbers between two buffers, so that none shares a line of the cache. */
const ALIGNED = 8;

/** @param {any} value @returns {value is Place} */
const isPlace = (value) => value !== null && typeof value === "object" && "buffer" in value;

export class Engine {
  /** @param {Programs} recorded @param {number[]} kept buffers that are read from outside, besides those of places */
  constructor(recorded, kept) {
    this.buffers = recorded.buffers;
    /** @type {number[]} numbers of operations, which have a place in the heap like all others */
    this.numbers = [];
    this.numberAt = new Map();
    const { starts, total } = placed(recorded, new Set(kept));
    this.starts = starts;
    this.room = total;
    this.copies = total + MOST_NUMBERS;
    /** Buffers that a step or a measurement writes. */
    this.changing = new Set(kept);
    let [lasting, most] = [0, 0];
    for (const [name, operations] of Object.entries(recorded.programs)) {
      if (!name.startsWith("begin/")) operations.forEach((one) => one[3].forEach(({ buffer }) => this.changing.add(buffer)));
    }
    for (const [name, operations] of Object.entries(recorded.programs)) {
      for (const [kind, [left, right]] of operations) {
        if (!/^b?mm\./.test(kind)) continue;
        const count = numberOf(right.sizes);
        if (this.once(name, right)) lasting += count;
        else most = Math.max(most, count / (left.sizes.length > 2 ? left.sizes[0] : 1));
      }
    }
    const memory = new WebAssembly.Memory({ initial: Math.ceil(((this.copies + lasting + most) * 8) / PAGE) + 1 });
    this.heap = new Float64Array(memory.buffer);
    this.scratch = this.copies + lasting;
    const made = new WebAssembly.Instance(PRODUCTS, { e: { m: memory } });
    this.multiply = /** @type {import("./linear.js").Multiply} */ (made.exports.multiply);
    for (const [buffer, values] of Object.entries(recorded.constants)) this.set(Number(buffer), values);
    /** @type {Record<string, Act[]>} */
    this.programs = {};
    for (const [name, operations] of Object.entries(recorded.programs)) {
      this.programs[name] = operations.map((operation) => this.made(operation, name));
    }
  }

  /** Whether a program multiplies by the same right matrix each time that it runs. @param {string} program
   * @param {Place} right */
  once(program, right) {
    return !program.startsWith("begin/") && !this.changing.has(right.buffer);
  }

  /** @param {Operand} output @param {any[]} given places of both matrices @param {string} program */
  product(output, given, program) {
    /** @param {Operand} one @returns {Operand} */
    const batched = (one) =>
      one.sizes.length > 2 ? one : { ...one, sizes: [1, ...one.sizes], strides: [0, ...one.strides] };
    const [left, right] = given.map((one) => batched(this.operand(one)));
    const once = isScattered(right) && this.once(program, given[1]);
    const copies = once ? this.copies : this.scratch;
    if (once) this.copies += numberOf(right.sizes);
    return multiplier(this.heap, this.multiply, batched(output), left, right, copies, once);
  }

  /** @param {string} program */
  run(program) {
    for (const act of this.programs[program]) act();
  }

  /** Fills a buffer. @param {number} buffer @param {number | string | number[] | Float64Array} values */
  set(buffer, values) {
    const [, count] = this.buffers[buffer];
    if (typeof values !== "object") this.heap.fill(Number(values), this.starts[buffer], this.starts[buffer] + count);
    else this.heap.set(values, this.starts[buffer]);
  }

  /** The numbers at a place, in order. @param {Place} place */
  read(place) {
    const values = new Float64Array(numberOf(place.sizes));
    const one = this.operand(place);
    let at = 0;
    const visit = (/** @type {number} */ d, /** @type {number} */ offset) => {
      if (d === one.sizes.length) values[at++] = this.heap[offset];
      else for (let i = 0; i < one.sizes[d]; i++) visit(d + 1, offset + i * one.strides[d]);
    };
    visit(0, one.offset);
    return values;
  }

  /** The heap's part that is a buffer. @param {number} buffer */
  view(buffer) {
    return this.heap.subarray(this.starts[buffer], this.starts[buffer] + this.buffers[buffer][1]);
  }

  /** Where an argument is: a place, or a plain number. @param {any} value @returns {Operand} */
  operand(value) {
    if (isPlace(value)) {
      const { buffer, offset, sizes, strides } = value;
      return { offset: this.starts[buffer] + offset, sizes, strides, kind: this.buffers[buffer][0] };
    }
    const number = Number(value);
    let at = this.numberAt.get(number);
    if (at === undefined) {
      at = this.room + this.numberAt.size;
      this.numberAt.set(number, at);
      this.heap[at] = number;
    }
    return { offset: at, sizes: [], strides: [], kind: "f" };
  }

  /** A loop over an output and what is repeated to fill it. @param {Loop} loop @param {Operand} output
   * @param {Operand[]} inputs @returns {Act} */
  over(loop, output, ...inputs) {
    const all = [output, ...inputs];
    const strides = all.map((one) => stridesIn(one, output.sizes));
    return overRows(this.heap, loop, output.sizes, all.map((one) => one.offset), strides);
  }

  /** Fills an output with a number. @param {Operand} output @param {any} value */
  filled(output, value) {
    return this.over(LOOPS.copy, output, this.operand(value));
  }

  /** Calls a loop on each line along a dimension, of operands that have that dimension and of others that do not.
   * @param {Loop} loop @param {number} dimension @param {[Operand, boolean][]} operands the output first, then the line
   * that is read @param {number} [extra] a place for the loop's last number @returns {Act} */
  along(loop, dimension, operands, extra = 0) {
    const [, [line]] = operands;
    const n = line.sizes[dimension];
    const steps = operands.map(([one, whole]) => (whole ? one.strides[dimension] : 0));
    const lines = operands.map(([one, whole]) => (whole ? without(one, dimension) : one));
    const sizes = without(line, dimension).sizes;
    /** @type {Loop} */
    const each = (heap, count, o, os, p, ps, q, qs) => {
      for (let i = 0; i < count; i++, o += os, p += ps, q += qs) {
        loop(heap, n, o, steps[0], p, steps[1], q, steps[2] ?? 0, extra, 0);
      }
    };
    return overRows(this.heap, each, sizes, lines.map((one) => one.offset), lines.map((one) => stridesIn(one, sizes)));
  }

  /** Reduces dimensions, all of them by default. @param {Loop} loop @param {number} begin @param {Operand} input
   * @param {number[] | number | null | undefined} dimensions @param {Operand} output @returns {Act[]} */
  reduced(loop, begin, input, dimensions, output) {
    const count = input.sizes.length;
    const given = dimensions === null || dimensions === undefined ? [] : [dimensions].flat();
    const gone = given.length ? given.map((one) => dimensionOf(one, count)) : input.sizes.map((_, d) => d);
    const kept = output.sizes.length === count && gone.length > 0;
    let next = 0;
    const strides = input.sizes.map((_, d) => {
      const own = kept ? d : next;
      if (!gone.includes(d)) next += 1;
      return gone.includes(d) ? 0 : output.strides[own];
    });
    const offsets = [output.offset, input.offset];
    return [this.filled(output, begin), overRows(this.heap, loop, input.sizes, offsets, [strides, input.strides])];
  }

  /** @param {Operation} operation @param {string} program @returns {Act} */
  made([name, given, named, places], program) {
    const [base, overload] = name.split(".");
    const plain = base.startsWith("__") ? base : base.replace(/(?<=\w)_$/, "");
    const make = MAKERS[plain] ?? (LOOPS[plain] ? elementwise : undefined);
    if (!make) throw new Error(`a page cannot do the operation ${name}`);
    const acts = make.call(this, given, named, places.map((place) => this.operand(place)), plain, overload, program);
    const list = [acts].flat();
    return list.length === 1 ? list[0] : () => list.forEach((act) => act());
  }
}

/** Which numbers an operation takes besides its operands: name, place among its arguments, and what is usual.
 * @type {Record<string, [string, number, number]>} */
const FACTORS = { add: ["alpha", 2, 1], sub: ["alpha", 2, 1], rsub: ["alpha", 2, 1] };

/** @typedef {(this: Engine, given: any[], named: Record<string, any>, results: Operand[], name: string,
 *   overload: string, program: string) => Act | Act[]} Maker */

/** @type {Maker} */
function elementwise(given, named, [output], name) {
  const factor = FACTORS[name];
  const inputs = given.slice(0, factor ? 2 : 3).map((one) => this.operand(one));
  if (factor) inputs.push(this.operand(named[factor[0]] ?? given[factor[1]] ?? factor[2]));
  return this.over(LOOPS[name], output, ...inputs);
}

/** @type {Maker} */
function nothing() {
  return [];
}

/** @param {number} value @returns {Maker} */
const filling = (value) =>
  function fill(given, named, [output]) {
    return this.filled(output, value);
  };

/** @param {number} place of the number among the arguments @returns {Maker} */
const fillingWith = (place) =>
  function fill(given, named, [output]) {
    return this.filled(output, given[place]);
  };

/** @param {(stride: number) => Loop} loop @param {"sum" | "set"} how @returns {Maker} */
const scattered = (loop) =>
  function scatter(given, named, [output], name, overload) {
    const [input, dimension, index, source] = given;
    const d = dimensionOf(dimension, output.sizes.length);
    const first = this.operand(input);
    const where = this.operand(index);
    const strides = output.strides.map((stride, own) => (own === d ? 0 : stride));
    const from = this.operand(source);
    const rows = [strides, isPlace(source) ? from.strides : stridesIn(from, where.sizes), where.strides];
    const offsets = [output.offset, from.offset, where.offset];
    const write = overRows(this.heap, loop(output.strides[d]), where.sizes, offsets, rows);
    return first.offset === output.offset ? write : [this.over(LOOPS.copy, output, first), write];
  };

/** What is more than a loop over an output, by name.
 * @type {Record<string, Maker>} */
const MAKERS = {
  empty: nothing,
  new_empty: nothing,
  empty_like: nothing,
  zeros: filling(0),
  zeros_like: filling(0),
  new_zeros: filling(0),
  zero: filling(0),
  ones: filling(1),
  ones_like: filling(1),
  new_ones: filling(1),
  full: fillingWith(1),
  full_like: fillingWith(1),
  new_full: fillingWith(2),
  fill: fillingWith(1),
  scalar_tensor: fillingWith(0),
  arange(given, named, [output], name, overload) {
    const [begin, step] = overload === "default" ? [0, 1] : [given[0], given[2] ?? 1];
    return () => {
      for (let i = 0; i < output.sizes[0]; i++) this.heap[output.offset + i * output.strides[0]] = begin + i * step;
    };
  },
  _to_copy(given, named, [output]) {
    const input = this.operand(given[0]);
    const loop = output.kind === input.kind ? "copy" : { b: "truth", i: "truncate", f: "copy" }[output.kind] ?? "copy";
    return this.over(LOOPS[loop], output, input);
  },
  copy(given, named, [output]) {
    const [, source] = given.map((one) => this.operand(one));
    return this.over(LOOPS.copy, output, source);
  },
  bitwise_not(given, named, [output]) {
    if (output.kind !== "b") throw new Error("a page cannot invert the bits of numbers");
    return this.over(LOOPS.invert, output, this.operand(given[0]));
  },
  rsub(given, named, [output]) {
    const factor = this.operand(named.alpha ?? given[2] ?? 1);
    return this.over(LOOPS.sub, output, this.operand(given[1]), this.operand(given[0]), factor);
  },
  clamp(given, named, [output]) {
    const [low, high] = [given[1] ?? named.min ?? -Infinity, given[2] ?? named.max ?? Infinity];
    return this.over(LOOPS.clamp, output, this.operand(given[0]), this.operand(low), this.operand(high));
  },
  nan_to_num(given, named, [output]) {
    return this.over(LOOPS.nan_to_num, output, this.operand(given[0]), this.operand(given[1] ?? 0));
  },
  cat(given, named, [output]) {
    const d = dimensionOf(given[1] ?? 0, output.sizes.length);
    let begin = 0;
    return given[0].map((/** @type {any} */ one) => {
      const input = this.operand(one);
      if (input.sizes.length < output.sizes.length) return () => {}; // torch leaves out empty lists
      begin += input.sizes[d];
      return this.over(LOOPS.copy, part(output, d, begin - input.sizes[d], input.sizes[d]), input);
    });
  },
  stack(given, named, [output]) {
    const d = dimensionOf(given[1] ?? 0, output.sizes.length);
    return given[0].map((/** @type {any} */ one, /** @type {number} */ place) =>
      this.over(LOOPS.copy, without(part(output, d, place, 1), d), this.operand(one)),
    );
  },

  // ---- reductions ----

  sum(given, named, [output]) {
    return this.reduced(accumulate, 0, this.operand(given[0]), given[1], output);
  },
  mean(given, named, [output]) {
    const input = this.operand(given[0]);
    const count = this.operand(numberOf(input.sizes) / numberOf(output.sizes));
    return [...this.reduced(accumulate, 0, input, given[1], output), this.over(LOOPS.div, output, output, count)];
  },
  count_nonzero(given, named, [output]) {
    return this.reduced(accumulateCount, 0, this.operand(given[0]), given[1], output);
  },
  linalg_vector_norm(given, named, [output]) {
    if ((given[1] ?? 2) !== 2) throw new Error("a page knows the Euclidean norm alone");
    const squares = this.reduced(accumulateSquares, 0, this.operand(given[0]), given[2], output);
    return [...squares, this.over(LOOPS.sqrt, output, output)];
  },
  amax(given, named, [output]) {
    return this.reduced(accumulateLargest, -Infinity, this.operand(given[0]), given[1], output);
  },
  amin(given, named, [output]) {
    return this.reduced(accumulateSmallest, Infinity, this.operand(given[0]), given[1], output);
  },
  max(given, named, results, name, overload) {
    const [output, places] = results;
    const input = this.operand(given[0]);
    if (overload === "default") return this.reduced(accumulateLargest, -Infinity, input, null, output);
    return largest.call(this, input, given[1], output, places);
  },
  min(given, named, [output], name, overload) {
    if (overload !== "default") throw new Error("a page knows the smallest of all numbers alone");
    return this.reduced(accumulateSmallest, Infinity, this.operand(given[0]), null, output);
  },
  argmax(given, named, [output]) {
    const input = this.operand(given[0]);
    if ((given[1] ?? null) === null && input.sizes.length !== 1) {
      throw new Error("a page knows the place of the largest along a dimension alone");
    }
    const scratch = { ...output, offset: this.heap.length - 1, strides: output.sizes.map(() => 0) };
    return largest.call(this, input, given[1] ?? 0, scratch, output);
  },
  logsumexp(given, named, [output]) {
    const input = this.operand(given[0]);
    const [dimension, ...more] = [given[1]].flat();
    if (more.length) throw new Error("a page sums exponentials along one dimension alone");
    const d = dimensionOf(dimension, input.sizes.length);
    const line = output.sizes.length === input.sizes.length ? without(output, d) : output;
    return this.along(logSumExp, d, [[line, false], [input, true]]);
  },

  // ---- along a dimension ----

  _softmax: lines(softmax),
  _log_softmax: lines(logSoftmax),
  cumsum: lines(cumulate),
  sort(given, named, [values, places], name, overload) {
    const stable = overload === "stable";
    const input = this.operand(given[0]);
    const d = dimensionOf(named.dim ?? given[stable ? 2 : 1] ?? -1, input.sizes.length);
    const down = this.operand(named.descending ?? given[stable ? 3 : 2] ?? false);
    return this.along(sortLine, d, [[values, true], [input, true], [places, true]], down.offset);
  },

  // ---- by an index ----

  gather(given, named, [output]) {
    const [input, index] = [this.operand(given[0]), this.operand(given[2])];
    const d = dimensionOf(given[1], input.sizes.length);
    const from = input.strides.map((stride, own) => (own === d ? 0 : stride));
    const offsets = [output.offset, input.offset, index.offset];
    const strides = [output.strides, from, index.strides];
    return overRows(this.heap, gathering(input.strides[d]), output.sizes, offsets, strides);
  },
  scatter: scattered(scattering),
  scatter_add: scattered(scatterAdding),
  index(given, named, [output]) {
    const input = this.operand(given[0]);
    const indices = given[1].map((/** @type {any} */ one) => this.operand(one));
    if (indices.length > 2 || indices.some((/** @type {Operand} */ one) => one.kind === "b")) {
      throw new Error("a page indexes the first one or two dimensions by numbers alone");
    }
    const [first, second = this.operand(0)] = indices;
    const rest = input.sizes.length - indices.length;
    const sizes = output.sizes.slice(0, output.sizes.length - rest);
    /** @param {Operand} one */
    const spread = (one) => [...stridesIn(one, sizes), ...Array(rest).fill(0)];
    const from = [...sizes.map(() => 0), ...input.strides.slice(indices.length)];
    const strides = [output.strides, from, spread(first), spread(second)];
    const offsets = [output.offset, input.offset, first.offset, second.offset];
    const loop = indexing(input.strides[0], indices.length > 1 ? input.strides[1] : 0);
    return overRows(this.heap, loop, output.sizes, offsets, strides);
  },

  // ---- matrices ----

  bmm(given, named, [output], name, overload, program) {
    return this.product(output, given, program);
  },
  mm(given, named, [output], name, overload, program) {
    return this.product(output, given, program);
  },
  linalg_qr(given, named, [basis, triangular]) {
    return orthogonalise(this.heap, this.operand(given[0]), basis, triangular);
  },
};

/** @param {Loop} loop @returns {Maker} */
function lines(loop) {
  return function make(given, named, [output]) {
    const input = this.operand(given[0]);
    return this.along(loop, dimensionOf(given[1], input.sizes.length), [[output, true], [input, true]]);
  };
}

/** @this {Engine} @param {Operand} input @param {number} dimension @param {Operand} values @param {Operand} places */
function largest(input, dimension, values, places) {
  const d = dimensionOf(dimension, input.sizes.length);
  const kept = places.sizes.length === input.sizes.length;
  const flat = [values, places].map((one) => (kept ? without(one, d) : one));
  return this.along(largestOf, d, [[flat[0], false], [input, true], [flat[1], false]]);
}

/** Finds room for the buffers. One that a single program writes before it reads it, and nobody else reads, has room only
 * from its first to its last operation there.
 * @param {Programs} recorded @param {Set<number>} kept */
function placed(recorded, kept) {
  /** @type {Map<number, { program: string, first: number, last: number, written: boolean }>} */
  const uses = new Map();
  const lasting = new Set([...kept, ...Object.keys(recorded.constants).map(Number)]);
  for (const [program, operations] of Object.entries(recorded.programs)) {
    operations.forEach(([name, given, named, places], at) => {
      const read = new Set([...placesIn([given, named])].map((place) => place.buffer));
      const written = new Set(places.map((place) => place.buffer));
      for (const buffer of new Set([...read, ...written])) {
        const use = uses.get(buffer);
        if (!use) {
          uses.set(buffer, { program, first: at, last: at, written: true });
          if (read.has(buffer)) lasting.add(buffer);
        } else if (use.program === program) use.last = at;
        else lasting.add(buffer);
      }
    });
  }
  const starts = recorded.buffers.map(() => 0);
  const size = (/** @type {number} */ buffer) => Math.ceil(recorded.buffers[buffer][1] / ALIGNED) * ALIGNED + ALIGNED;
  let total = 0;
  recorded.buffers.forEach((_, buffer) => {
    if (!lasting.has(buffer) && uses.has(buffer)) return;
    starts[buffer] = total;
    total += size(buffer);
  });
  let most = total;
  /** @type {Map<string, number[]>} */
  const temporary = new Map();
  for (const [buffer, { program }] of uses) {
    if (!lasting.has(buffer)) temporary.set(program, [...(temporary.get(program) ?? []), buffer]);
  }
  for (const own of temporary.values()) {
    /** @type {{ start: number, end: number, last: number }[]} */
    let taken = [];
    for (const buffer of own.sort((a, b) => (uses.get(a)?.first ?? 0) - (uses.get(b)?.first ?? 0))) {
      const { first, last } = /** @type {{ first: number, last: number }} */ (uses.get(buffer));
      taken = taken.filter((one) => one.last >= first).sort((a, b) => a.start - b.start);
      let start = total;
      for (const one of taken) {
        if (start + size(buffer) <= one.start) break;
        start = Math.max(start, one.end);
      }
      starts[buffer] = start;
      taken.push({ start, end: start + size(buffer), last });
      most = Math.max(most, start + size(buffer));
    }
  }
  return { starts, total: most };
}

/** The places in a nest of lists and records. @param {any} value @returns {Generator<Place>} */
export function* placesIn(value) {
  if (isPlace(value)) yield value;
  else if (Array.isArray(value)) for (const one of value) yield* placesIn(one);
  else if (value && typeof value === "object") for (const one of Object.values(value)) yield* placesIn(one);
}
