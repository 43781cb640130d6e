/** The goal of a page: something to bring about, which the page sees at the end of a run, and a question about it.
 * As `moe_lab_widgets.engine.asker` does. */

import { element, find } from "./controls.js";
import { keepReached, reachedBefore, reachedElsewhere } from "./kept.js";
import { filled } from "./plain.js";
import { written } from "./written.js";

/** @typedef {{ name: string, values: Record<string, any>, keeps: string[], asks: string, seen: string,
 *   answers: { words: string, said: string, right: boolean }[] }} Goal */
/** What a picture tells of a goal. @typedef {{ reached: number, so_far: any }} Told */

export class Asker {
  /** @param {{ name: string, goals: Goal[], words: Record<string, string>, knobs: { name: string, title: string }[] }}
   *   lab */
  constructor(lab) {
    this.lab = lab;
    /** Of the goal that is sought, or -1. */
    this.number = -1;
    /** Whether a run has reached it. */
    this.reached = false;
    const names = new Set(lab.goals.map(({ name }) => name));
    /** @type {Set<string>} the names of goals that are reached and answered */
    this.done = new Set([...reachedBefore(lab.name)].filter((name) => names.has(name)));
    this.choose(-1);
  }

  /** The goal that is sought. @returns {Goal | undefined} */
  get goal() {
    return this.lab.goals[this.number];
  }

  /** @param {number} number of the goal, or -1 */
  choose(number) {
    this.number = number;
    this.reached = false;
    find("goal").hidden = number < 0;
    this.say(this.goal?.name ?? "");
  }

  /** Takes a record: says how far it is, and asks once a run has reached the goal.
   * @param {Told[]} told @param {boolean} ended whether it is the last record of a run
   * @param {Record<string, any>} values of the run */
  look(told, ended, values) {
    const { goal, lab } = this;
    if (!goal || this.reached) return;
    const { reached, so_far: soFar } = told[this.number];
    const moved = goal.keeps.filter((name) => values[name] !== goal.values[name]);
    if (!ended || !reached) this.say(`${goal.name} ${written(soFar)}`);
    else if (moved.length) {
      const title = (/** @type {string} */ one) => lab.knobs.find(({ name }) => name === one)?.title ?? one;
      this.say(filled(lab.words.KEEP, { knobs: moved.map(title).join(", ") }));
    } else {
      this.reached = true;
      this.ask(lab.words.REACHED, new Set());
    }
  }

  /** Asks about a goal that is reached. @param {string} before what is said first @param {Set<string>} refused */
  ask(before, refused) {
    const { goal, lab } = this;
    if (!goal) return;
    const buttons = goal.answers.map(({ words, said, right }) => {
      const button = element("button", { type: "button", textContent: words, disabled: refused.has(words) });
      button.addEventListener("click", () => {
        if (!right) return this.ask(`${lab.words.NOT_SO} ${said}`, refused.add(words));
        keepReached(lab.name, this.done.add(goal.name));
        this.say(`${lab.words.RIGHT} ${said} ${goal.seen}`);
        this.count();
      });
      return button;
    });
    this.say(`${before} ${goal.asks}`, buttons);
  }

  /** @param {string} words @param {HTMLElement[]} buttons */
  say(words, buttons = []) {
    if (find("sought").textContent !== words) find("sought").textContent = words;
    find("answers").replaceChildren(...buttons);
  }

  /** Ticks the goals that are done, and counts them. */
  count() {
    const { goals, words } = this.lab;
    for (const option of find("menu").options) {
      if (this.done.has(option.dataset.goal)) option.textContent = `${words.RIGHT} ${option.dataset.goal}`;
    }
    const others = reachedElsewhere(this.lab.name);
    const here = filled(words.GOALS, { done: this.done.size, all: goals.length });
    find("goals").textContent = others ? `${here}, ${others + this.done.size} in the course` : here;
  }
}
