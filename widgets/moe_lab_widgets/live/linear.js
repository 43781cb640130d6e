/** Mathematics of matrices that is written by hand; eigenvectors and pseudo-inverses are in `rotations.js`. */

import { numberOf } from "./layout.js";

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */

/** Returns what decomposes matrices (..., m, n) with m >= n into an orthonormal basis and a triangular matrix, whose
 * diagonal is positive, by Gram and Schmidt, twice over.
 * @param {Heap} heap @param {Operand} input @param {Operand} basis @param {Operand} triangular */
function orthogonalise(heap, input, basis, triangular) {
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

/** Returns what solves systems of linear equations (..., n, n) for right sides (..., n), by elimination with the largest
 * pivot of each column. A singular one has a solution that is not finite.
 * @param {Heap} heap @param {Operand} matrices @param {Operand} right @param {Operand} output */
function solver(heap, matrices, right, output) {
  const n = output.sizes[output.sizes.length - 1];
  if (right.sizes.length !== matrices.sizes.length - 1) throw new Error("a page solves for one right side alone");
  const sizes = output.sizes.slice(0, -1);
  const rows = Array.from({ length: n }, () => new Float64Array(n + 1));
  /** Where a system begins. @param {Operand} one @param {number} batch */
  const begin = (one, batch) => {
    let [at, rest] = [one.offset, batch];
    for (let d = sizes.length - 1; d >= 0; d--) {
      at += (rest % sizes[d]) * one.strides[d];
      rest = Math.floor(rest / sizes[d]);
    }
    return at;
  };
  const [down, along] = matrices.strides.slice(-2);
  const [stepRight, stepOut] = [right, output].map((one) => one.strides[one.strides.length - 1]);
  return () => {
    for (let batch = 0; batch < numberOf(sizes); batch++) {
      const [from, sides, into] = [matrices, right, output].map((one) => begin(one, batch));
      rows.forEach((row, i) => {
        for (let j = 0; j < n; j++) row[j] = heap[from + i * down + j * along];
        row[n] = heap[sides + i * stepRight];
      });
      eliminate(rows).forEach((value, i) => (heap[into + i * stepOut] = value));
    }
  };
}

/** Solves one system, whose rows end with their right sides, and destroys it. @param {Float64Array[]} rows */
function eliminate(rows) {
  const n = rows.length;
  for (let column = 0; column < n; column++) {
    let best = column;
    for (let i = column + 1; i < n; i++) if (Math.abs(rows[i][column]) > Math.abs(rows[best][column])) best = i;
    [rows[column], rows[best]] = [rows[best], rows[column]];
    const pivot = rows[column];
    for (let i = column + 1; i < n; i++) {
      const row = rows[i];
      const factor = row[column] / pivot[column];
      for (let j = column + 1; j <= n; j++) row[j] -= factor * pivot[j];
    }
  }
  const solution = new Float64Array(n);
  for (let i = n - 1; i >= 0; i--) {
    let value = rows[i][n];
    for (let j = i + 1; j < n; j++) value -= rows[i][j] * solution[j];
    solution[i] = value / rows[i][i];
  }
  return solution;
}

/** @type {Record<string, import("./operations.js").Maker>} */
export const OF_EQUATIONS = {
  _linalg_solve_ex({ given, results: [output] }) {
    const [matrices, right] = given.map((one) => this.operand(one));
    return solver(this.heap, matrices, right, output);
  },
  linalg_qr({ given, results: [basis, triangular] }) {
    return orthogonalise(this.heap, this.operand(given[0]), basis, triangular);
  },
};
