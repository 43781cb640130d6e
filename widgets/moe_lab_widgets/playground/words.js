/** What the alignment page says: the Lab's caption, from the Lab's own templates. */
import { DECLARED } from "./declared.js";
import { filled, median } from "./plain.js";

/** @typedef {import("./plain.js").Fields} Fields */
/** @typedef {{[knob: string]: any}} Values */
/**
 * @typedef {object} Rec a record of the engine: see worker.js
 * @property {number} step
 * @property {number} total
 * @property {boolean} ended
 * @property {number} took
 * @property {Float64Array} mixture
 * @property {Float64Array} cnn
 * @property {Float64Array[]} cosines
 * @property {Float64Array} coverage
 * @property {Float64Array[]} best
 * @property {number} moved
 * @property {Uint8Array} example
 * @property {{mixture: number, cnn: number}} work
 */

/** Undefined on the page of another Lab. */
export const ALIGNMENT = /** @type {any} */ (DECLARED.labs).RouterAlignmentLab;
const LIMITS = ALIGNMENT?.numbers;

/** A sentence of the alignment Lab. @param {string} key @param {Fields} fields */
export const told = (key, fields = {}) => filled(ALIGNMENT.words[key], fields);

/** "1, 2 and 3". @param {string[]} parts */
export function joined(parts) {
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}` : parts.join("");
}

/** The median as the Lab has it, whose records are float32: 0.865 is 86.5000006 %. @param {ArrayLike<number>} values */
export const middle = (values) => median(Array.from(values, Math.fround));

/** A number without decimals. Halves go to the even neighbour, as in Python. @param {number} value */
function rounded(value) {
  const below = Math.floor(value);
  if (value - below !== 0.5) return Math.round(value);
  return below % 2 ? below + 1 : below;
}

/** Whole percents, without the sign. @param {number} share */
export const percentOf = (share) => String(rounded(100 * share));

/** @param {number} share */
export const percent = (share) => (Number.isFinite(share) ? `${percentOf(share)} %` : "–");

/** How many multiplications, as in "1.2 billion". @param {number} count */
export function manyOf(count) {
  const units = [[1e12, "trillion"], [1e9, "billion"], [1e6, "million"], [1e3, "thousand"]];
  const [unit, name] = units.find(([least]) => count >= Number(least)) ?? [1, ""];
  const scaled = count / Number(unit);
  return `${scaled >= 99.5 || unit === 1 ? scaled.toFixed(0) : scaled.toPrecision(2)} ${name}`.trim();
}

/**
 * The Lab's caption of a moment.
 * @param {Values} values
 * @param {Rec} now
 */
export function caption(values, now) {
  const names = ALIGNMENT.names[values.source];
  const cover = Array.from(now.best[LIMITS.SHOWN], Math.fround);
  const fields = { first: names[0], second: names[1], one: percent(cover[0]), other: percent(cover[1]) };
  const received = told("RECEIVED", fields);
  if (now.step === 0) return told("START", { received });
  const accuracy = middle(now.mixture);
  const shares = { mixture: percent(accuracy), cnn: percent(middle(now.cnn)) };
  const both = bothFound(values, now);
  let found = both ? begun(both) : received;
  let right = told("RIGHT", shares);
  const lowest = Math.min(1, ...cover.filter(Number.isFinite));
  if ((now.ended || now.step >= now.total / 2) && lowest < LIMITS.COVERED) {
    const name = names[cover.indexOf(lowest)];
    found = told(lowest < LIMITS.RARE ? "NEVER" : "RARELY", { name, share: percent(lowest) });
    if (both) found = told("AND", { found, both });
    if (accuracy > LIMITS.HIGH) right = told("ENOUGH", shares);
  }
  const many = values.trials > LIMITS.MOST_LINES ? told("SPREAD", { trials: values.trials }) : "";
  return told("CAPTION", { directions: begun(directions(values, now, names)), found, right }) + many;
}

/** In how many trials experts receive both, at the end of several. @param {Values} values @param {Rec} now */
function bothFound(values, now) {
  if (!now.ended || values.trials === 1) return "";
  const count = now.best.filter((cover) => Math.min(...cover) >= LIMITS.COVERED).length;
  const what = told(values.source === "digits" ? "DIGITS" : "PATTERNS");
  return told("BOTH", { what, count, trials: values.trials });
}

/** Begins a sentence with a capital letter; o₁ and o₂ stay as they are. @param {string} sentence */
function begun(sentence) {
  const symbol = DECLARED.theme.names.some((/** @type {string} */ name) => sentence.startsWith(name));
  return symbol ? sentence : sentence[0].toUpperCase() + sentence.slice(1);
}

/** Which routers look for which pattern. @param {Values} values @param {Rec} now @param {string[]} names */
function directions(values, now, names) {
  if (now.moved === 0) return told("UNMOVED");
  const own = now.cosines[LIMITS.SHOWN];
  const missing = [...names];
  /** @type {string[]} */
  const parts = [];
  for (const [side, name] of names.entries()) {
    const found = Array.from({ length: values.experts }, (_, expert) => expert).filter((expert) => {
      const cosine = own[2 * expert + side];
      const other = own[2 * expert + 1 - side];
      return cosine >= LIMITS.POINTS_AT && (side ? cosine > other : cosine >= other);
    });
    if (!found.length) continue;
    const numbers = found.map((expert) => String(expert + 1));
    const fields = { most: numbers.slice(0, -1).join(", "), last: numbers[numbers.length - 1] };
    const routers = told(numbers.length > 1 ? "ROUTERS" : "ROUTER", fields);
    parts.push(told(parts.length ? "ALSO" : numbers.length > 1 ? "LOOK" : "LOOKS", { routers, name }));
    missing.splice(missing.indexOf(name), 1);
  }
  if (parts.length === 1) return told("NONE", { part: parts[0], name: missing[0] });
  return parts.join(", ") || told("NOBODY", { first: names[0], second: names[1] });
}

/** The sentences on trials whose loss became infinite. @param {Values} values @param {Rec} now */
export function divergedWords(values, now) {
  return ["mixture", "cnn"].map((model) => {
    const accuracy = model === "cnn" ? now.cnn : now.mixture;
    const lost = Array.from(accuracy, (one, trial) => (Number.isNaN(one) ? trial + 1 : 0)).filter(Boolean);
    if (!lost.length) return "";
    const named = `trial${lost.length > 1 ? "s" : ""} ${lost.join(", ")}`;
    const trials = lost.length > LIMITS.MOST_NAMED ? `${lost.length} of ${values.trials} trials` : named;
    return told("DIVERGED", { model: ALIGNMENT.models[model], trials });
  }).filter(Boolean).join(" ");
}

/**
 * Compares a prediction with the end of a run. The shares are compared as they are shown, in whole percents.
 * @param {string} predicted "MIXTURE", "CNN" or "SAME"
 * @param {Rec} now
 */
export function judgedWords(predicted, now) {
  const mixture = middle(now.mixture);
  const cnn = middle(now.cnn);
  if (Number.isNaN(mixture + cnn)) return told("SEEN_NEITHER");
  const ahead = Number(percentOf(mixture)) - Number(percentOf(cnn));
  const seen = Math.abs(ahead) <= 2 ? "SAME" : ahead > 0 ? "MIXTURE" : "CNN";
  const results = { result: told(`RESULT_${seen}`), prediction: told(`RESULT_${predicted}`) };
  const key = seen === predicted ? "SEEN_RIGHT" : "SEEN_WRONG";
  return told(key, { ...results, mixture: percent(mixture), cnn: percent(cnn) });
}
