/** The question of a page before a run: takes an answer, or what is drawn on the picture, and judges it at the end.
 * As `moe_lab_widgets.engine.questioner` does. */

import { filled } from "./plain.js";
import { SketchMarks, levelIn } from "./sketch.js";

/** What is drawn: along an axis of a panel's axes; see `moe_lab_widgets.engine.goal.Sketch`.
 * @typedef {{ panel: number, axes: number, names: string[], styles: string[], near: number, rows: number[],
 *   percent: boolean, log: boolean }} Sketch */
/** @typedef {{ asks: string, answers: string[], sketch: Sketch | null }} Asked */
/** What the end of a run tells of it: the right answer, what was seen, in words, and where levels end.
 * @typedef {{ right?: number | null, seen: string, ends?: ArrayLike<number | null> }} Told */

/** Levels that are told one by one. */
const MOST_TOLD = 3;

export class Question {
  /** @param {Asked} asked @param {Record<string, string>} words
   * @param {HTMLElement} place takes the buttons after what is asked @param {HTMLElement} asks takes what is asked
   * @param {() => void} play starts the run @param {(values: Record<string, any>) => void} back goes back to some values */
  constructor(asked, words, place, asks, play, back) {
    this.asked = asked;
    this.words = words;
    this.place = place;
    this.asks = asks;
    this.play = play;
    this.back = back;
    this.marks = new SketchMarks((levels) => this.draw(levels));
    this.offered = "";
    this.answer = -1;
    /** @type {(number | null)[]} */
    this.drawn = [];
    /** Whether a prediction has started its run; whether a knob has been moved since. */
    this.begun = false;
    this.left = false;
    /** Of the settings that it is asked about. @type {Record<string, any>} */
    this.values = {};
  }

  /** Asks anew, of the settings that are on show next. */
  reset() {
    this.answer = -1;
    this.drawn = [];
    this.begun = this.left = false;
  }

  /** A knob was moved: a prediction was of other settings. */
  moved() {
    this.left = this.left || this.begun;
  }

  get sketched() {
    return this.drawn.some((level) => level !== null);
  }

  /** Shows what there is to ask.
   * @param {boolean} open whether the run on show has not begun, and nothing else is sought
   * @param {Record<string, any>} values of the run
   * @param {(levels: (number | null)[], open: boolean, marks: SketchMarks) => void} sketch draws marks over the picture */
  look(open, values, sketch) {
    const { asked, words } = this;
    if (this.left) this.offer(words.MOVED, [words.BACK]);
    else if (this.begun || !open) this.offer("", []);
    else {
      this.values = { ...values };
      const draw = asked.sketch ? [words.DRAW] : [];
      if (this.sketched) this.offer(this.told(), [words.COMPARE, words.JUST_RUN]);
      else this.offer(asked.asks, [...asked.answers, ...draw, words.JUST_RUN]);
    }
    if (asked.sketch && !this.left && ((open && !this.begun) || (this.begun && this.sketched))) {
      sketch(this.drawn, !this.begun, this.marks);
    } else this.marks.clear();
  }

  /** @param {string} said @param {string[]} answers */
  offer(said, answers) {
    const now = JSON.stringify([said, answers]);
    if (now === this.offered) return;
    this.offered = now;
    this.place.hidden = !said;
    this.asks.textContent = said;
    for (const old of this.place.querySelectorAll("button")) old.remove();
    for (const textContent of answers) {
      const button = Object.assign(document.createElement("button"), { type: "button", textContent });
      button.addEventListener("click", () => this.take(textContent));
      this.place.append(button);
    }
  }

  /** @param {string} answer that was offered */
  take(answer) {
    const { asked, words, values } = this;
    if (answer === words.DRAW) return this.marks.focus();
    if (answer === words.BACK) {
      this.reset();
      return this.back(values);
    }
    if (answer !== words.COMPARE) this.drawn = [];
    this.answer = asked.answers.indexOf(answer);
    this.begun = answer !== words.JUST_RUN;
    this.play();
  }

  /** @param {(number | null)[]} levels */
  draw(levels) {
    this.drawn = levels;
    if (this.sketched) this.offer(this.told(), [this.words.COMPARE, this.words.JUST_RUN]);
  }

  /** What was drawn, in words. */
  told() {
    const { asked, words, drawn } = this;
    const sketch = /** @type {Sketch} */ (asked.sketch);
    const there = drawn.flatMap((level, number) => (level === null ? [] : [{ level, name: sketch.names[number] }]));
    const each = there.map(({ level, name }) => filled(words.FOR, { level: levelIn(sketch, level), name }));
    const several = [each.slice(0, -1).join(", "), each[each.length - 1]].filter(Boolean).join(" and ");
    const many = there.length > MOST_TOLD;
    return filled(words.DREW, { levels: many ? filled(words.MARKS, { count: there.length }) : several });
  }

  /** What was predicted, in words; empty where nothing was. */
  get predicted() {
    if (!this.begun) return "";
    return this.answer < 0 ? this.told() : `${this.asked.asks} ${this.asked.answers[this.answer]}`;
  }

  /** What is said of the prediction at the end of a run. @param {Told} end */
  verdict({ right, seen, ends }) {
    const { asked, words } = this;
    if (!this.begun || this.left) return "";
    if (!Number.isFinite(right)) return words.NOT_JUDGED;
    if (this.answer < 0) {
      const sentence = `${seen[0].toUpperCase()}${seen.slice(1)}.`;
      return [this.told(), this.closeness(ends ?? []), sentence].filter(Boolean).join(" ");
    }
    const about = { seen, answer: asked.answers[this.answer] };
    return filled(words[right === this.answer ? "PREDICTED" : "PREDICTED_ELSE"], about);
  }

  /** How many of the levels are close, in words. @param {ArrayLike<number | null>} ends */
  closeness(ends) {
    const { asked, words, drawn } = this;
    const { near, log } = /** @type {Sketch} */ (asked.sketch);
    const close = drawn.flatMap((level, number) => {
      const end = ends[number];
      if (level === null || typeof end !== "number" || !Number.isFinite(end)) return [];
      return [log ? Math.max(level, end) <= near * Math.min(level, end) : Math.abs(level - end) <= near];
    });
    if (!close.length) return "";
    const count = close.filter(Boolean).length;
    if (count === close.length) return words.CLOSE;
    return count ? filled(words.SOME_CLOSE, { close: count, all: close.length }) : words.FAR;
  }
}
