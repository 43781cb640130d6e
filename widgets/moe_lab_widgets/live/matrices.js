/** Products of matrices. */

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */

const BYTES = Float64Array.BYTES_PER_ELEMENT;

/** Multiplies matrices in the memory's WebAssembly module (`product.py`); addresses and distances in bytes.
 * @typedef {(x: number, y: number, z: number, m: number, k: number, n: number, xi: number, xk: number, yk: number,
 *   zi: number, zj: number) => void} Multiply */

/** Whether the rows of a right matrix have to be copied before they can be multiplied. @param {Operand} right */
export const isScattered = (right) => right.sizes[2] > 1 && right.strides[2] !== 1;

/** Whether it is a product of the transposed matrices that is computed: where the right one is itself transposed.
 * @param {Operand} right */
export const isTurned = (right) => isScattered(right) && right.strides[1] === 1;

/** Returns what multiplies matrices (batch, m, k) and (batch, k, n).
 * @param {Heap} heap @param {{ multiply: Multiply, turned: Multiply }} products @param {Operand} output
 * @param {Operand} left @param {Operand} right
 * @param {number} copies where in the heap the rows of a scattered matrix are copied to
 * @param {boolean} once whether those of the right one never change after the first call, and have room for all of the
 *   batch */
export function multiplier(heap, { multiply, turned }, output, left, right, copies, once) {
  const [batch, m, n] = output.sizes;
  const k = left.sizes[2];
  const [bs, is, js] = output.strides;
  const [lb, li, lk] = left.strides;
  const [rb, rk, rj] = right.strides;
  /** Copies a matrix, row after row. @param {number} into @param {number} from @param {number} rows
   * @param {number} columns @param {number} down @param {number} across */
  const copy = (into, from, rows, columns, down, across) => {
    for (let i = 0; i < rows; i++) {
      for (let j = 0, at = from + i * down; j < columns; j++, at += across) heap[into++] = heap[at];
    }
  };
  const [one, other, result] = [left, right, output].map(({ offset }) => offset);
  if (isTurned(right) && !once) {
    return () => {
      for (let b = 0; b < batch; b++) {
        copy(copies, one + b * lb, k, m, lk, li);
        const [x, z] = [other + b * rb, result + b * bs].map((place) => place * BYTES);
        turned(x, copies * BYTES, z, n, k, m, rj * BYTES, BYTES, m * BYTES, js * BYTES, is * BYTES);
      }
    };
  }
  const scattered = isScattered(right);
  const yk = scattered ? n : rk;
  let done = false;
  return () => {
    for (let b = 0; b < batch; b++) {
      const into = copies + (once ? b * k * n : 0);
      const from = other + b * rb;
      if (scattered && !(once && done)) copy(into, from, k, n, rk, rj);
      const [x, y, z] = [one + b * lb, scattered ? into : from, result + b * bs].map((place) => place * BYTES);
      multiply(x, y, z, m, k, n, li * BYTES, lk * BYTES, yk * BYTES, is * BYTES, BYTES);
    }
    done = true;
  };
}
