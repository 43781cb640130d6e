"""What one frame of the router-alignment Lab shows: a pMoE and a CNN at the same step, and how they came there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot


@dataclass
class Past:
    """All so far that a picture draws as a line. It grows while the run goes on; a Frame reads its first part."""

    steps: list[int] = field(default_factory=list)
    joint: list[NDArray[np.float64]] = field(default_factory=list)
    cnn: list[NDArray[np.float64]] = field(default_factory=list)
    alignment: list[NDArray[np.float64]] = field(default_factory=list)

    def add(self, step: int, joint: Snapshot, cnn: Snapshot) -> None:
        self.steps.append(step)
        self.joint.append(joint["test_accuracy"])
        self.cnn.append(cnn["test_accuracy"])
        self.alignment.append(joint["alignment"])


@dataclass(frozen=True)
class Frame:
    """One record of the Lab: both models at a step.

    Attributes:
      index: how many records came before this one in its run.
      step: updates done by the model that is still training.
      joint, cnn: their Snapshots; of a model that has ended, its last.
      total: the most steps that the run can take.
      past: what both did until now. It is shared by all records of a run and may already hold later ones.
      ended: whether no trial of either model is still training.
    """

    index: int
    step: int
    total: int
    joint: Snapshot
    cnn: Snapshot
    past: Past
    ended: bool

    @property
    def steps(self) -> NDArray[np.int64]:
        """(records,) the steps of the records up to this one."""
        return np.array(self.past.steps[: self.index + 1])

    def accuracy(self, model: str) -> NDArray[np.float64]:
        """(records, trial) test accuracy of "joint" or "cnn" up to this record."""
        return np.array(getattr(self.past, model)[: self.index + 1])

    def alignment(self) -> NDArray[np.float64]:
        """(records, trial, expert, class) cosines of routers and class patterns up to this record."""
        return np.array(self.past.alignment[: self.index + 1])

    @property
    def moved(self) -> float:
        """How far the cosines of any router are from where they began."""
        change = self.joint["alignment"] - self.past.alignment[0]
        return float(np.nanmax(np.abs(change), initial=0.0))


def side_by_side(joint: Iterator[Snapshot], cnn: Iterator[Snapshot], total: int) -> Iterator[Frame]:
    """Two runs with the same `record_every`, record by record. When one has ended it stays where it is."""
    past, index = Past(), 0
    left, right = next(joint), next(cnn)
    while True:
        step = max(left.step, right.step)
        ended = bool(left.finished.all() and right.finished.all())
        past.add(step, left, right)
        yield Frame(index, step, total, left, right, past, ended)
        new_left, new_right = next(joint, None), next(cnn, None)
        if new_left is None and new_right is None:
            return
        left, right, index = new_left or left, new_right or right, index + 1
