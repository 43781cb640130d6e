"""What one frame of the specialisation Lab shows: two mixtures at the same step, and how they came there."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass, field
from itertools import count

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot

IDLE = 0.01
"""An expert with a smaller share of the samples is called idle."""
FALL = 0.03
"""A trial whose accuracy lies this far under the best that it has had is called collapsed."""
FOUND = 0.95
"""What a trial must have reached before a fall from it counts as a collapse."""


@dataclass
class Past:
    """All Snapshots of both models so far. It grows while the run goes on; a Frame reads its first part.

    Attributes:
      activations: of the model under study and of the reference.
    """

    activations: tuple[str, str]
    steps: list[int] = field(default_factory=list)
    study: list[Snapshot] = field(default_factory=list)
    reference: list[Snapshot] = field(default_factory=list)


@dataclass(frozen=True)
class Frame:
    """One record of the Lab: both models at a step.

    Attributes:
      index: how many records came before this one in its run.
      step: updates done.
      total: the steps of the whole run.
      past: what both models did until now. All records of a run share it, and it may already hold later ones.
    """

    index: int
    step: int
    total: int
    past: Past

    @property
    def study(self) -> Snapshot:
        """The model under study; its last Snapshot where it has ended."""
        return self.past.study[self.index]

    @property
    def reference(self) -> Snapshot | None:
        """The model beside it; None at the first frame, which does not wait for it."""
        return self.past.reference[self.index] if len(self.past.reference) > self.index else None

    @property
    def ended(self) -> bool:
        """Whether no trial of either model is still training."""
        return self.reference is not None and bool(self.study.finished.all() and self.reference.finished.all())

    @property
    def steps(self) -> NDArray[np.int64]:
        """(records,) the steps of the records up to this one."""
        return np.array(self.past.steps[: self.index + 1])

    def values(self, model: str, name: str) -> NDArray[np.float64]:
        """(records, trial ...) a measure of "study" or "reference" up to this record."""
        shots = getattr(self.past, model)[: self.index + 1]
        return np.array([shot[name] for shot in shots]).reshape(len(shots), *self.study[name].shape)

    def collapsed(self, model: str) -> NDArray[np.bool_]:
        """(trial,) whether a trial has lost what it had found: its accuracy is `FALL` under its best."""
        accuracy = self.values(model, "test_accuracy")
        if not len(accuracy):
            return np.zeros(self.study.trials, dtype=bool)
        best = np.fmax.accumulate(accuracy, axis=0)[-1]
        return np.asarray((best >= FOUND) & (best - accuracy[-1] >= FALL))

    def carriers(self, trial: int) -> NDArray[np.bool_]:
        """(expert,) which experts get more than a hundredth of the test samples."""
        return np.asarray(np.nan_to_num(self.study["expert_load"][trial]) >= IDLE)


def side_by_side(
    study: Iterator[Snapshot],
    reference: Callable[[], Iterator[Snapshot]],
    activations: tuple[str, str],
    total: int,
) -> Iterator[Frame]:
    """Two runs with the same `record_every`, record by record. When one has ended it stays where it is.

    The first frame does not wait until the reference has drawn its samples.
    """
    past = Past(activations)
    left = next(study)
    past.steps.append(left.step)
    past.study.append(left)
    yield Frame(0, left.step, total, past)
    beside = reference()
    right = next(beside)
    past.reference.append(right)
    for index in count(1):
        new_left, new_right = next(study, None), next(beside, None)
        if new_left is None and new_right is None:
            return
        left, right = new_left or left, new_right or right
        past.steps.append(max(left.step, right.step))
        past.study.append(left)
        past.reference.append(right)
        yield Frame(index, past.steps[-1], total, past)
