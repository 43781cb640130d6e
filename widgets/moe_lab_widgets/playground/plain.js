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
