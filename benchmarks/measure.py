"""Measures CPU time of one thread, with alternating rivals and medians."""

from __future__ import annotations

import os
import statistics
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import asdict, dataclass
from typing import Any, Literal

import torch


@dataclass(frozen=True)
class Result:
    """One measured figure.

    Attributes:
      name: as in results.json.
      value: None where it could not be measured here; `note` then says why.
      unit: of value and target.
      target: None for figures that are only recorded.
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

    def record(self, command: str) -> dict[str, Any]:
        """The entry of results.json."""
        plain = asdict(self)
        name = plain.pop("name")
        return {**plain, "holds": self.holds, "command": f"{command}  # {name}"}


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


def ratio(above: Sequence[float], below: Sequence[float]) -> float:
    """The median of the ratios by round, because both calls of a round meet the same load."""
    return statistics.median(a / b for a, b in zip(above, below, strict=True))


def machine() -> dict[str, Any]:
    """The machine on which the figures were measured."""
    return {
        "processor": _processor(),
        "cores": os.cpu_count(),
        "device": torch.cuda.get_device_name() if torch.cuda.is_available() else "no GPU",
        "python": sys.version.split()[0],
        "torch": torch.__version__,
        "load": round(os.getloadavg()[0], 1),
    }


def _processor() -> str:
    import platform

    return platform.machine()
