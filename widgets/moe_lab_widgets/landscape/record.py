"""What one frame of the landscape Lab shows: two losses descended from the same start, and how they came there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.landscape.planes import Plane, flat, lengths, plane
from moe_lab.recovery.landscape.run import L4Loss, LossRun
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, stuck_at
from moe_lab.training import Snapshot

METHODS = ("L4", "l2")


@dataclass
class Past:
    """All Snapshots of both descents so far. It grows while the run goes on; a Frame reads its first part.

    Attributes:
      runs: the descent of each loss.
      shots: the Snapshots of each.
    """

    runs: dict[str, LossRun]
    shots: dict[str, list[Snapshot]] = field(default_factory=lambda: {method: [] for method in METHODS})

    @property
    def total(self) -> int:
        """Steps in all."""
        return self.runs["L4"].model.steps

    def lengths(self) -> NDArray[np.float64]:
        """(trial, expert) how long the rows of L4's minimiser are; 0 where its delta is too large."""
        run = self.runs["L4"]
        assert isinstance(run.model, L4Loss)
        return lengths(run.task.parameters(run.trial_numbers, run.seed), run.model.weights)

    def plane(self, method: str, trial: int) -> Plane:
        """The plane on which a trial's path is shown."""
        return plane(self.runs[method], trial)


@dataclass(frozen=True)
class Frame:
    """One record of the Lab.

    Attributes:
      index: how many records came before this one in its run.
      counts: how many Snapshots each descent had.
      past: where they are.
    """

    index: int
    counts: dict[str, int]
    past: Past

    @property
    def step(self) -> int:
        return self.l4.step

    @property
    def l4(self) -> Snapshot:
        return self.past.shots["L4"][self.counts["L4"] - 1]

    @property
    def trials(self) -> int:
        return len(self.l4.diverged)

    def shots(self, method: str) -> list[Snapshot]:
        """The Snapshots of a descent up to now."""
        return self.past.shots[method][: self.counts[method]]

    def of(self, method: str) -> Snapshot | None:
        """The present Snapshot of a descent; l2 has none in the first frame."""
        return self.past.shots[method][self.counts[method] - 1] if self.counts[method] else None

    def ended(self, method: str) -> bool:
        shot = self.of(method)
        return shot is not None and bool(shot.finished.all())

    def errors(self, method: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """(record,) steps, and (record, trial) regressor errors."""
        shots = self.shots(method)
        steps = np.array([shot.step for shot in shots], dtype=np.int64)
        return steps, np.array([shot["regressor_error"] for shot in shots]).reshape(len(shots), self.trials)

    def path(self, method: str, trial: int) -> NDArray[np.float64]:
        """(record, m) what the descent of a trial has moved; records that diverged are left out."""
        shots = self.shots(method)
        if not shots:
            return np.zeros((0, 0))
        points = flat(method, *(np.stack([shot[name][trial] for shot in shots]) for name in ("rows", "gates")))
        return points[np.isfinite(points).all(1)]

    def found(self, method: str) -> NDArray[np.bool_]:
        """(trial,) whether the error is at most `STUCK_ERROR`."""
        shot = self.of(method)
        return np.zeros(self.trials, dtype=bool) if shot is None else shot["regressor_error"] <= STUCK_ERROR

    def verdicts(self, method: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """(trial,) stuck, and still falling, by `stuck_at`, which asks where a descent ends: nobody is before that."""
        _, errors = self.errors(method)
        if not self.ended(method) or len(errors) < 2:
            return np.zeros(self.trials, dtype=bool), np.zeros(self.trials, dtype=bool)
        stuck, falling = stuck_at(errors)
        return stuck, falling


def side_by_side(l4: Iterator[Snapshot], l2: Callable[[], Iterator[Snapshot]], past: Past) -> Iterator[Frame]:
    """Two descents record by record; the first frame does not wait until l2 has drawn its samples.

    When one has ended it stays where it is.
    """
    past.shots["L4"].append(next(l4))
    index = 0

    def frame() -> Frame:
        return Frame(index, {method: len(past.shots[method]) for method in METHODS}, past)

    yield frame()
    beside = l2()
    past.shots["l2"].append(next(beside))
    while True:
        index += 1
        yield frame()
        before = frame().counts
        for shots, run in ((past.shots["L4"], l4), (past.shots["l2"], beside)):
            shot = next(run, None)
            if shot is not None:
                shots.append(shot)
        if frame().counts == before:
            return
