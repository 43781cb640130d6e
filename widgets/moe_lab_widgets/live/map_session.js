/** Fills a map for a page, in workers or beside it: trains its cells, and draws it.
 *
 * It is told {type: "load", text} first. Told {type: "begin", id, values}, it answers {type: "begun", id, furniture,
 * fills, trials}; told {type: "draw", id, measures, step, total}, {type: "record", id, step, ended, pictures}. Told
 * {type: "train", id, values, fills, map, trial, column}, it trains all rows of a column in one trial, and answers
 * {type: "trained", id, map, trial, column, row, results} for each, then {type: "idle", id}; told {type: "stop"}, it gives that up.
 * Where anything fails it answers {type: "failed", id, words}. */

import { Engine } from "./engine.js";
import { drawable } from "./marks.js";
import { placesIn } from "./places.js";
import { Run } from "./run.js";
import { instantiate } from "./template.js";

/** Milliseconds of training after which a page may be heard again. */
const PATIENCE = 25;

/** @typedef {Record<string, any>} Values */
/** What a map is filled with: the names of the values that a training has of its row and its column; how many rows
 * there are, and the value of the lowest; the values of the columns; trials of every cell that train first; passes over
 * the data; what is kept; and of several maps the name of a value that a training has, and that of each.
 * @typedef {{ row: string, rows: number, lowest: number, column: string, columns: number[], first: number,
 *   passes: number, results: string[], maps: [string, string[]] }} Fills */
/** @typedef {{ id: number, values: Values, fills: Fills, map: number, trial: number, column: number }} Job */

export class MapSession {
  /** @param {(message: any) => void} post takes the answers */
  constructor(post) {
    this.post = post;
    /** The map that is wanted, and the one that trains. */
    this.id = 0;
    this.training = 0;
    /** @type {import("./template.js").Document | null} */
    this.document = null;
    /** @type {Picture | null} */
    this.picture = null;
  }

  /** @param {any} message */
  async receive(message) {
    try {
      if (message.type === "load") this.document = JSON.parse(message.text);
      else if (message.type === "begin") this.begin(message);
      else if (message.type === "draw") this.draw(message);
      else if (message.type === "train") await this.train(message);
      else if (message.type === "stop") this.training = 0;
    } catch (error) {
      const words = error instanceof Error ? error.message : String(error);
      this.post({ type: "failed", id: message.id ?? this.id, words });
    }
  }

  /** @param {{ id: number, values: Values }} message */
  begin({ id, values }) {
    this.id = id;
    this.picture = new Picture(this.instance(values, "picture"), values);
    const { furniture, fills } = this.picture;
    this.post({ type: "begun", id, furniture: { "": furniture }, fills, trials: values.trials });
  }

  /** @param {{ id: number, measures: Record<string, ArrayLike<number>>, step: number, total: number }} message */
  draw({ id, measures, step, total }) {
    if (id !== this.id || !this.picture) return;
    const ended = step >= total;
    this.post({ type: "record", id, step, ended, pictures: { "": this.picture.drawn(measures, step, ended) } });
  }

  /** @param {Job} job */
  async train({ id, values, fills, map, trial, column }) {
    this.training = id;
    /** Raw numbers that the trainings share. @type {Map<string, Float64Array>} */
    const drawn = new Map();
    let heard = performance.now();
    for (let row = 1; row <= fills.rows; row++) {
      const own = { ...values, [fills.row]: fills.lowest + row - 1, [fills.column]: fills.columns[column] };
      if (fills.maps[1].length) own[fills.maps[0]] = fills.maps[1][map];
      const plan = { seed: values.seed, passes: fills.passes, every: Infinity, first: trial, drawn };
      const run = new Run(this.instance(own, "recorded"), own, plan);
      while (!run.ended) {
        run.advance();
        if (performance.now() - heard < PATIENCE) continue;
        await new Promise((resolve) => setTimeout(resolve));
        heard = performance.now();
        if (this.training !== id) return; // the map is no longer wanted
      }
      this.post({ type: "trained", id, map, trial, column, row, results: resultsOf(run) });
    }
    this.post({ type: "idle", id });
  }

  /** @param {Values} values @param {"recorded" | "picture"} part */
  instance(values, part) {
    if (!this.document) throw new Error("a page must load what was recorded before it begins");
    return instantiate(this.document, values, part);
  }
}

/** What a training has come to; NaN where its loss became infinite. @param {Run} run */
function resultsOf(run) {
  const lost = run.names.some((name) => run.diverged[name][0]);
  return Object.fromEntries(
    Object.entries(run.picture("")).map(([name, place]) => [name, lost ? NaN : run.engine.read(place)[0]]),
  );
}

/** The picture of a map. */
class Picture {
  /** @param {any} recorded @param {Values} values */
  constructor(recorded, values) {
    const { programs, buffers, constants, ...read } = recorded;
    this.recorded = recorded;
    this.fills = /** @type {Fills} */ (recorded.fills);
    this.engine = new Engine(recorded, [...new Set([...placesIn(read)].map((place) => place.buffer))]);
    for (const [name, place] of Object.entries(recorded.values)) this.engine.set(place.buffer, values[name]);
    this.fill(this.fills.column, this.fills.columns);
    this.engine.run("furniture");
    this.furniture = drawable(this.engine, recorded.pictures[""].furniture);
  }

  /** @param {string} measure @param {ArrayLike<number>} values */
  fill(measure, values) {
    const place = this.recorded.measured.map[measure];
    if (place) this.engine.view(place.buffer).set(values);
  }

  /** The marks and the sentences of a record. @param {Record<string, ArrayLike<number>>} measures
   * @param {number} step @param {boolean} ended */
  drawn(measures, step, ended) {
    const { engine, recorded } = this;
    for (const [name, values] of Object.entries(measures)) this.fill(name, values);
    engine.set(recorded.first.buffer, step ? 0 : 1);
    engine.set(recorded.step.buffer, step);
    engine.set(recorded.ended.buffer, ended ? 1 : 0);
    engine.run("marks");
    const { furniture, ...shown } = recorded.pictures[""];
    return drawable(engine, shown);
  }
}
