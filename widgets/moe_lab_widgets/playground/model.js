/** The models of pmoe2023 and one exact SGD step of each, one trial at a time: `moe_lab.patch_routing.joint` and `fixed`.
 *
 *   f(x) = sum_s sum_r (a_r / l) sum_{j in J_s} ReLU(<w_r, x_j>) G_{j,s}                                    (eq. 1)
 *
 * Only what an expert receives is computed. Arrays are flat; `at` holds the places in the bank at which patches begin.
 */

/** @typedef {import("./tasks.js").Samples} Samples */
/** @typedef {Float64Array} Floats */
/** @typedef {{wrong: number, loss: number}} Loss errors of a batch, and the sum of its losses */
/** @typedef {{neurons: Floats, outputs: Floats, d: number}} Start weights that a model trains, and a */

/** Computes out[r * count + p] = <weights[row + r], bank[at[p]]>, in blocks of four rows and two patches.
 * @param {Floats} weights @param {number} row @param {number} rows @param {number} d
 * @param {Floats} bank @param {Int32Array} at @param {number} count @param {Floats} out */
function products(weights, row, rows, d, bank, at, count, out) {
  const whole = rows - (rows % 4);
  const pairs = count - (count % 2);
  for (let r = 0; r < whole; r += 4) {
    const w = (row + r) * d;
    for (let p = 0; p < pairs; p += 2) {
      const x = at[p];
      const y = at[p + 1];
      let x0 = 0, x1 = 0, x2 = 0, x3 = 0;
      let y0 = 0, y1 = 0, y2 = 0, y3 = 0;
      for (let i = 0; i < d; i++) {
        const one = bank[x + i];
        const other = bank[y + i];
        const w0 = weights[w + i];
        const w1 = weights[w + d + i];
        const w2 = weights[w + 2 * d + i];
        const w3 = weights[w + 3 * d + i];
        x0 += w0 * one;
        x1 += w1 * one;
        x2 += w2 * one;
        x3 += w3 * one;
        y0 += w0 * other;
        y1 += w1 * other;
        y2 += w2 * other;
        y3 += w3 * other;
      }
      const to = r * count + p;
      out[to] = x0;
      out[to + 1] = y0;
      out[to + count] = x1;
      out[to + count + 1] = y1;
      out[to + 2 * count] = x2;
      out[to + 2 * count + 1] = y2;
      out[to + 3 * count] = x3;
      out[to + 3 * count + 1] = y3;
    }
  }
  for (let r = 0; r < rows; r++) {
    for (let p = r < whole ? pairs : 0; p < count; p++) {
      let sum = 0;
      for (let i = 0; i < d; i++) sum += weights[(row + r) * d + i] * bank[at[p] + i];
      out[r * count + p] = sum;
    }
  }
}

/** Subtracts sum_p by[p] bank[at[p]] from a row of weights, eight patches at once.
 * @param {Floats} weights @param {number} row @param {number} d
 * @param {Floats} bank @param {Int32Array} at @param {Floats} by @param {number} count */
function subtract(weights, row, d, bank, at, by, count) {
  const w = row * d;
  const whole = count - (count % 8);
  for (let p = 0; p < whole; p += 8) {
    const x0 = at[p], x1 = at[p + 1], x2 = at[p + 2], x3 = at[p + 3];
    const x4 = at[p + 4], x5 = at[p + 5], x6 = at[p + 6], x7 = at[p + 7];
    const c0 = by[p], c1 = by[p + 1], c2 = by[p + 2], c3 = by[p + 3];
    const c4 = by[p + 4], c5 = by[p + 5], c6 = by[p + 6], c7 = by[p + 7];
    for (let i = 0; i < d; i++) {
      const near = c0 * bank[x0 + i] + c1 * bank[x1 + i] + c2 * bank[x2 + i] + c3 * bank[x3 + i];
      weights[w + i] -= near + (c4 * bank[x4 + i] + c5 * bank[x5 + i] + c6 * bank[x6 + i] + c7 * bank[x7 + i]);
    }
  }
  for (let p = whole; p < count; p++) for (let i = 0; i < d; i++) weights[w + i] -= by[p] * bank[at[p] + i];
}

/** Replaces f by the slope of log(1 + exp(-y f)); y is 1 for class 0 and -1 for class 1.
 * @param {Floats} f @param {Samples} samples @param {ArrayLike<number>} chosen @returns {Loss} before */
function lossOf(f, { labels }, chosen) {
  let wrong = 0;
  let loss = 0;
  for (let b = 0; b < chosen.length; b++) {
    const minusY = labels[chosen[b]] ? 1 : -1;
    const minusMargin = minusY * f[b];
    if (!(minusMargin < 0)) wrong += 1;
    loss += Math.max(minusMargin, 0) + Math.log1p(Math.exp(-Math.abs(minusMargin)));
    f[b] = minusY / (1 + Math.exp(-minusMargin));
  }
  return { wrong, loss };
}

/** Puts the places of the `kept` largest of n scores at `to`, in falling order; of equal ones the first.
 * @param {Floats} scores @param {number} from @param {number} n
 * @param {Int32Array} largest @param {number} to @param {number} kept */
function choose(scores, from, n, largest, to, kept) {
  let count = 0;
  for (let j = 0; j < n; j++) {
    const score = scores[from + j];
    if (count === kept && !(score > scores[from + largest[to + kept - 1]])) continue;
    let place = to + (count < kept ? count++ : kept - 1);
    for (; place > to && score > scores[from + largest[place - 1]]; place--) largest[place] = largest[place - 1];
    largest[place] = j;
  }
}

/** Arrays of a forward pass; `gates`, `values` and `received` are by expert, sample and slot.
 * @param {{experts: number, kept: number, per: number}} model @param {number} batch @param {number} n */
function roomFor({ experts, kept, per }, batch, n) {
  const slots = batch * kept;
  const most = Math.max(batch * n, slots);
  return {
    f: new Float64Array(batch),
    gates: new Float64Array(experts * slots).fill(1),
    values: new Float64Array(experts * slots), // V, what the expert makes of the patch
    received: Array.from({ length: experts }, () => new Int32Array(slots)), // places in the bank
    hidden: Array.from({ length: experts }, () => new Float64Array(per * slots)), // by neuron, sample and slot
    summed: new Float64Array(experts * batch), // an expert's part of f
    scores: new Float64Array(experts * batch * n),
    chosen: new Int32Array(experts * slots), // by a router: places in the sample
    at: new Int32Array(most),
    by: new Float64Array(most),
  };
}

/** Experts with m hidden neurons in all, which are trained, and output weights a, which are not. */
class Model {
  /** @param {Start} start @param {number} experts k @param {number} kept l, patches that each expert receives */
  constructor(start, experts, kept) {
    const { neurons, outputs, d } = start;
    this.start = start;
    this.neurons = neurons;
    this.outputs = outputs.map((a) => a / kept);
    this.d = d;
    this.experts = experts;
    this.kept = kept;
    this.per = outputs.length / experts;
    this.work = 0; // multiplications of all steps, of weights with patches and of slopes with patches
    this.room = roomFor(this, 0, 0);
  }

  /** Finds what experts receive of some samples, and with which gates.
   * @param {Samples} samples @param {ArrayLike<number>} chosen */
  receive(samples, chosen) {
    throw new Error(`${samples.count} samples, ${chosen.length} chosen: a model must say what its experts receive`);
  }

  /** Computes f of some samples. @param {Samples} samples @param {ArrayLike<number>} chosen */
  forward(samples, chosen) {
    const batch = chosen.length;
    if (this.room.f.length !== batch) this.room = roomFor(this, batch, samples.n);
    this.receive(samples, chosen);
    const { experts, kept, per, d, outputs } = this;
    const { f, gates, values, hidden, received, summed } = this.room;
    const slots = batch * kept;
    f.fill(0);
    values.fill(0);
    for (let s = 0; s < experts; s++) {
      products(this.neurons, s * per, per, d, samples.bank, received[s], slots, hidden[s]);
      for (let r = 0; r < per; r++) {
        const a = outputs[s * per + r];
        for (let p = 0; p < slots; p++) {
          const value = hidden[s][r * slots + p];
          if (value > 0) values[s * slots + p] += a * value;
        }
      }
      for (let b = 0; b < batch; b++) {
        let sum = 0;
        for (let p = s * slots + b * kept; p < s * slots + (b + 1) * kept; p++) sum += gates[p] * values[p];
        summed[s * batch + b] = sum;
        f[b] += sum;
      }
    }
  }

  /** Takes one step of SGD with the exact gradient (eq. 21).
   * @param {Samples} samples @param {ArrayLike<number>} chosen @param {number} rate @returns {Loss} before it */
  step(samples, chosen, rate) {
    this.forward(samples, chosen);
    const { experts, kept, per, d, outputs } = this;
    const { f, gates, hidden, received, at, by } = this.room;
    const batch = chosen.length;
    const slots = batch * kept;
    const loss = lossOf(f, samples, chosen);
    for (let s = 0; s < experts; s++) {
      for (let r = 0; r < per; r++) {
        const scale = (rate / batch) * outputs[s * per + r];
        let active = 0;
        for (let p = 0; p < slots; p++) {
          if (!(hidden[s][r * slots + p] > 0)) continue;
          at[active] = received[s][p];
          by[active++] = scale * f[Math.floor(p / kept)] * gates[s * slots + p];
        }
        subtract(this.neurons, s * per + r, d, samples.bank, at, by, active);
      }
    }
    this.work += 2 * experts * per * slots * d;
    return loss;
  }
}

/** Routers and experts trained jointly; gates are the softmax over the l patches that an expert keeps (eq. 4). */
export class JointMoE extends Model {
  /** @param {Start} start @param {Floats} routers @param {number} kept */
  constructor(start, routers, kept) {
    super(start, routers.length / start.d, kept);
    this.routers = routers;
  }

  /** @param {Samples} samples @param {ArrayLike<number>} chosen */
  receive({ n, d, index, bank }, chosen) {
    const { experts, kept } = this;
    const { gates, received, scores, chosen: places, at } = this.room;
    const batch = chosen.length;
    for (let b = 0; b < batch; b++) for (let j = 0; j < n; j++) at[b * n + j] = index[chosen[b] * n + j] * d;
    products(this.routers, 0, experts, d, bank, at, batch * n, scores);
    for (let row = 0; row < experts * batch; row++) {
      const [from, to, b] = [row * n, row * kept, row % batch];
      choose(scores, from, n, places, to, kept);
      const largest = scores[from + places[to]];
      let sum = 0;
      for (let p = to; p < to + kept; p++) sum += gates[p] = Math.exp(scores[from + places[p]] - largest);
      for (let p = to; p < to + kept; p++) {
        gates[p] /= sum;
        received[Math.floor(row / batch)][b * kept + p - to] = at[b * n + places[p]];
      }
    }
  }

  /** Takes one step of SGD on routers and experts (eq. 21 and 26).
   * @param {Samples} samples @param {ArrayLike<number>} chosen @param {number} rate @returns {Loss} before it */
  step(samples, chosen, rate) {
    const loss = super.step(samples, chosen, rate);
    const { experts, kept, d } = this;
    const { f, gates, values, received, summed, by } = this.room;
    const batch = chosen.length;
    const slots = batch * kept;
    this.work += experts * batch * samples.n * d;
    if (kept === 1) return loss; // the gate is 1, whatever the router
    for (let s = 0; s < experts; s++) {
      for (let p = 0; p < slots; p++) {
        const b = Math.floor(p / kept);
        const ahead = values[s * slots + p] - summed[s * batch + b];
        by[p] = (rate / batch) * f[b] * gates[s * slots + p] * ahead;
      }
      subtract(this.routers, s, d, samples.bank, received[s], by, slots);
    }
    this.work += experts * slots * d;
    return loss;
  }
}

/** For every expert the bank's rows of the patches of every sample: `width` each, the first l of which it receives.
 * @typedef {{rows: Int32Array[], width: number}} Table */

/** Experts whose patches are known beforehand, with gates of 1 (eq. 3): a CNN, or behind routers trained first. */
export class FixedMoE extends Model {
  /** @param {Start} start @param {Map<Samples, Table>} tables @param {number} kept */
  constructor(start, tables, kept) {
    super(start, [...tables.values()][0].rows.length, kept);
    this.tables = tables;
  }

  /** One expert that receives all patches (eq. 5). @param {Start} start @param {Samples[]} data */
  static cnn(start, data) {
    /** @type {Map<Samples, Table>} */
    const tables = new Map();
    for (const samples of data) tables.set(samples, { rows: [samples.index], width: samples.n });
    return new FixedMoE(start, tables, data[0].n);
  }

  /** @param {Samples} samples @param {ArrayLike<number>} chosen */
  receive(samples, chosen) {
    const { kept, d, room: { received } } = this;
    const table = /** @type {Table} */ (this.tables.get(samples));
    for (const [s, rows] of table.rows.entries()) {
      for (let b = 0; b < chosen.length; b++) {
        const from = chosen[b] * table.width;
        for (let c = 0; c < kept; c++) received[s][b * kept + c] = rows[from + c] * d;
      }
    }
  }
}

// ---- routers trained first ----

/** Trains the routers of both classes in closed form (eq. 6), since their loss is linear.
 * @param {Floats} routers before @param {Samples} samples @param {number} epochs @param {number} batch of a step */
export function trainRouters(routers, { count, n, d, bank, index, labels }, epochs, batch) {
  const direction = new Float64Array(d);
  for (let patch = 0; patch < count * n; patch++) {
    const sign = labels[Math.floor(patch / n)] ? -1 : 1;
    for (let i = 0; i < d; i++) direction[i] += sign * bank[index[patch] * d + i];
  }
  const scale = (epochs * count) / batch / n / count;
  return routers.map((weight, place) => weight + (place < d ? scale : -scale) * direction[place % d]);
}

/** Finds the patches that frozen routers choose, and the rank of the signal among all patches, by expert and sample.
 * @param {Floats} routers @param {Samples} samples @param {number} width the largest l */
export function route(routers, { count, n, d, bank, index, signal }, width) {
  const experts = routers.length / d;
  const scores = new Float64Array(experts * n);
  const order = new Int32Array(n);
  const rows = Array.from({ length: experts }, () => new Int32Array(count * width));
  const ranks = Array.from({ length: experts }, () => new Int32Array(count));
  for (let sample = 0; sample < count; sample++) {
    const own = index.subarray(sample * n, sample * n + n);
    products(routers, 0, experts, d, bank, own.map((row) => row * d), n, scores);
    for (let s = 0; s < experts; s++) {
      choose(scores, s * n, n, order, 0, n);
      for (let place = 0; place < width; place++) rows[s][sample * width + place] = own[order[place]];
      // Not indexOf: after its AVX code in Firefox, arithmetic of the thread is 40 times slower on some processors.
      ranks[s][sample] = order.findIndex((place) => place === signal[sample]);
    }
  }
  return { table: { rows, width }, ranks };
}

// ---- evaluation ----

const AT_ONCE = 20; // samples

/** Share of samples with a wrong prediction, and their mean loss. `visit` sees the model after every block of samples.
 * @param {Model} model @param {Samples} samples @param {(block: number[]) => void} [visit] @returns {Loss} */
export function evaluate(model, samples, visit) {
  const total = { wrong: 0, loss: 0 };
  for (const { block, wrong, loss } of blocks(model, samples)) {
    visit?.(block);
    total.wrong += wrong / samples.count;
    total.loss += loss / samples.count;
  }
  return total;
}

/** The errors and the loss of all blocks of samples, up to the first block that has an error.
 * @param {Model} model @param {Samples} samples @returns {Loss} */
export function untilWrong(model, samples) {
  const total = { wrong: 0, loss: 0 };
  for (const { wrong, loss } of blocks(model, samples)) {
    total.wrong += wrong;
    total.loss += loss;
    if (wrong) break;
  }
  return total;
}

/** Evaluates block after block of samples. @param {Model} model @param {Samples} samples */
function* blocks(model, samples) {
  const { count } = samples;
  for (let begin = 0; begin < count; begin += AT_ONCE) {
    const block = Array.from({ length: Math.min(AT_ONCE, count - begin) }, (_, place) => begin + place);
    model.forward(samples, block);
    yield { block, ...lossOf(model.room.f, samples, block) };
  }
}
