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
from moe_lab_widgets.engine.host import Host, Outcome
from moe_lab_widgets.engine.recorder import Recorder

_alive: weakref.WeakSet[Runner] = weakref.WeakSet()


@atexit.register
def _stop_all() -> None:
    """Waits for every thread: one that comes back from torch after Python's end aborts the process with a message."""
    for runner in list(_alive):
        runner.close(patience=None)


class Runner:
    """Runs, records, paces and stops.

    Args:
      host: shows the records.
      threaded: True to work on a thread, False to work inside the callers.
      headless: whether a call without a thread trains until the run ends, and raises its error.
      budget: seconds that a headless call may train.
      most_records: most records kept.
    """

    IDLE_AFTER = 1.0
    DRAWING_SHARE, PACED_SHARE = 0.09, 0.25
    """Largest share of the time that may go into drawing: taken from the training, and from a pace's rests."""
    BEGUN = 3.0  # seconds of training after which a run that nobody sees is not begun anew
    MOMENT = 0.12
    """Seconds that the run goes on at an answer of the page, where there is no thread."""

    def __init__(self, host: Host, *, threaded: bool, headless: bool, budget: float, most_records: int) -> None:
        self.host, self.threaded, self.headless, self.budget = host, threaded, headless, budget
        self.most_records = most_records
        self.pace = 0.0
        """Most records per second; 0 for no limit."""
        self.frames = 30.0
        """Most frames per second."""
        self.records = Recorder(most_records)
        self.error: Exception | None = None
        self.playing = True
        self.resting = False  # until somebody sees the run
        self.seconds = 0.0
        """Time spent training in this run."""
        self._wake = threading.Condition(threading.RLock())
        self._generation = self._begun = 0
        self._singles = 0
        self._scrubbed_to: int | None = None
        self._redraw = self._closing = self._working = self._ended = self._end_reported = False
        self._drawn = self._undrawn = self._view_changed = self._filling = False
        self._cut_short = False  # by the seconds that a call may train
        self._run: Iterator[Any] | None = None
        self._next_record = self._next_frame = 0.0
        self._thread: threading.Thread | None = None
        _alive.add(self)

    # ---- from any thread ----

    def restart(self) -> None:
        """Starts again with the latest values."""
        with self._orders():
            self._generation += 1
            self._scrubbed_to = None

    def play(self, playing: bool = True) -> None:
        """Continues the run, or holds it at its next record."""
        with self._orders():
            self.playing, self._singles, self._next_record, self._redraw = playing, 0, 0.0, True
            self._cut_short = False

    def rest(self, resting: bool) -> None:
        """Holds the run at its first record, or where it is after some seconds, until it is on screen."""
        if resting and (self.finished or not self.playing):
            return
        with self._orders():
            self.resting, self._redraw, self._next_record = resting, True, 0.0
            if resting and self.seconds < self.BEGUN:
                self._generation += 1

    def step(self) -> None:
        """Holds the run and takes one record from it."""
        with self._orders():
            self._singles += 1
            self.playing, self._scrubbed_to = False, None

    def scrub(self, index: int | None) -> None:
        """Shows an earlier record; None follows the run again. The run itself is not disturbed."""
        with self._orders():
            self._scrubbed_to, self._redraw = None if index is None else max(index, 0), True

    def redraw(self) -> None:
        """Draws the present record again."""
        with self._orders():
            self._redraw = True

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
            self._view_changed = self._redraw = True

    def set_pace(self, pace: float) -> None:
        """Sets the most records per second, 0 for no limit; without a page there is none."""
        with self._orders():
            self.pace, self._next_record = 0.0 if self.headless else pace, 0.0

    @property
    def _goes_on(self) -> bool:
        return self.playing and not self.resting

    @property
    def finished(self) -> bool:
        """Whether the run of the latest values has come to its end."""
        return self._ended and self._begun == self._generation

    @property
    def scrubbed_to(self) -> int | None:
        """The index of the earlier record on show, or None when the picture follows the run."""
        return self._scrubbed_to

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

    def _pending(self) -> bool:
        """Whether there is something to do, now or after the pace allows it."""
        if self._working or self._generation != self._begun:
            return True
        if (self._redraw or self._filling) and len(self.records) and self.host.ready():
            return True
        return self._run is not None and (self._goes_on or self._singles > 0)

    def _work(self) -> None:
        import torch  # the setting is per thread, and tiny steps are many times slower with more

        torch.set_num_threads(1)
        while True:
            with self._wake:
                self._working = False
                while not self._closing:
                    pause = self._next_record - time.monotonic()
                    paced = self._pending() and not self._outdated() and not self._redraw and not self._singles
                    if self._pending() and not (paced and pause > 0):
                        break
                    self._wake.notify_all()
                    waits = self._redraw or self._filling  # for a page, which may stay silent
                    idle_after = 0.1 if waits else self.IDLE_AFTER if self._drawn else None
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
        self._drawn = False
        self._filling = True
        try:
            self.host.idle()
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
                if time.monotonic() > until and self._generation == self._begun:
                    if not self.headless:
                        self.host.nudge()
                        break
                    self.playing, self._singles, self._redraw = False, 0, True
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
        pause = self._next_record - time.monotonic()
        if pause > 0 and self._generation == self._begun and not self._redraw and not self._singles:
            time.sleep(min(pause, self.MOMENT))

    def _turn(self) -> None:
        """Does one piece of work: starts a run, takes a record, draws a frame."""
        try:
            if self._generation != self._begun:
                self._begin()
            if self._view_changed:
                self._add_records()
            if self._run is not None and (self._goes_on or self._singles):
                self._advance()
            self._draw_if_due()
            if self._filling and self.host.ready():
                self._filling = False  # before it looks: the page may want more meanwhile
                if self.host.fill(self):
                    self._filling = True
        except Exception as error:
            self._fail(error)

    def _fail(self, error: Exception) -> None:
        self._drop()
        with self._wake:
            self.error = error
            self._redraw = self._undrawn = self._filling = False
            self._singles = 0
        self.host.failed(error)

    def _begin(self) -> None:
        self._drop()
        with self._wake:
            self._begun = self._generation
            self.error = None
            self._scrubbed_to = None
            self._ended = self._end_reported = self._view_changed = self._filling = self._cut_short = False
        run = self.host.begin(self)
        self.records = Recorder(self.most_records)
        self.seconds = 0.0
        self._next_frame = self._next_record = 0.0
        self._run = iter(run)
        if not self._goes_on and not self._singles:
            self._singles = 1  # a paused Lab still shows where a new run starts

    def _add_records(self) -> None:
        """Continues a run that has ended, where the latest view needs further records."""
        self._view_changed = False
        if self._run is not None or not self._ended:
            return  # a run that goes on reads the latest values itself
        more = self.host.further(self)
        if more is not None:
            self._run = iter(more)
            self._ended = self._end_reported = False

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
            self._ended = True
            self._singles = 0
            self._redraw = self._redraw or self._undrawn
            if not len(self.records):
                raise RuntimeError("the run gave no records") from None
            return
        except Exception as error:
            undrawn = self._undrawn
            self._fail(error)
            self._redraw = self._redraw or undrawn  # the last good record is worth seeing
            return
        now = time.monotonic()
        self.seconds += now - begun
        with self._wake:
            self._singles = max(self._singles - 1, 0)
            halved = self.records.append(record)
            if halved and self._scrubbed_to is not None:
                self._scrubbed_to //= 2
        self._undrawn = True
        if self.pace > 0 and self.playing:
            self._next_record = max(self._next_record + 1 / self.pace, now)

    def _draw_if_due(self) -> None:
        if not len(self.records) or self._generation != self._begun:
            return
        now = time.monotonic()
        asked = self._redraw or (self._undrawn and not self._goes_on)
        if not asked and not (self._undrawn and now >= self._next_frame):
            self._report_end()
            return
        if not self.host.ready():
            self._redraw = self._redraw or asked
            self._report_end()
            return
        with self._wake:
            self._redraw = self._undrawn = False
            last = len(self.records) - 1
            index = last if self._scrubbed_to is None else min(self._scrubbed_to, last)
        used = time.thread_time()  # not the clock: a busy machine must not take frames away
        self.host.show(self, index)
        self._drawn = True
        cost = time.thread_time() - used
        pause = max(1 / self.frames, cost / (self.PACED_SHARE if self.pace else self.DRAWING_SHARE))
        late = min(max(now - self._next_frame, 0.0), pause / 2)  # the record came some time after its frame was due
        self._next_frame = now + pause - late
        if self.threaded:
            time.sleep(0.001)  # lets the kernel's messages in
        self._report_end()

    def _report_end(self) -> None:
        if self._ended and not self._end_reported:
            self._end_reported = True
            self.host.ended(self)

    def _outdated(self) -> bool:
        """Whether the run at hand is no longer wanted."""
        return self._closing or self._generation != self._begun

    def _drop(self) -> None:
        run, self._run = self._run, None
        close = getattr(run, "close", None)
        if close is not None:
            close()
