// What the page must do for a Lab and ipywidgets do not: name controls for screen readers, keep typed keys in the Lab, and
// leave the picture the height that its controls do not take.

const SUPPRESS = "data-lm-suppress-shortcuts"; // JupyterLab ignores keys pressed on an element that has it

function name(node, words) {
  if (node && words && !node.hasAttribute("aria-label")) node.setAttribute("aria-label", words);
}

function nameControls(box, title, tips) {
  for (const row of box.querySelectorAll(".widget-slider, .widget-dropdown, .widget-text, .widget-checkbox")) {
    const label = row.matches(".widget-checkbox") ? row : row.querySelector(".widget-label"); // of a checkbox it is empty
    const words = tips[label?.textContent.trim()];
    if (words && row.title !== words) row.title = words;
  }
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

// Tells the picture how high it may be so that the main settings, it, its time slider and its caption are seen together.
// Where the window is as high as what it shows (Colab), its height says nothing.
function fit(box) {
  const pane = document.fullscreenElement === box ? box : paneOf(box);
  const [view, words] = [".moe-lab-view", ".moe-lab-stage .moe-lab-caption"].map((one) => box.querySelector(one));
  if (!pane || !view?.offsetHeight || !words) return;
  const more = box.querySelector(".moe-lab-more")?.offsetHeight ?? 0; // asked for, and put away again
  const besides = words.getBoundingClientRect().bottom - box.getBoundingClientRect().top - view.offsetHeight - more;
  const room = `${Math.floor(pane.clientHeight - besides - 4)}px`;
  if (box.style.getPropertyValue("--moe-lab-room") !== room) box.style.setProperty("--moe-lab-room", room);
}

function paneOf(box) {
  return box.closest(".jp-WindowedPanel-outer") ?? box.closest(".jp-Notebook, #notebook");
}

// Looks after the Lab around an element; returns what ends that.
function tend(el, model) {
  const title = model.get("title");
  let box = null;
  let frame = 0;
  const sizes = new ResizeObserver(() => fit(box));
  const named = () => { if (box) nameControls(box, title, model.get("tips")); };
  const watcher = new MutationObserver(named);
  // The window hears a key before JupyterLab does. Ctrl+S and the like stay JupyterLab's.
  const hear = (event) => {
    if (!box?.contains(event.target)) return;
    if (!event.ctrlKey && !event.metaKey && !event.altKey) { event.target.setAttribute(SUPPRESS, ""); return; }
    // anywidget keeps all keys in what it renders.
    for (let one = event.target; one && one !== box; one = one.parentElement) one.removeAttribute(SUPPRESS);
  };
  const begin = () => {
    box = el.closest(".moe-lab");
    if (box === null) {
      frame = requestAnimationFrame(begin); // the page puts a widget into its box after it has rendered it
      return;
    }
    box.setAttribute("role", "group");
    name(box, title);
    named();
    for (const one of [box, paneOf(box)]) if (one) sizes.observe(one);
    watcher.observe(box, { childList: true, subtree: true });
  };
  window.addEventListener("keydown", hear, true);
  model.on("change:tips", named);
  begin();
  return () => {
    cancelAnimationFrame(frame);
    sizes.disconnect();
    watcher.disconnect();
    window.removeEventListener("keydown", hear, true);
    model.off("change:tips", named);
  };
}
