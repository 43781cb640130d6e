"""What one frame of the gridlock Lab shows: two methods on the same samples, and how they came there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import islice

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.gridlock.grid_points import FOUND, WINDOW, converged
from moe_lab.training import Snapshot

METHODS = ("spectral", "joint")


@dataclass
class Past:
    """All Snapshots of both methods so far. It grows while the run goes on; a Frame reads its first part.

    Attributes:
      power: iterations of the power method in all, after which the spectral method's EM begins.
      total: iterations of joint EM in all.
      best: (trial,) errors of EM from the true parameters, an array an iteration.
    """

    power: int
    total: int
    spectral: list[Snapshot] = field(default_factory=list)
    joint: list[Snapshot] = field(default_factory=list)
    best: list[NDArray[np.float64]] = field(default_factory=list)
    _curves: dict[int, Curves] = field(default_factory=dict)

    def components(self, trial: int) -> list[list[float]]:
        """For each component, in the order in which they were sought, its best |cos| after each power iteration."""
        curves = self._curves.setdefault(trial, Curves())
        for shot in self.spectral[curves.seen :]:
            if 0 < shot.step <= self.power:
                curves.add(shot["cosines"][trial])
        curves.seen = len(self.spectral)
        return curves.curves


@dataclass
class Curves:
    """Which component a power iteration has moved: a Snapshot has them in the order of the true regressors.

    Attributes:
      curves: for each component its best |cos| with a true regressor, an entry a power iteration.
      seen: Snapshots that were looked at.
    """

    curves: list[list[float]] = field(default_factory=list)
    seen: int = 0
    _last: NDArray[np.float64] | None = None

    def add(self, cosines: NDArray[np.float64]) -> None:
        """Takes the next iteration's (true, estimate) |cos|; estimates not yet sought are 0."""
        columns = cosines[:, cosines.any(0)].T
        if self._last is None or len(columns) > len(self._last):  # a new component
            self.curves.append([])
        known = columns[:0] if self._last is None else self._last
        apart = np.abs(columns[:, None] - known[None]).max(2).min(1, initial=np.inf) if len(columns) else np.zeros(0)
        if len(columns):
            moved = columns[int(np.argmax(apart))]
            self.curves[-1].append(float(moved.max()))
        self._last = columns


@dataclass(frozen=True)
class Frame:
    """One record of the Lab.

    Attributes:
      index: how many records came before this one in its run.
      counts: how many Snapshots each method had, and how many iterations EM from the truth.
      past: what all did until now. All records of a run share it, and it may already hold later ones.
    """

    index: int
    counts: tuple[int, int, int]
    past: Past

    @property
    def spectral(self) -> Snapshot:
        """The spectral method and the EM after it; its last Snapshot where it has ended."""
        return self.past.spectral[self.counts[0] - 1]

    @property
    def joint(self) -> Snapshot | None:
        """Joint EM; None at the first frame, which does not wait for it."""
        return self.past.joint[self.counts[1] - 1] if self.counts[1] else None

    def of(self, method: str) -> Snapshot | None:
        """The Snapshot of "spectral" or "joint"."""
        return self.spectral if method == "spectral" else self.joint

    @property
    def trials(self) -> int:
        return self.spectral.trials

    @property
    def seeking(self) -> bool:
        """Whether the spectral method is still at its power iterations, and has not begun with EM."""
        return self.spectral.step <= self.past.power

    @property
    def ended(self) -> bool:
        """Whether both methods have come to their end."""
        return self.joint is not None and bool(self.spectral.finished.all() and self.joint.finished.all())

    def shots(self, method: str) -> list[Snapshot]:
        """A method's Snapshots up to this record."""
        kept: list[Snapshot] = getattr(self.past, method)
        return kept[: self.counts[METHODS.index(method)]]

    def errors(self, method: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(m,) iterations of EM and (m, trial) the errors after them, from the first iterate of EM on."""
        first = self.past.power if method == "spectral" else 0
        shots = [shot for shot in self.shots(method) if shot.step >= first]
        steps = np.array([shot.step - first for shot in shots], dtype=np.int64)
        return steps, np.array([shot["error"] for shot in shots]).reshape(len(shots), self.trials)

    def best(self) -> NDArray[np.float64] | None:
        """(trial,) the error to which EM from the true parameters has come."""
        return self.past.best[self.counts[2] - 1] if self.counts[2] else None

    def cosines(self, method: str) -> NDArray[np.float64]:
        """(trial, expert, expert) |cos| of each estimate, in the order of the true ones, with each true regressor."""
        shot = self.of(method)
        return np.nan_to_num(np.zeros_like(self.spectral["cosines"]) if shot is None else shot["cosines"]).mT

    def gate_cosines(self, method: str) -> NDArray[np.float64]:
        """(trial, expert - 1) |cos| of each gate with the true one; 0 before the spectral method looks for them."""
        shot = self.of(method)
        unknown = shot is None or (method == "spectral" and self.seeking)
        return np.nan_to_num(
            np.zeros_like(self.spectral["gate_cosines"]) if unknown or shot is None else shot["gate_cosines"]
        )

    def found(self, method: str) -> NDArray[np.bool_]:
        """(trial, expert) which true regressors have an estimate of |cos| >= `FOUND`."""
        return np.asarray(np.diagonal(self.cosines(method), axis1=1, axis2=2) >= FOUND)

    def gates_found(self, method: str) -> NDArray[np.bool_]:
        """(trial, expert - 1) which gates are found."""
        return np.asarray(self.gate_cosines(method) >= FOUND)

    def converged(self, method: str) -> NDArray[np.bool_]:
        """(trial,) whether EM has converged (`cells.converged`); nobody has before it took `WINDOW` iterations."""
        steps, errors = self.errors(method)
        before = np.flatnonzero(steps <= steps[-1] - WINDOW) if len(steps) else np.zeros(0, dtype=np.int64)
        if not len(before):
            return np.zeros(self.trials, dtype=bool)
        return converged(errors[before[-1]], errors[-1])

    def whole(self, method: str) -> NDArray[np.bool_]:
        """(trial,) whether all regressors are found: their fit is at least `FOUND`."""
        shot = self.of(method)
        return np.zeros(self.trials, dtype=bool) if shot is None else np.asarray(shot["regressor_fit"] >= FOUND)

    def stuck(self, method: str) -> NDArray[np.bool_]:
        """(trial,) whether EM has converged where a regressor is missing."""
        return self.converged(method) & ~self.whole(method)

    def falling(self, method: str) -> NDArray[np.bool_]:
        """(trial,) whether a regressor is missing and EM has not converged yet; nothing before EM begins."""
        steps, errors = self.errors(method)
        if not len(steps):
            return np.zeros(self.trials, dtype=bool)
        return ~self.converged(method) & ~self.whole(method) & np.isfinite(errors[-1])


def side_by_side(
    spectral: Iterator[Snapshot],
    joint: Callable[[], Iterator[Snapshot]],
    best: Callable[[], Iterator[NDArray[np.float64]]],
    past: Past,
    stride: int = 1,
) -> Iterator[Frame]:
    """Two methods record by record: each record of joint EM beside `stride` power iterations or one EM iteration.

    The first frame does not wait until joint EM has drawn its samples; EM from the truth waits for both.
    When one has ended it stays where it is.
    """
    past.spectral.append(next(spectral))
    index = 0

    def frame() -> Frame:
        return Frame(index, (len(past.spectral), len(past.joint), len(past.best)), past)

    yield frame()
    beside, floor = joint(), iter(best())
    while True:
        before = len(past.spectral) + len(past.joint) + len(past.best)
        power = past.spectral[-1].step < past.power
        past.spectral.extend(islice(spectral, stride if power else 1))
        past.joint.extend(islice(beside, 1))
        if past.spectral[-1].step > past.power:  # the start is busy enough
            past.best.extend(islice(floor, 1))
        if len(past.spectral) + len(past.joint) + len(past.best) == before:
            return
        index += 1
        yield frame()
