/** The knobs of a Lab on a page: their fields, the values that fit together, and the address and the code of a run. */
import { DECLARED } from "./declared.js";
import { filled, fits, misfits } from "./plain.js";
import { numberIn } from "./typed.js";

/** @typedef {{[knob: string]: any}} Values */
/**
 * @typedef {{name: string, title: string, label: string, main: boolean, whole: boolean, view?: boolean, looks?: boolean, tip: string, tip_off: string,
 *   when: {knob: string, is: any[]} | null, low: number, high: number, step: number, digits: number, choices?: any[],
 *   names?: {[choice: string]: string}}} Knob a knob with choices has no slider; one with `view` changes no run
 */
/**
 * @typedef {{knob: string, by: string[], when: {knob: string, is?: any[], not?: any[]}[], words: string,
 *   most: {[key: string]: number} | null, among: {[key: string]: number[]} | null,
 *   said: {[key: string]: string} | null}} Rule
 */
/**
 * @typedef {{name: string, knobs: Knob[], rules: Rule[], defaults: {[source: string]: Values}, tip_seed: string,
 *   words: {[key: string]: string}, goals: {name: string}[], stories: {name: string}[], fixed?: Values, together: Values[]}} Lab
 *   without a knob for the source of the data, the defaults are those of ""; what is fixed has no knob; the choices of
 *   one of `together` go together
 */

const MOST_SEED = 1e9;
/** A place for a number. A number input drops a comma, or all that it cannot read, before anybody sees it. */
const TYPED = { type: "text", inputMode: "decimal", autocomplete: "off" };
const NEEDED = ["ResizeObserver", "WebAssembly"];

/** Whether the visitor has asked for little motion: then nothing moves by itself. */
export const CALM = matchMedia("(prefers-reduced-motion: reduce)").matches;

/** @param {string} id @returns {any} the element of the page */
export const find = (id) => document.getElementById(id);

/** @template {keyof HTMLElementTagNameMap} T @param {T} tag @param {{[name: string]: any}} properties */
export function element(tag, properties = {}) {
  return Object.assign(document.createElement(tag), properties);
}

/** Shows a page and fills what all pages have, unless the browser is too old.
 * @param {Lab} lab
 * @param {() => void} open fills the rest
 * @param {() => void} draw called when the room for the panels changes
 * @param {string} product the module of matrix products, in base64
 */
export function openPage(lab, open, draw, product) {
  if (!NEEDED.every((name) => name in window)) return;
  if (!WebAssembly.validate(Uint8Array.from(atob(product), (letter) => letter.charCodeAt(0)))) return;
  find("old").hidden = true;
  find("page").hidden = false;
  find("menu").append(new Option("(my own settings)", ""), ...menuOf(lab));
  for (const { words, address } of DECLARED.links) {
    find("links").append(element("a", { textContent: words, href: address }));
  }
  find("settings").open = !matchMedia("(max-width: 700px)").matches;
  find("numbers").addEventListener("toggle", draw);
  copiesLink(find("link"));
  open();
  new ResizeObserver(draw).observe(find("panels"));
}

/** The goals and the stories of a Lab, as groups of options. @param {Lab} lab */
function menuOf({ goals, stories }) {
  const groups = /** @type {const} */ ([["goals", goals], ["stories", stories]]);
  return groups
    .filter(([, entries]) => entries.length)
    .map(([label, entries]) => {
      const group = element("optgroup", { label });
      for (const [place, { name }] of entries.entries()) {
        const option = new Option(name, `${label} ${place}`);
        if (label === "goals") option.dataset.goal = name;
        group.append(option);
      }
      return group;
    });
}

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

/** What a rule allows its knob beside some values; null where it allows everything.
 * @type {(rule: Rule, knob: Knob, values: Values) => any[] | null} */
function allowedBy(rule, knob, values) {
  const holds = rule.when.every(({ knob: one, is, not }) => is?.includes(values[one]) ?? !not?.includes(values[one]));
  const key = rule.by.map((name) => String(values[name])).join(",");
  const most = rule.most?.[key];
  if (!holds) return null;
  return rule.among?.[key] ?? (most === undefined ? null : offeredBy(knob).filter((one) => one <= most + 1e-9));
}

/** What a document says of its Lab, with the choices that it has recorded together.
 * @param {{ lab: any, variants: { when: Values }[] }} document */
export const labOf = ({ lab, variants }) => ({ ...lab, together: variants.map(({ when }) => when) });

/** The choices that go together which change fewest values; that of one knob stays wherever it can.
 * @param {Lab} lab @param {Values} values @param {string} kept @returns {Values} */
function nearestTogether(lab, values, kept) {
  /** @param {Values} choices */
  function cost(choices) {
    const changed = misfits(choices, values);
    return changed.length + (changed.includes(kept) ? lab.knobs.length : 0);
  }
  return lab.together.reduce((best, one) => (cost(one) < cost(best) ? one : best));
}

/** The values nearest to those wanted that fit together, and the Lab's sentences on what had to change.
 * @param {Lab} lab @param {Values} wanted @param {string} kept the knob that was moved last */
export function fitted(lab, wanted, kept = "") {
  /** @type {Values} */
  const values = { ...lab.fixed, seed: Math.min(MOST_SEED, Math.max(0, Math.floor(Number(wanted.seed)) || 0)) };
  /** @type {string[]} */
  const said = [];
  for (const knob of lab.knobs) values[knob.name] = nearest(wanted[knob.name], offeredBy(knob));
  const choices = nearestTogether(lab, values, kept);
  for (const name of misfits(choices, values)) {
    const knob = knobOf(lab, name);
    const told = { title: knob.title, wanted: namedIn(knob, values[name]) };
    values[name] = nearest(values[name], offeredBy(knob).filter((one) => fits(choices[name], one)));
    said.push(filled(lab.words.NOW, { ...told, value: namedIn(knob, values[name]), words: filled(lab.words.TOGETHER, told) }));
  }
  for (const rule of lab.rules) {
    const knob = knobOf(lab, rule.knob);
    const allowed = allowedBy(rule, knob, values);
    if (!allowed || allowed.includes(values[knob.name])) continue;
    values[knob.name] = nearest(values[knob.name], allowed);
    const words = filled(rule.words, { most: rule.said?.[String(values[rule.by[0]])] ?? "" });
    said.push(filled(lab.words.NOW, { title: knob.title, value: values[knob.name], words }));
  }
  return { values, said };
}

/** A value as a knob names it. @param {Knob} knob @param {any} value */
const namedIn = (knob, value) => knob.names?.[value] ?? String(value);

/** @param {Lab} lab @param {string} name @returns {Knob} */
function knobOf(lab, name) {
  const found = lab.knobs.find((knob) => knob.name === name);
  if (!found) throw new Error(`${lab.name} has no knob ${name}`);
  return found;
}

/** The first source of the data; "" where there is no such knob. @param {Lab} lab */
const firstSource = (lab) => lab.knobs.find(({ name }) => name === "source")?.choices?.[0] ?? "";

/** What an address asks for, as `lab.link()` writes it. @param {Lab} lab @param {string} fragment
 * @param {Values} start what is wanted where it asks for nothing, besides the defaults */
export function fromAddress(lab, fragment, start = {}) {
  const asked = new URLSearchParams(fragment.replace(/^#/, ""));
  const source = asked.get("source") ?? firstSource(lab);
  const known = source in lab.defaults;
  /** @type {Values} */
  const wanted = { ...lab.defaults[known ? source : "digits"], ...([...asked].length ? {} : start) };
  const said = asked.has("own") ? [filled(lab.words.LACKS_OWN, { name: asked.get("own") ?? "" })] : [];
  if (!known) said.push(filled(lab.words[source === "mnist" ? "LACKS_MNIST" : "LACKS_SOURCE"], { value: source }));
  for (const knob of lab.knobs) {
    const given = asked.get(knob.name);
    if (!given || knob.name === "source") continue;
    const value = Number.isNaN(Number(given)) ? given : Number(given);
    wanted[knob.name] = nearest(value, offeredBy(knob));
    if (wanted[knob.name] === value) continue;
    said.push(filled(lab.words.LACKS_VALUE, { title: knob.title, value: given, nearest: wanted[knob.name] }));
  }
  for (const [name, value] of Object.entries(lab.fixed ?? {})) {
    const given = asked.get(name);
    if (given === null || given === String(value) || Number(given) === value) continue;
    said.push(filled(lab.words.LACKS_VALUE, { title: name, value: given, nearest: value }));
  }
  wanted.seed = Number(asked.get("seed") ?? start.seed ?? 0);
  return { wanted, said };
}

/** A value as Python writes it. @param {Knob | undefined} knob @param {any} value */
function pythonOf(knob, value) {
  return knob && !knob.whole && Number.isInteger(value) ? value.toFixed(1) : String(value);
}

/** @param {Lab} lab @param {Values} values @returns {[string, string][]} in the Lab's order */
function allOf(lab, values) {
  const names = [...lab.knobs.map(({ name }) => name), "seed"];
  return names.map((name) => [name, pythonOf(lab.knobs.find((knob) => knob.name === name), values[name])]);
}

/** What a run needs besides the defaults, and what follows the source. @param {Lab} lab @param {Values} values */
export function needed(lab, values) {
  const sources = Object.values(lab.defaults);
  const own = lab.defaults[firstSource(lab)];
  /** Whether the default depends on the source. @param {string} name */
  const follows = (name) => name !== "source" && sources.some((defaults) => defaults[name] !== own[name]);
  return allOf(lab, values).filter(([name]) => values[name] !== own[name] || follows(name));
}

/** @param {Lab} lab @param {Values} values @param {typeof allOf} named which of them it names */
export function toAddress(lab, values, named = allOf) {
  return `#${new URLSearchParams([["lab", lab.name], ...named(lab, values)])}`;
}

/** The line of Python that makes this run, as `lab.link()` writes it. @param {Lab} lab @param {Values} values */
export function toPython(lab, values) {
  const given = needed(lab, values).map(([name, words]) => `${name}=${typeof values[name] === "string" ? `'${words}'` : words}`);
  return `from moe_lab_widgets import ${lab.name}\n${lab.name}(${given.join(", ")})`;
}

/** The fields of a Lab's knobs. It remembers what was asked for, so that a value that was lowered comes back. */
export class Board {
  /**
   * @param {Lab} lab
   * @param {HTMLElement} main where the main knobs go
   * @param {HTMLElement} rest where the others go, hidden until asked for
   * @param {(said: string[], name: string) => void} moved told when someone has moved a knob
   * @param {(said: string[]) => void} unread told when someone has typed what is no number
   */
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
    this.addField(main, "seed", "seed", [seed]).tip.textContent = lab.tip_seed;
    this.shown.push(() => { seed.value = this.values.seed; });
    if (rest.childElementCount) main.append(moreButton(rest));
  }

  /** Takes values that no field asked for; returns sentences on those that do not fit.
   * @param {Values} wanted @param {string} kept the knob that was moved, if one was */
  put(wanted, kept = "") {
    this.wanted = { ...wanted };
    const { values, said } = fitted(this.lab, this.wanted, kept);
    this.values = values;
    for (const show of this.shown) show();
    return said;
  }

  /** Takes the value of a field; what stands at the default of its source follows the source.
   * @param {string} name @param {any} value @param {string[]} said what else is to be said of it */
  move(name, value, said = []) {
    const before = this.lab.defaults[this.values.source ?? ""];
    const after = this.lab.defaults[(name === "source" ? value : this.values.source) ?? ""];
    const wanted = { ...this.wanted, [name]: value };
    for (const other of Object.keys(after)) {
      if (other !== name && wanted[other] === before[other]) wanted[other] = after[other];
    }
    this.moved([...said, ...this.put(wanted, name)], name);
  }

  /** Takes what was typed for a number; where it is none, the value stays and that is said.
   * @param {HTMLInputElement} input @param {string} name @param {string} title @param {any[]} offered all values if empty
   * @param {boolean} whole */
  type(input, name, title, offered, whole) {
    const { words } = this.lab;
    const text = input.value.trim();
    const value = numberIn(text, whole);
    if (!Number.isNaN(value)) {
      const found = offered.length ? nearest(value, offered) : value;
      this.move(name, found, found === value ? [] : [filled(words.LACKS_VALUE, { title, value, nearest: found })]);
      return;
    }
    for (const show of this.shown) show();
    const about = { title, value: this.values[name], kind: words[whole ? "WHOLE" : "NUMBER"], text };
    if (text) this.unread([filled(words.UNREAD, about)]);
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
    select.append(...choices.map((choice) => new Option(namedIn(knob, choice), String(choice))));
    select.addEventListener("change", () => this.move(knob.name, choices[select.selectedIndex]));
    this.shown.push(() => { select.selectedIndex = choices.indexOf(this.values[knob.name]); });
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
      const rules = this.lab.rules.filter((rule) => rule.knob === name && rule.among);
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

/** Lets a button copy the page's address. @param {HTMLButtonElement} button */
function copiesLink(button) {
  const words = button.textContent;
  button.addEventListener("click", async () => {
    const done = navigator.clipboard?.writeText(location.href) ?? Promise.reject();
    button.textContent = await done.then(() => "Copied", () => "See address");
    setTimeout(() => { button.textContent = words; }, 1500);
  });
}
