/** What trains the map: in a worker, or in the page where there is none.
 *
 * It is told {type: "map", id, values, jobs} and "stop". It answers {type: "trained", id, ...} (see `trainings`), then
 * {type: "idle", id}; {type: "failed", id, words} where anything fails.
 */
import { trainings } from "./phase.js";
import { Images, taskOf } from "./tasks.js";

/** @typedef {import("./tasks.js").Task} Task */

const PATIENCE = 25; // milliseconds of training after which messages are heard

export class Engine {
  /** @param {(message: any) => void} post */
  constructor(post) {
    this.post = post;
    this.id = 0;
    this.unpacked = /** @type {Promise<Images> | null} */ (null);
  }

  /** @param {any} message */
  async receive(message) {
    try {
      await this.obey(message);
    } catch (error) {
      this.fail(error);
    }
  }

  /** @param {any} message */
  async obey({ type, id, values, jobs }) {
    if (type === "map") await this.fill(id, values, jobs);
    else if (type === "stop") this.id = 0;
  }

  /** @param {unknown} error */
  fail(error) {
    this.post({ type: "failed", id: this.id, words: error instanceof Error ? error.message : String(error) });
  }

  /** @param {any} values */
  task(values) {
    return taskOf(values, () => (this.unpacked ??= Images.unpacked()));
  }

  /** @param {number} id @param {any} values @param {import("./phase.js").Job[]} jobs */
  async fill(id, values, jobs) {
    this.id = id;
    const task = await this.task(values);
    let heard = performance.now();
    for (const job of jobs) {
      for (const trained of trainings(task, values, job)) {
        this.post({ type: "trained", id, ...trained });
        if (performance.now() - heard < PATIENCE) continue;
        await new Promise((resolve) => setTimeout(resolve));
        heard = performance.now();
        if (this.id !== id) return; // the map is no longer wanted
      }
    }
    this.post({ type: "idle", id });
  }
}
