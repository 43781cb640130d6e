"""One record of the landscape Lab: two losses descended from the same start, with their histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.recovery.landscape.planes import Plane, flat, lengths, plane
from moe_lab.recovery.landscape.run import L4Loss, LossRun
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, stuck_at
from moe_lab.training import Snapshot
from moe_lab_widgets.engine.pair import Pair, side_by_side

METHODS = ("L4", "l2")


@dataclass(frozen=True)
class Frame(Pair):
    """The descents of L4 and of l2; l2 has no Snapshot in the first record.

    Attributes:
      runs: the descent of each loss.
    """

    names: ClassVar[tuple[str, str]] = METHODS
    runs: tuple[LossRun, LossRun]

    @property
    def total(self) -> int:
        """Steps in all."""
        return self.runs[0].model.steps

    def lengths(self) -> NDArray[np.float64]:
        """Returns (trial, expert) the lengths of the rows of L4's minimiser; 0 where its delta is too large."""
        run = self.runs[0]
        assert isinstance(run.model, L4Loss)
        return lengths(run.task.parameters(run.trial_numbers, run.seed), run.model.weights)

    def plane(self, method: str, trial: int) -> Plane:
        """Returns the plane on which a trial's path is shown."""
        return plane(self.runs[METHODS.index(method)], trial)

    def finished(self, method: str) -> bool:
        """Whether no trial of a descent is still moving."""
        shot = self.of(method)
        return shot is not None and bool(shot.finished.all())

    def errors(self, method: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns (record,) steps, and (record, trial) regressor errors."""
        shots = self.shots(method)
        steps = np.array([shot.step for shot in shots], dtype=np.int64)
        return steps, np.array([shot["regressor_error"] for shot in shots]).reshape(len(shots), self.trials)

    def path(self, method: str, trial: int) -> NDArray[np.float64]:
        """Returns (record, m) the parameters that a descent moves; records that diverged are left out."""
        shots = self.shots(method)
        if not shots:
            return np.zeros((0, 0))
        points = flat(method, *(np.stack([shot[name][trial] for shot in shots]) for name in ("rows", "gates")))
        return points[np.isfinite(points).all(1)]

    def found(self, method: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether the error is at most `STUCK_ERROR`."""
        shot = self.of(method)
        return np.zeros(self.trials, dtype=bool) if shot is None else shot["regressor_error"] <= STUCK_ERROR

    def verdicts(self, method: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
        """Returns (trial,) stuck and (trial,) still falling by `stuck_at`; False before the descent has ended."""
        _, errors = self.errors(method)
        if not self.finished(method) or len(errors) < 2:
            return np.zeros(self.trials, dtype=bool), np.zeros(self.trials, dtype=bool)
        stuck, falling = stuck_at(errors)
        return stuck, falling


def frames(
    l4: Iterator[Snapshot], l2: Callable[[], Iterator[Snapshot]], runs: tuple[LossRun, LossRun]
) -> Iterator[Frame]:
    """Yields two descents record by record; the first record has L4 alone."""
    for histories in side_by_side(l4, l2):
        yield Frame(*histories, runs)
