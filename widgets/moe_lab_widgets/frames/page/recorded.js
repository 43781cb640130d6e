// Shows a recorded run without a kernel: its player, settings and code.
//
// A part of a page (see ../document.py) holds the run as Recording.plain() returns it. Its question is
//   { asked, words: as Question takes them, places: of marks on the picture or null, told: by what it judges }

export async function developed(run) {
  // Returns a recording's Film. Throws where it is damaged: gzip has a checksum.
  const packed = Uint8Array.from(atob(run.frames), (letter) => letter.charCodeAt(0));
  const stream = new Blob([packed]).stream().pipeThrough(new DecompressionStream("gzip"));
  const film = new Film();
  film.feed(new Uint8Array(await new Response(stream).arrayBuffer()));
  if (!film.order.length || film.order.length !== run.captions.length) throw new RangeError(`${film.order.length} frames for ${run.captions.length} captions`);
  film.order.forEach((record, place) => Object.assign(film.at(place), { caption: run.captions[place], progress: run.progress[place] }));
  return film;
}

class Recorded {
  constructor(root) {
    const find = (name) => root.querySelector(`.moe-lab-${name}`);
    [this.shown, this.status, this.code] = ["show", "status", "code"].map(find);
    root.dataset.alive = "true";
    this.code.open = false;
    this.code.querySelector("button").addEventListener("click", () => this.copy());
    this.open(JSON.parse(find("run").textContent));
  }
  async open(run) {
    // Shows the end of the run, or its question at the start.
    try {
      const film = await developed(run), stage = { smallest: SMALLEST, ...run.stage }, place = make("div");
      this.player = new Player(place, film, stage);
      this.player.failed = (error) => this.refuse(error);
      this.shown.replaceChildren(place);
      this.player.show(film, stage, film.last);
      if (run.question) this.ask(run.question);
    } catch (error) {
      this.refuse(error);
    }
  }
  ask({ asked, words, places, told }) {
    // Opens the run at its start with a question; an answer or a drawing plays it, and the end judges it.
    const asks = make("p"), box = make("div", { class: "moe-lab-question", role: "group" }, asks);
    const said = make("p", { role: "status" });
    const { player } = this;
    let open = true;
    const look = () => question.look(open, {}, (levels, free, marks) => player.mark(marks, places, levels, free));
    const begin = () => {
      open = false;
      look();
      said.textContent = question.predicted;
      player.chosen = (record) => { if (record === null) said.textContent = question.verdict(told); };
      player.choose(0, false);
      if (window.matchMedia("(prefers-reduced-motion: reduce)").matches) player.choose(player.film.last); else player.play();
      player.slider.focus();
    };
    const question = new Question(asked, words, box, asks, begin, () => {});
    this.shown.before(box, said);
    player.laid = look;
    player.choose(0, false);
    look();
  }
  refuse(error) {
    // The picture stays.
    const able = "DecompressionStream" in window;
    this.status.textContent = able ? `This run cannot be shown (${error.message || error.name}).` : "This browser is too old to play recorded runs; the picture is their end.";
    this.status.classList.add("moe-lab-trouble");
  }
  copy() {
    const said = this.code.querySelector("span"), code = this.code.querySelector("code");
    const select = () => {
      const range = document.createRange(), selection = window.getSelection();
      range.selectNodeContents(code);
      selection.removeAllRanges();
      selection.addRange(range);
      said.textContent = document.execCommand("copy") ? "copied" : "press Ctrl+C to copy";
    };
    if (navigator.clipboard) navigator.clipboard.writeText(code.textContent).then(() => { said.textContent = "copied"; }, select);
    else select();
  }
}

for (const root of document.querySelectorAll(".moe-lab-recorded:not([data-alive])")) new Recorded(root);
