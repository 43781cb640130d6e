"""One record of the router-alignment Lab: a pMoE and a CNN at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from itertools import islice
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot
from moe_lab_widgets.engine.pair import Pair, side_by_side


@dataclass(frozen=True)
class Frame(Pair):
    """A pMoE ("joint") and a CNN ("cnn").

    Attributes:
      total: the most steps that the run can take.
    """

    names: ClassVar[tuple[str, str]] = ("joint", "cnn")
    total: int

    @property
    def joint(self) -> Snapshot:
        return self.first[-1]

    @property
    def cnn(self) -> Snapshot:
        return self.second[-1]

    def accuracy(self, model: str) -> NDArray[np.float64]:
        """Returns the test accuracy (records, trial) of "joint" or "cnn"."""
        return self.measured(model, "test_accuracy")

    def alignment(self) -> NDArray[np.float64]:
        """Returns the cosines (records, trial, expert, class) of routers and class patterns."""
        return self.measured("joint", "alignment")

    @property
    def moved(self) -> float:
        """The largest change of any router's cosines since the start."""
        change = self.joint["alignment"] - self.first[0]["alignment"]
        return float(np.nanmax(np.abs(change), initial=0.0))


def frames(joint: Iterator[Snapshot], cnn: Iterator[Snapshot], total: int) -> Iterator[Frame]:
    """Yields two runs with the same `record_every`, record by record, both from the first record on."""
    for histories in islice(side_by_side(joint, lambda: cnn), 1, None):
        yield Frame(*histories, total)
