/** The knobs of a Lab on a page: their fields, the values that fit together, the address and the code of a run. */

import { numberIn } from "./typed.js";

/** @typedef {Record<string, any>} Values */
/** @typedef {{ name: string, title: string, label: string, main: boolean, whole: boolean, view: boolean, tip: string,
 *   tip_off: string, when: { knob: string, is: any[] } | null, low: number, high: number, step: number, digits: number,
 *   choices?: any[], names: Record<string, string> }} Knob */
/** @typedef {{ knob: string, by: string[], words: string, most: Record<string, number> | null,
 *   among: Record<string, number[]> | null, said: Record<string, string> | null }} Rule */
/** @typedef {{ name: string, title: string, knobs: Knob[], rules: Rule[], defaults: Values, fixed: Values,
 *   stories: { name: string, values: Values, see: string }[], panels: import("./canvas.js").Panel[], records: number,
 *   missing: string[], tipSeed: string, diverged: Record<string, string> }} Lab */

const MOST_SEED = 1e9;
/** A place for a number. A number input drops a comma, or all that it cannot read, before anybody sees it. */
const TYPED = { type: "text", inputMode: "decimal", autocomplete: "off" };

/** @param {string} id @returns {any} the element of the page */
export const find = (id) => document.getElementById(id);

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {Record<string, any>} properties */
export const element = (tag, properties = {}) => Object.assign(document.createElement(tag), properties);

/** The values that a knob offers. @param {Knob} knob @returns {any[]} */
function offeredBy(knob) {
  if (knob.choices) return knob.choices;
  const count = Math.round((knob.high - knob.low) / knob.step) + 1;
  return Array.from({ length: count }, (_, place) => Number((knob.low + place * knob.step).toFixed(9)));
}

/** @param {any} value @param {any[]} offered @returns {any} */
function nearest(value, offered) {
  if (offered.includes(value) || Number.isNaN(Number(value))) return offered.includes(value) ? value : offered[0];
  return offered.reduce((best, one) => (Math.abs(one - value) < Math.abs(best - value) ? one : best));
}

/** What a rule allows beside some values; null for everything. @param {Rule} rule @param {Knob} knob
 * @param {Values} values @returns {any[] | null} */
function allowedBy(rule, knob, values) {
  const key = String(values[rule.by[0]]);
  const most = rule.most?.[key];
  return rule.among?.[key] ?? (most === undefined ? null : offeredBy(knob).filter((one) => one <= most + 1e-9));
}

/** The values nearest to those wanted that fit together, and the Lab's sentences on what had to change.
 * @param {Lab} lab @param {Values} wanted */
export function fitted(lab, wanted) {
  const seed = Math.min(MOST_SEED, Math.max(0, Math.floor(Number(wanted.seed)) || 0));
  /** @type {Values} */
  const values = { ...lab.fixed, seed };
  /** @type {string[]} */
  const said = [];
  for (const knob of lab.knobs) values[knob.name] = nearest(wanted[knob.name], offeredBy(knob));
  for (const rule of lab.rules) {
    const knob = lab.knobs.find(({ name }) => name === rule.knob);
    const allowed = knob ? allowedBy(rule, knob, values) : null;
    if (!knob || !allowed || allowed.includes(values[knob.name])) continue;
    values[knob.name] = nearest(values[knob.name], allowed);
    const words = rule.words.replace("{most}", rule.said?.[String(values[rule.by[0]])] ?? "");
    said.push(`${knob.title} is now ${values[knob.name]}: ${words}.`);
  }
  return { values, said };
}

/** What an address asks for, as `lab.link()` writes it; the start of the file where it asks for nothing.
 * @param {Lab} lab @param {string} fragment @param {Values} start */
export function fromAddress(lab, fragment, start) {
  const asked = new URLSearchParams(fragment.replace(/^#/, ""));
  /** @type {Values} */
  const wanted = [...asked].length ? { ...lab.defaults } : { ...lab.defaults, ...start };
  /** @type {string[]} */
  const said = [];
  for (const knob of lab.knobs) {
    const given = asked.get(knob.name);
    if (given === null) continue;
    const value = Number.isNaN(Number(given)) ? given : Number(given);
    wanted[knob.name] = nearest(value, offeredBy(knob));
    if (wanted[knob.name] === value) continue;
    said.push(`This page has no ${knob.title} of ${given}; the nearest is ${wanted[knob.name]}.`);
  }
  for (const [name, value] of Object.entries(lab.fixed)) {
    const given = asked.get(name);
    if (given !== null && given !== pythonOf(undefined, value) && Number(given) !== value) {
      said.push(`This page has no ${name} of ${given}: a notebook has.`);
    }
  }
  wanted.seed = Number(asked.get("seed") ?? wanted.seed);
  return { wanted, said };
}

/** A value as Python writes it. @param {Knob | undefined} knob @param {any} value */
function pythonOf(knob, value) {
  return knob && !knob.choices && !knob.whole && Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/** What differs from the defaults. @param {Lab} lab @param {Values} values @returns {[string, string][]} */
function different(lab, values) {
  const names = [...lab.knobs.map(({ name }) => name), "seed"].filter((name) => values[name] !== lab.defaults[name]);
  return names.map((name) => [
    name,
    pythonOf(
      lab.knobs.find((knob) => knob.name === name),
      values[name],
    ),
  ]);
}

/** @param {Lab} lab @param {Values} values */
export function toAddress(lab, values) {
  return `#${new URLSearchParams([["lab", lab.name], ...different(lab, values)])}`;
}

/** The line of Python that makes this run. @param {Lab} lab @param {Values} values */
export function toPython(lab, values) {
  const given = different(lab, values).map(([name, words]) => {
    return `${name}=${typeof values[name] === "string" ? `"${words}"` : words}`;
  });
  return `from moe_lab_widgets import ${lab.name}\n\n${lab.name}(${given.join(", ")})`;
}

/** The fields of a Lab's knobs. It remembers what was asked for, so that a value that was lowered comes back. */
export class Board {
  /** @param {Lab} lab @param {HTMLElement} main where the main knobs go @param {HTMLElement} rest where the others go
   * @param {(said: string[], name: string) => void} moved told when someone has moved a knob
   * @param {(said: string) => void} unread told when someone has typed what is no number */
  constructor(lab, main, rest, moved, unread) {
    this.lab = lab;
    this.moved = moved;
    this.unread = unread;
    /** @type {Values} */
    this.wanted = {};
    /** @type {Values} */
    this.values = {};
    /** @type {(() => void)[]} */
    this.shown = [];
    for (const knob of lab.knobs) this.addKnob(knob, knob.main ? main : rest);
    const seed = element("input", { ...TYPED, id: "knob-seed" });
    seed.addEventListener("change", () => this.type(seed, "seed", "seed", [], true));
    this.addField(main, "seed", "seed", [seed]).tip.textContent = lab.tipSeed;
    this.shown.push(() => {
      seed.value = this.values.seed;
    });
    if (rest.childElementCount) main.append(moreButton(rest));
  }

  /** Takes values; returns sentences on those that do not fit. @param {Values} wanted */
  put(wanted) {
    this.wanted = { ...wanted };
    const { values, said } = fitted(this.lab, this.wanted);
    this.values = values;
    for (const show of this.shown) show();
    return said;
  }

  /** @param {string} name @param {any} value @param {string[]} said what else is to be said of it */
  move(name, value, said = []) {
    this.moved([...said, ...this.put({ ...this.wanted, [name]: value })], name);
  }

  /** Takes what was typed for a number; where it is none, the value stays and that is said.
   * @param {HTMLInputElement} input @param {string} name @param {string} title @param {any[]} offered all if empty
   * @param {boolean} whole */
  type(input, name, title, offered, whole) {
    const typed = input.value.trim();
    const value = numberIn(typed, whole);
    if (!Number.isNaN(value)) {
      const found = offered.length ? nearest(value, offered) : value;
      this.move(
        name,
        found,
        found === value ? [] : [`This page has no ${title} of ${typed}; the nearest is ${found}.`],
      );
      return;
    }
    for (const show of this.shown) show();
    if (typed)
      this.unread(`${title} stays at ${this.values[name]}: “${typed}” is no ${whole ? "whole number" : "number"}.`);
  }

  /** @param {HTMLElement} root @param {string} name @param {string} words @param {HTMLElement[]} inputs */
  addField(root, name, words, inputs) {
    const field = element("div", { className: `knob ${inputs.length > 1 ? "slides" : "plain"}` });
    const label = element("label", { htmlFor: `knob-${name}`, textContent: words });
    const tip = element("span", { className: "tip", id: `tip-${name}` });
    tip.setAttribute("role", "tooltip");
    for (const input of inputs) input.setAttribute("aria-describedby", tip.id);
    field.addEventListener("keydown", ({ key }) => field.classList.toggle("quiet", key === "Escape"));
    field.append(label, ...inputs, tip);
    root.append(field);
    return { field, tip };
  }

  /** @param {Knob} knob @param {HTMLElement} root */
  addKnob(knob, root) {
    const inputs = knob.choices ? [this.choiceOf(knob)] : this.slidersOf(knob);
    const { field, tip } = this.addField(root, knob.name, knob.label, inputs);
    this.shown.push(() => {
      const off = knob.when !== null && !knob.when.is.includes(this.values[knob.when.knob]);
      for (const input of inputs) input.disabled = off;
      field.classList.toggle("off", off);
      tip.textContent = off ? knob.tip_off : knob.tip;
    });
  }

  /** @param {Knob} knob */
  choiceOf(knob) {
    const choices = knob.choices ?? [];
    const select = element("select", { id: `knob-${knob.name}` });
    select.append(...choices.map((choice) => new Option(knob.names[choice] ?? String(choice), String(choice))));
    select.addEventListener("change", () => this.move(knob.name, choices[select.selectedIndex]));
    this.shown.push(() => {
      select.selectedIndex = choices.indexOf(this.values[knob.name]);
    });
    return select;
  }

  /** A number box and a slider, which stands only at values that fit. @param {Knob} knob */
  slidersOf(knob) {
    const { name, digits } = knob;
    const box = element("input", { ...TYPED });
    const slider = element("input", { type: "range", id: `knob-${name}`, min: "0", step: "1" });
    box.setAttribute("aria-label", knob.label);
    let offered = offeredBy(knob);
    slider.addEventListener("input", () => this.move(name, offered[Number(slider.value)]));
    box.addEventListener("change", () => this.type(box, name, knob.title, offeredBy(knob), knob.whole));
    this.shown.push(() => {
      const rules = this.lab.rules.filter((rule) => rule.knob === name);
      offered = rules.map((rule) => allowedBy(rule, knob, this.values)).find(Boolean) ?? offeredBy(knob);
      slider.max = String(offered.length - 1);
      slider.value = String(offered.indexOf(this.values[name]));
      box.value = this.values[name].toFixed(digits);
      slider.setAttribute("aria-valuetext", box.value);
    });
    return [box, slider];
  }
}

/** @param {HTMLElement} rest */
function moreButton(rest) {
  const button = element("button", { type: "button", id: "more", textContent: "More settings" });
  button.setAttribute("aria-controls", rest.id);
  button.setAttribute("aria-expanded", "false");
  button.addEventListener("click", () => {
    rest.hidden = !rest.hidden;
    button.setAttribute("aria-expanded", String(!rest.hidden));
  });
  return button;
}
