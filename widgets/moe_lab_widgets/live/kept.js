/** Which goals have been reached in this browser, for pages that are opened again. As `moe_lab_widgets.engine.progress`
 * does on a machine. */

const PLACE = "moe_lab goals";

/** The goals that are kept, by the name of their Lab. @returns {Record<string, string[]>} */
function kept() {
  try {
    return { ...JSON.parse(localStorage.getItem(PLACE) ?? "{}") };
  } catch {
    return {}; // a browser that keeps nothing for this page: it begins anew at each visit
  }
}

/** The goals of a Lab that have been reached, by name. @param {string} lab */
export function reachedBefore(lab) {
  return new Set(kept()[lab] ?? []);
}

/** How many goals have been reached in all other pages of a site. @param {string} lab */
export function reachedElsewhere(lab) {
  const others = Object.entries(kept()).filter(([name]) => name !== lab);
  return others.reduce((sum, [, goals]) => sum + goals.length, 0);
}

/** Keeps which goals of a Lab have been reached. @param {string} lab @param {Set<string>} goals by name */
export function keepReached(lab, goals) {
  try {
    localStorage.setItem(PLACE, JSON.stringify({ ...kept(), [lab]: [...goals] }));
  } catch {
    return; // as above; the page itself still knows
  }
}
