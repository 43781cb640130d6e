"""Who runs the training: one daemon thread a Lab, told what to do by a generation counter.

A callback of a widget may arrive on any thread and must return at once, so it only changes a few numbers here and wakes
the worker. The worker sees a new generation at the run's next record, drops the run and starts again with the latest
values: of a twelve-step drag only the last value must survive. Without a thread (headless notebooks, Colab) the
same turns are taken inside the callback.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Iterator
from typing import Any

from moe_lab_widgets.engine.recorder import Recorder
from moe_lab_widgets.engine.stage import Stage

_alive: weakref.WeakSet[Runner] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    for runner in list(_alive):
        runner.close(patience=1.0)


class Runner:
    """Runs, records, paces and stops.

    Args:
      stage: the Lab.
      threaded: True to work on a thread, False to work inside the callers.
      budget: seconds that one call may train without a thread.
      raises: whether an error also leaves the call that caused it (without a thread).
      frames: most frames a second.
      share: most of the time that may go into drawing.
    """

    REST = 1.0

    def __init__(
        self,
        stage: Stage,
        *,
        threaded: bool = True,
        budget: float = 2.0,
        raises: bool = False,
        frames: float = 15.0,
        share: float = 0.25,
        most_records: int = 600,
    ) -> None:
        self.stage, self.threaded, self.budget, self.raises = stage, threaded, budget, raises
        self.frames, self.share, self.most_records = frames, share, most_records
        self.pace = 0.0
        """Most records a second; 0 is as fast as it goes."""
        self.records = Recorder(most_records)
        self.error: Exception | None = None
        self.playing = True
        self.seconds = 0.0
        """Time spent training in this run."""
        self._wake = threading.Condition(threading.RLock())
        self._generation = self._begun = 0
        self._singles = 0
        self._view: int | None = None
        self._redraw = self._closing = self._working = self._ended = self._end_said = False
        self._drawn = self._looked = False
        self._run: Iterator[Any] | None = None
        self._next_record = self._next_frame = 0.0
        self._undrawn = False
        self._thread: threading.Thread | None = None
        _alive.add(self)

    # ---- from any thread ----

    def restart(self) -> None:
        """Starts again with the latest values."""
        with self._wake:
            self._generation += 1
        self._tell(_view=None)

    def play(self, playing: bool = True) -> None:
        """Lets the run go on, or holds it at its next record."""
        self._tell(playing=playing, _singles=0, _next_record=0.0, _redraw=True)

    def step(self) -> None:
        """Holds the run and takes one record from it."""
        with self._wake:
            self._singles += 1
        self._tell(playing=False, _view=None)

    def scrub(self, index: int | None) -> None:
        """Shows an earlier record; None follows the run again. The run itself is not disturbed."""
        self._tell(_view=None if index is None else max(index, 0), _redraw=True)

    def redraw(self) -> None:
        """Draws the record at hand once more."""
        self._tell(_redraw=True)

    def look(self) -> None:
        """Draws the record at hand once more, since another look at it is asked for; a run that has ended may go on."""
        self._tell(_looked=True, _redraw=True)

    def set_pace(self, pace: float) -> None:
        """Sets the most records a second; 0 is as fast as it goes."""
        self._tell(pace=pace, _next_record=0.0)

    @property
    def finished(self) -> bool:
        """Whether the run of the latest values has come to its end."""
        return self._ended and self._begun == self._generation

    @property
    def view(self) -> int | None:
        """The index of the earlier record on show, or None when the picture follows the run."""
        return self._view

    def wait(self, timeout: float | None = None) -> bool:
        """Waits until there is nothing left to do (the end, a pause, an error), and raises a stored error again.

        Returns:
          False when the time ran out first.
        """
        with self._wake:
            done = self._wake.wait_for(lambda: self._closing or not self._pending(), timeout)
        if self.error is not None:
            raise self.error
        return done

    def close(self, patience: float = 10.0) -> None:
        """Stops the run and the thread, and lets go of everything.

        Args:
          patience: seconds to wait for a run that takes long to its next record; later it ends by itself.
        """
        with self._wake:
            self._closing = True
            self._wake.notify_all()
            thread = self._thread
        if thread is None:
            self._drop()
        elif thread is not threading.current_thread():
            thread.join(patience)
        self.records = Recorder()

    def _tell(self, **changes: Any) -> None:
        with self._wake:
            if self._closing:
                return
            for name, value in changes.items():
                setattr(self, name, value)
            self._wake.notify_all()
            if self.threaded and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="moe-lab run", daemon=True)
                self._thread.start()
        if not self.threaded:
            self._work_here()

    # ---- the worker ----

    def _pending(self) -> bool:
        """Whether there is something to do, now or after the pace allows it."""
        if self._working or self._generation != self._begun or self._redraw:
            return True
        return self._run is not None and (self.playing or self._singles > 0)

    def _work(self) -> None:
        import torch  # the setting is per thread, and tiny steps are many times slower with more

        torch.set_num_threads(1)
        while True:
            with self._wake:
                self._working = False
                while not self._closing:
                    pause = self._next_record - time.monotonic()
                    paced = (
                        self._pending() and self._generation == self._begun and not self._redraw and not self._singles
                    )
                    if self._pending() and not (paced and pause > 0):
                        break
                    self._wake.notify_all()
                    slept = self._wake.wait(pause if paced else self.REST if self._drawn else None)
                    if not slept and not self._pending():
                        break
                if self._closing:
                    break
                resting = not self._pending()
                self._working = not resting
            if resting:
                self._rest()
            else:
                self._turn()
        self._drop()

    def _rest(self) -> None:
        self._drawn = False
        try:
            self.stage.rested()
        except Exception as error:
            self._fail(error)

    def _work_here(self) -> None:
        """Takes turns inside the caller until the run ends or the budget is spent."""
        import torch

        if self._working:  # a slider that the Lab itself moved while it worked
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        self._working = True
        until = time.monotonic() + self.budget
        try:
            while not self._closing:
                self._working = False
                pending = self._pending()
                self._working = True
                if not pending:
                    break
                if time.monotonic() > until and self._generation == self._begun:
                    self.playing, self._singles, self._redraw = False, 0, True
                    until = float("inf")
                self._turn()
        finally:
            self._working = False
            torch.set_num_threads(threads)
        if self.raises and self.error is not None:
            raise self.error

    def _turn(self) -> None:
        """One piece of work: start a run, take a record, draw a frame."""
        try:
            if self._generation != self._begun:
                self._begin()
            if self._looked:
                self._go_on()
            if self._run is not None and (self.playing or self._singles):
                self._advance()
            self._draw_if_due()
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._drop()
        with self._wake:
            self.error = error
            self._redraw = self._undrawn = False
            self._singles = 0
        self.stage.failed(error)

    def _begin(self) -> None:
        self._drop()
        with self._wake:
            self._begun = self._generation
            self.error = None
            self._view = None
            self._ended = self._end_said = self._looked = False
        run = self.stage.begin()
        self.records = Recorder(self.most_records)
        self.seconds = 0.0
        self._next_frame = self._next_record = 0.0
        self._run = iter(run)
        if not self.playing and not self._singles:
            self._singles = 1  # a paused Lab still shows where a new run starts

    def _go_on(self) -> None:
        """Takes up what an ended run has left to do for the look that is asked for now."""
        self._looked = False
        if self._run is not None or not self._ended:
            return  # a run that goes on reads the latest values itself
        more = self.stage.further()
        if more is not None:
            self._run = iter(more)
            self._ended = self._end_said = False

    def _advance(self) -> None:
        assert self._run is not None
        begun = time.monotonic()
        try:
            record = next(self._run)
        except StopIteration:
            self._drop()
            self._ended = True
            self._singles = 0
            self._redraw = self._redraw or self._undrawn
            if not self.records._seen:
                raise RuntimeError("the run gave no records") from None
            return
        except Exception as error:
            undrawn = self._undrawn
            self._fail(error)
            self._redraw = undrawn  # the last good record is worth seeing
            return
        now = time.monotonic()
        self.seconds += now - begun
        with self._wake:
            self._singles = max(self._singles - 1, 0)
            halved = self.records.append(record)
            if halved and self._view is not None:
                self._view //= 2
        self._undrawn = True
        if self.pace > 0 and self.playing:
            self._next_record = max(self._next_record + 1 / self.pace, now)

    def _draw_if_due(self) -> None:
        if not len(self.records) or self._generation != self._begun:
            return
        now = time.monotonic()
        asked = self._redraw or (self._undrawn and not self.playing)
        if not asked and not (self._undrawn and now >= self._next_frame):
            self._say_end()
            return
        with self._wake:
            self._redraw = self._undrawn = False
            index = len(self.records) - 1 if self._view is None else min(self._view, len(self.records) - 1)
        used = time.thread_time()  # not the clock: a busy machine must not take frames away
        self.stage.show(self.records, index)
        self._drawn = True
        cost = time.thread_time() - used
        self._next_frame = now + max(1 / self.frames, cost / self.share) - 0.005
        if self.threaded:
            time.sleep(0.001)  # lets the kernel's messages in
        self._say_end()

    def _say_end(self) -> None:
        if self._ended and not self._end_said:
            self._end_said = True
            self.stage.ended()

    def _drop(self) -> None:
        run, self._run = self._run, None
        close = getattr(run, "close", None)
        if close is not None:
            close()
