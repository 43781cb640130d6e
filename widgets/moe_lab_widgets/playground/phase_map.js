/** The l x N map while it fills: its numbers, and the Lab's sentences on them. */
import { DECLARED } from "./declared.js";
import { filled, joined, median, percentOf } from "./plain.js";

/** @typedef {{[knob: string]: any}} Values */
/** @typedef {{samples: number, trial: number, kept: number, accuracy: number, coverage: number}} Trained */
/** @typedef {{done: number, right: number, share: number, full: boolean, coverage: number}} Cell a median coverage */
/** @typedef {{samples: number, kept: number[]}} Cheapest the fewest samples, and the l to which they are enough */

export const PHASE = /** @type {any} */ (DECLARED.labs).PhaseTransitionLab;

/** @param {string} key @param {{[field: string]: any}} fields */
export const say = (key, fields) => filled(PHASE.words[key], fields);

/** @param {number[]} kept */
const named = (kept) => say("AT", { kept: joined(kept.map(String)) });

/** The trainings of a map, by l, N and trial; a training whose loss became infinite has no accuracy. */
export class PhaseMap {
  /** @param {Values} values of the knobs */
  constructor(values) {
    /** @type {number[]} */
    this.kept = PHASE.map.kept.filter((/** @type {number} */ kept) => kept <= values.patches);
    /** @type {number[]} */
    this.samples = PHASE.map.samples[values.source][values.training];
    this.values = values;
    this.trials = values.trials;
    this.first = Math.min(PHASE.map.first, values.trials);
    this.star = values.source === "synthetic" ? values.distractors + 1 : NaN;
    this.ended = 0;
    this.lost = 0;
    /** @type {Trained[][][]} */
    this.trained = this.kept.map(() => this.samples.map(() => []));
    this.cells = this.trained.map((row) => row.map((trained) => cellOf(trained, this.trials)));
  }

  /** @param {Trained} training that has ended */
  add(training) {
    const row = this.kept.indexOf(training.kept);
    const column = this.samples.indexOf(training.samples);
    this.trained[row][column].push(training);
    this.cells[row][column] = cellOf(this.trained[row][column], this.trials);
    this.ended += 1;
    this.lost += Number(Number.isNaN(training.accuracy));
  }

  /** The trainings in their order: the first of every cell, N after N, then the others. */
  jobs() {
    /** @param {number} begin @param {number} end */
    const looks = (begin, end) => this.samples.flatMap((samples) =>
      Array.from({ length: end - begin }, (_, more) => ({ samples, trial: begin + more })));
    return [...looks(0, this.first), ...looks(this.first, this.trials)];
  }

  get total() {
    return this.kept.length * this.samples.length * this.trials;
  }

  get full() {
    return this.ended === this.total;
  }

  /** The samples that every l needs: infinite where the largest N is not enough, NaN where too little has run. */
  needed() {
    return this.enough().map((column) => [...this.samples, Infinity][column] ?? NaN);
  }

  /** The column of every row from which on at least 90 % succeed, beyond the last where none does; else NaN. */
  enough() {
    return this.cells.map((row) => {
      const first = 1 + row.map(({ share }) => share < PHASE.map.enough - 1e-9).lastIndexOf(true);
      return first === row.length || row[first].done ? first : NaN;
    });
  }

  /** The column of the largest N of which every l has coverage. */
  covered() {
    const columns = this.samples.map((_, column) => column);
    return columns.filter((column) => this.cells.every((row) => Number.isFinite(row[column].coverage))).at(-1);
  }
}

/**
 * @param {Trained[]} trained the trainings of a cell that have ended
 * @param {number} trials
 * @returns {Cell}
 */
function cellOf(trained, trials) {
  const done = trained.length;
  const right = trained.filter(({ accuracy }) => Math.fround(accuracy) >= PHASE.map.success).length; // as the library
  const known = trained.filter(({ accuracy }) => !Number.isNaN(accuracy)).map(({ coverage }) => Math.fround(coverage));
  return { done, right, share: done ? right / done : NaN, full: done === trials, coverage: median(known) };
}

/** @param {number[]} needed by row @param {PhaseMap} map @returns {Cheapest | null} null where no l succeeds */
function fewest(needed, map) {
  const samples = Math.min(...needed.filter(Number.isFinite));
  const kept = map.kept.filter((_, row) => needed[row] === samples);
  return Number.isFinite(samples) ? { samples, kept } : null;
}

/** The cheapest l from l* on, below which theory promises nothing. @param {PhaseMap} map */
function best(map) {
  const needed = map.needed();
  return fewest(needed.map((samples, row) => (map.kept[row] < map.star ? NaN : samples)), map) ?? fewest(needed, map);
}

/** What a map shows so far. @param {PhaseMap} map @param {number | undefined} running an N in training */
export function phaseCaption(map, running) {
  const cells = map.cells.flat();
  if (!map.ended) return say("NOTHING", { cells: cells.length, trials: map.trials });
  if (map.full) return `${needs(map)}${below(map)}`;
  const where = running === undefined ? "" : say("WHERE_SAMPLES", { samples: running });
  const looking = cells.some(({ done }) => done < map.first);
  const done = cells.filter(({ full }) => full).length;
  const fields = { first: map.first, where, done, cells: cells.length };
  const begun = say(looking ? "FIRST_LOOK" : "CELLS_DONE", fields);
  const found = best(map);
  const words = found ? say("FOUND", { samples: found.samples, kept: named(found.kept) }) : say("FOUND_NONE", {});
  return say("SO_FAR", { begun, found: words, below: below(map) });
}

/** What suffices on the full map, and what the largest l needs. @param {PhaseMap} map */
function needs(map) {
  const found = best(map);
  const most = map.samples.at(-1);
  const star = Number.isNaN(map.star) ? "" : say("STAR", { l_star: map.star });
  if (!found) return say("NEEDS_NONE", { most, star });
  const last = map.needed().at(-1);
  const samples = last === Infinity ? say("MORE_THAN", { most }) : last;
  const largest = last === found.samples ? "" : say("LARGEST", { kept: map.kept.at(-1), samples });
  return say("NEEDS", { samples: found.samples, kept: named(found.kept), star, largest });
}

/** Coverage below l*, or at the smallest and the largest l where l* is not known. @param {PhaseMap} map */
function below(map) {
  const column = map.covered();
  if (column === undefined) return "";
  const levels = map.cells.map((row, place) => ({ kept: map.kept[place], share: row[column].coverage, place }));
  const known = levels.filter(({ kept }) => !(kept >= map.star));
  if (!known.length) return "";
  /** @param {{kept: number, share: number}} one */
  const level = ({ kept, share }) => say("LEVEL", { kept, share: percentOf(share) });
  const first = known[0];
  if (Number.isNaN(map.star)) return say("BOTH", { first: level(first), last: level(known[known.length - 1]) });
  const needed = map.needed();
  const chance = known.filter(({ share, place }) => share <= PHASE.map.covered && Number.isFinite(needed[place]));
  const found = joined(chance.map(({ kept, place }) => say("LUCKY_ONE", { kept, samples: needed[place] })));
  const lucky = map.full && chance.length ? say("LUCKY", { found }) : "";
  const most = known.reduce((one, other) => (other.share > one.share ? other : one));
  const key = most.share > PHASE.map.covered && most !== first ? "BELOW_RISE" : "BELOW_MOST";
  const fields = { l_star: map.star, first: level(first), most: level(most), share: percentOf(most.share), lucky };
  return say(key, fields);
}

/** The answers of the question: ranges of l. @param {number[]} kept */
export function rangesOf(kept) {
  const starts = [1, 2, 4, 6].filter((start) => kept.includes(start));
  return starts.map((start, place) => kept.filter((one) => one >= start && !(one >= starts[place + 1])));
}

/** @param {number[]} range of l @param {number[]} kept all l of the map */
export function rangeWords(range, kept) {
  const [first, last] = [range[0], range[range.length - 1]];
  const key = range.length === 1 ? "ONE" : range.length > 2 && last === kept.at(-1) ? "MORE" : "TWO";
  return say(key, { first, last });
}

/** Compares a prediction with the full map. @param {PhaseMap} map @param {number[]} range */
export function judged(map, range) {
  const said = rangeWords(range, map.kept);
  const found = fewest(map.needed(), map);
  if (!found) return say("NEITHER", { said });
  const right = found.kept.some((kept) => range.includes(kept));
  return say(right ? "RIGHT" : "WRONG", { said, samples: found.samples, found: named(found.kept) });
}
