"""One record of the routing-choices Lab: the chosen routing and its rows of comparison at the same step."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moe_lab.patch_routing import RoutedMoE, Run, Samples, train_batch
from moe_lab.training import Snapshot
from moe_lab_widgets.routing_choices.settings import MODELS, STUDY

History = tuple[Snapshot, ...]


@dataclass(frozen=True)
class Frame:
    """See the module's text.

    Attributes:
      shots: the Snapshots of every model so far, by its name.
      routing: of the chosen model.
      places: C, of every expert in a sample.
      total: the most steps that the run can take.
    """

    shots: Mapping[str, History]
    routing: str
    places: int
    total: int

    @property
    def parts(self) -> dict[str, Snapshot]:
        """The latest Snapshot of every model."""
        return {name: shots[-1] for name, shots in self.shots.items()}

    @property
    def study(self) -> Snapshot:
        return self.shots[STUDY][-1]

    @property
    def trials(self) -> int:
        return self.study.trials

    @property
    def step(self) -> int:
        """Of the model that has come furthest."""
        return max(shot.step for shot in self.parts.values())

    @property
    def ended(self) -> bool:
        """Whether no trial of any model is still training."""
        return len(self.shots) == len(MODELS) and shots_ended(self.shots)

    def measured(self, name: str, measure: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the steps (records,) at which a model was measured, and the values (records, trial)."""
        shots = self.shots.get(name, ())
        steps = np.array([shot.step for shot in shots], dtype=np.int64)
        return steps, np.array([shot[measure] for shot in shots]).reshape(len(shots), self.trials)

    def latest(self, name: str, measure: str) -> NDArray[np.float64]:
        """Returns the latest values (trial,) of a model, NaN before it has begun."""
        shots = self.shots.get(name, ())
        return np.asarray(shots[-1][measure]) if shots else np.full(self.trials, np.nan)


def frames(runs: Mapping[str, Run], drawn: tuple[Samples, Samples]) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record, on the same samples.

    The first record has the chosen model alone, so that it is there soon, and the next ones add its rows of comparison.
    A model all of whose trials have ended adds nothing.
    """
    model, first = runs[STUDY].model, runs[STUDY]
    assert isinstance(model, RoutedMoE)
    about = model.routing, model.places(first.task.patches), first.epochs * -(-first.samples // model.batch_size)
    running: dict[str, Iterator[Snapshot]] = {}
    shots: dict[str, History] = {}
    for name, run in runs.items():
        running[name] = train_batch([run], drawn)
        shots = {**shots, name: (next(running[name]),)}
        yield Frame(shots, *about)
    while not shots_ended(shots):
        shots = {
            name: history if history[-1].finished.all() else (*history, next(running[name]))
            for name, history in shots.items()
        }
        yield Frame(shots, *about)


def shots_ended(shots: Mapping[str, History]) -> bool:
    """Returns whether no trial of any model is still training."""
    return all(history[-1].finished.all() for history in shots.values())
