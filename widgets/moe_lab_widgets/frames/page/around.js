// What the page must do for a Lab and ipywidgets do not: name controls for screen readers, and keep typed keys in the Lab.

const SUPPRESS = "data-lm-suppress-shortcuts"; // JupyterLab ignores keys pressed on an element that has it

function name(node, words) {
  if (node && words && !node.hasAttribute("aria-label")) node.setAttribute("aria-label", words);
}

function nameControls(box, title) {
  for (const row of box.querySelectorAll(".widget-slider")) {
    const words = row.querySelector(".widget-label")?.textContent;
    const readout = row.querySelector(".widget-readout");
    name(row.querySelector(".noUi-handle, .ui-slider-handle"), words);
    name(readout, words);
    readout?.setAttribute("role", "textbox");
  }
  for (const row of box.querySelectorAll(".widget-dropdown, .widget-text")) {
    name(row.querySelector("select, input"), row.querySelector(".widget-label")?.textContent);
  }
  for (const image of box.querySelectorAll(".moe-lab-picture img:not([alt])")) {
    image.alt = `${title}: the sentence below describes this picture`;
  }
}

// Looks after the Lab around an element; returns what ends that.
function tend(el, title) {
  let box = null;
  let frame = 0;
  const watcher = new MutationObserver(() => nameControls(box, title));
  // The window hears a key before JupyterLab does. Ctrl+S and the like stay JupyterLab's.
  const hear = (event) => {
    if (!box?.contains(event.target)) return;
    event.target.toggleAttribute(SUPPRESS, !(event.ctrlKey || event.metaKey || event.altKey));
  };
  const begin = () => {
    box = el.closest(".moe-lab");
    if (box === null) {
      frame = requestAnimationFrame(begin); // the page puts a widget into its box after it has rendered it
      return;
    }
    box.setAttribute("role", "group");
    name(box, title);
    nameControls(box, title);
    watcher.observe(box, { childList: true, subtree: true });
  };
  window.addEventListener("keydown", hear, true);
  begin();
  return () => {
    cancelAnimationFrame(frame);
    watcher.disconnect();
    window.removeEventListener("keydown", hear, true);
  };
}
