/** What is typed into a number's place, read whole or not at all. A browser reads a beginning: 0 of "0,7", 1 of "1e3". */

const NUMBER = /^[+-]?(?:\d+[.,]?\d*|[.,]\d+)(?:e[+-]?\d+)?$/i;
const WHOLE = /^[+-]?\d+(?:e\+?\d+)?$/i; // "1,000" may mean one or a thousand

/** The number that some text is, with a point or a comma before its decimals; NaN if it is none.
 * @param {string} text @param {boolean} whole */
export function numberIn(text, whole = false) {
  const plain = text.trim().replace(/[\u2212\u2013]/g, "-"); // a minus as it is printed
  return (whole ? WHOLE : NUMBER).test(plain) ? Number(plain.replace(",", ".")) : NaN;
}
