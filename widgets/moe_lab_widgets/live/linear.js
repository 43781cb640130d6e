/** Mathematics of matrices that is written by hand; eigenvectors and pseudo-inverses are in `rotations.js`. */

import { numberOf } from "./layout.js";

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */

const BYTES = Float64Array.BYTES_PER_ELEMENT;

/** Multiplies matrices in the memory's WebAssembly module (`product.py`); addresses and distances in bytes.
 * @typedef {(x: number, y: number, z: number, m: number, k: number, n: number, xi: number, xk: number, yk: number,
 *   zi: number) => void} Multiply */

/** Whether the rows of a right matrix have to be copied before they can be multiplied. @param {Operand} right */
export const isScattered = (right) => right.sizes[2] > 1 && right.strides[2] !== 1;

/** Returns what multiplies matrices (batch, m, k) and (batch, k, n).
 * @param {Heap} heap @param {Multiply} multiply @param {Operand} output @param {Operand} left @param {Operand} right
 * @param {number} copies where in the heap the rows of a scattered right matrix are copied to
 * @param {boolean} once whether they never change after the first call, and have room for all of the batch */
export function multiplier(heap, multiply, output, left, right, copies, once) {
  const [batch, m, n] = output.sizes;
  const k = left.sizes[2];
  const scattered = isScattered(right);
  const [bs, is] = output.strides;
  const [lb, li, lk] = left.strides;
  const [rb, rk] = right.strides;
  let done = false;
  /** @param {number} b @param {number} into */
  const copy = (b, into) => {
    const rj = right.strides[2];
    for (let q = 0; q < k; q++) {
      for (let j = 0, at = right.offset + b * rb + q * rk; j < n; j++, at += rj) heap[into + q * n + j] = heap[at];
    }
  };
  return () => {
    for (let b = 0; b < batch; b++) {
      const into = copies + (once ? b * k * n : 0);
      if (scattered && !(once && done)) copy(b, into);
      const from = scattered ? into : right.offset + b * rb;
      const x = left.offset + b * lb;
      const z = output.offset + b * bs;
      const yk = scattered ? n : rk;
      multiply(x * BYTES, from * BYTES, z * BYTES, m, k, n, li * BYTES, lk * BYTES, yk * BYTES, is * BYTES);
    }
    done = true;
  };
}

/** Returns what decomposes matrices (..., m, n) with m >= n into an orthonormal basis and a triangular matrix, whose
 * diagonal is positive, by Gram and Schmidt, twice over.
 * @param {Heap} heap @param {Operand} input @param {Operand} basis @param {Operand} triangular */
export function orthogonalise(heap, input, basis, triangular) {
  const depth = input.sizes.length - 2;
  const [m, n] = input.sizes.slice(depth);
  const batches = numberOf(input.sizes.slice(0, depth));
  if (depth > 1) throw new Error("a page decomposes lists of matrices alone");
  const column = new Float64Array(m);
  /** @param {Operand} one @param {number} b @param {number} i @param {number} j */
  const at = (one, b, i, j) =>
    one.offset + (depth ? b * one.strides[0] : 0) + i * one.strides[depth] + j * one.strides[depth + 1];
  return () => {
    for (let b = 0; b < batches; b++) {
      for (let j = 0; j < n; j++) {
        for (let i = 0; i < m; i++) column[i] = heap[at(input, b, i, j)];
        for (let i = 0; i < n; i++) heap[at(triangular, b, i, j)] = 0;
        for (let turn = 0; turn < 2; turn++) {
          for (let before = 0; before < j; before++) {
            let along = 0;
            for (let i = 0; i < m; i++) along += column[i] * heap[at(basis, b, i, before)];
            for (let i = 0; i < m; i++) column[i] -= along * heap[at(basis, b, i, before)];
            heap[at(triangular, b, before, j)] += along;
          }
        }
        const length = Math.hypot(...column);
        heap[at(triangular, b, j, j)] = length;
        for (let i = 0; i < m; i++) heap[at(basis, b, i, j)] = column[i] / length;
      }
    }
  };
}
