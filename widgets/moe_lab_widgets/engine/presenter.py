"""Shows the run of a Lab: the picture, the texts around it, the time slider, and the picture kept in the notebook."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator, Sequence
from typing import Any

from moe_lab.core.devices import CPU, choose, device_word
from moe_lab_widgets.drawing.picture import drawing_lock
from moe_lab_widgets.drawing.words import told, unended
from moe_lab_widgets.engine.asker import Asker
from moe_lab_widgets.engine.board import KnobBoard
from moe_lab_widgets.engine.callbacks import alone, message
from moe_lab_widgets.engine.controls import FASTEST, Controls
from moe_lab_widgets.engine.declaration import Declared
from moe_lab_widgets.engine.knobs import RARELY
from moe_lab_widgets.engine.output import NotebookOutput
from moe_lab_widgets.engine.states import RunState
from moe_lab_widgets.frames.screen import Screen

DESCRIBE_AFTER = 0.25
"""Seconds between two captions while a run goes on."""


class Presenter:
    """Shows what a Lab's Runner trains, which never calls it from two threads at the same time.

    Args:
      lab: its hooks are called.
      keep_latest: whether the notebook keeps the picture of every run that ends (headless), not of the first alone.

    Attributes:
      record: the record on show.
      values: of the run on show.
      device: on which the present run computes.
      touched: whether the user has operated the Lab.
      unsaved: why the latest file could not be written.
      finished: whether the run on show has come to its end.
      first_shown: set when there is a first picture or an error.
    """

    def __init__(
        self,
        lab: Declared,
        *,
        asker: Asker,
        screen: Screen,
        controls: Controls,
        board: KnobBoard,
        output: NotebookOutput,
        keep_latest: bool,
    ) -> None:
        self._lab, self._screen, self._controls, self._board = lab, screen, controls, board
        self._asker = asker
        self._picture = screen.picture
        self._output, self._keep_latest = output, keep_latest
        self.record: Any = None
        self.values: dict[str, Any] = {}
        self.device = CPU
        self.touched = False
        self.unsaved = ""
        self.finished = False
        self.first_shown = threading.Event()
        self._described_at = 0.0
        self._current = False
        """Whether the picture is that of the present run."""

    # ---- called by the Runner, with the state of its run ----

    def begin(self, run: RunState) -> Iterator[Any]:
        """Starts a run with the latest values; the picture changes only once the values have passed the checks."""
        self._current = False
        self._controls.mark(stale=True)
        values = self._board.values
        rarely = self._controls.speed.value == FASTEST and not self._keep_latest
        told = {**values, RARELY: True} if rarely else values
        self._lab.check(told)
        self.device = choose(values["device"], self._lab.work(told)).type
        records = self._lab.start({**told, "device": self.device})
        with drawing_lock:
            view = self._board.view_of(self._board.values)  # it may have moved since, and starts no run
            self._picture.set_view(view)
            self._picture.begin(values)
            self._screen.begin()
            self.values = self._named({**told, **view})
        self._show_code()
        self.show_playing(run)
        self.unsaved = ""
        self._controls.warn("")
        return records

    def further(self, run: RunState) -> Iterator[Any] | None:
        """Returns the records that an ended run should add for the view-only knobs."""
        return self._lab.more(run.records[-1]) if len(run.records) else None

    def ready(self) -> bool:
        """Whether the page keeps up with the frames."""
        return self._screen.ready()

    def show(self, run: RunState, index: int) -> None:
        """Shows one record, and updates the texts now and then. A live page has the newest frames too."""
        self.finished = run.finished
        records, last = run.records, len(run.records) - 1
        self.record = records[index]
        if not self._screen.live:
            self._send(run, index)
        else:
            for wanted in {index, last}:
                if self._screen.lacks(records.number(wanted)):
                    self._send(run, wanted)
        self._current = True
        self._controls.mark(stale=False)
        now = time.monotonic()
        scrubbed = run.scrubbed_to is not None
        due = now - self._described_at > DESCRIBE_AFTER or last == 0
        if due or not run.playing or run.finished or scrubbed:
            self._described_at = now
            self._describe(run)
        self.first_shown.set()

    def fill(self, run: RunState) -> bool:
        """Sends one of the frames that the page lacks, coarsely first; returns whether there may be more."""
        records = run.records
        if not self._screen.live:
            return False
        stride = 1 << max(len(records) - 1, 1).bit_length()
        while stride := stride // 2:
            for index in range(0, len(records), stride):
                if self._screen.lacks(records.number(index)):
                    self._send(run, index)
                    return True
        return False

    def nudge(self) -> None:
        """Asks the page for an answer, which lets the run go on where there is no thread."""
        self._screen.tick()

    def _send(self, run: RunState, index: int) -> None:
        record, records = run.records[index], run.records
        words = self._lab.caption(record), self._lab.progress(record)
        self._screen.show(record, records.number(index), *words, len(records))

    def ended(self, run: RunState) -> None:
        """Reports the end of the run, and leaves the picture in the notebook."""
        self.finished = True
        self.show_playing(run)
        if run.scrubbed_to is None and len(run.records):
            self.record = run.records[-1]  # a page that does not keep up may not have been sent it yet
        if self.record is not None:
            self._describe(run)
        if self._keep_latest or (self._output.together and not self.touched):
            self._output.refresh()

    def idle(self) -> None:
        """Leaves the picture in the notebook while nothing moves."""
        if not self._output.together:
            self._output.refresh()

    def failed(self, error: Exception) -> None:
        """Reports an error above the picture."""
        self._controls.mark(stale=not self._current, refused=not self._current)
        self._controls.warn(message(error))
        self._controls.tell("no run: see the message above")
        self.first_shown.set()

    # ---- called by the Lab ----

    def show_playing(self, run: RunState) -> None:
        """Labels the play button with what it does next: what is on show moves, or it rests."""
        follows = run.playing and not run.finished and run.scrubbed_to is None
        self._controls.show_playing(follows or self._screen.replaying)

    def png(self) -> bytes:
        """Returns the picture of the record on show with its caption drawn in."""
        with self._screen.for_a_file(self.record) as picture:
            return picture.png(self.told)

    def show_view(self, values: dict[str, Any]) -> None:
        """Takes the values of the view-only knobs for the next frame."""
        view = self._board.view_of(values)
        with drawing_lock:  # the run's thread may begin another run
            self._picture.set_view(view)
            self._screen.change_view()
            if not self.values:
                return  # the first run, which takes the latest view as it begins
            self.values = {**self.values, **view}
        self._show_code()

    def pin(self, records: Sequence[Any]) -> None:
        """Keeps the curves of a run in the picture; those of none are taken away."""
        with drawing_lock:
            if records:
                self._picture.pin(records)
            else:
                self._picture.unpin()
            self._screen.change_view()

    @alone
    def _show_code(self) -> None:
        self._controls.show_code(self._lab.code(self.values))

    def _named(self, values: dict[str, Any]) -> dict[str, Any]:
        """Returns the values with the device that computes, which copied code then names, if there is another."""
        return {**values, "device": self.device} if len(self._lab.devices()) > 1 else values

    def not_saved(self, error: Exception) -> None:
        """Shows why a file could not be written, until a file is written or a run starts."""
        self._controls.warn(message(error))
        if not isinstance(error, ValueError):  # which says that it is too early
            self.unsaved = message(error)

    def saved(self, what: str, path: Any) -> None:
        """Reports that a file was written."""
        if self.unsaved:
            self.unsaved = ""
            self._controls.warn("")
        self._controls.tell(f"{what} saved in {path}" + ("" if self.finished else ": the run has not ended"))

    @property
    def told(self) -> str:
        """How far the run is at the record on show, whether it goes on, and the caption."""
        return "" if self.record is None else told(self.progress(self.record), self._lab.caption(self.record))

    def progress(self, record: Any) -> str:
        """Returns how far the run is at a record, for what is kept of it."""
        return self._lab.progress(record) if self.finished else unended(self._lab.progress(record))

    @property
    def caption(self) -> str:
        """The caption of the record on show."""
        return "" if self.record is None else self._lab.caption(self.record)

    def _describe(self, run: RunState) -> None:
        """Writes the caption, the trouble and the status."""
        self._screen.say(self.caption)
        latest = run.finished and run.scrubbed_to is None and run.error is None
        self._asker.look(self._lab.seen(self.record), latest)
        if run.error is None:
            self._controls.warn(self.unsaved or self._lab.trouble(self.record))
        state = "finished" if run.finished else "training" if run.playing else "paused"
        if run.resting and not run.finished:
            state = "waiting until it is on screen"
        if run.scrubbed_to is not None or not self._screen.live:  # a page shows it beside its time slider
            state += f"; showing {self._lab.progress(self.record)}"
        training = f"{run.seconds:.1f} s of training on the {device_word(self.device)}"
        self._controls.tell(" · ".join(filter(None, (state, training, self._picture.advice))))
        self.show_playing(run)
