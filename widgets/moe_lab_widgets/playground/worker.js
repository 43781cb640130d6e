/** What trains: in a worker, or in the page where there is none.
 *
 * It is told {type: "start", id, values, playing, pause}, "play", "pause", "step", {type: "speed", pause}, and by the
 * map page {type: "map", id, values, jobs} and "stop". It answers {type: "started", id, total, overlap, example}, then
 * {type: "record", id, took, ...} (see Training.record); {type: "trained", id, ...} (see `trainings`), then
 * {type: "idle", id}; {type: "failed", id, words} where anything fails.
 */
import { trainings } from "./phase.js";
import { Images, taskOf } from "./tasks.js";
import { Training } from "./trainer.js";

/** @typedef {import("./tasks.js").Task} Task */
/** @typedef {import("./trainer.js").Trial} Trial */

const RECORDS = 100; // of a run
const PATIENCE = 25; // milliseconds of training after which messages are heard

export class Engine {
  /** @param {(message: any) => void} post */
  constructor(post) {
    this.post = post;
    this.id = 0;
    this.pause = 0; // milliseconds from record to record
    this.every = 1; // steps
    this.timer = 0;
    this.playing = false;
    this.training = /** @type {Training | null} */ (null);
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
  async obey({ type, id, values, playing, pause, jobs }) {
    if (type === "start") await this.start(id, values, playing, pause);
    else if (type === "map") await this.fill(id, values, jobs);
    else if (type === "speed") this.pause = pause;
    else if (type === "stop") this.id = 0;
    else {
      this.rest();
      this.playing = type === "play";
      if (type === "play") this.play(0);
      else if (type === "step") this.train();
    }
  }

  /** @param {unknown} error */
  fail(error) {
    this.rest();
    this.post({ type: "failed", id: this.id, words: error instanceof Error ? error.message : String(error) });
  }

  /** @param {any} values */
  task(values) {
    return taskOf(values, () => (this.unpacked ??= Images.unpacked()));
  }

  // ---- a run ----

  /** @param {number} id @param {any} values @param {boolean} playing @param {number} pause */
  async start(id, values, playing, pause) {
    this.rest();
    Object.assign(this, { id, playing, pause, training: null });
    const task = await this.task(values);
    if (this.id !== id) return; // another was asked for meanwhile
    const training = new Training(task, values);
    const { test, signals } = training.trials[0];
    const [roles, sides] = [test.roles, test.sides].map((all) => all.slice(0, 2 * test.n));
    this.training = training;
    this.every = Math.max(1, Math.round(training.total / RECORDS));
    const overlap = signals[0].reduce((sum, one, i) => sum + one * signals[1][i], 0);
    const example = { roles, sides, faces: "images" in task ? faces(task.images, test) : null };
    this.post({ type: "started", id, total: training.total, overlap, example });
    this.tell(0);
    if (this.playing) this.play(0);
  }

  /** @param {number} wait milliseconds until the next record is trained */
  play(wait) {
    this.timer = setTimeout(() => {
      const begun = performance.now();
      try {
        this.train();
      } catch (error) {
        this.fail(error);
        return;
      }
      if (this.training && !this.training.ended) this.play(Math.max(0, this.pause - (performance.now() - begun)));
    }, wait);
  }

  rest() {
    clearTimeout(this.timer);
  }

  /** Trains up to the next record. */
  train() {
    const { training, every } = this;
    if (!training || training.ended) return;
    const begun = performance.now();
    do training.advance();
    while (training.step % every && !training.ended);
    this.tell(performance.now() - begun);
  }

  /** @param {number} took milliseconds */
  tell(took) {
    this.post({ type: "record", id: this.id, took, .../** @type {Training} */ (this.training).record() });
  }

  // ---- a map ----

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

/** The grey values of the two examples' digits, with their noise. @param {Images} images @param {Trial["test"]} test */
function faces({ mean, norms }, { n, bank, index, images }) {
  return new Float32Array(2 * n * 64).map((_, place) => {
    const patch = place >> 6;
    const pixel = place & 63;
    return bank[index[patch] * 64 + pixel] * norms[images[patch]] + mean[pixel];
  });
}
