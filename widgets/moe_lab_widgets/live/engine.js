/** Runs the programs of a recorded Lab: lists of operations on buffers, all of which lie in one heap. */

import { LOOPS, accumulate } from "./kernels.js";
import { dimensionOf, inMemory, numberOf, overRows, stridesIn, without } from "./layout.js";
import { isScattered, multiplier } from "./matrices.js";
import { madeOf } from "./operations.js";
import { isPlace } from "./places.js";
import { PRODUCT } from "./product.js";
import { placed } from "./room.js";

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Loop} Loop */
/** @typedef {import("./places.js").Place} Place */
/** @typedef {() => void} Act */

const PRODUCTS = new WebAssembly.Module(Uint8Array.from(atob(PRODUCT), (letter) => letter.charCodeAt(0)));
const PAGE = 65536;
/** Plain numbers of operations for which there is room. */
const MOST_NUMBERS = 4096;
export class Engine {
  /** @param {import("./places.js").Programs} recorded @param {number[]} kept buffers that are filled or read from outside */
  constructor(recorded, kept) {
    this.buffers = recorded.buffers;
    /** Where plain numbers of operations are, which have a place in the heap like all others. */
    this.numberAt = new Map();
    const { starts, total } = placed(recorded, new Set(kept));
    this.starts = starts;
    this.room = total;
    this.copies = total + MOST_NUMBERS;
    /** Buffers that a step or a measurement writes. */
    this.changing = new Set(kept);
    let [lasting, most] = [0, 0];
    for (const [name, operations] of Object.entries(recorded.programs)) {
      if (!name.startsWith("begin/"))
        operations.forEach((one) => one[3].forEach(({ buffer }) => this.changing.add(buffer)));
    }
    for (const [name, operations] of Object.entries(recorded.programs)) {
      for (const [kind, given] of operations) {
        if (!/^(b?mm|baddbmm)\./.test(kind)) continue;
        const [left, right] = given.slice(kind.startsWith("baddbmm") ? 1 : 0);
        const count = numberOf(right.sizes);
        if (this.once(name, right)) lasting += count;
        const batch = left.sizes.length > 2 ? Math.max(1, left.sizes[0]) : 1;
        most = Math.max(most, count / batch, numberOf(left.sizes) / batch);
      }
    }
    const memory = new WebAssembly.Memory({ initial: Math.ceil(((this.copies + lasting + most) * 8) / PAGE) + 1 });
    this.heap = new Float64Array(memory.buffer);
    this.scratch = this.copies + lasting;
    const made = new WebAssembly.Instance(PRODUCTS, { e: { m: memory } });
    const quick = /** @type {Record<string, any>} */ (made.exports);
    /** @type {{ multiply: import("./matrices.js").Multiply, turned: import("./matrices.js").Multiply }} */
    this.products = { multiply: quick.multiply, turned: quick.turned };
    /** @type {Record<string, import("./layout.js").Quick>} */
    this.quick = {};
    /** Adds a row to the row that is there. @type {import("./layout.js").RowLoop} */
    const addTo = (n, o, p) => quick.add(n, o, o, p);
    this.quick.accumulate = { both: addTo, one: addTo, swaps: false };
    for (const name of ["add", "sub", "mul", "div", "maximum", "kept"]) {
      this.quick[name] = {
        both: quick[name],
        one: quick[`${name}1`],
        swaps: ["add", "mul", "maximum"].includes(name),
      };
    }
    for (const [buffer, values] of Object.entries(recorded.constants)) this.set(Number(buffer), values);
    this.recorded = recorded.programs;
    /** What each program does, set up when it is first run. @type {Record<string, Act[]>} */
    this.programs = {};
  }

  /** @param {string} program */
  made(program) {
    return this.recorded[program].map(([kind, given, named, places]) => {
      const results = places.map((place) => this.operand(place));
      return madeOf(this, kind, { given, named, results, program });
    });
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
    return multiplier(this.heap, this.products, batched(output), left, right, copies, once);
  }

  /** @param {string} program */
  run(program) {
    this.programs[program] ??= this.made(program);
    for (const act of this.programs[program]) act();
  }

  /** Fills a buffer: with one number, with how its numbers go on, or with all of them.
   * @param {number} buffer @param {import("./places.js").Filling} values */
  set(buffer, values) {
    const [, count] = this.buffers[buffer];
    const start = this.starts[buffer];
    if (typeof values !== "object") this.heap.fill(Number(values), start, start + count);
    else if ("from" in values) for (let i = 0; i < count; i++) this.heap[start + i] = values.from + i * values.by;
    else this.heap.set(values, start);
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
    return this.overOrQuick(loop, undefined, output, ...inputs);
  }

  /** The same with a quick loop where rows lie side by side. @param {Loop} loop
   * @param {import("./layout.js").Quick | undefined} quick @param {Operand} output @param {Operand[]} inputs
   * @returns {Act} */
  overOrQuick(loop, quick, output, ...inputs) {
    const all = [output, ...inputs];
    const order = inMemory(output.strides);
    const strides = all.map((one) => stridesIn(one, output.sizes)).map((own) => order.map((d) => own[d]));
    const offsets = all.map((one) => one.offset);
    const sizes = order.map((d) => output.sizes[d]);
    return overRows(this.heap, loop, sizes, offsets, strides, quick);
  }

  /** Fills an output with a number. @param {Operand} output @param {any} value */
  filled(output, value) {
    return this.over(LOOPS.copy, output, this.operand(value));
  }

  /** Calls a loop on each line along a dimension, of operands that have that dimension and of others that do not.
   * @param {Loop} loop @param {number} dimension @param {[Operand, boolean][]} operands the output first, then the line
   * that is read @param {number} [extra] a place for the loop's last number
   * @param {import("./kernels.js").WideLoop} [wide] the same for many lines side by side @returns {Act} */
  along(loop, dimension, operands, extra = 0, wide = undefined) {
    const [, [line]] = operands;
    const n = line.sizes[dimension];
    const steps = operands.map(([one, whole]) => (whole ? one.strides[dimension] : 0));
    const lines = operands.map(([one, whole]) => (whole ? without(one, dimension) : one));
    const sizes = without(line, dimension).sizes;
    /** @type {Loop} */
    const each = (heap, count, o, os, p, ps, q, qs) => {
      if (wide && count > 1 && os === 1 && ps === 1) {
        wide(heap, n, count, o, steps[0], p, steps[1]);
        return;
      }
      for (let i = 0; i < count; i++, o += os, p += ps, q += qs) {
        loop(heap, n, o, steps[0], p, steps[1], q, steps[2] ?? 0, extra, 0);
      }
    };
    return overRows(
      this.heap,
      each,
      sizes,
      lines.map((one) => one.offset),
      lines.map((one) => stridesIn(one, sizes)),
    );
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
    const quick = loop === accumulate ? this.quick.accumulate : undefined;
    const offsets = [output.offset, input.offset];
    const reduce = overRows(this.heap, loop, input.sizes, offsets, [strides, input.strides], quick);
    return [this.filled(output, begin), reduce];
  }
}
