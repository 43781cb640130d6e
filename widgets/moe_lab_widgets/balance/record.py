"""One record of the balance Lab: five mixtures at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from functools import partial

import numpy as np
from numpy.typing import NDArray

from moe_lab.specialization import Run, train_run
from moe_lab.training import Snapshot
from moe_lab_widgets.balance.settings import BALANCINGS, NONE
from moe_lab_widgets.engine.several import Several, histories


@dataclass(frozen=True)
class Frame(Several):
    """See the module's text."""

    models = BALANCINGS

    @property
    def experts(self) -> int:
        return int(self.study["expert_load"].shape[1])

    def of(self, name: str) -> Snapshot | None:
        """Returns the latest Snapshot of a mixture; None before it has begun."""
        return self.parts.get(name)

    def worth(self, name: str) -> NDArray[np.float64]:
        """Returns (trial,) the number of equally loaded experts whose load has the same entropy."""
        return np.exp(self.latest(name, "load_entropy"))


def frames(runs: Mapping[str, Run], total: int) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record; the first has no mixture with a balancing."""
    begin = {name: partial(train_run, run) for name, run in runs.items()}
    alone = {NONE: begin.pop(NONE)}
    for shots in histories([alone, begin]):
        yield Frame(shots, total)
