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
    const engine = engineOf(handle);
    send = (message) => void engine.receive(message);
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

const SOURCE = () => `const engine = (${engineOf})((message) => postMessage(message));
onmessage = ({ data }) => engine.receive(data);`;
