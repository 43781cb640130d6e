/** Marks with their numbers. */

/** Marks with their numbers in place of where they are: one number as it is, several as { sizes, data }.
 * @param {import("./engine.js").Engine} engine @param {any} value @returns {any} */
export function drawable(engine, value) {
  if (Array.isArray(value)) return value.map((one) => drawable(engine, one));
  if (value === null || typeof value !== "object") return value;
  if ("buffer" in value) {
    const data = engine.read(value);
    return value.sizes.length ? { sizes: value.sizes, data } : data[0];
  }
  return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, drawable(engine, one)]));
}
