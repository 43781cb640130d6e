/** Products of matrices. */

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
