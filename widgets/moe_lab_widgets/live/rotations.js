/** Eigenvectors and pseudo-inverses of small matrices, by Jacobi's rotations. */

import { numberOf } from "./layout.js";

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */

/** Sweeps over all pairs of rows; a few are enough. */
const SWEEPS = 30;
const EPSILON = 2 ** -52;

/** The angle that a rotation needs, as its cosine and sine, to make two rows with products p and r of their own
 * orthogonal, whose product with each other is q. @param {number} p @param {number} q @param {number} r */
function turn(p, q, r) {
  const half = (r - p) / (2 * q);
  const tangent = (half < 0 ? -1 : 1) / (Math.abs(half) + Math.hypot(1, half));
  const cosine = 1 / Math.hypot(1, tangent);
  return [cosine, tangent * cosine];
}

/** Turns two rows. @param {Float64Array} one @param {Float64Array} other @param {number} cosine @param {number} sine */
function turned(one, other, cosine, sine) {
  for (let i = 0; i < one.length; i++) {
    const [first, second] = [one[i], other[i]];
    one[i] = cosine * first - sine * second;
    other[i] = sine * first + cosine * second;
  }
}

/** @param {Float64Array} one @param {Float64Array} other */
function product(one, other) {
  let sum = 0;
  for (let i = 0; i < one.length; i++) sum += one[i] * other[i];
  return sum;
}

/** @param {number} size @returns {Float64Array[]} */
const unit = (size) =>
  Array.from({ length: size }, (_, row) =>
    Float64Array.from({ length: size }, (_, column) => Number(row === column)),
  );

/** Turns rows until all are orthogonal, and the rows of `with` along with them.
 * @param {Float64Array[]} rows @param {Float64Array[]} along */
function orthogonal(rows, along) {
  for (let sweep = 0, moved = true; moved && sweep < SWEEPS; sweep++) {
    moved = false;
    for (let i = 0; i < rows.length; i++) {
      for (let j = i + 1; j < rows.length; j++) {
        const [p, q, r] = [product(rows[i], rows[i]), product(rows[i], rows[j]), product(rows[j], rows[j])];
        if (!(Math.abs(q) > EPSILON * Math.sqrt(p * r))) continue;
        moved = true;
        const [cosine, sine] = turn(p, q, r);
        turned(rows[i], rows[j], cosine, sine);
        turned(along[i], along[j], cosine, sine);
      }
    }
  }
}

/** The eigenvalues of a symmetric matrix, and its eigenvectors as rows. @param {Float64Array[]} matrix */
function eigenvectors(matrix) {
  const size = matrix.length;
  const vectors = unit(size);
  for (let sweep = 0, moved = true; moved && sweep < SWEEPS; sweep++) {
    moved = false;
    for (let i = 0; i < size; i++) {
      for (let j = i + 1; j < size; j++) {
        const off = matrix[i][j];
        if (!(Math.abs(off) > 1e-3 * EPSILON * Math.sqrt(Math.abs(matrix[i][i] * matrix[j][j])))) continue;
        if (Math.abs(off) < 1e-300) continue;
        moved = true;
        const [cosine, sine] = turn(matrix[i][i], off, matrix[j][j]);
        turned(matrix[i], matrix[j], cosine, sine);
        for (const row of matrix) {
          const [first, second] = [row[i], row[j]];
          row[i] = cosine * first - sine * second;
          row[j] = sine * first + cosine * second;
        }
        matrix[i][j] = matrix[j][i] = 0;
        turned(vectors[i], vectors[j], cosine, sine);
      }
    }
  }
  return { values: matrix.map((row, place) => row[place]), vectors };
}

/** Calls for each matrix of a list, with what its entries' places begin with. @param {Operand[]} operands
 * @param {(at: ((i: number, j: number) => number)[]) => void} act */
function ofEach(operands, act) {
  const depth = operands[0].sizes.length - 2;
  if (depth > 1) throw new Error("a page decomposes lists of matrices alone");
  const count = numberOf(operands[0].sizes.slice(0, depth));
  return () => {
    for (let b = 0; b < count; b++) {
      act(
        operands.map(({ offset, sizes, strides }) => {
          const [down, across] = sizes.length > depth + 1 ? strides.slice(depth) : [strides[depth], 0];
          return (i, j) => offset + (depth ? b * strides[0] : 0) + i * down + j * across;
        }),
      );
    }
  };
}

/** Returns what finds the eigenvalues of symmetric matrices (..., n, n), ascending, and their eigenvectors as columns.
 * @param {Heap} heap @param {Operand} input @param {Operand} values @param {Operand} vectors */
function decompose(heap, input, values, vectors) {
  const [size] = input.sizes.slice(-1);
  return ofEach([input, values, vectors], ([from, value, vector]) => {
    const rows = unit(size).map((row, i) => row.map((_, j) => heap[from(Math.max(i, j), Math.min(i, j))]));
    const found = eigenvectors(rows);
    const order = found.values.map((_, place) => place).sort((a, b) => found.values[a] - found.values[b]);
    order.forEach((own, place) => {
      heap[value(place, 0)] = found.values[own];
      for (let i = 0; i < size; i++) heap[vector(i, place)] = found.vectors[own][i];
    });
  });
}

/** Returns what computes the pseudo-inverses of matrices (..., m, n) with m <= n.
 * @param {Heap} heap @param {Operand} input @param {Operand} output */
function pseudoInvert(heap, input, output) {
  const [m, n] = input.sizes.slice(-2);
  if (m > n) throw new Error("a page inverts wide matrices alone");
  return ofEach([input, output], ([from, into]) => {
    const rows = Array.from({ length: m }, (_, i) => Float64Array.from({ length: n }, (_, j) => heap[from(i, j)]));
    const turns = unit(m);
    orthogonal(rows, turns);
    const lengths = rows.map((row) => Math.sqrt(product(row, row)));
    const least = n * EPSILON * Math.max(...lengths);
    for (let j = 0; j < n; j++) {
      for (let i = 0; i < m; i++) {
        let sum = 0;
        for (let r = 0; r < m; r++) {
          if (lengths[r] > least) sum += (rows[r][j] / lengths[r]) * (turns[r][i] / lengths[r]);
        }
        heap[into(j, i)] = sum;
      }
    }
  });
}

/** @type {Record<string, import("./operations.js").Maker>} */
export const OF_ROTATIONS = {
  _linalg_eigh({ given, results: [values, vectors] }) {
    return decompose(this.heap, this.operand(given[0]), values, vectors);
  },
  linalg_pinv({ given, results: [output] }) {
    return pseudoInvert(this.heap, this.operand(given[0]), output);
  },
};
