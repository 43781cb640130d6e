/** Connects a page with an engine. */

/** Returns a function that sends messages to an engine of its own: in a worker, or here where workers are missing or
 * do not start.
 * @param {(message: any) => void} handle its answers @returns {(message: any) => void} */
export function connected(handle) {
  /** @type {any[]} */
  const unheard = []; // sent before the worker has answered: said again here where it cannot start
  /** @type {(message: any) => void} */
  let send = (message) => void unheard.push(message);
  let latest = 0; // the run that was asked for
  const trainHere = () => {
    send = inTurn(engineOf(handle));
    for (const message of unheard.splice(0)) send(message);
  };
  try {
    const worker = new Worker(URL.createObjectURL(new Blob([SOURCE()], { type: "text/javascript" })));
    let isHeard = false;
    worker.onmessage = ({ data }) => {
      isHeard = true;
      unheard.length = 0;
      handle(data);
    };
    worker.onerror = (event) => {
      event.preventDefault();
      if (!isHeard) trainHere();
      else handle({ type: "failed", id: latest, words: event.message });
    };
    send = (message) => {
      if (!isHeard) unheard.push(message);
      worker.postMessage(message);
    };
  } catch {
    trainHere();
  }
  return (message) => {
    latest = message.id ?? latest;
    send(message);
  };
}

/** The bundle's engine, as a function of what hears it: see bundle.py. */
const engineOf = /** @type {any} */ (globalThis).moeEngine;

/** Returns a function that gives messages to an engine. Of those that wait while it works, only the last run that is
 * asked for is begun: a slider that is dragged asks for many.
 * @param {{ receive: (message: any) => void }} engine @returns {(message: any) => void} */
function inTurn(engine) {
  /** @type {any[]} */
  const waiting = [];
  const take = () => {
    const all = waiting.splice(0);
    const last = all.map(({ type }) => type).lastIndexOf("begin");
    all.forEach((message, place) => {
      if (place >= last || message.type === "load" || message.type === "speed") engine.receive(message);
    });
  };
  return (message) => {
    if (waiting.push(message) === 1) setTimeout(take);
  };
}

const SOURCE = () => `const hear = (${inTurn})((${engineOf})((message) => postMessage(message)));
onmessage = ({ data }) => hear(data);`;
