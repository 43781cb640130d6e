/** The library's random streams, number for number: `moe_lab.core.trials.stream`, which is NumPy's
 * Generator(SFC64(SeedSequence(seed, spawn_key=(trial, crc32(purpose))))). */

const TWO_32 = 4294967296;
const TWO_52 = 4503599627370496;

/** @param {string} text in ASCII */
function crc32(text) {
  let crc = -1;
  for (const letter of text) {
    crc ^= letter.charCodeAt(0);
    for (let bit = 0; bit < 8; bit++) crc = (crc >>> 1) ^ (crc & 1 ? 0xedb88320 : 0);
  }
  return ~crc >>> 0;
}

/** The first words of NumPy's SeedSequence: entropy is hashed into a pool of four words, and the pool into the words.
 * @param {number[]} entropy @param {number} count */
function seedWords(entropy, count) {
  let constant = 0x43b0d7e5;
  /** @param {number} value @param {number} factor */
  const hashed = (value, factor) => {
    const before = value ^ constant;
    constant = Math.imul(constant, factor);
    const after = Math.imul(before, constant);
    return after ^ (after >>> 16);
  };
  /** @param {number} into @param {number} word */
  const mixed = (into, word) => {
    const both = Math.imul(0xca01f9dd, into) - Math.imul(0x4973f715, hashed(word, 0x931e8875));
    return both ^ (both >>> 16);
  };
  const pool = entropy.slice(0, 4).map((word) => hashed(word, 0x931e8875));
  for (const from of pool.keys()) {
    for (const to of pool.keys()) if (from !== to) pool[to] = mixed(pool[to], pool[from]);
  }
  for (const word of entropy.slice(4)) for (const to of pool.keys()) pool[to] = mixed(pool[to], word);
  constant = 0x8b51f9dd;
  return Array.from({ length: count }, (_, place) => hashed(pool[place % 4], 0x58f38ded));
}

/** NumPy's ziggurat: 256 layers of equal area below exp(-x^2 / 2), from the widest to the top. */
const ZIGGURAT = (() => {
  const right = 3.6541528853610088;
  const layer = 0.004928673233974655;
  /** @param {number} x */
  const bell = (x) => Math.exp(-0.5 * x * x);
  const within = new Float64Array(256);
  const width = new Float64Array(256);
  const height = new Float64Array(256);
  within[0] = Math.floor((right * bell(right) / layer) * TWO_52);
  width[0] = layer / bell(right) / TWO_52;
  height[0] = 1;
  let x = right;
  for (let place = 255; place > 0; place--) {
    width[place] = x / TWO_52;
    height[place] = bell(x);
    const next = place > 1 ? Math.sqrt(-2 * Math.log(layer / x + bell(x))) : 0;
    within[place] = Math.floor((next / x) * TWO_52);
    x = next;
  }
  return { right, within, width, height };
})();

/** Random numbers of one purpose in one trial of a seed. */
export class Stream {
  /** @param {number} seed @param {number} trial @param {string} purpose */
  constructor(seed, trial, purpose) {
    const entropy = [seed >>> 0, Math.floor(seed / TWO_32), 0, 0, trial, crc32(purpose)];
    this.state = Int32Array.of(...seedWords(entropy, 6), 1, 0); // a, b, c and the counter, low halves first
    this.low = 0; // the latest 64 bits
    this.high = 0;
    this.hasHalf = false; // whether their high half has yet to be used
    for (let turn = 0; turn < 12; turn++) this.next();
  }

  /** Draws 64 bits (SFC64). */
  next() {
    const { state } = this;
    const bLow = state[2];
    const bHigh = state[3];
    const cLow = state[4];
    const cHigh = state[5];
    const sum = (state[0] >>> 0) + (bLow >>> 0) + (state[6] >>> 0);
    this.low = sum | 0;
    this.high = (state[1] + bHigh + state[7] + Math.floor(sum / TWO_32)) | 0;
    state[6] += 1;
    if (state[6] === 0) state[7] += 1;
    state[0] = bLow ^ ((bLow >>> 11) | (bHigh << 21));
    state[1] = bHigh ^ (bHigh >>> 11);
    const ninefold = (cLow >>> 0) + ((cLow << 3) >>> 0);
    state[2] = ninefold | 0;
    state[3] = (cHigh + ((cHigh << 3) | (cLow >>> 29)) + Math.floor(ninefold / TWO_32)) | 0;
    const rotated = (((cLow << 24) | (cHigh >>> 8)) >>> 0) + (this.low >>> 0);
    state[4] = rotated | 0;
    state[5] = (((cHigh << 24) | (cLow >>> 8)) + this.high + Math.floor(rotated / TWO_32)) | 0;
  }

  /** A number from 0 to 1, of 53 bits. */
  uniform() {
    this.next();
    return ((this.high >>> 0) * 2097152 + (this.low >>> 11)) / (2 * TWO_52);
  }

  /** A standard normal number. */
  normal() {
    const { right, within, width, height } = ZIGGURAT;
    for (;;) {
      this.next();
      const { low } = this;
      const layer = low & 255;
      const size = (this.high & 0x1fffffff) * 8388608 + (low >>> 9);
      const x = (low & 256 ? -size : size) * width[layer];
      if (size < within[layer]) return x;
      if (layer === 0) return low & 131072 ? -this.tail(right) : this.tail(right);
      if ((height[layer - 1] - height[layer]) * this.uniform() + height[layer] < Math.exp(-0.5 * x * x)) return x;
    }
  }

  /** A normal number beyond `right`. @param {number} right */
  tail(right) {
    for (;;) {
      const far = -Math.log1p(-this.uniform()) / right;
      const deep = -Math.log1p(-this.uniform());
      if (deep + deep > far * far) return right + far;
    }
  }

  /** A standard Gumbel number. */
  gumbel() {
    for (;;) {
      const rest = 1 - this.uniform();
      if (rest < 1) return -Math.log(-Math.log(rest));
    }
  }

  /** 32 bits: of each 64 the low half first. */
  word() {
    this.hasHalf = !this.hasHalf;
    if (!this.hasHalf) return this.high >>> 0;
    this.next();
    return this.low >>> 0;
  }

  /** A whole number from 0 to `last`, by rejection. @param {number} last */
  upTo(last) {
    const mask = 2 ** (32 - Math.clz32(last)) - 1;
    for (;;) {
      const found = (this.word() & mask) >>> 0;
      if (found <= last) return found;
    }
  }

  /** @param {number} count */
  permutation(count) {
    const order = Int32Array.from({ length: count }, (_, place) => place);
    for (let place = count - 1; place > 0; place--) {
      const other = this.upTo(place);
      [order[place], order[other]] = [order[other], order[place]];
    }
    return order;
  }
}
