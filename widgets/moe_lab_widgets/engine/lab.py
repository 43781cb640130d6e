"""Lab: sliders -> a run -> a live picture. `make.lab` makes one.

In use: `lab = MyLab(noise=.5)`; `lab` as the last line of a cell shows it, and `VBox([lab, ...])` beside other widgets.
`lab.set(noise=1)`, `play()`, `pause()`, `step()`, `reset()`, `scrub(i)`, `pin()`, `unpin()`, `save_picture(path)`,
`save_data(path)`, `export(path)`, `link()`, `close()`; `wait()` waits for the run, raises its error again, and says
whether it ended or is held. `lab.values`, `.records`, `.record` (on show), `.error`, `.playing`, `.finished`. In a page
that says so, a Lab that is not on screen holds at its first record until it is, or is used. With MOE_LAB_HEADLESS=1 it
trains inside the cell, within a budget of seconds, and errors reach the cell.
"""

from __future__ import annotations

import math
import os
import threading
from collections.abc import Callable, Collection, Mapping
from functools import partial
from typing import Any

import ipywidgets as w

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab_widgets.engine.asker import Asker, entry_of
from moe_lab_widgets.engine.board import KnobBoard
from moe_lab_widgets.engine.callbacks import OwnMoves, alone, guarded, heard_at_once, widgets_lock
from moe_lab_widgets.engine.controls import SPEEDS, Controls
from moe_lab_widgets.engine.device import offered
from moe_lab_widgets.engine.knobs import arguments
from moe_lab_widgets.engine.output import NotebookOutput
from moe_lab_widgets.engine.presenter import Presenter
from moe_lab_widgets.engine.runner import Runner
from moe_lab_widgets.engine.saving import Saving
from moe_lab_widgets.engine.states import Outcome
from moe_lab_widgets.engine.threads import available, headless
from moe_lab_widgets.frames.screen import Screen

HELD = "Held at step 0, as before: press Play to train, or Step for one step."
"""What Reset says of a Lab that is held."""


class Lab(Saving, w.VBox):
    """Sliders, a run and its picture. An error of a callback is shown in words, kept, and raised again by `wait()`.

    It is a box of widgets, and can stand in other boxes, tabs and accordions of ipywidgets.

    Args:
      playing: whether the run goes on by itself.
      projector: a picture half as large again, for a lecture hall.
      goal, story: the number of a goal, or the name of a story, to open with; `values` change its settings.
      ask: whether it is held at step 0 with a question; an answer starts the run. One that trains in its cell is not.
      values: initial values of knobs, `seed`, and `device`: "auto", "cpu" or "cuda".

    Raises:
      ValueError: a value names no knob, or its knob cannot take it.
    """

    _closed = True
    """Until it is made, there is nothing to close: a widget closes itself where its values were refused, too."""

    @checked
    def __init__(
        self,
        /,
        *,
        playing: bool = True,
        projector: bool = False,
        goal: int | None = None,
        story: str | None = None,
        ask: bool = False,
        **values: Any,
    ) -> None:
        goals = self.declaration.goals
        entry = entry_of(goals, self.stories, goal, story)
        values = self.take_arguments({**({} if entry is None else entry.values), **values})
        self.scale = 1.5 if projector else 1.0
        self._own_moves = OwnMoves()
        knobs = offered(self)
        self._board = KnobBoard(type(self).__name__, knobs, values, self._own_moves, self.check)
        self.check_view(self.values)
        super().__init__()
        self.headless = headless()
        self._used = False
        self.picture = self.make_picture(self.values)
        self.screen = Screen(self.picture, self.title)
        self.controls = Controls(
            self, self.title, knobs, self.values, goals, self.stories, self.screen.box, projector=projector
        )
        self.controls.tell_tips(self.screen.tell_tips)
        self.screen.tell_whole([knob.label for knob in knobs if knob.whole] + ["seed"])
        heard_at_once(self.controls.box)
        self._board.attach({**self.controls.knobs, "seed": self.controls.seed})
        self.output = NotebookOutput(
            kind=type(self).__name__,
            title=self.title,
            headless=self.headless,
            model_id=self.controls.box.model_id,
            picture=lambda: (self.png(), self._presenter.told),
            close=self.close,
        )
        asks = self.declaration.question if ask and entry is None and not self.headless else None
        self._asker = Asker(self, self.controls, knobs, self._own_moves, self.screen, self.play, self._ask_again)
        self._asker.open(entry, asks, self.values)
        self._presenter = Presenter(
            self,
            asker=self._asker,
            screen=self.screen,
            controls=self.controls,
            board=self._board,
            output=self.output,
            keep_latest=self.headless,
        )
        self._runner = Runner(
            self._presenter,
            threaded=available(),
            budget=max(self.budget, float(os.environ.get("MOE_LAB_BUDGET", "0"))),
            headless=self.headless,
            most_records=self.most_records,
        )
        self._runner.playing = playing and asks is None
        self.controls.show_playing(self._runner.playing)
        self.controls.speed.value = self.speed
        self._runner.pace.frames = self.frames
        self._runner.set_pace(SPEEDS[self.speed])
        self._listen()
        self._closed = False
        self._runner.restart()

    # ---- reading ----

    @property
    def values(self) -> dict[str, Any]:
        """Every knob's value, the seed, and the device."""
        return self._board.values

    @property
    def records(self) -> list[Any]:
        """The records of the present run."""
        return self._runner.records.all()

    @property
    def record(self) -> Any:
        """The record on show."""
        return self._presenter.record

    @property
    def error(self) -> Exception | None:
        """The error that stopped the present run."""
        return self._runner.error

    @property
    def playing(self) -> bool:
        return self._runner.playing

    @property
    def finished(self) -> bool:
        """Whether the present run came to its end."""
        return self._runner.finished

    # ---- doing ----

    @alone
    def set(self, /, **values: Any) -> None:
        """Moves knobs (and the seed) together, and starts the run again.

        Raises:
          ValueError: there is no such knob, or its widget cannot take the value.
        """
        self._board.check(values)
        self._wake()
        changed = self._board.move(values)
        if changed:
            self._asker.moved(self.values)
        self._update(changed or set(values))

    @alone
    def play(self) -> None:
        """Continues the run (from the start, when it had ended)."""
        self._wake()
        self._asker.played()
        if self._runner.finished:
            self._runner.restart()
        self._set_playing(True)

    @alone
    def pause(self) -> None:
        """Holds the run at its next record."""
        self._wake()
        self._set_playing(False)

    @alone
    def step(self) -> None:
        """Takes one record from the run and holds it."""
        self._wake()
        self.screen.choose(None)
        self._runner.step()

    @alone
    def reset(self) -> None:
        """Starts again at step 0 with the same values."""
        self._wake()
        self._runner.restart()

    @checked
    @alone
    def scrub(self, index: int | None) -> None:
        """Shows the index-th record; None, or the last one, follows the run again."""
        self._wake()
        earlier = index if index is not None and index < len(self.records) - 1 else None
        self.screen.choose(None if earlier is None else self._runner.records.number(earlier))
        self._runner.scrub(earlier)

    def pin(self) -> None:
        """Keeps the present curves in the picture, to compare with later ones."""
        self._pin(True)

    def unpin(self) -> None:
        """Removes the kept curves."""
        self._pin(False)

    @checked
    def wait(self, timeout: float | None = None) -> Outcome:
        """Waits until the run has ended, is held or has failed, and raises a stored error.

        Args:
          timeout: seconds to wait at most; None for as long as it takes.

        Returns:
          "ended"; "held", as after `pause()`; or "out of time", which alone is false in a condition: the timeout is
          over, or the seconds that the run may train inside a cell where it has no thread (MOE_LAB_BUDGET).
        """
        require(timeout is None or not math.isnan(timeout), "timeout must be a number of seconds", timeout=timeout)
        self._wake()
        return self._runner.wait(None if timeout is None else min(timeout, threading.TIMEOUT_MAX))

    def close(self) -> None:
        """Stops the run and frees the thread, the widgets and the records."""
        if not self._closed:
            self._closed = True
            self._runner.close()
            if self.record is not None:
                self.output.refresh()
            with widgets_lock:
                for part in (self.controls, self.screen, self.picture):
                    part.close()
            self._presenter.record = None

    def __del__(self) -> None:
        """Leaves an open Lab alone: ipywidgets keeps widgets until Python ends, too late to clear a picture."""

    def __repr__(self) -> str:
        return f"{type(self).__name__}({arguments(self._board.needed(self.values))})"

    def _ipython_display_(self) -> None:
        if self._runner.threaded:
            self._presenter.first_shown.wait(3)
        self.output.show()

    # ---- callbacks: they may come on any thread, one at a time, and must return immediately ----

    def _listen(self) -> None:
        def touched(action: Callable[..., None]) -> Callable[..., None]:
            def act(*arguments: Any) -> None:
                self._touch()
                action(*arguments)

            return act

        safe = partial(guarded, own_moves=self._own_moves, failed=self._callback_failed)
        callbacks: dict[str, Callable[..., None]] = {
            "knob": self._knob_moved,
            "play": touched(self._play_pressed),
            "step": touched(self.step),
            "reset": self._reset_pressed,
            "pin": touched(self._pin),
            "speed": lambda name: self._runner.set_pace(SPEEDS[name]),
            "chosen": self._entry_chosen,
            "answer": self._asker.answer,
            "picture": lambda: self._save("picture", self.save_picture),
            "data": lambda: self._save("data", self.save_data),
            "page": lambda: self._save("page", self.export),
        }
        self.controls.listen(**{name: safe(callback) for name, callback in callbacks.items()})
        self.screen.listen(safe(self._page_said))

    def _touch(self) -> None:
        """The user operates the Lab."""
        self._presenter.touched = True
        self._wake()

    def _page_said(self, what: str, *about: Any) -> None:
        """Takes what a page says: see `Screen.listen`."""
        if what == "chosen":
            self._touch()
            self._runner.scrub(None if about[0] is None else self._runner.records.index(about[0]))
        elif what == "typed":
            name, rule = self._board.typed(*about)
            self._knob_moved(name)
            if rule:
                self.controls.explain(rule)
        elif what == "unread":
            self.controls.explain(self._board.unread(*about))
        elif what == "drawn":
            self._asker.drawn(*about)
        elif what == "want":
            self._runner.fill()
        elif what == "redraw":
            self._runner.redraw()
        elif what == "away":
            if self._runner.threaded and not self._used:
                self._runner.rest(True)
        elif what == "here":
            self._wake()
        else:
            self._runner.go_on()

    @alone
    def _wake(self) -> None:
        """Lets a run go on that waits until it is on screen; from now on none does."""
        self._used = True
        if self._runner.resting:
            self._runner.rest(False)

    def _callback_failed(self, error: Exception) -> None:
        self._runner.error = error
        self._presenter.failed(error)
        if self.headless:
            raise error

    def _knob_moved(self, name: str) -> None:
        changed, rule = self._board.moved_by_user(name)
        if changed:
            self._touch()
            self._asker.moved(self.values)
            self._update(changed)
        if rule:
            self.controls.explain(rule)

    def _reset_pressed(self) -> None:
        asks = not self.playing and self._asker.ask_anew()
        self.reset()
        if not self.playing:
            self.controls.explain("" if asks else HELD)

    def _play_pressed(self) -> None:
        """Plays what is there again in the page at the end or at an earlier record; else holds the run or continues."""
        again = self.finished or self._runner.scrubbed_to is not None
        if self.screen.replaying or (self.screen.live and again):
            self.screen.replay(not self.screen.replaying)
            self._presenter.show_playing(self._runner)
        elif self.playing and not self.finished:
            self.pause()
        else:
            self.play()

    def _entry_chosen(self, name: str) -> None:
        self._runner.playing |= self._asker.question is not None
        entry = self._asker.choose(name)
        if entry is not None:
            self._touch()
            own = {name: self.values[name] for name in ("seed", "device")}
            changed = self._board.move({**self._board.defaults, **own, **entry.values})
            self._asker.begin(self.values)
            self._update(changed or set(entry.values))

    @alone
    def _ask_again(self, values: Mapping[str, Any]) -> None:
        """Goes back to the settings of a question, at step 0."""
        self._board.move(dict(values))
        self._set_playing(False)
        self._runner.restart()

    def _update(self, names: Collection[str]) -> None:
        """Draws the present record again if only view-only knobs moved and the run is sound; else starts a run."""
        values = self.values
        sound = self._runner.error is None and self._board.view_names.issuperset(names)
        if sound:
            try:
                self.check_view(values)
            except ValueError:  # refused as any other value: by a run that fails
                sound = False
        if not sound:
            self.controls.mark(stale=True)
            self._runner.restart()
            return
        self._presenter.show_view(values)
        self._runner.refresh_view()

    def _set_playing(self, playing: bool) -> None:
        if playing and HELD in self.controls.see.value:
            self.controls.explain("")
        self._runner.play(playing)
        self._presenter.show_playing(self._runner)

    @alone
    def _pin(self, pinned: bool) -> None:
        self._presenter.pin(self.records if pinned else [])
        with self._own_moves():
            self.controls.pin.value = pinned
        self._runner.redraw()
