/** Unfolds a text in which references stand for what repeats, as `folding.py` writes it. */

const REFERENCE = /`(\w+),(\w+);/g;

/** @param {string} text @returns {string} */
export function unfolded(text) {
  const references = [...text.matchAll(REFERENCE)].map((one) => ({
    at: one.index,
    end: one.index + one[0].length,
    distance: parseInt(one[1], 16),
    length: parseInt(one[2], 16),
  }));
  const total = references.reduce((sum, one) => sum + one.length - (one.end - one.at), text.length);
  const units = new Uint16Array(total); // a string would be copied whole at each reference
  let filled = 0;
  let read = 0;
  for (const { at, end, distance, length } of [...references, { at: text.length, end: 0, distance: 0, length: 0 }]) {
    while (read < at) units[filled++] = text.charCodeAt(read++);
    units.copyWithin(filled, filled - distance, filled - distance + length);
    filled += length;
    read = end;
  }
  return new TextDecoder("utf-16le").decode(units);
}
