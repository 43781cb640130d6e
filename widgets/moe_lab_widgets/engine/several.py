"""Labs that run several models side by side on the same samples; the first one is under study."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.pair import History, model_axis

if TYPE_CHECKING:
    import xarray

Begin = Callable[[], Iterator[Snapshot]]


@dataclass(frozen=True)
class Several:
    """One record of several runs: all their Snapshots so far.

    Attributes:
      shots: the Snapshots of every model that has begun, by its name.
      total: the most steps that a run can take.
      models: the names of all models, the one under study first (set by subclasses).
    """

    shots: Mapping[str, History]
    total: int

    models: ClassVar[tuple[str, ...]]

    @property
    def parts(self) -> dict[str, Snapshot]:
        """The latest Snapshot of every model that has begun."""
        return {name: shots[-1] for name, shots in self.shots.items()}

    @property
    def study(self) -> Snapshot:
        """The latest Snapshot of the model under study."""
        return self.shots[self.models[0]][-1]

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
        return len(self.shots) == len(self.models) and _ended(self.shots)

    def measured(self, name: str, measure: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the steps (records,) at which a model was measured, and the values (records, trial, ...)."""
        shots = [shot for shot in self.shots.get(name, ()) if measure in shot.values]
        if not shots:
            shape = self.study[measure].shape if measure in self.study.values else (self.trials,)
            return np.zeros(0, dtype=np.int64), np.zeros((0, *shape))
        return np.array([shot.step for shot in shots]), np.array([shot[measure] for shot in shots])

    def latest(self, name: str, measure: str) -> NDArray[np.float64]:
        """Returns the latest values (trial,) of a measure, NaN before the model was measured."""
        values = self.measured(name, measure)[1]
        return values[-1] if len(values) else np.full(self.trials, np.nan)


def histories(groups: Sequence[Mapping[str, Begin]]) -> Iterator[dict[str, History]]:
    """Yields the histories of runs with the same `record_every`, record by record.

    Args:
      groups: functions that sample the data of a run and begin it. Each group joins in a record of its own, so that the
        first record does not wait until all models have their samples.

    A model all of whose trials have ended adds nothing.
    """
    running: dict[str, Iterator[Snapshot]] = {}
    shots: dict[str, History] = {}
    for group in groups:
        begun = {name: begin() for name, begin in group.items()}
        running |= begun
        shots = {**shots, **{name: (next(run),) for name, run in begun.items()}}
        yield shots
    while not _ended(shots):
        shots = {
            name: history if history[-1].finished.all() else (*history, next(running[name]))
            for name, history in shots.items()
        }
        yield shots


def _ended(shots: Mapping[str, History]) -> bool:
    return all(history[-1].finished.all() for history in shots.values())


class SeveralLab(Lab):
    """A Lab whose records are Severals."""

    def parts(self, record: Any) -> dict[str, Snapshot]:
        return record.parts

    def data(self, records: Sequence[Any]) -> xarray.Dataset:
        """Returns all runs along a `model` axis, with the call that makes each."""
        shots = records[-1].shots
        return model_axis(list(shots), [collect(history) for history in shots.values()])

    def progress(self, record: Any) -> str:
        return f"step {record.step} of {record.total}"
