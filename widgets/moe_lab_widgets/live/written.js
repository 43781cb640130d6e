/** Words with numbers in them, written as `moe_lab.drawing.words.written` does. */

import { fixed, general, joined } from "./plain.js";

/** A number, or which things are true. @typedef {number | string | { data: ArrayLike<number> }} Value */
/** @typedef {{ text: string, numbers?: Value[], when?: number | boolean, instead?: Words, then?: Words }} Words */

const FORM = /\{:(?:(,?)\.(\d)([fg%s])|names)\}/g;

/** @param {Words | null | undefined} words @returns {string} */
export function written(words) {
  if (!words) return "";
  let place = 0;
  const numbers = words.numbers ?? [];
  const said =
    words.when !== undefined && words.when !== null && !Number(words.when)
      ? written(words.instead)
      : (words.text ?? "").replace(FORM, (_, comma, digits, kind) =>
          kind ? formatted(Number(numbers[place++]), comma, Number(digits), kind) : trueNames(numbers[place++]),
        );
  return said + written(words.then);
}

/** The numbers of things that are true, from 1: "1, 2 and 4". @param {Value} which */
function trueNames(which) {
  const truths = typeof which === "object" ? Array.from(which.data) : [Number(which)];
  return joined(truths.flatMap((one, place) => (one ? [String(place + 1)] : [])));
}

/** @param {number} value @param {string} comma @param {number} digits @param {string} kind */
function formatted(value, comma, digits, kind) {
  if (!Number.isFinite(value)) return "–";
  if (kind === "%") return `${fixed(100 * value, digits)} %`;
  if (kind === "g") return general(value, digits);
  if (kind === "s") return fixed(value, Math.abs(value) < 10 - 0.5 / 10 ** digits ? digits : 0);
  const plain = fixed(value, digits);
  return comma ? plain.replace(/\B(?=(\d{3})+(?!\d))/g, ",") : plain;
}
