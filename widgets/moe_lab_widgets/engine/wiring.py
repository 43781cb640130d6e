"""What connects a Lab's widgets, its run and its picture. A Lab's author needs lab.py only.

Every callback is safe: an error is shown in words, kept, and raised again by `wait()`; the last good picture stays.
"""

from __future__ import annotations

import math
import numbers
import os
import sys
import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from pathlib import Path
from typing import TYPE_CHECKING, Any, ClassVar

from moe_lab.config import Knob, require
from moe_lab_widgets.engine.callbacks import Own, safely
from moe_lab_widgets.engine.controls import OWN, SPEEDS, Controls
from moe_lab_widgets.engine.output import NotebookOutput
from moe_lab_widgets.engine.recorder import Recorder
from moe_lab_widgets.engine.runner import Runner


class Wiring:
    """The common part of all Labs; see lab.py."""

    title: ClassVar[str] = "Lab"
    knobs: ClassVar[Sequence[Knob]] = ()
    stories: ClassVar[Sequence[Any]] = ()
    looks: ClassVar[Sequence[str]] = ()
    """Knobs that only change how a run is looked at: moving one draws its record again and does not start it again."""
    up_to: ClassVar[Mapping[str, str]] = {}
    """Knobs that go no further than where another knob stands, as {"shown": "trials"}: the trial on show."""
    frames: ClassVar[float] = 15
    """Most frames a second."""
    fast_frames: ClassVar[float | None] = None
    """The same for a run that does not wait, so that the time is left to its steps; none: `frames`."""
    most_records: ClassVar[int] = 600
    """Most records kept; a longer run is thinned evenly."""
    budget: ClassVar[float] = 20.0
    """Seconds that a headless run may take before it is cut short; MOE_LAB_BUDGET gives every Lab more."""

    def __init__(self, *, playing: bool = True, projector: bool = False, **values: Any) -> None:
        self.scale = 1.5 if projector else 1.0
        self._defaults: dict[str, Any] = {**{knob.name: knob.default for knob in self.knobs}, "seed": 0}
        self._check_names(values)
        self._values = {**self._defaults, **values}
        self._lock = threading.RLock()
        self._own = Own()
        self.headless = os.environ.get("MOE_LAB_HEADLESS", "") not in ("", "0")
        inside = self.headless or "google.colab" in sys.modules
        self.output = NotebookOutput(self)
        self.record: Any = None
        """The record on show."""
        self._touched = self._closed = False
        self._said_at = 0.0
        self._unsaved: Exception | None = None
        self._first = threading.Event()
        self.picture = self.make_picture(dict(self._values))
        file = "".join(letter if letter.isalnum() else "_" for letter in self.title.lower())
        self.controls = Controls(self.title, self.knobs, self._values, self.stories, self.picture.image, file)
        self._runner = Runner(
            self,
            threaded=not inside,
            budget=max(self.budget, float(os.environ.get("MOE_LAB_BUDGET", "0"))) if self.headless else 2.0,
            raises=self.headless,
            frames=self.frames,
            most_records=self.most_records,
        )
        self._runner.pace = 0.0 if inside else SPEEDS[self.controls.speed.value]
        self._runner.playing = playing
        self.controls.show_playing(playing)
        self.controls.listen(
            knob=self._knob_moved,
            play=self._play_pressed,
            step=self._step_pressed,
            reset=self._reset_pressed,
            pin=self._pin_pressed,
            speed=self._speed_chosen,
            scrub=self._scrubbed,
            story=self._story_chosen,
            picture=self._picture_pressed,
            data=self._data_pressed,
        )
        self._hold_back()
        self._runner.restart()

    if TYPE_CHECKING:  # written in lab.py and by a Lab's author; lab.py says what each is for

        def start(self, values: dict[str, Any]) -> Iterator[Any]: ...
        def make_picture(self, values: dict[str, Any]) -> Any: ...
        def caption(self, record: Any) -> str: ...
        def code(self, values: dict[str, Any]) -> str: ...
        def trouble(self, record: Any) -> str: ...
        def progress(self, record: Any) -> str: ...
        def more(self, record: Any) -> Iterator[Any] | None: ...
        def device(self, record: Any) -> str: ...
        def save_picture(self, path: str | Path) -> Path: ...
        def save_data(self, path: str | Path) -> Path: ...

    # ---- the stage on which the runner plays ----

    def begin(self) -> Iterator[Any]:
        """Starts a run with the latest values; the picture changes only once the values have passed the checks."""
        values = self.values
        run = self.start(values)
        self.picture.look(self._look_of(values))
        self.picture.begin(values)
        self.controls.show_code(self.code(values))
        self.controls.show_playing(self._runner.playing)
        self.controls.warn("")
        return run

    def further(self) -> Iterator[Any] | None:
        """What the run that has ended still has to do for the knobs in `looks`."""
        records = self._runner.records
        return self.more(records.all()[-1]) if len(records) else None

    def show(self, records: Recorder, index: int) -> None:
        """Draws one record, and now and then the texts."""
        self.picture.history = records.all()[: index + 1]
        record = self.picture.history[-1]
        self.picture.draw(record)
        self.record = record
        now, runner = time.monotonic(), self._runner
        scrubbed = runner.view is not None
        if now - self._said_at > 0.25 or not runner.playing or runner.finished or scrubbed or len(records) == 1:
            self._said_at = now
            self._say(record)
            if not scrubbed:  # a time slider under the student's hand is left alone
                self._show_time(index, len(records) - 1)
        self._first.set()

    def ended(self) -> None:
        """The last record is drawn: says so, and leaves the picture in the notebook."""
        self.controls.show_playing(False)  # the button now plays it again
        if self.record is not None:
            self._say(self.record)
            if self._runner.view is None:
                self._show_time(len(self._runner.records) - 1, len(self._runner.records) - 1)
        if self.headless or (self.output.together and not self._touched):
            self.output.refresh()

    def rested(self) -> None:
        """Nothing has moved for a while."""
        if not self.output.together:
            self.output.refresh()

    def failed(self, error: Exception) -> None:
        """An error in words beside the picture."""
        if isinstance(error, (ValueError, FileNotFoundError, RuntimeError)) and str(error):
            self.controls.warn(str(error))
        else:
            self.controls.warn(f"This run stopped: {type(error).__name__}: {error}")
        self.controls.tell("no run: see the message above")
        self._first.set()

    def _say(self, record: Any) -> None:
        self.controls.say(self.caption(record))
        if self._runner.error is None:
            self.controls.warn(self.trouble(record))
        runner = self._runner
        state = "ended" if runner.finished else "training" if runner.playing else "held"
        if runner.view is not None:
            state += ", an earlier record on show"
        parts = [self.progress(record), f"{runner.seconds:.1f} s of training", self.device(record), state]
        self.controls.tell(" · ".join(part for part in parts if part))

    # ---- callbacks: they may come on any thread and must return at once ----

    @safely
    def _knob_moved(self, name: str) -> None:
        widget = self.controls.seed if name == "seed" else self.controls.knobs[name]
        value = round(widget.value, 9) if isinstance(widget.value, float) else widget.value
        with self._lock:
            if value == self._values[name]:  # a page that draws a slider sends its value back, off by a rounding
                return
            self._values[name] = value
            self._touched = True
        with self._own_moves():
            self.controls.story.value = OWN
        self._hold_back()
        self._moved({name})

    @safely
    def _play_pressed(self) -> None:
        self._touched = True
        playing = not self._runner.playing or self._runner.finished
        if playing and self._runner.finished:
            self._runner.restart()
        self._set_playing(playing)

    @safely
    def _step_pressed(self) -> None:
        self._touched = True
        self.controls.show_playing(False)
        self._runner.step()

    @safely
    def _reset_pressed(self) -> None:
        self._runner.restart()

    @safely
    def _speed_chosen(self, name: str) -> None:
        pace = SPEEDS[name]
        self._runner.frames = self.frames if pace or self.fast_frames is None else self.fast_frames
        self._runner.set_pace(pace if self._runner.threaded else 0.0)

    @safely
    def _scrubbed(self, place: float) -> None:
        last = len(self._runner.records) - 1
        index = None if round(place * last) >= last else round(place * last)
        if index != self._runner.view:
            self._touched = True
            self._runner.scrub(index)

    @safely
    def _pin_pressed(self, pinned: bool) -> None:
        self._touched = True
        self._pin(pinned)

    @safely
    def _story_chosen(self, name: str) -> None:
        story = next((one for one in self.stories if one.name == name), None)
        self.controls.explain(story.what_to_see if story is not None else "")
        if story is not None:
            self._touched = True
            self._move({**self._defaults, "seed": self.values["seed"], **story.values})

    @safely
    def _picture_pressed(self) -> None:
        self._saved("picture", self.save_picture)

    @safely
    def _data_pressed(self) -> None:
        self._saved("data", self.save_data)

    def _saved(self, what: str, save: Callable[[str], Path]) -> None:
        try:
            path = save(self.controls.file.value)
        except Exception as error:
            self._unsaved = error
            raise
        if self._unsaved is not None and self._runner.error is self._unsaved:
            self._runner.error = None
            self.controls.warn("")
        self.controls.tell(f"{what} saved in {path}")

    # ---- helpers ----

    @property
    def values(self) -> dict[str, Any]:
        """Every knob's value, and the seed."""
        with self._lock:
            return dict(self._values)

    def _check_names(self, values: Mapping[str, Any]) -> None:
        unknown = [name for name in values if name not in self._defaults]
        if unknown:
            raise ValueError(f"{type(self).__name__} has no knob {unknown[0]!r}: it has {', '.join(self._defaults)}")
        for knob in self.knobs:
            value = values.get(knob.name, knob.default)
            if knob.choices:
                rule = f"{knob.title} must be one of {', '.join(map(repr, knob.choices))}"
                require(value in knob.choices, rule, **{knob.name: value})
            else:
                proper = isinstance(value, numbers.Real) and math.isfinite(value)
                require(proper, f"{knob.title} must be a finite number", **{knob.name: value})
                rule = f"{knob.title} must be a whole number"
                require(not knob.whole or float(value).is_integer(), rule, **{knob.name: value})

    def _move(self, values: Mapping[str, Any]) -> None:
        """Moves several widgets, and starts one run or looks at the present one anew."""
        widgets = {**self.controls.knobs, "seed": self.controls.seed}
        before = self.values
        with self._lock, self._own_moves():
            for name, value in values.items():
                widget: Any = widgets[name]
                try:
                    if hasattr(widget, "max"):
                        widget.max, widget.min = max(widget.max, value), min(widget.min, value)
                    widget.value = value
                except Exception as error:
                    raise ValueError(f"the slider of {name} cannot take this value: got {name}={value!r}") from error
                self._values[name] = round(widget.value, 9) if isinstance(widget.value, float) else widget.value
            self._hold_back()
            changed = {name for name in values if self._values[name] != before[name]}
        self._moved(changed or set(values))

    def _hold_back(self) -> None:
        """Moves the knobs in `up_to` back to where they may be; one that has a single place left is greyed out.

        Their sliders keep their ranges: a page whose slider has changed its range still jumps to the old end on End.
        """
        for name, other in self.up_to.items():
            widget, most = self.controls.knobs[name], self.controls.knobs[other].value
            with self._lock, self._own_moves():
                widget.max = max(widget.max, most)
                widget.value = self._values[name] = min(widget.value, most)
                widget.disabled = most <= widget.min

    def _moved(self, names: set[str]) -> None:
        """Looks at the present run anew if that is all that was asked for and there is one; else starts a run."""
        failed = self._runner.error is not None and self._runner.error is not self._unsaved
        if failed or not names <= set(self.looks):
            self._runner.restart()
            return
        values = self.values
        try:
            code = self.code(values)
        except ValueError:  # a look that breaks a rule is refused as any other value is
            self._runner.restart()
            return
        self.picture.look(self._look_of(values))
        self.controls.show_code(code)
        self._runner.look()

    def _look_of(self, values: Mapping[str, Any]) -> dict[str, Any]:
        return {name: values[name] for name in self.looks}

    def _set_playing(self, playing: bool) -> None:
        self.controls.show_playing(playing)
        self._runner.play(playing)

    def _pin(self, pinned: bool) -> None:
        records = self._runner.records.all()
        if pinned and records:
            self.picture.pin(records)
        elif not pinned:
            self.picture.unpin()
        with self._own_moves():
            self.controls.pin.value = pinned
        self._runner.redraw()

    def _show_time(self, index: int, last: int) -> None:
        with self._own_moves():
            self.controls.show_time(index, last)

    @contextmanager
    def _own_moves(self) -> Iterator[None]:
        before, self._own.active = self._own.active, True
        try:
            yield
        finally:
            self._own.active = before

    # ---- the notebook ----

    def png(self) -> bytes:
        """The picture on show with its caption drawn in."""
        return self.picture.png("" if self.record is None else self.caption(self.record))

    def _ipython_display_(self) -> None:
        self._first.wait(3)
        self.output.show()

    def close(self) -> None:
        """Stops the run and frees the thread, the widgets and the records."""
        if not self._closed:
            self._closed = True
            self._runner.close()
            if self.record is not None:
                self.output.refresh()
            self.controls.close()
            self.picture.close()
            self.record = None
