// The picture of a live Lab: frames come from the kernel, each is acknowledged, and those of the run stay in the page.

// JupyterLab flashes the kernel's busy sign and fetches the page's icon at every answer, so one is for several frames.
const ANSWER_AFTER = 200; // ms
const ANSWER_AT = 4; // frames
const ANSWER_AT_SIZE = 8000; // bytes: the kernel may be waiting
const MENDED_AFTER = 100; // good frames
const AWAY_AFTER = 400; // ms without a view on screen
const RESIZED_AFTER = 400; // ms without another size

function offer(name, content) {
  // Lets the user keep a file.
  const link = make("a", { download: name, href: URL.createObjectURL(new Blob([content])) });
  document.body.append(link);
  link.click();
  link.remove();
  setTimeout(() => URL.revokeObjectURL(link.href), 10000);
}

export default () => {
  // One of these for each model, however many views it has.
  const film = new Film(), players = new Set();
  let inflater = null, run = -1, view = -1, heard = 0, shown = 0, expected = -1, owed = 0, size = 0, timer = null, painting = false, broken = 0, good = 0, caption = "", records = 0, told = 0;
  const page = Math.random().toString(36).slice(2); // tells this page from others that show the same
  let send = () => {}, greeted = 0;
  // Until a view has been on screen, the kernel is told that none is, so that "Run All" does not play to nobody. A
  // notebook that renders only what is near the window has no view at all. A view without a place (not displayed) counts
  // as neither, as all do in a browser that cannot tell.
  const places = new Map();
  let met = !("IntersectionObserver" in window), away = null;
  const look = () => {
    if (met) return;
    const among = (place) => [...places.values()].includes(place);
    clearTimeout(away);
    met = among(true);
    if (met) send({ kind: "here", page });
    else away = setTimeout(() => { if (!met && !among(null)) send({ kind: "away", page }); }, AWAY_AFTER);
  };

  // Pixels of the page for each of the picture at scale 1: of so many the kernel draws the words.
  const wanted = () => (window.devicePixelRatio || 1) * Math.max(1, ...[...players].map(({ magnified }) => magnified));
  const hello = () => {
    inflater = null;
    expected = -1;
    greeted = performance.now();
    const ratio = told = wanted();
    send({ kind: "hello", page, ratio, inflates: "DecompressionStream" in window, hidden: document.hidden });
    look();
  };
  const failed = (error) => {
    console.warn("moe_lab: a frame could not be read, asking for another", error);
    broken += 1;
    good = 0;
    if (broken > 3) { send({ kind: "failed" }); return; }
    setTimeout(hello, 200 * broken);
  };
  const answer = () => {
    clearTimeout(timer);
    timer = null;
    owed = size = 0;
    send({ kind: "ack", frame: heard });
  };
  const paintAll = () => {
    painting = false;
    for (const player of players) {
      player.update();
      try { player.repaint(); } catch (error) { film.clear(); failed(error); return; }
      player.root.dataset.shown = heard;
      player.root.dataset.run = run;
    }
    owed += heard - shown;
    shown = heard;
    if (broken && (good += 1) > MENDED_AFTER) broken = 0;
    if (owed >= ANSWER_AT || size >= ANSWER_AT_SIZE || broken) answer(); else timer ??= setTimeout(answer, ANSWER_AFTER);
  };
  const received = (body, note) => {
    if (note.run !== run || note.view !== view) {
      film.clear();
      if (note.run !== run) for (const player of players) { player.stop(); player.following = true; }
      [run, view] = [note.run, note.view];
    }
    if (note.caption !== undefined) caption = note.caption;
    records = note.records;
    try { film.feed(body, caption, note.progress); } catch (error) { failed(error); return; }
    heard = note.frame;
    if (!painting) { painting = true; requestAnimationFrame(paintAll); }
  };

  return {
    initialize({ model }) {
      send = (message) => {
        try { model.send(message); } catch { /* the kernel has gone: nobody is left to be told */ }
      };
      model.on("msg:custom", (note, buffers) => {
        if (note.kind === "tick") { heard = note.frame; answer(); return; }
        if (note.kind === "choose") { for (const player of players) player.choose(note.record === null ? film.last : film.order.indexOf(note.record), false); return; }
        if (note.kind === "replay") { for (const player of players) if (note.on) player.play(); else player.stop(); return; }
        if (note.kind === "focus") { for (const player of players) player.focusMarks?.(); return; }
        if (note.kind === "download") { offer(note.name, buffers[0]); return; }
        if (note.kind !== "frame") return;
        if (note.first) { inflater = new Inflater(received, failed); expected = note.frame; }
        if (!inflater) { // this was under way before the hello, unless that has been lost
          if (performance.now() - greeted > 2000) hello();
          return;
        }
        if (note.frame !== expected) { hello(); return; } // one was lost
        expected += 1;
        const piece = buffers[0];
        size += piece.byteLength;
        inflater.feed(new Uint8Array(piece.buffer ?? piece, piece.byteOffset ?? 0, piece.byteLength), note.size, note);
      });
      const seen = () => send({ kind: document.hidden ? "hidden" : "visible", page });
      document.addEventListener("visibilitychange", seen);
      window.addEventListener("pageshow", seen);
      let zoom = null;
      const zoomed = () => { // sharp lines need as many pixels as the page has
        zoom?.removeEventListener("change", zoomed);
        zoom = window.matchMedia(`(resolution: ${window.devicePixelRatio || 1}dppx)`);
        zoom.addEventListener("change", zoomed);
        for (const player of players) player.lay();
        hello();
      };
      zoomed();
      return () => {
        clearTimeout(away);
        met = true; // nobody is left to be told
        film.clear(); // notebooks keep what once was shown
        film.resources = null;
        zoom.removeEventListener("change", zoomed);
        document.removeEventListener("visibilitychange", seen);
        window.removeEventListener("pageshow", seen);
      };
    },
    render({ model, el }) {
      el.classList.add("moe-lab-live");
      const root = document.createElement("div");
      root.dataset.lmSuppressShortcuts = "true"; // JupyterLab leaves keys typed here alone
      el.append(root);
      const player = new Player(root, film, model.get("stage"), true);
      players.add(player);
      let wait = null;
      player.chosen = (record) => {
        clearTimeout(wait);
        wait = setTimeout(() => send({ kind: "chosen", run, record }), 120); // so that files and `lab.record` agree; nothing waits for it
      };
      player.touched = () => { if (film.order.length < records) send({ kind: "want" }); };
      let grown = null;
      const marks = new SketchMarks((levels) => send({ kind: "drawn", levels }));
      player.focusMarks = () => marks.focus();
      const sketch = () => {
        const { places, drawn, open } = model.get("sketch");
        if (places) player.mark(marks, places, drawn, open); else marks.clear();
      };
      model.on("change:sketch", sketch);
      player.laid = () => {
        sketch();
        clearTimeout(grown);
        grown = setTimeout(() => { if (Math.abs(wanted() / told - 1) > 0.1) hello(); }, RESIZED_AFTER);
      };
      player.laid();
      model.on("change:stage", () => { player.stage = model.get("stage"); player.lay(); });
      player.update();
      player.repaint();
      const leave = tend(el, model);
      const eyes = met ? null : new IntersectionObserver((entries) => {
        const { isIntersecting, target } = entries.at(-1);
        places.set(el, isIntersecting || (target.getClientRects().length ? false : null));
        look();
        if (met) eyes.disconnect();
      });
      let finding = 0;
      const find = () => { // all of the Lab counts, not its picture alone, which may lie below many sliders
        const box = el.closest(".moe-lab");
        if (box) eyes.observe(box);
        else finding = requestAnimationFrame(find); // the page puts a widget into its box after it has rendered it
      };
      places.set(el, null);
      if (eyes) find();
      return () => { leave(); clearTimeout(grown); cancelAnimationFrame(finding); eyes?.disconnect(); places.delete(el); player.close(); players.delete(player); };
    },
  };
};
