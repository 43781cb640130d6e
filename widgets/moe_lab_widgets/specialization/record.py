"""One record of the specialisation Lab: two mixtures at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot
from moe_lab_widgets.engine.pair import Pair, side_by_side

IDLE = 0.01
"""Share of the samples below which an expert is called idle."""
FALL = 0.03
"""How far the accuracy of a collapsed trial lies below its best."""
FOUND = 0.95
"""Accuracy that a trial must have reached before a fall counts as a collapse."""


@dataclass(frozen=True)
class Frame(Pair):
    """The model under study ("study") and the one beside it ("reference").

    Attributes:
      activations: of the model under study and of the reference.
      total: the steps of the whole run.
    """

    names: ClassVar[tuple[str, str]] = ("study", "reference")
    activations: tuple[str, str]
    total: int

    @property
    def study(self) -> Snapshot:
        return self.first[-1]

    @property
    def reference(self) -> Snapshot | None:
        """The model beside it; None in the first record."""
        return self.of("reference")

    def collapsed(self, model: str) -> NDArray[np.bool_]:
        """Returns (trial,) whether the accuracy is `FALL` below its best."""
        accuracy = self.measured(model, "test_accuracy")
        if not len(accuracy):
            return np.zeros(self.trials, dtype=bool)
        best = np.fmax.accumulate(accuracy, axis=0)[-1]
        return np.asarray((best >= FOUND) & (best - accuracy[-1] >= FALL))

    def carriers(self, trial: int) -> NDArray[np.bool_]:
        """Returns (expert,) which experts get more than a hundredth of the test samples."""
        return np.asarray(np.nan_to_num(self.study["expert_load"][trial]) >= IDLE)


def frames(
    study: Iterator[Snapshot],
    reference: Callable[[], Iterator[Snapshot]],
    activations: tuple[str, str],
    total: int,
) -> Iterator[Frame]:
    """Yields two runs with the same `record_every`, record by record; the first record has the study alone."""
    for histories in side_by_side(study, reference):
        yield Frame(*histories, activations, total)
