"""Runs the training of a Lab on one daemon thread.

A callback of a widget may arrive on any thread and must return immediately, so it only changes a few numbers here and
wakes the worker. The worker notices a new generation number before the run's next step, drops the run and starts again
with the latest values: of a twelve-step drag only the last value must survive. Without a thread (headless notebooks,
Colab) the same turns are taken inside the callback.
"""

from __future__ import annotations

import atexit
import threading
import time
import weakref
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

from moe_lab.core.interrupts import Interrupted, interrupted_when
from moe_lab_widgets.engine.pace import Pace
from moe_lab_widgets.engine.presenter import Presenter
from moe_lab_widgets.engine.recorder import Recorder
from moe_lab_widgets.engine.states import Frame, Outcome, Phase, RunState

_alive: weakref.WeakSet[Runner] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Waits for every thread: one that comes back from torch after Python's end aborts the process with a message."""
    for runner in list(_alive):
        runner.close(patience=None)


class Runner(RunState):
    """Runs, records, paces and stops.

    Args:
      presenter: shows the records.
      threaded: True to work on a thread, False to work inside the callers.
      headless: whether a call without a thread trains until the run ends, and raises its error.
      budget: seconds that a headless call may train.
      most_records: most records kept.
    """

    IDLE_AFTER = 1.0
    BEGUN = 3.0  # seconds of training after which a run that nobody sees is not begun anew
    MOMENT = 0.12
    """Seconds that the run goes on at an answer of the page, where there is no thread."""

    def __init__(
        self, presenter: Presenter, *, threaded: bool, headless: bool, budget: float, most_records: int
    ) -> None:
        self.presenter, self.threaded, self.headless, self.budget = presenter, threaded, headless, budget
        self.most_records = most_records
        self.pace = Pace()
        super().__init__(Recorder(most_records))
        self._wake = threading.Condition(threading.RLock())
        self._singles = 0  # records to take although the run is held
        self._run: Iterator[Any] | None = None
        self._frame = Frame.NONE
        self._filling = False  # the page may lack earlier records
        self._view_changed = False
        self._cut_short = False  # by the seconds that a call may train
        self._working = self._closing = False
        self._idle_due = False  # a frame was drawn since the presenter was last told that nothing moves
        self._thread: threading.Thread | None = None
        _alive.add(self)

    # ---- from any thread ----

    def restart(self) -> None:
        """Starts again with the latest values."""
        with self._orders():
            self.generation += 1
            self.scrubbed_to = None

    def play(self, playing: bool = True) -> None:
        """Continues the run, or holds it at its next record."""
        with self._orders():
            self.playing, self._singles, self._frame, self._cut_short = playing, 0, Frame.ASKED, False
            self.pace.hurry()

    def rest(self, resting: bool) -> None:
        """Holds the run at its first record, or where it is after some seconds, until it is on screen."""
        if resting and (self.finished or not self.playing):
            return
        with self._orders():
            self.resting, self._frame = resting, Frame.ASKED
            self.pace.hurry()
            if resting and self.seconds < self.BEGUN:
                self.generation += 1

    def step(self) -> None:
        """Holds the run and takes one record from it."""
        with self._orders():
            self._singles += 1
            self.playing, self.scrubbed_to = False, None

    def scrub(self, index: int | None) -> None:
        """Shows an earlier record; None follows the run again. The run itself is not disturbed."""
        with self._orders():
            self.scrubbed_to, self._frame = None if index is None else max(index, 0), Frame.ASKED

    def redraw(self) -> None:
        """Draws the present record again."""
        with self._orders():
            self._frame = Frame.ASKED

    def fill(self) -> None:
        """Draws the records that the page lacks, while nothing else is to be drawn."""
        with self._orders():
            self._filling = True

    def go_on(self) -> None:
        """Looks again whether the page takes frames."""
        with self._orders():
            pass

    def refresh_view(self) -> None:
        """Draws the present record again with the latest view; a run that has ended may add records for it."""
        with self._orders():
            self._view_changed, self._frame = True, Frame.ASKED

    def set_pace(self, records: float) -> None:
        """Sets the most records per second, 0 for no limit; without a page there is none."""
        with self._orders():
            self.pace.records = 0.0 if self.headless else records
            self.pace.hurry()

    def wait(self, timeout: float | None = None) -> Outcome:
        """Waits for an end, a pause or an error, which is raised again; returns which it was."""
        if not self.threaded:
            self._work_here(float("inf") if timeout is None else timeout)
        with self._wake:
            longest = timeout if self.threaded else 0.0  # nobody else works on it
            done = self._wake.wait_for(lambda: self._closing or not self._pending(), longest)
        if self.error is not None:
            raise self.error
        if not done or self._cut_short:
            return Outcome.OUT_OF_TIME
        return Outcome.ENDED if self.finished else Outcome.HELD

    def close(self, patience: float | None = 10.0) -> None:
        """Stops the run and the thread, and frees everything.

        Args:
          patience: seconds to wait for a run that takes long to its next step, after which it ends by itself; None
            waits until it has ended.
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

    @contextmanager
    def _orders(self) -> Iterator[None]:
        """Holds the lock while the orders for the worker change, then wakes the worker or works here."""
        with self._wake:
            yield
            if self._closing:
                return
            self._wake.notify_all()
            if self.threaded and self._thread is None:
                self._thread = threading.Thread(target=self._work, name="moe-lab run", daemon=True)
                self._thread.start()
        if not self.threaded:
            self._work_here(self.budget if self.headless else self.MOMENT)

    # ---- the worker ----

    @property
    def _wanted_now(self) -> bool:
        """Whether somebody waits for a frame or for a single record, whatever the pace."""
        return self._frame is Frame.ASKED or self._singles > 0

    def _pending(self) -> bool:
        """Whether there is something to do, now or after the pace allows it."""
        if self._working or self.generation != self.begun:
            return True
        if (self._frame is Frame.ASKED or self._filling) and len(self.records) and self.presenter.ready():
            return True
        return self.phase is Phase.TRAINING and (self.goes_on or self._singles > 0)

    def _work(self) -> None:
        import torch  # the setting is per thread, and tiny steps are many times slower with more

        torch.set_num_threads(1)
        while True:
            with self._wake:
                self._working = False
                while not self._closing:
                    pause = self.pace.until_record
                    paced = self._pending() and not self._outdated() and not self._wanted_now
                    if self._pending() and not (paced and pause > 0):
                        break
                    self._wake.notify_all()
                    waits = self._frame is Frame.ASKED or self._filling  # for a page, which may stay silent
                    idle_after = 0.1 if waits else self.IDLE_AFTER if self._idle_due else None
                    slept = self._wake.wait(pause if paced else idle_after)
                    if not slept and not waits and not self._pending():
                        break
                if self._closing:
                    break
                idle = not self._pending()
                self._working = not idle
            if idle:
                self._idle()
            else:
                self._turn()
        self._drop()

    def _idle(self) -> None:
        self._idle_due, self._filling = False, True
        try:
            self.presenter.idle()
        except Exception as error:
            self._fail(error)

    def _work_here(self, seconds: float) -> None:
        """Takes turns inside the caller until there is nothing to do, or for some seconds.

        After these a headless run is held; any other goes on when the page has answered.
        """
        import torch

        if self._working:  # a slider that the Lab itself moved while it worked
            return
        threads = torch.get_num_threads()
        torch.set_num_threads(1)
        until = time.monotonic() + seconds
        try:
            while not self._closing and self._pending():
                if time.monotonic() > until and self.generation == self.begun:
                    if not self.headless:
                        self.presenter.nudge()
                        break
                    self.playing, self._singles, self._frame = False, 0, Frame.ASKED
                    self._cut_short = True
                    until = float("inf")
                self._working = True
                self._rest()
                self._turn()
                self._working = False
        finally:
            self._working = False
            torch.set_num_threads(threads)
        if self.headless and self.error is not None:
            raise self.error

    def _rest(self) -> None:
        """Waits a little where the pace asks for it, without a thread."""
        pause = self.pace.until_record
        if pause > 0 and self.generation == self.begun and not self._wanted_now:
            time.sleep(min(pause, self.MOMENT))

    def _turn(self) -> None:
        """Does one piece of work: starts a run, takes a record, draws a frame."""
        try:
            if self.generation != self.begun:
                self._begin()
            if self._view_changed:
                self._add_records()
            if self.phase is Phase.TRAINING and (self.goes_on or self._singles):
                self._advance()
            self._draw_if_due()
            if self._filling and self.presenter.ready():
                self._filling = False  # before it looks: the page may want more meanwhile
                if self.presenter.fill(self):
                    self._filling = True
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._drop()
        with self._wake:
            self.error = error
            self._frame, self._filling, self._singles = Frame.NONE, False, 0
        self.presenter.failed(error)

    def _begin(self) -> None:
        self._drop()
        with self._wake:
            self.begun = self.generation
            self.error = None
            self.scrubbed_to = None
            self.phase = Phase.ABSENT
            self._view_changed = self._filling = self._cut_short = False
        run = self.presenter.begin(self)
        self.records = Recorder(self.most_records)
        self.seconds = 0.0
        self.pace.begin()
        self._run, self.phase = iter(run), Phase.TRAINING
        if not self.goes_on and not self._singles:
            self._singles = 1  # a paused Lab still shows where a new run starts

    def _add_records(self) -> None:
        """Continues a run that has ended, where the present view needs further records."""
        self._view_changed = False
        if not self.phase.ended:
            return  # it is asked when the run ends
        more = self.presenter.further(self)
        if more is not None:
            self._run, self.phase = iter(more), Phase.TRAINING

    def _advance(self) -> None:
        assert self._run is not None
        begun = time.monotonic()
        try:
            with interrupted_when(self._outdated):
                record = next(self._run)
        except Interrupted:
            self._drop()
            return
        except StopIteration:
            self._drop()
            self.phase = Phase.ENDED
            self._add_records()
            if self.phase is Phase.TRAINING:
                return
            self._singles = 0
            if self._frame:
                self._frame = Frame.ASKED
            if not len(self.records):
                raise RuntimeError("the run gave no records") from None
            return
        except Exception as error:
            lacking = self._frame
            self._fail(error)
            if lacking:
                self._frame = Frame.ASKED  # the last good record is worth seeing
            return
        self.seconds += time.monotonic() - begun
        with self._wake:
            # one that is held shows the start of all of its runs
            self._singles = max(self._singles - 1, int(not self.playing and not record.begun))
            self._frame = max(self._frame, Frame.NEWER)
            halved = self.records.append(record)
            if halved and self.scrubbed_to is not None:
                self.scrubbed_to //= 2
        if self.playing:
            self.pace.took_record()

    def _draw_if_due(self) -> None:
        if not len(self.records) or self.generation != self.begun:
            return
        asked = self._frame is Frame.ASKED or (self._frame is Frame.NEWER and not self.goes_on)
        if (asked or (self._frame and self.pace.frame_is_due)) and self.presenter.ready():
            self._draw()
        elif asked:
            self._frame = Frame.ASKED
        if self.phase is Phase.ENDED:
            self.phase = Phase.REPORTED
            self.presenter.ended(self)

    def _draw(self) -> None:
        with self._wake:
            self._frame = Frame.NONE
            last = len(self.records) - 1
            index = last if self.scrubbed_to is None else min(self.scrubbed_to, last)
        begun, used = time.monotonic(), time.thread_time()
        self.presenter.show(self, index)
        self._idle_due = True
        self.pace.drew_frame(begun, time.thread_time() - used)
        if self.threaded:
            time.sleep(0.001)  # lets the kernel's messages in

    def _outdated(self) -> bool:
        """Whether the run at hand is no longer wanted."""
        return self._closing or self.generation != self.begun

    def _drop(self) -> None:
        run, self._run = self._run, None
        if self.phase is Phase.TRAINING:
            self.phase = Phase.ABSENT
        close = getattr(run, "close", None)
        if close is not None:
            close()
