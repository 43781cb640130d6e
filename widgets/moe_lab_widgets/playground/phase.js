/** The trainings of the map page: every l on the samples of one trial and one N, as `phase_records` trains them. */
import { LIBRARY } from "./library.js";
import { FixedMoE, JointMoE, evaluate, route, trainRouters } from "./model.js";
import { Learner, Order, bestCoverage, measure, routersOf, startOf } from "./trainer.js";

/** @typedef {import("./tasks.js").Values} Values */
/** @typedef {import("./tasks.js").Task} Task */
/** @typedef {import("./tasks.js").Samples} Samples */
/** @typedef {{samples: number, trial: number}} Job */
/** @typedef {(kept: number) => {model: JointMoE | FixedMoE, measured: () => {accuracy: number, coverage: Float64Array}}
 * } Maker of a model that keeps l patches; `measured` is called when it is trained */

const MAP = LIBRARY.map;

/** Yields what every l came to; accuracy and coverage, of the worse class, are NaN if the loss became infinite.
 * @param {Task} task @param {Values} values @param {Job} job */
export function* trainings(task, values, { samples, trial }) {
  const { seed } = values;
  const train = task.sample(samples, trial, seed, "train");
  const test = task.sample(MAP.testSamples, trial, seed, "test");
  const joint = values.training === "joint";
  const made = joint ? jointly(task, values, trial, test) : separately(task, values, trial, train, test);
  for (const kept of MAP.kept.filter((one) => one <= task.patches)) {
    const { model, measured } = made(kept);
    const order = new Order(seed, trial, samples);
    const learner = new Learner(model, train, MAP.rate, MAP.epochs);
    while (!learner.ended) learner.step(order.next());
    const { accuracy, coverage } = measured();
    const found = { accuracy, coverage: Math.min(...bestCoverage(coverage)) };
    yield { samples, trial, kept, ...(learner.diverged ? { accuracy: NaN, coverage: NaN } : found) };
  }
}

/** @param {Task} task @param {Values} values @param {number} trial @param {Samples} test @returns {Maker} */
function jointly(task, { seed, experts }, trial, test) {
  const { dimension: d, patches: n } = task;
  return (kept) => {
    const start = startOf(seed, trial, MAP.neurons, d);
    const model = new JointMoE(start, routersOf(seed, trial, experts, n, d), kept);
    return { model, measured: () => measure(model, test, task.signals()) };
  };
}

/** Two experts behind routers that were trained first: what they choose is found once for every l.
 * @param {Task} task @param {Values} values @param {number} trial @param {Samples} train @param {Samples} test
 * @returns {Maker} */
function separately(task, { seed }, trial, train, test) {
  const { dimension: d, patches: n } = task;
  const most = Math.min(n, Math.max(...MAP.kept));
  const routers = trainRouters(routersOf(seed, trial, 2, n, d), train, MAP.routerEpochs, LIBRARY.batch);
  const [trained, tested] = [train, test].map((samples) => route(routers, samples, most));
  const tables = new Map([[train, trained.table], [test, tested.table]]);
  return (kept) => {
    const model = new FixedMoE(startOf(seed, trial, MAP.neurons, d), tables, kept);
    const coverage = new Float64Array(4);
    for (const [expert, ranks] of tested.ranks.entries()) {
      ranks.forEach((rank, sample) => {
        if (rank < kept) coverage[2 * expert + test.labels[sample]] += 2 / test.count;
      });
    }
    return { model, measured: () => ({ accuracy: 1 - evaluate(model, test).wrong, coverage }) };
  };
}
