/** Places in the buffers of a recording. */

/** A place in a buffer. @typedef {{ buffer: number, offset: number, sizes: number[], strides: number[] }} Place */
/** [name, arguments, named arguments, places of the results]
 * @typedef {[string, any[], Record<string, any>, Place[]]} Operation */
/** What is in a buffer: one number throughout, numbers that go on by the same step, or each.
 * @typedef {number | string | { from: number, by: number } | number[] | Float64Array} Filling */
/** Programs, the kinds and sizes of the buffers, and what is in some from the start.
 * @typedef {{ programs: Record<string, Operation[]>, buffers: [string, number][],
 *   constants: Record<string, Filling> }} Programs */

/** @param {any} value @returns {value is Place} */
export const isPlace = (value) => value !== null && typeof value === "object" && "buffer" in value;

/** The places in a nest of lists and records. @param {any} value @returns {Generator<Place>} */
export function* placesIn(value) {
  if (isPlace(value)) yield value;
  else if (Array.isArray(value)) for (const one of value) yield* placesIn(one);
  else if (value && typeof value === "object") for (const one of Object.values(value)) yield* placesIn(one);
}
