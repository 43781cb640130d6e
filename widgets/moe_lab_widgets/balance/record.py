"""One record of the balance Lab: five mixtures at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moe_lab.specialization import Run, train_run
from moe_lab.training import Snapshot
from moe_lab_widgets.balance.settings import NONE

History = tuple[Snapshot, ...]


@dataclass(frozen=True)
class Frame:
    """See the module's text.

    Attributes:
      shots: the Snapshots of every mixture so far, by the name of its balancing; the first record has none of those
        with a balancing.
      total: the steps of the whole run.
    """

    shots: Mapping[str, History]
    total: int

    @property
    def parts(self) -> dict[str, Snapshot]:
        """The latest Snapshot of every mixture."""
        return {name: shots[-1] for name, shots in self.shots.items()}

    @property
    def trials(self) -> int:
        return self.shots[NONE][-1].trials

    @property
    def step(self) -> int:
        """Of the mixture that has come furthest."""
        return max(shot.step for shot in self.parts.values())

    @property
    def experts(self) -> int:
        return int(self.shots[NONE][-1]["expert_load"].shape[1])

    def of(self, name: str) -> Snapshot | None:
        """Returns the latest Snapshot of a mixture; None before it has begun."""
        return self.parts.get(name)

    def measured(self, name: str, measure: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the steps (records,) of a mixture, and a measure (records, trial, ...)."""
        shots = self.shots.get(name, ())
        like = self.shots[NONE][-1][measure]
        steps = np.array([shot.step for shot in shots], dtype=np.int64)
        return steps, np.array([shot[measure] for shot in shots]).reshape(len(shots), *like.shape)

    def last(self, name: str, measure: str) -> NDArray[np.float64]:
        """Returns the latest values (trial,) of a measure, NaN before a mixture has begun."""
        part = self.of(name)
        return np.full(self.trials, np.nan) if part is None else part[measure]

    def worth(self, name: str) -> NDArray[np.float64]:
        """Returns (trial,) the number of equally loaded experts whose load has the same entropy."""
        return np.exp(self.last(name, "load_entropy"))


def frames(runs: Mapping[str, Run], total: int) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record; a mixture whose trials have all ended adds nothing.

    The first record has the mixture without balancing alone: it does not wait until the others have their samples.
    """
    running = {NONE: train_run(runs[NONE])}
    shots: dict[str, History] = {NONE: (next(running[NONE]),)}
    yield Frame(shots, total)
    running |= {name: train_run(run) for name, run in runs.items() if name != NONE}
    shots = {**shots, **{name: (next(run),) for name, run in running.items() if name != NONE}}
    while True:
        yield Frame(shots, total)
        if all(history[-1].finished.all() for history in shots.values()):
            return
        shots = {
            name: history if history[-1].finished.all() else (*history, next(running[name]))
            for name, history in shots.items()
        }
