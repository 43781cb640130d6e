/** Operations that read or write at the places that other numbers say. */

import { LOOPS, adding, gathering, indexing, scattering } from "./kernels.js";
import { dimensionOf, numberOf, overRows, startsOf, stridesIn } from "./layout.js";
import { isPlace } from "./places.js";

/** @typedef {import("./operations.js").Maker} Maker */
/** @typedef {import("./layout.js").Operand} Operand */

/** Writes a source at the places of an index along a dimension of the output, which begins as the input is.
 * @this {import("./engine.js").Engine} @param {typeof scattering} loop @param {Operand} output
 * @param {any[]} given input, dimension, index (an operand already, or a place), source */
function writtenAt(loop, output, [input, dimension, index, source]) {
  const d = dimensionOf(dimension, output.sizes.length);
  const [first, from] = [input, source].map((one) => this.operand(one));
  const where = isPlace(index) ? this.operand(index) : index;
  const strides = output.strides.map((stride, own) => (own === d ? 0 : stride));
  const rows = [strides, isPlace(source) ? from.strides : stridesIn(from, where.sizes), where.strides];
  const write = overRows(
    this.heap,
    loop(output.strides[d]),
    where.sizes,
    [output.offset, from.offset, where.offset],
    rows,
  );
  return first.offset === output.offset ? write : [this.over(LOOPS.copy, output, first), write];
}

/** @type {Record<string, Maker>} */
export const BY_INDEX = {
  gather({ given, results: [output] }) {
    const [input, index] = [this.operand(given[0]), this.operand(given[2])];
    const d = dimensionOf(given[1], input.sizes.length);
    const from = input.strides.map((stride, own) => (own === d ? 0 : stride));
    const offsets = [output.offset, input.offset, index.offset];
    const strides = [output.strides, from, index.strides];
    return overRows(this.heap, gathering(input.strides[d]), output.sizes, offsets, strides);
  },
  index_select({ given, results: [output] }) {
    const [input, index] = [this.operand(given[0]), this.operand(given[2])];
    const d = dimensionOf(given[1], input.sizes.length);
    const from = input.strides.map((stride, own) => (own === d ? 0 : stride));
    const places = input.strides.map((_, own) => (own === d ? index.strides[0] : 0));
    const offsets = [output.offset, input.offset, index.offset];
    return overRows(this.heap, gathering(input.strides[d]), output.sizes, offsets, [output.strides, from, places]);
  },
  embedding({ given, results: [output] }) {
    const [table, index] = [this.operand(given[0]), this.operand(given[1])];
    const [stride, within] = table.strides;
    const outer = output.strides.slice(0, -1);
    const n = table.sizes[1];
    if (within === 1 && output.strides[outer.length] === 1) {
      const count = numberOf(index.sizes);
      const into = startsOf(count, index.sizes, output.offset, outer);
      const which = startsOf(count, index.sizes, index.offset, index.strides);
      return () => {
        for (let i = 0; i < count; i++) {
          const from = table.offset + this.heap[which[i]] * stride;
          this.heap.copyWithin(into[i], from, from + n);
        }
      };
    }
    const offsets = [output.offset, table.offset, index.offset];
    const strides = [output.strides, [...index.sizes.map(() => 0), within], [...index.strides, 0]];
    return overRows(this.heap, gathering(stride), output.sizes, offsets, strides);
  },
  scatter({ given, results: [output] }) {
    return writtenAt.call(this, scattering, output, given);
  },
  scatter_add({ given, results: [output] }) {
    return writtenAt.call(this, adding, output, given);
  },
  index_copy({ given: [input, dimension, index, source], results: [output] }) {
    const { sizes } = this.operand(source);
    const d = dimensionOf(dimension, sizes.length);
    const which = this.operand(index);
    const spread = { ...which, sizes, strides: sizes.map((_, own) => (own === d ? which.strides[0] : 0)) };
    return writtenAt.call(this, scattering, output, [input, dimension, spread, source]);
  },
  searchsorted({ given, named, results: [output] }) {
    const { right = false } = named;
    const [sorted, wanted] = given.slice(0, 2).map((one) => this.operand(one));
    const outer = sorted.sizes.length - 1;
    const [n, each] = [sorted.sizes[outer], wanted.sizes[outer]];
    const rows = sorted.sizes.slice(0, outer);
    const count = numberOf(rows);
    const [from, of, into] = [sorted, wanted, output].map(({ offset, strides }) =>
      startsOf(count, rows, offset, strides.slice(0, outer)),
    );
    const [step, next, last] = [sorted, wanted, output].map(({ strides }) => strides[outer]);
    const h = this.heap;
    return () => {
      for (let row = 0; row < count; row++) {
        for (let place = 0; place < each; place++) {
          const value = h[of[row] + place * next];
          let [low, high] = [0, n];
          while (low < high) {
            const middle = (low + high) >> 1;
            const at = h[from[row] + middle * step];
            if (at < value || (right && at === value)) low = middle + 1;
            else high = middle;
          }
          h[into[row] + place * last] = low;
        }
      }
    };
  },
  index({ given, results: [output] }) {
    const input = this.operand(given[0]);
    const which = input.sizes.flatMap((_, d) => (given[1][d] ? [d] : []));
    const indices = which.map((d) => this.operand(given[1][d]));
    if (which.length > 2 || indices.some((one) => one.kind === "b")) {
      throw new Error("a page indexes one or two dimensions by numbers alone");
    }
    const rest = input.strides.filter((_, d) => !which.includes(d));
    const count = output.sizes.length - rest.length;
    const together = which.every((d, place) => d === which[0] + place);
    const before = together ? which[0] : 0; // dimensions that stand before those of the indices
    const sizes = output.sizes.slice(before, before + count);
    /** @param {number[]} own @param {number[]} others */
    const placed = (own, others) => [...others.slice(0, before), ...own, ...others.slice(before)];
    const still = rest.map(() => 0);
    const strides = [
      output.strides,
      placed(Array(count).fill(0), rest),
      ...[0, 1].map((place) =>
        placed(indices[place] ? stridesIn(indices[place], sizes) : Array(count).fill(0), still),
      ),
    ];
    const offsets = [output.offset, input.offset, indices[0].offset, (indices[1] ?? this.operand(0)).offset];
    const loop = indexing(input.strides[which[0]], which.length > 1 ? input.strides[which[1]] : 0);
    return overRows(this.heap, loop, output.sizes, offsets, strides);
  },
};
