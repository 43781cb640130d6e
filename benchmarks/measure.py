"""Measures CPU time of one thread, with alternating rivals and medians."""

from __future__ import annotations

import os
import platform
import resource
import statistics
import subprocess
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any, Literal

import torch

from benchmarks.held import held_on


@dataclass(frozen=True)
class Result:
    """One measured figure.

    Attributes:
      name: as in results.json.
      value: None where it could not be measured here; `note` then says why.
      unit: of value and target.
      target: of a ratio within one run, a share or a size, which other machines can hold too; None for figures that are
        only recorded, as all times are.
      best: whether a value "at least" or "at most" the target holds.
    """

    name: str
    value: float | None
    unit: str
    target: float | None = None
    best: Literal["at least", "at most"] = "at most"
    note: str = ""

    @property
    def holds(self) -> bool | None:
        """Whether the target holds; None where there is no target or no value."""
        if self.value is None or self.target is None:
            return None
        return self.value >= self.target if self.best == "at least" else self.value <= self.target

    @property
    def held(self) -> str:
        """The machines on which the target has held so far; "" where there is no target."""
        return "" if self.target is None else held_on(self.name)

    def record(self, command: str) -> dict[str, Any]:
        """The entry of results.json."""
        plain = asdict(self)
        name = plain.pop("name")
        return {**plain, "holds": self.holds, "held": self.held, "command": f"{command}  # {name}"}


def one_thread() -> None:
    """Sets torch to one thread, so that CPU time measures the work."""
    torch.set_num_threads(1)


def in_turns(rivals: dict[str, Callable[[], Any]], *, calls: int, rounds: int) -> dict[str, list[float]]:
    """Returns CPU seconds per call of each rival and round; the rivals alternate, so that noise affects all alike.

    Args:
      rivals: what to call, by name.
      calls: calls of one rival in a round.
      rounds: how often all take their turn, after one more that is not counted.
    """
    seconds: dict[str, list[float]] = {name: [] for name in rivals}
    for turn in range(rounds + 1):
        for name, call in rivals.items():
            begin = time.process_time()
            for _ in range(calls):
                call()
            if turn:
                seconds[name].append((time.process_time() - begin) / calls)
    return seconds


def used_by(program: str) -> float:
    """Returns the CPU seconds of a fresh Python that runs a program."""
    before = _children()
    subprocess.run([sys.executable, "-c", program], check=True)
    return _children() - before


def _children() -> float:
    used = resource.getrusage(resource.RUSAGE_CHILDREN)
    return used.ru_utime + used.ru_stime


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios by round, because both calls of a round meet the same load."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def machine() -> dict[str, Any]:
    """The machine on which the figures were measured."""
    return {
        "processor": processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }


def processor() -> str:
    """Returns maker, family and model of the processor where Linux tells them, else the kind of machine."""
    told = Path("/proc/cpuinfo")
    pairs = (line.partition(":") for line in told.read_text().splitlines()) if told.exists() else ()
    known = {name.strip(): value.strip() for name, _, value in reversed(list(pairs))}
    if "cpu family" not in known:
        return platform.machine()
    return f"{known['model name']}, family {known['cpu family']}, model {known['model']}"
