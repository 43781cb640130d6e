/** The numbers of a picture as tables of words. */

import { element } from "./controls.js";
import { THEME } from "./drawing.js";
import { namesOf } from "./pen.js";
import { upTo } from "./plain.js";
import { written } from "./written.js";

/** The tables of cells, bars, ways, and of the ends of curves, of all panels.
 * @param {{ title: string }[]} panels @param {any} furniture @param {any} picture */
export function tablesOf(panels, furniture, picture) {
  return panels.flatMap((panel, place) =>
    picture.panels[place].flatMap((/** @type {any[]} */ marks, /** @type {number} */ own) => {
      const table = furniture[place].axes[own].find((/** @type {any} */ one) => one.mark === "Table");
      const title = furniture[place].axes[own].find(
        (/** @type {any} */ one) => one.mark === "Title" || one.mark === "Note",
      );
      const name = [panel.title, written(title?.words)].filter(Boolean).join(", ");
      return marks.flatMap((one) => {
        if (one.mark === "Cells") return [tableOf(name, table, one)];
        if (one.mark === "Ends") return [listOf(name, one)];
        if (one.mark === "Strip") return [stripOf(name, one)];
        if (one.mark === "Gauges") return [gaugesOf(name, one)];
        if (one.mark === "Bars") return [barsOf(name, one)];
        if (one.mark === "Stacks") return [stacksOf(name, one)];
        if (one.mark === "Places") return [takenOf(furniture[place].axes[own], one)];
        if (one.mark === "Shares") return [mapOf(name, furniture[place].axes[own], one)];
        if (one.mark === "Track")
          return [rowsOf(name, furniture[0].axes[0], [one.name], [one.x], "{:.0f}", one.beyond)];
        if (one.mark === "Reaches") {
          const parts = ["10 %", one.name, "90 %"];
          return [rowsOf(name, furniture[0].axes[0], parts, [one.low, one.middle, one.high], "{:.0%}", "")];
        }
        if (one.mark === "Matches") return [matchesOf(panel.title, one)];
        if (one.mark === "Lying") return [barsLyingOf(name, one)];
        if (one.mark === "Ways") return [placesOf(name, furniture[place].axes[own], one)];
        return [];
      });
    }),
  );
}

/** @param {string} name @param {any} table @param {any} cells */
function tableOf(name, table, cells) {
  const [rows, columns] = cells.numbers.sizes;
  const heads = table.heads ? table.heads.map(written) : namesOf(table.columns, columns);
  const lines = namesOf(table.rows, rows).map((_, row) =>
    heads.map((/** @type {string} */ _head, /** @type {number} */ column) => {
      const numbers = [cells.numbers.data[row * columns + column]];
      return written({ text: cells.forms[column % cells.forms.length], numbers });
    }),
  );
  return gridOf(name, namesOf(table.rows, rows), heads, lines);
}

/** The experts that may be pruned, a row for each. @param {string} name @param {any} strip */
function stripOf(name, { change, stays, pruned, carries }) {
  const half = change.data.length / 2;
  const rows = namesOf("expert {}", change.data.length);
  const lines = rows.map((_, expert) => [
    written({ text: "{:.2f}", numbers: [change.data[expert]] }).replace("-", "−"),
    carries.data[expert] ? THEME.names[expert < half ? 0 : 1] : "",
    pruned ? (stays.data[expert] ? "stays" : "pruned") : "",
  ]);
  return gridOf(name, rows, ["Δ", "carries", "outcome"], lines);
}

/** @param {string} name @param {any} gauges */
function gaugesOf(name, { titles, words, notes }) {
  const lines = words.map((/** @type {any} */ one, /** @type {number} */ at) => [written(one), written(notes[at])]);
  return gridOf(name, titles, ["share", "note"], lines);
}

/** The heights of bars, a row for each expert. @param {string} name @param {any} bars */
function barsOf(name, { heights, names }) {
  const [experts, parts] = heights.sizes;
  const rows = namesOf("expert {}", experts);
  const heads = names.map((/** @type {string} */ words) => words.replace("expert {}: ", ""));
  const lines = rows.map((_, row) =>
    heads.map((/** @type {string} */ _head, /** @type {number} */ part) =>
      written({ text: "{:.0%}", numbers: [heights.data[row * parts + part]] }),
    ),
  );
  return gridOf(name, rows, heads, lines);
}

/** The two parts of bars, a row for each expert. @param {string} name @param {any} stacks */
function stacksOf(name, { full, hollow, names }) {
  const heads = names.map((/** @type {string} */ words) => words.replace("expert {}: ", ""));
  const rows = namesOf("expert {}", full.data.length);
  const lines = rows.map((_, expert) =>
    [full, hollow].map((part) => written({ text: "{:.2f}", numbers: [part.data[expert]] })),
  );
  return gridOf(name, rows, heads, lines);
}

/** Which patches each expert has, which it has refused, and which are lost. @param {any[]} axes @param {any} places */
function takenOf(axes, { weights, refused, lost }) {
  const [experts, patches] = weights.sizes;
  /** @param {{ data: ArrayLike<number> }} table @param {number} row */
  const some = ({ data }, row) =>
    written({ text: "{:names}", numbers: [{ data: Array.from(data).slice(row * patches, (row + 1) * patches) }] }) ||
    "none";
  const rows = [...namesOf("expert {}", experts), "lost"];
  const lines = rows.map((_, row) =>
    row < experts ? [some(weights, row), some(refused, row)] : [some(lost, 0), ""],
  );
  const name = axes.find((one) => one.mark === "PlaceTable").title.text;
  return gridOf(name, rows, ["patches with a place", "refused"], lines);
}

/** How many runs of each cell have succeeded, of those that have ended; the highest row first.
 * @param {string} name @param {any[]} axes @param {any} shares */
function mapOf(name, axes, { share, ended }) {
  const { cell, columns, first = 1 } = axes.find((one) => one.mark === "ShareTable");
  const [rows, count] = share.sizes;
  const [row, column] = cell.split(", ");
  const lines = upTo(rows).map((at) =>
    upTo(count).map((place) => {
      const own = at * count + place;
      return ended.data[own] ? `${Math.round(share.data[own] * ended.data[own])}/${ended.data[own]}` : "–";
    }),
  );
  const heads = columns.map((/** @type {string} */ words) => column.replace("{}", words));
  return gridOf(name, namesOf(row, rows, first).reverse(), heads, lines.reverse());
}

/** How well each estimate points along its true regressor. @param {string} name @param {any} matches */
function matchesOf(name, matches) {
  const rows = rowsOfMatches(matches);
  const lines = rows.map(({ own, sign }) => [own, sign]);
  return gridOf(`${name}, ${written(matches.head)}`, namesOf("a{}", rows.length), ["|cos|", "found"], lines);
}

/** Bars that lie in rows, the highest row first; their names begin with that of the row.
 * @param {string} name @param {any} bars */
function barsLyingOf(name, { values, first, names }) {
  const [rows, parts] = values.sizes;
  const heads = names.map((/** @type {string} */ words) => words.split(", ").slice(1).join(", "));
  const lines = upTo(rows).map((row) =>
    upTo(parts).map((part) => {
      const numbers = [values.data[row * parts + part]];
      return Number.isFinite(numbers[0]) ? written({ text: "{:.0%}", numbers }) : "–";
    }),
  );
  return gridOf(name, namesOf(names[0].split(", ")[0], rows, first).reverse(), heads, lines.reverse());
}

/** What stands beside the rows of a map; the highest row first. @param {string} name @param {any[]} axes of the map
 * @param {string[]} heads @param {{ data: ArrayLike<number> }[]} columns @param {string} form @param {string} beyond */
function rowsOf(name, axes, heads, columns, form, beyond) {
  const [row] = axes.find((one) => one.mark === "ShareTable").cell.split(", ");
  const rows = namesOf(row, columns[0].data.length);
  const lines = rows.map((_, at) =>
    columns.map(({ data }) => (data[at] === Infinity ? beyond : written({ text: form, numbers: [data[at]] }))),
  );
  return gridOf(name, rows.reverse(), heads, lines.reverse());
}

/** Where experts are now, along both axes. @param {string} name @param {any[]} axes @param {any} ways */
function placesOf(name, axes, { x, y }) {
  const scales = axes.find((one) => one.mark === "Scales");
  const [, experts] = x.sizes;
  let last = x.data.length / experts - 1;
  while (last > 0 && !Number.isFinite(x.data[last * experts])) last -= 1;
  const rows = namesOf("expert {}", experts);
  const lines = rows.map((_, expert) =>
    [x, y].map((one) => written({ text: "{:.2f}", numbers: [one.data[last * experts + expert]] }).replace("-", "−")),
  );
  return gridOf(name, rows, [scales.x_reads, scales.y_reads], lines);
}

/** A table of words with names. @param {string} name @param {string[]} rows @param {string[]} heads
 * @param {string[][]} lines */
function gridOf(name, rows, heads, lines) {
  const made = element("table");
  made.append(element("caption", { textContent: name }));
  const head = made.createTHead().insertRow();
  head.append(element("td"), ...heads.map((textContent) => element("th", { scope: "col", textContent })));
  const body = made.createTBody();
  rows.forEach((textContent, row) => {
    const line = body.insertRow();
    line.append(element("th", { scope: "row", textContent }));
    for (const words of lines[row]) line.insertCell().textContent = words;
  });
  return made;
}

/** @param {string} name @param {any} ends */
function listOf(name, ends) {
  const made = element("table");
  made.append(element("caption", { textContent: name }));
  const row = made.createTBody().insertRow();
  for (const words of ends.words) row.insertCell().textContent = written(words).replace("\n", " ");
  return made;
}

/** What stands at the end of each row: a sign, the estimate's own |cos|, and whether it is found.
 * @param {any} one a mark `Matches` */
export function rowsOfMatches(one) {
  const k = one.cosines.sizes[0];
  return upTo(k).map((row) => {
    const cosines = upTo(k).map((column) => one.cosines.data[row * k + column]);
    const good = Boolean(one.found.data[row]);
    if (!cosines.some(Boolean)) return { sign: "", own: "–", good };
    return { sign: good ? "✓" : "✗", own: cosineIn(cosines[row], one.least), good };
  });
}

/** Two digits, never rounded up across the least that counts. @param {number} value @param {number} least */
export function cosineIn(value, least) {
  const words = written({ text: "{:.2f}", numbers: [value] });
  return value < least && Number(words) >= least
    ? written({ text: "{:.2f}", numbers: [Number(words) - 0.01] })
    : words;
}
