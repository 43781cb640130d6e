"""One record of the gridlock Lab: two methods on the same samples, with their histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.gridlock.grid_points import FOUND, WINDOW, converged
from moe_lab.training import Snapshot
from moe_lab_widgets.engine.pair import History, Pair

METHODS = ("spectral", "joint")


@dataclass(frozen=True)
class Frame(Pair):
    """The spectral method with the EM after it ("spectral"), and joint EM ("joint").

    Attributes:
      power: iterations of the power method in all, after which the spectral method's EM begins.
      total: iterations of joint EM in all.
      best: (trial,) errors reached by EM from the true parameters; None before it begins.
    """

    names: ClassVar[tuple[str, str]] = METHODS
    power: int
    total: int
    best: NDArray[np.float64] | None = None

    @property
    def spectral(self) -> Snapshot:
        return self.first[-1]

    @property
    def joint(self) -> Snapshot | None:
        """Joint EM; None in the first record."""
        return self.of("joint")

    @property
    def seeking(self) -> bool:
        """Whether the spectral method is still in its power iterations."""
        return self.spectral.step <= self.power

    @property
    def last_power(self) -> Snapshot:
        """The latest Snapshot of the power iterations."""
        return next(shot for shot in reversed(self.first) if shot.step <= self.power)

    def errors(self, method: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns (m,) iterations of EM and (m, trial) the errors after them, from the first iterate of EM on."""
        first = self.power if method == "spectral" else 0
        shots = [shot for shot in self.shots(method) if shot.step >= first]
        steps = np.array([shot.step - first for shot in shots], dtype=np.int64)
        return steps, np.array([shot["error"] for shot in shots]).reshape(len(shots), self.trials)

    def components(self, trial: int) -> list[NDArray[np.float64]]:
        """Returns for each component, in the order of the search, its best |cos| after each power iteration.

        Snapshots have estimates in the order of the true regressors, so the component that an iteration moved is the
        estimate that differs from all estimates before it.
        """
        shots = [shot["cosines"][trial] for shot in self.first if shot.step <= self.power]
        cosines = np.nan_to_num(np.array(shots)).swapaxes(-1, -2)  # (shot, estimate, true); 0 where not sought yet
        now, before = cosines[1:], cosines[:-1]
        sought = now.any(2)
        apart = np.abs(now[:, :, None] - before[:, None]).max(3).min(2)
        moved = np.where(sought, apart, -1.0).argmax(1)
        best = now[np.arange(len(now)), moved].max(1)
        starts = np.flatnonzero(np.diff(sought.sum(1)) > 0) + 1
        return np.split(best, starts) if len(best) else []

    def cosines(self, method: str) -> NDArray[np.float64]:
        """Returns (trial, expert, expert) |cos| of each estimate with each true regressor, in matched order."""
        shot = self.of(method)
        found = np.zeros_like(self.spectral["cosines"]) if shot is None else shot["cosines"]
        return np.nan_to_num(found).swapaxes(1, 2)

    def gate_cosines(self, method: str) -> NDArray[np.float64]:
        """Returns (trial, expert - 1) |cos| of each gate with the true one; 0 before they are sought."""
        shot = self.of(method)
        unknown = shot is None or (method == "spectral" and self.seeking)
        return np.nan_to_num(
            np.zeros_like(self.spectral["gate_cosines"]) if unknown or shot is None else shot["gate_cosines"]
        )

    def found(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial, expert) which true regressors have an estimate of |cos| >= `FOUND`."""
        shot = self.of(method)
        if shot is None:
            return np.zeros(self.spectral["cosines"].shape[:2], dtype=bool)
        return np.asarray(np.diagonal(shot["cosines"], axis1=1, axis2=2) >= FOUND)  # NaN is not found

    def converged(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether EM has converged (`grid_points.converged`), after at least `WINDOW` iterations."""
        steps, errors = self.errors(method)
        before = np.flatnonzero(steps <= steps[-1] - WINDOW) if len(steps) else np.zeros(0, dtype=np.int64)
        if not len(before):
            return np.zeros(self.trials, dtype=bool)
        return converged(errors[before[-1]], errors[-1])

    def whole(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether all regressors are found: their fit is at least `FOUND`."""
        shot = self.of(method)
        return np.zeros(self.trials, dtype=bool) if shot is None else np.asarray(shot["regressor_fit"] >= FOUND)

    def stuck(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether EM has converged where a regressor is missing."""
        return self.verdicts(method)[0]

    def falling(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether a regressor is missing and EM runs but has not converged yet."""
        return self.verdicts(method)[1]

    def verdicts(self, method: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns (trial,) `stuck` and (trial,) `falling`."""
        shot, ended, missing = self.of(method), self.converged(method), ~self.whole(method)
        begun = shot is not None and not (method == "spectral" and shot.step < self.power)
        running = np.isfinite(shot["error"]) if shot is not None and begun else np.zeros(self.trials, dtype=bool)
        return ended & missing, ~ended & missing & running


def frames(
    spectral: Iterator[Snapshot],
    joint: Callable[[], Iterator[Snapshot]],
    best: Callable[[], Iterator[NDArray[np.float64]]],
    power: int,
    total: int,
    stride: int = 1,
) -> Iterator[Frame]:
    """Yields two methods record by record: a record of joint EM beside `stride` power iterations or one EM iteration.

    The first record does not wait until joint EM has sampled its data; EM from the truth waits for both. A method that
    has ended adds nothing.
    """
    ours: History = (next(spectral),)
    theirs: History = ()
    floor: NDArray[np.float64] | None = None
    yield Frame(ours, theirs, power, total)
    beside, floors = joint(), best()
    while True:
        new = tuple(islice(spectral, stride if ours[-1].step < power else 1))
        other = tuple(islice(beside, 1))
        ours, theirs = ours + new, theirs + other
        lower = next(floors, None) if ours[-1].step > power else None  # the start is busy enough
        if not new and not other and lower is None:
            return
        floor = floor if lower is None else lower
        yield Frame(ours, theirs, power, total, floor)
