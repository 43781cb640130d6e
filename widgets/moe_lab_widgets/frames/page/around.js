// What the page must do for a Lab and ipywidgets do not: name controls for screen readers, keep typed keys in the Lab, read
// typed numbers whole, say that the kernel has gone, and leave the picture the height that its controls do not take.

const RESTARTED = "The kernel was restarted: run this cell again";
const LOST = "The connection to the kernel was lost: run this cell again";
const ENDED = ["restarting", "autorestarting", "terminating", "dead"]; // states of a kernel whose memory is gone
const GONE = "jupyter-widgets-disconnected"; // ipywidgets' mark of a widget without a kernel
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
    const handle = row.querySelector(".noUi-handle, .ui-slider-handle");
    name(handle, words);
    const value = readout?.textContent; // as one writes it, not with all digits of a sum of steps
    if (handle && value && handle.getAttribute("aria-valuetext") !== value) handle.setAttribute("aria-valuetext", value);
    name(readout, words);
    readout?.setAttribute("role", "textbox");
  }
  for (const row of box.querySelectorAll(".widget-dropdown, .widget-text")) {
    name(row.querySelector("select, input"), row.querySelector(".widget-label")?.textContent);
  }
  for (const input of box.querySelectorAll("input[type='number']")) asText(input);
  for (const image of box.querySelectorAll(".moe-lab-picture img:not([alt])")) {
    image.alt = `${title}: the sentence below describes this picture`;
  }
}

// A number input drops a comma, or all that it cannot read, before anybody sees it: "0,7" becomes 07.
function asText(input) {
  input.type = "text";
  input.inputMode = "decimal";
  input.autocomplete = "off";
}

// Moves the number in a text input by a step, as the arrow keys do in a number input.
function stepped(input, up) {
  const step = Number(input.step) || 1, present = numberIn(input.value), digits = (String(step).split(".")[1] ?? "").length;
  if (Number.isNaN(present)) return;
  const [low, high] = [input.min, input.max].map((end, i) => (end === "" ? [-Infinity, Infinity][i] : Number(end)));
  input.value = String(Number(Math.min(Math.max(present + (up ? step : -step), low), high).toFixed(digits)));
  input.dispatchEvent(new Event("change", { bubbles: true }));
}

// Hears numbers that are typed before ipywidgets does, and leaves it such as it reads whole. It puts its value back where
// there is no number, which is how one is refused.
function hearNumbers(model, inside) {
  const field = ({ target }) => {
    if (!(target instanceof Element) || !inside(target)) return null;
    return target.closest(".widget-readout[contenteditable='true']") ?? (target.matches("input[inputmode='decimal']") ? target : null);
  };
  const textOf = (place) => (place.matches("input") ? place.value : place.textContent);
  const write = (place, text) => { if (place.matches("input")) place.value = text; else place.textContent = text; };
  const labelOf = (place) => place.closest(".jupyter-widgets")?.querySelector(".widget-label")?.textContent.trim() ?? "";
  const read = (place) => numberIn(textOf(place), model.get("whole").includes(labelOf(place)));
  const before = new WeakMap(); // what stood in a place before it was typed in
  const began = (event) => { const place = field(event); if (place) before.set(place, textOf(place)); };
  const taken = (event) => {
    const place = field(event);
    if (!place) return;
    const text = textOf(place), number = read(place), input = place.matches("input"), label = labelOf(place);
    if (text === before.get(place) || place.closest("[inert]")) return; // without a kernel nothing puts the number back
    if (Number.isNaN(number)) {
      write(place, input ? before.get(place) ?? "" : "");
      if (text.trim()) model.send({ kind: "unread", label, text: text.trim().slice(0, 40), back: numberIn(before.get(place) ?? "") });
    } else if (input) write(place, String(number));
    else { // the kernel makes the slider's steps as fine as the number; until then ipywidgets puts its own value back
      write(place, "");
      model.send({ kind: "typed", label, number });
    }
    setTimeout(() => before.set(place, textOf(place))); // once ipywidgets has put its value back
  };
  const key = (event) => {
    const place = field(event);
    if (!place) return;
    const input = place.matches("input");
    if (event.type !== "keydown" && input) event.stopImmediatePropagation(); // ipywidgets would drop points and commas
    if (event.type !== "keydown") return;
    if (event.key === "Enter" && !input) taken(event);
    if (input && (event.key === "ArrowUp" || event.key === "ArrowDown")) { event.preventDefault(); stepped(place, event.key === "ArrowUp"); }
  };
  const typing = (event) => { // a part of a number is not yet one
    const place = field(event);
    if (place?.matches("input") && (Number.isNaN(read(place)) || /[.,]0*$/.test(place.value))) event.stopImmediatePropagation();
  };
  const heard = { focus: began, blur: taken, change: taken, keydown: key, keypress: key, keyup: key, input: typing };
  for (const [kind, hear] of Object.entries(heard)) window.addEventListener(kind, hear, true);
  return () => { for (const [kind, hear] of Object.entries(heard)) window.removeEventListener(kind, hear, true); };
}

// Tells when the kernel has gone with all that the Lab is, and when it is there again; returns what ends that.
function watchKernel(model, told) {
  const kernel = model.widget_manager?.kernel; // other pages than JupyterLab's have none, and mark their widgets alone
  let words = "";
  const state = (_, status) => { if (ENDED.includes(status)) told(words = RESTARTED); };
  const line = (_, status) => {
    if (words === RESTARTED) return;
    if (status === "disconnected") told(words = LOST);
    if (status === "connected" && words) told(words = "");
  };
  kernel?.statusChanged?.connect(state);
  kernel?.connectionStatusChanged?.connect(line);
  return () => { kernel?.statusChanged?.disconnect(state); kernel?.connectionStatusChanged?.disconnect(line); };
}

// Dims a Lab and says why, or takes that back.
function markGone(box, words) {
  box.querySelector(":scope > .moe-lab-gone-words")?.remove();
  box.classList.toggle("moe-lab-gone", words !== "");
  for (const child of box.children) child.inert = words !== "";
  if (!words) return;
  const said = Object.assign(document.createElement("p"), { className: "moe-lab-gone-words", textContent: words });
  said.setAttribute("role", "alert");
  box.prepend(said);
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
  let gone = "", shown = "";
  const told = (words) => {
    gone = words;
    const now = gone || (box?.classList.contains(GONE) ? RESTARTED : "");
    if (box && now !== shown) markGone(box, shown = now);
  };
  const named = () => { if (box) nameControls(box, title, model.get("tips")); };
  const watcher = new MutationObserver(named), life = new MutationObserver(() => told(gone));
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
    watcher.observe(box, { childList: true, subtree: true, attributeFilter: ["aria-valuetext"] });
    life.observe(box, { attributeFilter: ["class"] });
    told(gone);
  };
  window.addEventListener("keydown", hear, true);
  model.on("change:tips", named);
  const deaf = hearNumbers(model, (one) => box?.contains(one));
  const leave = watchKernel(model, told);
  begin();
  return () => {
    deaf();
    leave();
    cancelAnimationFrame(frame);
    sizes.disconnect();
    watcher.disconnect();
    life.disconnect();
    window.removeEventListener("keydown", hear, true);
    model.off("change:tips", named);
  };
}
