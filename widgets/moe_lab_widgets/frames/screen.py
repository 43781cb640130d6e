"""The widget that shows a picture: display lists replayed by the page, or PNG where the page's module does not load."""

from __future__ import annotations

import html
import math
import threading
from collections.abc import Callable, Iterator, Sequence
from contextlib import contextmanager
from typing import Any

import anywidget
import ipywidgets as w
import traitlets
from IPython import get_ipython

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.picture import Picture, drawing_lock, encode
from moe_lab_widgets.engine.callbacks import heard_at_once
from moe_lab_widgets.engine.goal import Sketch
from moe_lab_widgets.engine.threads import on_colab
from moe_lab_widgets.frames.flow import Flow
from moe_lab_widgets.frames.module import module_source, tended_source
from moe_lab_widgets.frames.sketch import places_of
from moe_lab_widgets.frames.writer import FrameWriter, Stream, stage

TEXT = f"font: var(--moe-lab-words, 15px)/1.3 sans-serif; color: {theme.INK}; background: {theme.PAPER}; "
TEXT += "padding: 2px 14px; margin: 0;"


class PageWidget(anywidget.AnyWidget):
    """The page's side (see page/screen.js).

    Messages to the page: "frame" with a piece of the stream, "tick" (to be answered at once), "choose" (a record to
    show), "replay" (plays what it has, or stops), "download" with a file,
    "focus" (moves the keyboard to the first mark).
    From the page: "hello" (it knows nothing), "ack", "hidden", "visible", "chosen" (a record), "want" (the frames that
    it lacks), "away" (no view of it is on screen, and none has been), "here" (one is), "failed", "typed" (a number
    beside a slider), "unread" (a text that was typed for a number), "drawn" (levels of marks on the picture).
    """

    _esm = module_source()
    stage = traitlets.Dict().tag(sync=True)
    title = traitlets.Unicode().tag(sync=True)
    tips = traitlets.Dict().tag(sync=True)
    whole: Any = traitlets.List().tag(sync=True)
    """The labels of controls that take whole numbers alone."""
    sketch = traitlets.Dict().tag(sync=True)
    """Marks over the picture: their `places` (see sketch.js), the `drawn` levels, and whether they are `open`."""


class Tended(anywidget.AnyWidget):
    """Has the page look after a box of controls without a picture (see page/tended.js), from its "hello" on."""

    _esm = tended_source()
    title = traitlets.Unicode().tag(sync=True)
    tips = traitlets.Dict().tag(sync=True)
    whole: Any = traitlets.List().tag(sync=True)


class Screen:
    """Shows a Picture with its caption and a time slider, in every page that is open.

    Until a page says that it can replay frames, the latest PNG is shown with its caption. A number that the page copies
    back acknowledges it: where there is no thread, a run goes on at such an answer alone.

    Args:
      picture: what is shown.
      title: of the Lab, for screen readers.

    Attributes:
      box: the widget.
      scale: of the picture in files; in a page of more than one device pixel for each of its own it is larger.
      live: whether a page replays frames.
      replaying: whether it was told to play the run again, and has not said that it stopped.
      shown: the record that the picture holds.
      run, view: numbers that grow with each run, and each time that earlier frames of it no longer hold.
    """

    def __init__(self, picture: Picture, title: str = "") -> None:
        self.picture, self.title = picture, title
        self.scale = self._wanted_scale = picture.scale
        self.live = self.replaying = False
        self.run = self.view = 0
        self._listener: Callable[..., None] | None = None
        self._early: list[dict[str, Any]] = []
        """What pages said before anybody listened."""
        self._taking = threading.RLock()
        self._flow = Flow(frames=8, size=40_000)
        self._reel: FrameWriter | None = None
        self._stream, self._fresh = Stream(), True
        self._has: set[int] = set()
        self._in_kernel = getattr(get_ipython(), "kernel", None) is not None
        self._met = False
        """Whether it has been on screen in some page."""
        self._pages: dict[str, bool] = {}
        """Whether each page is hidden."""
        self._caption: str | None = None
        self.shown: Any = None
        self._make_widgets()

    def _make_widgets(self) -> None:
        picture = self.picture
        wide, high = f"{picture.width * picture.scale:g}", f"{picture.height * picture.scale:g}"
        layout = {"width": "100%", "display": "none", "overflow": "hidden"}
        self.page = PageWidget(stage=stage(picture, picture.spans), title=self.title, layout=layout)
        self.page.on_msg(self._heard)
        heard_at_once(self.page)  # soon: a page says hello as soon as it knows of it, but not before somebody listens
        self.image = w.Image(format="png", layout={"width": "100%", "margin": "0"}, width=wide, height=high)
        frame = w.Box([self.image])
        frame.add_class("moe-lab-picture")
        self.caption = w.HTML()
        self.caption.add_class("moe-lab-caption")
        self._sent, self._seen = (w.IntText(0, layout={"display": "none"}) for _ in range(2))
        self._link = w.jslink((self._sent, "value"), (self._seen, "value"))
        self._seen.observe(self._echoed, "value")
        self.still = w.VBox([frame, self.caption])
        self.still.add_class("moe-lab-still")
        # A box with a child that cannot be shown is not shown at all by ipywidgets 7: the page's side joins once it has
        # said hello. On Colab it says nothing before it is shown.
        children = [self.still, self._sent, self._seen]
        self.box = w.VBox([self.page, *children] if on_colab() else children)
        self.box.add_class("moe-lab-shown")

    # ---- what is shown ----

    def ready(self) -> bool:
        """Whether the page keeps up, so that another frame may be drawn."""
        return not self._in_kernel or self._flow.ready()  # outside of one no page will ever answer

    def begin(self) -> None:
        """Begins a run: the page forgets the frames of the last one."""
        self.run += 1
        self.replaying = False
        self._has.clear()

    def change_view(self) -> None:
        """Invalidates the frames sent so far, as after a change of what is shown of a record."""
        with drawing_lock:
            self.view += 1
            self._has.clear()

    def choose(self, number: int | None) -> None:
        """Shows an earlier frame in the page; None follows the run."""
        if self.live:
            self.replaying = False
            self.page.send({"kind": "choose", "record": number})

    def replay(self, on: bool) -> None:
        """Plays the run again in the page, from the record on show or else from the start; or stops that."""
        self.replaying = on
        self.page.send({"kind": "replay", "on": on})

    def lacks(self, record: int) -> bool:
        """Whether a page has no frame of a record; a page that restarts has none."""
        return self._fresh or record not in self._has

    def tell_tips(self, tips: dict[str, str]) -> None:
        """Sends the tooltips of controls to the pages, by label."""
        self.page.tips = tips

    def show_sketch(self, sketch: Sketch | None, drawn: Sequence[float | None] = (), is_open: bool = False) -> None:
        """Shows marks over the picture, which may be dragged while they are open; None takes them away."""
        if sketch is None:
            self.page.sketch = {}
            return
        self.page.sketch = {"places": places_of(sketch, self.picture), "drawn": list(drawn), "open": is_open}

    def focus_sketch(self) -> None:
        """Moves the keyboard to the first mark."""
        self.page.send({"kind": "focus"})

    def tell_whole(self, labels: list[str]) -> None:
        """Tells the pages which controls take whole numbers alone, by label."""
        self.page.whole = labels

    def show(self, record: Any, number: int, caption: str, progress: str, records: int) -> None:
        """Draws a record and sends the frame.

        Args:
          number: of the record in its run.
          progress: how far the run is, in words.
          records: how many there are.
        """
        if self.live:
            self._send(record, number, caption, progress, records)
            return
        with drawing_lock:
            self.picture.update(record)
            self.shown = record
            png = encode(self.picture.pixels())
        self.image.value = png
        self._sent.value = self._flow.send(len(png))

    def _send(self, record: Any, number: int, caption: str, progress: str, records: int) -> None:
        view = self.view  # it may change while the record is drawn
        with drawing_lock:
            self.picture.update(record)
            self.shown = record
            writer, first = self._reel, self._fresh or self._reel is None or self._reel.full
            if first or writer is None:
                view += self._fit_scale()
                writer = self._begin_anew()
            body = writer.frame(number)
            if view == self.view:
                self._has.add(number)
        piece = self._stream.pack(body)
        note: dict[str, Any] = {"kind": "frame", "size": len(body), "run": self.run, "view": view}
        note |= {"frame": self._flow.send(len(piece)), "records": records, "progress": progress}
        if first:
            note["first"] = True
        if caption != self._caption:
            note["caption"] = self._caption = caption
        self.page.send(note, [piece])

    def _begin_anew(self) -> FrameWriter:
        """Returns a writer for pages that know nothing."""
        self._reel, self._stream, self._fresh, self._caption = FrameWriter(self.picture), Stream(), False, None
        self._has.clear()
        return self._reel

    def _fit_scale(self) -> bool:
        """Draws the picture for as many pixels as the page has; returns whether that changes it."""
        if self.picture.scale == self._wanted_scale:
            return False
        self._set_scale(self._wanted_scale)
        self.page.stage = {**self.page.stage, "scale": self._wanted_scale}
        self.view += 1
        return True

    def _set_scale(self, scale: float) -> None:
        self.picture.set_scale(scale)
        if self.shown is not None:
            self.picture.update(self.shown)

    @contextmanager
    def for_a_file(self, record: Any) -> Iterator[Picture]:
        """Shows a record at the picture's own scale, within the context."""
        with drawing_lock:
            scale = self.picture.scale
            if scale != self.scale:
                self.picture.set_scale(self.scale)
            if record is not None and (record is not self.shown or scale != self.scale):
                self.picture.update(record)
                self.shown = record
            try:
                yield self.picture
            finally:
                if scale != self.scale:
                    self._set_scale(scale)

    def tick(self) -> None:
        """Asks for an answer, with nothing to show."""
        if self.live:
            self.page.send({"kind": "tick", "frame": self._flow.sent})
        else:
            self._sent.value = self._flow.tick()

    def download(self, name: str, content: bytes) -> None:
        """Lets the page offer a file to its user."""
        if self.live:
            self.page.send({"kind": "download", "name": name}, [content])

    def say(self, caption: str) -> None:
        """Writes the caption below the PNG, which screen readers read aloud; a page takes it from its frames."""
        if not self.live:
            self.caption.value = f"<p aria-live='polite' style='{TEXT}'>{html.escape(caption)}</p>"

    # ---- what pages say; it may come on any thread ----

    def listen(self, listener: Callable[..., None]) -> None:
        """Takes what pages say, and first what they have said so far.

        A page speaks as soon as it knows of a widget, and a kernel may hear it on another thread while the cell is
        still making the Lab.

        Args:
          listener: told "redraw", "ready" (frames may be sent again), "want", "away", "here", "chosen" (with a
            record's number, or None), "typed" or "unread" (with the label of a control, and the number or the text),
            "drawn" (with a level for each mark, or None).
        """
        with self._taking:
            self._listener = listener
            for message in self._early:
                self._take(message)
            self._early.clear()

    def _tell(self, what: str, *about: Any) -> None:
        if self._listener is not None:
            self._listener(what, *about)

    def _heard(self, _: Any, message: dict[str, Any], buffers: Any) -> None:
        with self._taking:
            if self._listener is None:
                self._early.append(message)
                return
        self._take(message)

    def _take(self, message: dict[str, Any]) -> None:
        kind = message.get("kind")
        if kind == "ack":
            self._flow.heard(message["frame"])
            self._tell("ready")
        elif kind == "hello":
            self._pages[message["page"]] = bool(message["hidden"])
            finer = math.ceil(2 * float(message["ratio"]) - 0.25) / 2
            self._wanted_scale = min(max(finer, self.scale), 2 * self.scale)
            self._greet(bool(message["inflates"]))
        elif kind in ("hidden", "visible"):
            self._pages[message["page"]] = kind == "hidden"
            self._flow.hidden = all(self._pages.values())
            self._flow.heard()
            self._tell("ready")
        elif kind == "chosen":
            if message["run"] == self.run:
                self.replaying = False
                self._tell("chosen", message["record"])
        elif kind == "away":
            if not self._met:  # another page may show it
                self._tell("away")
        elif kind == "here":
            self._met = True
            self._tell("here")
        elif kind == "want":
            self._tell("want")
        elif kind == "typed":
            self._tell("typed", str(message["label"]), float(message["number"]))
        elif kind == "unread":
            self._tell("unread", str(message["label"]), str(message["text"]))
        elif kind == "drawn":
            self._tell("drawn", [None if one is None else float(one) for one in message["levels"]])
        elif kind == "failed":
            self._pages.clear()
            self._greet(False)

    def _greet(self, able: bool) -> None:
        """Takes a page that knows nothing."""
        if able and self.page not in self.box.children:
            self.box.children = [self.page, *self.box.children]
        self.live, self._fresh, self.replaying = able, True, False
        self._flow.hidden = able and all(self._pages.values())
        self._flow.heard()
        self.page.layout.display = None if able else "none"
        self.still.layout.display = "none" if able else None
        self._tell("redraw")

    def _echoed(self, change: Any) -> None:
        self._flow.heard(change["new"])
        self._tell("ready")

    def close(self) -> None:
        """Frees the widgets, those that are not in the box too, and what was sent: notebooks keep closed Labs."""
        self._reel, self.shown = None, None
        self._has.clear()
        for widget in (self._link, self._sent, self._seen, self.page):
            for part in (getattr(widget, "layout", None), getattr(widget, "style", None)):
                if isinstance(part, w.Widget):
                    part.close()
            widget.unobserve_all()
            widget.close()
