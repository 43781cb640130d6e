"""Which device is faster for a piece of work: decided by what was measured on this machine, never by a device's name.

A GPU starts later and takes longer over a step of few numbers; over a step of many it is far ahead. Where the one
overtakes the other depends on the machine, so the speeds that runs have had are kept, by kind and size of the work.
"""

from __future__ import annotations

import json
import math
import os
import platform
import threading
import time
from collections.abc import Callable, Generator, Iterator, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, TypeVar

import torch

from moe_lab.files import cache_folder, writable_folder, write_whole

AUTO, CPU, GPU = "auto", "cpu", "cuda"
TRAININGS = "trainings"
"""The unit of work whose steps are whole trainings."""
NO_GPU = "this machine has no GPU that torch can use (CUDA)"
MPS_NOT_OFFERED = (
    "this machine's Apple GPU (MPS) is not offered in a Lab: steps are captured as graphs on CUDA alone, and MPS lacks "
    "operations that some runs need; train(..., device='mps') tries it"
)

Record = TypeVar("Record")
Key = tuple[str, str, int]
"""The kind of some work, a device, and the bucket of the size."""


def present() -> tuple[str, ...]:
    """Returns the names of the devices of this machine; the first one starts without delay."""
    return (CPU, GPU) if torch.cuda.is_available() else (CPU,)


def no_gpu() -> str:
    """Returns why a Lab offers no GPU on a machine without CUDA, in words."""
    return MPS_NOT_OFFERED if torch.backends.mps.is_available() else NO_GPU


def word(device: str) -> str:
    """Returns a device as a word: "GPU" for "cuda"."""
    return {CPU: "CPU", GPU: "GPU"}.get(device, device)


def warm_up() -> None:
    """Has torch get hold of the GPU on a thread of its own, which takes seconds, unless there is none."""
    if torch.cuda.is_available() and not torch.cuda.is_initialized():
        threading.Thread(target=torch.cuda.init, name="moe-lab GPU", daemon=True).start()


@dataclass(frozen=True, kw_only=True)
class Work:
    """What a run has to do, as far as it decides how long that takes.

    Attributes:
      kind: runs of one kind differ in size alone.
      size: of one step, in any unit that grows as the time of a step on the CPU does.
      steps: of the whole run, at most.
      trials: that take each step together.
      unit: what a step is called, in the plural.
    """

    kind: str
    size: float
    steps: int
    trials: int = 1
    unit: str = "steps"

    @property
    def bucket(self) -> int:
        """The size, rounded to a power of two."""
        return round(math.log2(max(self.size, 1e-30)))


@dataclass(frozen=True)
class Speed:
    """How long a run takes on a device.

    Attributes:
      size: of a step (see `Work.size`).
      start: seconds until steps follow one another.
      step: seconds that each takes.
    """

    size: float
    start: float
    step: float

    def __post_init__(self) -> None:
        if not all(isinstance(value, float) and math.isfinite(value) and value >= 0 for value in vars(self).values()):
            raise ValueError(f"a speed must have a finite size, start and step of at least 0: got {self}")

    def seconds(self, steps: float) -> float:
        """Returns how long a run of some steps takes."""
        return self.start + steps * self.step


class Stopwatch:
    """Times a run while it is consumed: the time inside the run alone, not what its consumer does in between.

    Args:
      done: returns the steps done at a record.
    """

    SETTLED = 2
    """Records that belong to the start."""

    def __init__(self, done: Callable[[Any], float]) -> None:
        self._done_at = done
        self.seconds, self.records = 0.0, 0
        self._start, self._counted, self._waiting = 0.0, 0.0, 0.0
        self._first, self._last = 0.0, -math.inf

    def follow(self, run: Iterator[Record]) -> Generator[Record, None, None]:
        """Yields the records of a run."""
        try:
            while True:
                begun = time.perf_counter()
                record = next(run, None)
                if record is None:
                    return
                self._add(time.perf_counter() - begun, self._done_at(record))
                yield record
        finally:
            close = getattr(run, "close", None)
            if close is not None:
                close()

    def _add(self, seconds: float, done: float) -> None:
        self.seconds += seconds
        self.records += 1
        if self.records <= self.SETTLED:
            self._start, self._first, self._last = self.seconds, done, done
            return
        self._waiting += seconds
        if done > self._last:  # the time after the last step, such as that of another stage, is not counted
            self._counted += self._waiting
            self._waiting, self._last = 0.0, done

    @property
    def counted(self) -> float:
        """Seconds of the records after the start."""
        return self._counted

    @property
    def done(self) -> float:
        """Steps done at the latest record."""
        return max(self._last, 0.0)

    def speed(self, size: float) -> Speed | None:
        """Returns what was measured; None before the first record after the start."""
        steps = self._last - self._first
        return Speed(float(size), self._start, self._counted / steps) if self._counted and steps > 0 else None


class Speeds:
    """The speeds that runs have had on this machine, in a file of the user's cache.

    A file that cannot be read, or was made by another machine or version, counts as empty and is written anew. It is
    not opened before the first question.

    Args:
      path: of the file; None for the one in the cache.
    """

    def __init__(self, path: Path | str | None = None) -> None:
        self._path = None if path is None else Path(path)
        self._own: dict[Key, Speed] = {}
        self._stored: dict[Key, Speed] | None = None

    @property
    def path(self) -> Path:
        """The file."""
        return cache_folder("devices") / "speeds.json" if self._path is None else self._path

    def _known(self) -> dict[Key, Speed]:
        if self._stored is None:
            self._stored = self._read()
        return self._stored | self._own

    def get(self, work: Work, device: str) -> Speed | None:
        """Returns the speed that work of this kind and size had on a device."""
        return self._known().get((work.kind, device, work.bucket))

    def about(self, work: Work, device: str) -> Speed | None:
        """Returns the speed to expect: as measured at the nearest smaller size, growing with the size from there.

        None where nothing of this kind was measured on the device. Where only larger sizes were, it is that of the
        smallest of them, which is too slow rather than too fast.
        """
        own = sorted(
            (speed for (kind, on, _), speed in self._known().items() if (kind, on) == (work.kind, device)),
            key=lambda speed: speed.size,
        )
        if not own:
            return None
        near = next((speed for speed in reversed(own) if speed.size <= work.size), own[0])
        growth = max(work.size / near.size, 1.0) if near.size else 1.0
        return Speed(float(work.size), near.start * growth, near.step * growth)

    def put(self, work: Work, device: str, speed: Speed) -> None:
        """Keeps a speed for as long as the process runs."""
        self._own[work.kind, device, work.bucket] = speed

    def store(self) -> None:
        """Writes all speeds, with those that other processes have written meanwhile.

        Raises:
          RuntimeError: the file cannot be written.
        """
        self._stored = self._read()
        speeds = [[*key, asdict(speed)] for key, speed in sorted(self._known().items())]
        writable_folder(self.path.parent)
        write_whole(self.path, json.dumps({"machine": _machine(), "speeds": speeds}, indent=1).encode())

    def _read(self) -> dict[Key, Speed]:
        try:
            content = json.loads(self.path.read_bytes())
            if content["machine"] != _machine():
                return {}
            return {(str(kind), str(on), int(size)): Speed(**speed) for kind, on, size, speed in content["speeds"]}
        except (OSError, ValueError, TypeError, KeyError):  # none yet, or not ours: measured anew
            return {}


def fastest(speeds: Speeds, work: Work, devices: Sequence[str]) -> str | None:
    """Returns the device on which a run takes the least time by what was measured; None while one was not measured."""
    known = {device: speeds.get(work, device) for device in devices}
    times = {device: speed.seconds(work.steps) for device, speed in known.items() if speed is not None}
    return min(times, key=lambda device: times[device]) if len(times) == len(devices) else None


def _machine() -> list[str]:
    """What speeds depend on besides the work."""
    gpu = torch.cuda.get_device_name() if torch.cuda.is_available() else ""
    return [platform.node(), platform.machine(), str(os.cpu_count()), gpu, torch.__version__]
