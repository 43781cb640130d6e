/** How operands lie in the heap, and loops over all of their rows. */

import { upTo } from "./plain.js";

/** Where a tensor is: an offset in the heap, sizes, and strides.
 * @typedef {{ offset: number, sizes: number[], strides: number[], kind: string }} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */
/** @typedef {import("./kernels.js").Loop} Loop */

/** @param {number[]} sizes */
export const numberOf = (sizes) => sizes.reduce((product, size) => product * size, 1);

/** A dimension, counted from the end where it is negative. @param {number} dimension @param {number} count */
export const dimensionOf = (dimension, count) => (dimension < 0 ? dimension + count : dimension);

/** The strides of an operand that is repeated to fill some sizes. @param {Operand} one @param {number[]} sizes */
export function stridesIn(one, sizes) {
  const more = sizes.length - one.sizes.length;
  return sizes.map((size, d) => (d < more || (one.sizes[d - more] === 1 && size !== 1) ? 0 : one.strides[d - more]));
}

/** An operand without a dimension. @param {Operand} one @param {number} dimension @returns {Operand} */
export function without(one, dimension) {
  /** @param {number[]} list */
  const rest = (list) => list.filter((_, d) => d !== dimension);
  return { ...one, sizes: rest(one.sizes), strides: rest(one.strides) };
}

/** A part of an operand along a dimension. @param {Operand} one @param {number} dimension @param {number} begin
 * @param {number} size @returns {Operand} */
export function part(one, dimension, begin, size) {
  const sizes = one.sizes.map((whole, d) => (d === dimension ? size : whole));
  return { ...one, offset: one.offset + begin * one.strides[dimension], sizes };
}

const SHORT = 12;
/** A row shorter than this is no row for a loop, where there is a longer one. */

/** A loop of the WebAssembly module, over rows of n numbers that lie side by side; of `one`, q is one number. Places in
 * bytes. @typedef {(n: number, o: number, p: number, q: number) => void} RowLoop */
/** @typedef {{ both: RowLoop, one: RowLoop, swaps: boolean }} Quick loops for rows, and whether p and q may swap */

/** A loop that calls a quick one, where the rows allow it. @param {Loop} loop @param {Quick | undefined} quick
 * @param {number} n @param {number[]} rows strides @returns {Loop} */
function quickest(loop, quick, n, [os, ps, qs]) {
  if (!quick || n < SHORT || os !== 1) return loop;
  if (ps === 1 && qs === 1) return (_h, count, o, _os, p, _ps, q) => quick.both(count, 8 * o, 8 * p, 8 * q);
  if (ps === 1 && qs === 0) return (_h, count, o, _os, p, _ps, q) => quick.one(count, 8 * o, 8 * p, 8 * q);
  if (quick.swaps && ps === 0 && qs === 1)
    return (_h, count, o, _os, p, _ps, q) => quick.one(count, 8 * o, 8 * q, 8 * p);
  return loop;
}

/** Returns what calls a loop for all rows of some sizes.
 *
 * Neighbouring dimensions become one where every operand allows it; the last one left is the row, or the longest if the
 * last is short.
 * @param {Heap} heap @param {Loop} slow @param {number[]} sizes @param {number[]} offsets of at most four operands,
 *   the output first
 * @param {number[][]} strides of each @param {Quick} [quick] the same for rows that lie side by side
 * @returns {() => void} */
export function overRows(heap, slow, sizes, offsets, strides, quick) {
  if (sizes.includes(0)) return () => {};
  /** @type {number[]} */
  let lengths = [];
  let steps = strides.map(() => /** @type {number[]} */ ([]));
  sizes.forEach((size, d) => {
    if (size === 1) return;
    const last = lengths.length - 1;
    if (last >= 0 && steps.every((own, place) => own[last] === strides[place][d] * size)) {
      lengths[last] *= size;
      steps.forEach((own, place) => (own[last] = strides[place][d]));
    } else {
      lengths.push(size);
      steps.forEach((own, place) => own.push(strides[place][d]));
    }
  });
  if (lengths.length > 1 && lengths[lengths.length - 1] < SHORT) {
    const longest = lengths.indexOf(Math.max(...lengths));
    const order = [...lengths.keys()].filter((d) => d !== longest).concat(longest);
    lengths = order.map((d) => lengths[d]);
    steps = steps.map((own) => order.map((d) => own[d]));
  }
  const n = lengths.pop() ?? 1;
  const rows = steps.map((own) => own.pop() ?? 0);
  const [o = 0, p = 0, q = 0, r = 0] = offsets;
  const [os = 0, ps = 0, qs = 0, rs = 0] = rows;
  const loop = quickest(slow, quick, n, [os, ps, qs]);
  if (!lengths.length) return () => loop(heap, n, o, os, p, ps, q, qs, r, rs);
  const count = numberOf(lengths);
  const starts = [0, 1, 2, 3].map((place) => startsOf(count, lengths, offsets[place] ?? 0, steps[place] ?? []));
  const [outs, ins, seconds, thirds] = starts;
  return () => {
    for (let i = 0; i < count; i++) loop(heap, n, outs[i], os, ins[i], ps, seconds[i], qs, thirds[i], rs);
  };
}

/** Where each row of an operand begins. @param {number} count @param {number[]} lengths @param {number} offset
 * @param {number[]} steps */
export function startsOf(count, lengths, offset, steps) {
  const starts = new Int32Array(count).fill(offset);
  let known = 1; // how many are there; the others along a dimension lie a step further each
  for (let d = lengths.length - 1; d >= 0; d--) {
    const step = steps[d] ?? 0;
    for (let i = known; i < known * lengths[d]; i++) starts[i] = starts[i - known] + step;
    known *= lengths[d];
  }
  return starts;
}

/** The dimensions in the order in which numbers lie in memory, so that more of them become one row.
 * @param {number[]} strides */
export const inMemory = (strides) => upTo(strides.length).sort((a, b) => strides[b] - strides[a] || a - b);
