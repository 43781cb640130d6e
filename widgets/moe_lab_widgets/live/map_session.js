/** Trains the cells of a map for a page, in a worker or beside it.
 *
 * It is told {type: "load", text}, {type: "map", id, values, passes, jobs} and "stop". A job is what its trainings have
 * in common, {trial, ...values}, with the values that `each` of them has besides. It answers {type: "trained", id, job,
 * values, results}, then {type: "idle", id}; {type: "failed", id, words} where anything fails. */

import { Run } from "./run.js";
import { instantiate } from "./template.js";

/** Milliseconds of training after which a page may be heard again. */
const PATIENCE = 25;

/** @typedef {Record<string, any>} Values */
/** @typedef {{ trial: number, values: Values, each: Values[] }} Job */

export class MapSession {
  /** @param {(message: any) => void} post takes the answers */
  constructor(post) {
    this.post = post;
    this.id = 0;
    /** @type {import("./template.js").Document | null} */
    this.document = null;
  }

  /** @param {any} message */
  async receive(message) {
    try {
      if (message.type === "load") this.document = JSON.parse(message.text);
      else if (message.type === "map") await this.fill(message);
      else if (message.type === "stop") this.id = 0;
    } catch (error) {
      this.post({ type: "failed", id: this.id, words: error instanceof Error ? error.message : String(error) });
    }
  }

  /** @param {{ id: number, values: Values, passes: number, jobs: Job[] }} message */
  async fill({ id, values, passes, jobs }) {
    this.id = id;
    let heard = performance.now();
    for (const job of jobs) {
      /** Raw numbers that the trainings of a job share. @type {Map<string, Float64Array>} */
      const drawn = new Map();
      for (const own of job.each) {
        const run = this.begun({ ...values, ...job.values, ...own }, passes, job.trial, drawn);
        while (!run.ended) {
          run.advance();
          if (performance.now() - heard < PATIENCE) continue;
          await new Promise((resolve) => setTimeout(resolve));
          heard = performance.now();
          if (this.id !== id) return; // the map is no longer wanted
        }
        this.post({ type: "trained", id, trial: job.trial, ...job.values, ...own, ...resultsOf(run) });
      }
    }
    this.post({ type: "idle", id });
  }

  /** @param {Values} values @param {number} passes @param {number} first @param {Map<string, Float64Array>} drawn */
  begun(values, passes, first, drawn) {
    if (!this.document) throw new Error("a page must load what was recorded before it trains");
    const recorded = instantiate(this.document, values);
    return new Run(recorded, values, { seed: values.seed, passes, every: Infinity, first, drawn });
  }
}

/** What a training has come to; NaN where its loss became infinite. @param {Run} run */
function resultsOf(run) {
  const results = run.picture("");
  const lost = run.names.some((name) => run.diverged[name][0]);
  return Object.fromEntries(
    Object.entries(results).map(([name, place]) => [name, lost ? NaN : run.engine.read(place)[0]]),
  );
}
