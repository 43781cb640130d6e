"""Where the runs of a Lab compute, how fast they are, and how long one would take that is larger than usual."""

from __future__ import annotations

import time
from collections.abc import Callable, Generator, Iterator, Mapping
from contextlib import closing
from dataclasses import replace
from typing import Any

from moe_lab.devices import AUTO, CPU, GPU, TRAININGS, Speed, Speeds, Stopwatch, Work, fastest, no_gpu, warm_up, word
from moe_lab_widgets.engine.definition import Definition
from moe_lab_widgets.engine.host import Run
from moe_lab_widgets.engine.knobs import RARELY, LabKnob

PATIENCE = 20.0
"""Seconds above which a run beyond the usual range waits for Play."""
AT_ONCE = 2.0
"""Seconds above which a run beyond the usual range says how long it takes."""
ENOUGH = 0.5
"""Seconds of steps after which the speed of a device is known."""
NOTHING_YET = 4.0
"""Seconds more for a device that has done nothing, before a run beyond the range is foretold."""
CLEAR = 3.0
"""How many times longer a device must be expected to take, so that it is not measured at a run beyond the range."""
SAY_AFTER = 1.0
"""Seconds between two speeds in the status line."""


def device_knob(lab: Definition) -> LabKnob:
    """Returns the setting of the device that every Lab has."""
    devices = lab.devices()
    return LabKnob(
        name="device",
        meaning="computes on",
        default=AUTO,
        choices=(AUTO, *devices),
        words={device: word(device) for device in devices},
        reason="" if GPU in devices else lab.cpu_because or no_gpu(),
        enabled_when=lambda values: len(devices) > 1,
    )


def offered(lab: Definition) -> tuple[LabKnob, ...]:
    """Returns the knobs of a Lab as this machine offers them: with a GPU, sliders reach their far ends."""
    far = len(lab.devices()) > 1
    return (*(_reaching(knob) if far else knob for knob in lab.knobs), device_knob(lab))


def _reaching(knob: LabKnob) -> LabKnob:
    if knob.far is None or knob.slider is None:
        return knob
    low, _, step = knob.slider
    return replace(knob, slider=(low, knob.far, step))


class Placing:
    """Chooses the device of every run, and measures.

    On "auto" a run begins on the CPU unless both devices were measured at its kind and size. Where it goes on for long
    enough to matter, its first steps run on the other device as well, and the faster one takes the run over from its
    beginning. What was measured is kept for later runs.

    Attributes:
      device: of the present run.
    """

    def __init__(self, lab: Definition, speeds: Speeds | None = None) -> None:
        self._lab, self._devices = lab, lab.devices()
        self._speeds = Speeds() if speeds is None else speeds
        self.device = CPU
        self._work: Work | None = None
        self._watch = Stopwatch(lab.done)
        self._rivals: tuple[str, ...] = ()
        if GPU in self._devices:
            warm_up()
        self._unfit: dict[tuple[str, str, int], str] = {}
        """Devices that failed, with the kind and size of the work."""
        self._said, self._said_at = "", 0.0

    def begin(
        self, values: Mapping[str, Any], runner: Run, ask: Callable[[str], None], say: Callable[[str], None]
    ) -> Iterator[Any]:
        """Chooses a device and starts a run on it.

        Args:
          values: every knob's.
          runner: of the run; started again where another device is faster.
          ask: called with a sentence when the run must wait for Play.
          say: called with a sentence on the time of a run that starts at once and takes longer than most.

        Returns:
          The records, among them None for every moment that goes into a measurement.

        Raises:
          ValueError: the values break a rule.
        """
        self._lab.check(values)
        work = self._lab.work(values)
        rarely = f" {RARELY}" * bool(values.get(RARELY))  # then a step takes less, its share of the measuring included
        work = replace(work, kind=f"{type(self._lab).__name__} {work.kind}".strip() + rarely)
        able = tuple(one for one in self._devices if (one, work.kind, work.bucket) not in self._unfit)
        devices = able if values["device"] == AUTO else (values["device"],)
        decided = fastest(self._speeds, work, devices) if len(devices) > 1 else devices[0]
        self.device = decided or devices[0]
        self._rivals = devices[1:] if decided is None else ()
        self._work, self._watch, self._said = work, Stopwatch(self._lab.done), ""
        run = self._lab.start({**values, "device": self.device})
        return self._records(run, values, work, devices, runner, ask, say)

    def words(self, latest: bool = False) -> str:
        """Returns the device, the trials and the speed measured in this run, updated at a calm pace.

        Args:
          latest: whether to update at once, as at the end of a run.
        """
        now = time.monotonic()
        if self._work is not None and (latest or not self._said or now - self._said_at >= SAY_AFTER):
            self._said_at, self._said = now, self._now(self._work)
        return self._said

    def _now(self, work: Work) -> str:
        speed = self._watch.speed(work.size)
        return f"{word(self.device)}: {_many(work)}" + (f", {_rate(work, speed)}" if speed is not None else "")

    # ---- the run ----

    def _records(
        self,
        run: Iterator[Any],
        values: Mapping[str, Any],
        work: Work,
        devices: tuple[str, ...],
        runner: Run,
        ask: Callable[[str], None],
        say: Callable[[str], None],
    ) -> Iterator[Any]:
        if self._beyond(values):
            expected = yield from self._expected(values, work, devices)
            times = {device: speed.seconds(work.steps) for device, speed in expected.items()}
            best = min(times, key=lambda device: times[device], default=self.device)
            if best != self.device:
                self.device, run = best, self._lab.start({**values, "device": best})
            if self._rivals and times:
                close = {device for device in devices if times.get(device, 0.0) < CLEAR * times[best]}
                self._rivals = tuple(sorted(close - {best}))
            cost = times.get(best, 0.0)
            if cost > PATIENCE:
                ask(f"This run would take {_cost(work, best, expected[best])}: press Play to start it.")
                yield None
            elif cost > AT_ONCE:
                say(f"This run takes {_cost(work, best, expected[best])}.")
        watch = self._watch
        try:
            for record in watch.follow(run):
                yield record
                if self._rivals and watch.counted >= ENOUGH:
                    yield from self._race(values, work, runner)
        finally:
            speed = watch.speed(work.size)
            if speed is not None and watch.counted >= ENOUGH:
                self._speeds.put(work, self.device, speed)

    def _race(self, values: Mapping[str, Any], work: Work, runner: Run) -> Iterator[None]:
        """Measures the other devices at this run, and starts it again where one of them would still end sooner."""
        rivals, self._rivals = self._rivals, ()
        mine = self._watch.speed(work.size)
        assert mine is not None
        self._speeds.put(work, self.device, mine)
        left = max(work.steps - self._watch.done, 0) * mine.step
        for device in rivals:
            speed = yield from self._timed(device, values, work, left)
            if speed is not None:
                self._speeds.put(work, device, speed)
        self._store()
        best = fastest(self._speeds, work, (self.device, *rivals))
        if best is None or best == self.device:
            return
        ahead = self._speeds.get(work, best)
        if ahead is not None and ahead.seconds(work.steps) < left:
            runner.restart()
            while True:  # until the Runner drops this run
                yield None

    def _timed(
        self, device: str, values: Mapping[str, Any], work: Work, most: float, nothing_yet: float = 0.0
    ) -> Generator[None, None, Speed | None]:
        """Runs the first steps on a device, for at most some seconds, and some more while nothing is done.

        Returns:
          Their speed; None where the device fails.
        """
        watch = Stopwatch(self._lab.done)
        try:
            with closing(watch.follow(self._lab.start({**values, "device": device}))) as records:
                for _ in records:
                    yield None
                    if watch.counted >= ENOUGH or watch.seconds > most + nothing_yet * (watch.done == 0):
                        break
        except RuntimeError as error:  # such as too little memory; the run goes on where it is
            self._unfit[device, work.kind, work.bucket] = str(error)
            return None
        return watch.speed(work.size) or Speed(work.size, watch.seconds, watch.seconds / max(watch.done, 1.0))

    def _store(self) -> None:
        try:
            self._speeds.store()
        except RuntimeError:
            return  # of a cache that cannot be written; the next process measures again

    # ---- runs beyond the usual range ----

    def _beyond(self, values: Mapping[str, Any]) -> bool:
        """Whether a knob stands beyond the range in which the CPU answers at once."""
        return any(_usual(knob, values[knob.name]) != values[knob.name] for knob in self._lab.knobs)

    def _expected(
        self, values: Mapping[str, Any], work: Work, devices: tuple[str, ...]
    ) -> Generator[None, None, dict[str, Speed]]:
        """Returns the speed to expect of each device; what was never measured is.

        The first device, the CPU, is measured on a run of the usual size, with which its time grows. Others are where
        the run is large, because they gain by that.
        """
        usual = {**values, **{knob.name: _usual(knob, values[knob.name]) for knob in self._lab.knobs}}
        small = replace(self._lab.work(usual), kind=work.kind)
        expected: dict[str, Speed] = {}
        for device in devices:
            first = device == self._devices[0]
            speed = self._speeds.about(work, device) if first else self._speeds.get(work, device)
            if speed is None:
                tried, size = (usual, small) if first else (values, work)
                speed = yield from self._timed(device, tried, size, 2 * ENOUGH, NOTHING_YET)
                if speed is not None:
                    self._speeds.put(size, device, speed)
                    speed = self._speeds.about(work, device)
            if speed is not None:
                expected[device] = speed
        if len(devices) > 1:
            self._store()
        return expected


def _usual(knob: LabKnob, value: Any) -> Any:
    """Returns a knob's value within the range in which the CPU answers at once."""
    if value in knob.near:
        return knob.near[value]
    return min(value, knob.slider[1]) if knob.far is not None and knob.slider is not None else value


def _many(work: Work) -> str:
    """Returns how many trials step together, or how many trainings there are where a step is a whole one."""
    if work.unit == TRAININGS:
        return f"{work.steps:,} {TRAININGS}"
    return f"{work.trials:,} trial{'s' * (work.trials != 1)}"


def _rate(work: Work, speed: Speed) -> str:
    """Returns the steps of all trials in a second, with two digits, as in "1,900 steps/s"."""
    rate = float(f"{work.trials / max(speed.step, 1e-12):.2g}")
    return f"{rate:,.0f} {work.unit}/s" if rate >= 10 else f"{rate:g} {work.unit}/s"


def _cost(work: Work, device: str, speed: Speed) -> str:
    """Returns how long a run takes and where, as in "up to about 7 seconds on the CPU (60 trials, 80 steps/s)"."""
    seconds = speed.seconds(work.steps)
    time = f"{float(f'{seconds:.2g}'):.0f} seconds" if seconds < 120 else f"{seconds / 60:.0f} minutes"
    return f"up to about {time} on the {word(device)} ({_many(work)}, {_rate(work, speed)})"
