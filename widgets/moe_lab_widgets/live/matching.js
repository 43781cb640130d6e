/** Which estimate belongs to which true expert (`moe_lab.recovery.matching`): the best of all permutations. */

/** @typedef {import("./layout.js").Operand} Operand */
/** @typedef {import("./kernels.js").Heap} Heap */

/** Returns what finds the column of each row, all different, with the least sum of costs: row by row, along the
 * shortest path of exchanges (Kuhn and Munkres).
 * @param {Heap} heap @param {Operand} costs (batch, k, k) @param {Operand} output (batch, k) */
function matcher(heap, costs, output) {
  return eachMatrix(heap, costs, (matrix, batch) => {
    leastCosts(matrix).forEach((column, row) => {
      heap[output.offset + batch * output.strides[0] + row * output.strides[1]] = column;
    });
  });
}

/** Returns what finds the largest number such that some permutation takes at least that of each row.
 * @param {Heap} heap @param {Operand} values (batch, k, k) @param {Operand} output (batch,) */
function bottleneckFinder(heap, values, output) {
  return eachMatrix(heap, values, (matrix, batch) => {
    const levels = Float64Array.from(new Set(matrix.flat())).sort();
    let [low, high] = [0, levels.length - 1];
    while (low < high) {
      const middle = (low + high + 1) >> 1;
      if (hasPermutation(matrix, levels[middle])) low = middle;
      else high = middle - 1;
    }
    const broken = matrix.flat().some(Number.isNaN);
    heap[output.offset + batch * output.strides[0]] = broken ? NaN : levels[low];
  });
}

/** @param {Heap} heap @param {Operand} input @param {(matrix: number[][], batch: number) => void} find */
function eachMatrix(heap, input, find) {
  const [batches, k] = input.sizes;
  const [next, down, right] = input.strides;
  const each = Array.from({ length: k }, (_, place) => place);
  return () => {
    for (let batch = 0; batch < batches; batch++) {
      const begin = input.offset + batch * next;
      find(
        each.map((row) => each.map((column) => heap[begin + row * down + column * right])),
        batch,
      );
    }
  };
}

/** @param {number[][]} costs @returns {number[]} the column of each row */
function leastCosts(costs) {
  const k = costs.length;
  const [ofRows, ofColumns] = [new Float64Array(k), new Float64Array(k + 1)]; // what is taken off rows and columns
  const rows = new Int32Array(k + 1).fill(-1); // of columns; the last column is where a row begins
  for (let row = 0; row < k; row++) {
    const [least, from] = [new Float64Array(k).fill(Infinity), new Int32Array(k).fill(k)];
    const seen = new Uint8Array(k + 1);
    let column = k;
    for (rows[column] = row; rows[column] >= 0; ) {
      seen[column] = 1;
      const at = rows[column];
      let [step, next] = [Infinity, -1];
      for (let other = 0; other < k; other++) {
        if (seen[other]) continue;
        const left = costs[at][other] - ofRows[at] - ofColumns[other];
        if (left < least[other]) [least[other], from[other]] = [left, column];
        if (next < 0 || least[other] < step) [step, next] = [least[other], other];
      }
      for (let other = 0; other <= k; other++) {
        if (!seen[other]) {
          if (other < k) least[other] -= step;
          continue;
        }
        ofRows[rows[other]] += step;
        ofColumns[other] -= step;
      }
      column = next;
    }
    for (; column !== k; column = from[column]) rows[column] = rows[from[column]];
  }
  const columns = Array.from({ length: k }, () => 0);
  for (let column = 0; column < k; column++) columns[rows[column]] = column;
  return columns;
}

/** Whether some permutation takes at least so much of each row. @param {number[][]} matrix @param {number} level */
function hasPermutation(matrix, level) {
  const rows = matrix.map(() => -1); // of columns
  /** @param {number} row @param {Set<number>} seen columns @returns {boolean} */
  const placed = (row, seen) =>
    matrix[row].some((value, column) => {
      if (!(value >= level) || seen.has(column)) return false;
      seen.add(column);
      if (rows[column] >= 0 && !placed(rows[column], seen)) return false;
      rows[column] = row;
      return true;
    });
  return matrix.every((_, row) => placed(row, new Set()));
}

/** @type {Record<string, import("./operations.js").Maker>} */
export const OF_PERMUTATIONS = {
  assigned({ given, results: [output] }) {
    return matcher(this.heap, this.operand(given[0]), output);
  },
  bottleneck({ given, results: [output] }) {
    return bottleneckFinder(this.heap, this.operand(given[0]), output);
  },
};
