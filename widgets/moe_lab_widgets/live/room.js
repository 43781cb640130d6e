/** Finds room in one heap for the buffers of a recording. */

import { placesIn } from "./places.js";

/** Numbers between two buffers, so that none shares a line of the cache. */
const ALIGNED = 8;

/** Finds room for the buffers. One that a single program writes before it reads it, and nobody else reads, has room only
 * from its first to its last operation there.
 * @param {import("./places.js").Programs} recorded @param {Set<number>} kept */
export function placed(recorded, kept) {
  /** @type {Map<number, { program: string, first: number, last: number, written: boolean }>} */
  const uses = new Map();
  const lasting = new Set([...kept, ...Object.keys(recorded.constants).map(Number)]);
  for (const [program, operations] of Object.entries(recorded.programs)) {
    operations.forEach(([, given, named, places], at) => {
      const read = new Set([...placesIn([given, named])].map((place) => place.buffer));
      const written = new Set(places.map((place) => place.buffer));
      for (const buffer of new Set([...read, ...written])) {
        const use = uses.get(buffer);
        if (!use) {
          uses.set(buffer, { program, first: at, last: at, written: true });
          if (read.has(buffer)) lasting.add(buffer);
        } else if (use.program === program) use.last = at;
        else lasting.add(buffer);
      }
    });
  }
  const starts = recorded.buffers.map(() => 0);
  const size = (/** @type {number} */ buffer) => Math.ceil(recorded.buffers[buffer][1] / ALIGNED) * ALIGNED + ALIGNED;
  let total = 0;
  recorded.buffers.forEach((_, buffer) => {
    if (!lasting.has(buffer) && uses.has(buffer)) return;
    starts[buffer] = total;
    total += size(buffer);
  });
  let most = total;
  /** @type {Map<string, number[]>} */
  const temporary = new Map();
  for (const [buffer, { program }] of uses) {
    if (!lasting.has(buffer)) temporary.set(program, [...(temporary.get(program) ?? []), buffer]);
  }
  for (const own of temporary.values()) {
    /** @type {{ start: number, end: number, last: number }[]} */
    let taken = [];
    for (const buffer of own.sort((a, b) => (uses.get(a)?.first ?? 0) - (uses.get(b)?.first ?? 0))) {
      const { first, last } = /** @type {{ first: number, last: number }} */ (uses.get(buffer));
      taken = taken.filter((one) => one.last >= first).sort((a, b) => a.start - b.start);
      let start = total;
      for (const one of taken) {
        if (start + size(buffer) <= one.start) break;
        start = Math.max(start, one.end);
      }
      starts[buffer] = start;
      taken.push({ start, end: start + size(buffer), last });
      most = Math.max(most, start + size(buffer));
    }
  }
  return { starts, total: most };
}
