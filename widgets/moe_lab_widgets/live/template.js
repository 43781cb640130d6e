/** Makes a recording for the values of the knobs out of a Lab's document (`template.py`). */

import { misfits } from "./plain.js";

/** @typedef {Record<string, any>} Values */
/** A size that is no knob: a product of powers of knobs, rounded up, less a number, at most another knob or a number.
 * @typedef {{ powers: [string, number][], most: string | number, less: number }} Derived */
/** @typedef {{ derived: Record<string, Derived>, variants: { when: Values, recorded: any, picture?: any }[],
 *   formulas: [number | string, [string, number][]][][], places: any[], programs: { operations: Told[], own: any[] }[],
 *   constants: ((number | string)[] | string)[], names: string[], lab: any }} Document */
/** An operation: the number of its name, its arguments, its results, and its named arguments.
 * @typedef {[number, any[], any[], Record<string, any>?]} Told */

/** The letter of 0, where numbers stand as letters (`template.lettered`). */
const ZERO = "#".charCodeAt(0);

/** The recording of the operations that some values need, with numbers in place of formulas.
 * @param {Document} document @param {Values} values @param {"recorded" | "picture"} part of a variant
 * @returns {import("./run.js").Recorded} */
export function instantiate(document, values, part = "recorded") {
  const variant = document.variants.find(({ when }) => !misfits(when, values).length); // pictures know no cell
  if (!variant) throw new Error("a page has no recording for these values");
  const sizes = { ...values };
  for (const [name, { powers, most, less }] of Object.entries(document.derived)) {
    sizes[name] = Math.min(
      Math.ceil(evaluated([[1, powers]], values)) - less,
      typeof most === "number" ? most : values[most],
    );
  }
  const own = variant[part];
  let first = 0; // of the own buffers, -1, -2, ..., of the program that is filled
  let near = 0; // the place from which others are counted
  let before = 0;
  const buffers = document.places.map(([buffer]) => (before += buffer));
  const numberAt = atFirstUse((number) => evaluated(document.formulas[number], sizes));
  const placeAt = atFirstUse((number) => {
    const [, offset, sizes, strides] = filled(document.places[number]);
    return { buffer: buffers[number], offset, sizes, strides: strides ?? inOrder(sizes) };
  });
  /** @param {any} value @returns {any} */
  const filled = (value) => {
    if (Array.isArray(value)) return value.map(filled);
    if (value === null || typeof value !== "object") return value;
    if ("f" in value) return numberAt(value.f);
    if ("p" in value) {
      const place = placeAt(near + value.p);
      return place.buffer < 0 ? { ...place, buffer: first - 1 - place.buffer } : place;
    }
    if ("c" in value) return numbersOf(document.constants[value.c]);
    return Object.fromEntries(Object.entries(value).map(([name, one]) => [name, filled(one)]));
  };
  const recorded = filled({ ...own, programs: {}, buffers: [], constants: {} });
  /** Adds buffers, of which some are constant. @param {[string, any, any?][]} buffers */
  const add = (buffers) => {
    for (const [letter, size, constant] of filled(buffers)) {
      if (constant !== undefined) recorded.constants[recorded.buffers.length] = constant;
      recorded.buffers.push([letter, size]);
    }
  };
  add(own.buffers);
  for (const [name, number] of Object.entries(own.programs)) {
    const { operations, own: others } = document.programs[/** @type {number} */ (number)];
    first = recorded.buffers.length;
    recorded.programs[name] = operations.map(([number, given, results, named = {}]) => {
      const operation = [document.names[number], ...filled([given, named, results])];
      near += results.filter(Boolean).pop()?.p ?? 0;
      return operation;
    });
    near = 0;
    add(others);
  }
  return recorded;
}

/** The numbers of a constant. @param {(number | string)[] | string} constant */
const numbersOf = (constant) =>
  typeof constant === "string" ? Array.from(constant, (letter) => letter.charCodeAt(0) - ZERO) : constant;

/** What a function returns for a number, which it is asked once. @template T @param {(number: number) => T} made */
function atFirstUse(made) {
  /** @type {T[]} */
  const known = [];
  return (/** @type {number} */ number) => (known[number] ??= made(number));
}

/** @param {[number | string, [string, number][]][]} terms @param {Values} values */
function evaluated(terms, values) {
  let total = 0;
  for (const [factor, powers] of terms) {
    let term = Number(factor);
    for (const [name, power] of powers) {
      const value = name.startsWith("log ") ? Math.log(values[name.slice(4)]) : values[name];
      term *= power === 1 ? value : value ** power;
    }
    total += term;
  }
  const whole = Math.round(total);
  return Math.abs(total - whole) < 1e-9 ? whole : total;
}

/** The strides of numbers that lie in order. @param {number[]} sizes */
const inOrder = (sizes) => sizes.map((_, d) => sizes.slice(d + 1).reduce((product, size) => product * size, 1));
