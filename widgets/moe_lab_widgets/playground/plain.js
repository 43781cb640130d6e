/** What every page needs: sentences made of templates, and medians over trials. */

/** @typedef {{[field: string]: string | number}} Fields */

/** Fills a template's {named} fields. @param {string} template @param {Fields} fields */
export function filled(template, fields) {
  return template.replace(/\{(\w+)\}/g, (whole, name) => (name in fields ? String(fields[name]) : whole));
}

/** A quantile of the finite numbers, as NumPy's. @param {ArrayLike<number>} values @param {number} share */
export function quantile(values, share) {
  const known = Array.from(values).filter(Number.isFinite).sort((one, other) => one - other);
  if (!known.length) return NaN;
  const place = share * (known.length - 1);
  const before = Math.floor(place);
  const after = Math.min(before + 1, known.length - 1);
  return known[before] + (known[after] - known[before]) * (place - before);
}

/** The median of the finite numbers: of trials that have not diverged. @param {ArrayLike<number>} values */
export const median = (values) => quantile(values, 0.5);

/** The numbers 0, 1, ... below a count. @param {number} count @returns {number[]} */
export const upTo = (count) => Array.from({ length: count }, (_, place) => place);

/** "1, 2 and 3". @param {string[]} parts */
export function joined(parts) {
  return parts.length > 1 ? `${parts.slice(0, -1).join(", ")} and ${parts[parts.length - 1]}` : parts.join("");
}

/** A number with some digits; a tie goes to the even digit, as in Python. @param {number} value @param {number} digits */
export function fixed(value, digits) {
  const halves = value * 2 ** (digits + 1);
  if (Number.isInteger(halves) && halves % 2 !== 0) {
    const scaled = Math.abs(value) * 10 ** digits;
    const low = Math.floor(scaled);
    const even = scaled - low === 0.5 ? (low % 2 ? low + 1 : low) : Math.round(scaled);
    return (Math.sign(value) * (even / 10 ** digits)).toFixed(digits);
  }
  return value.toFixed(digits);
}

/** A number with some digits in all, as Python's form "g" has it. @param {number} value @param {number} digits */
export function general(value, digits) {
  const [mantissa, power] = value.toExponential(digits - 1).split("e");
  const exponent = Number(power);
  if (exponent >= -4 && exponent < digits) return String(Number(fixed(value, digits - 1 - exponent)));
  const size = String(Math.abs(exponent)).padStart(2, "0");
  return `${Number(mantissa)}e${exponent < 0 ? "-" : "+"}${size}`;
}

/** Whole percents, without the sign. @param {number} share */
export const percentOf = (share) => fixed(100 * share, 0);

/** @param {number} share */
export const percent = (share) => (Number.isFinite(share) ? `${percentOf(share)} %` : "–");

/** Whether a value is the one that was recorded, or within the range. @param {any} when @param {any} value */
export const fits = (when, value) => (Array.isArray(when) ? when[0] <= value && value <= when[1] : when === value);

/** The names of choices that some values have otherwise; a value that they lack fits any.
 * @param {Record<string, any>} choices @param {Record<string, any>} values */
export const misfits = (choices, values) =>
  Object.keys(choices).filter((name) => name in values && !fits(choices[name], values[name]));
