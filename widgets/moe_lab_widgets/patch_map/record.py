"""One record of the patch-map Lab: WRN-pMoE and its controls at the same step, with their histories."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot
from moe_lab.vision.patches.run import Run
from moe_lab.vision.patches.training import train_run
from moe_lab_widgets.patch_map.settings import MODELS, NO_GATE, STUDY

History = tuple[Snapshot, ...]


@dataclass(frozen=True)
class Frame:
    """See the module's text.

    Attributes:
      shots: the Snapshots of every model so far, by its name.
      gates: of the model under study: "learned", "none", "random" or "soft".
      total: the most steps that the run can take.
    """

    shots: Mapping[str, History]
    gates: str
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

    @property
    def share(self) -> str:
        """The measure of what lies in the object: of kept patches, or of gates where all patches are kept."""
        return "gate_in_object" if self.gates == "soft" else "kept_in_object"

    def measured(self, name: str, measure: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the steps (records,) at which a model was measured, and the values (records, trial)."""
        shots = [shot for shot in self.shots.get(name, ()) if measure in shot.values]
        steps = np.array([shot.step for shot in shots], dtype=np.int64)
        return steps, np.array([shot[measure] for shot in shots]).reshape(len(shots), self.trials)

    def accuracy(self, name: str) -> NDArray[np.float64]:
        """Returns the latest measured test accuracy (trial,) of a model, NaN before it has begun."""
        values = self.measured(name, "test_accuracy")[1]
        return values[-1] if len(values) else np.full(self.trials, np.nan)

    def ahead(self) -> int:
        """Returns in how many trials the model under study is more accurate than the one without gates."""
        return int((self.accuracy(STUDY) > self.accuracy(NO_GATE)).sum())


def frames(runs: Mapping[str, Run], gates: str, total: int) -> Iterator[Frame]:
    """Yields runs with the same `record_every`, record by record, as `compare` takes them.

    The first record has the model under study alone, the next two add its controls: none waits until another model has
    its samples. A model all of whose trials have ended adds nothing.
    """
    running: dict[str, Iterator[Snapshot]] = {}
    shots: dict[str, History] = {}
    for name, run in runs.items():
        running[name] = train_run(run)
        shots = {**shots, name: (next(running[name]),)}
        yield Frame(shots, gates, total)
    while not shots_ended(shots):
        shots = {
            name: history if history[-1].finished.all() else (*history, next(running[name]))
            for name, history in shots.items()
        }
        yield Frame(shots, gates, total)


def shots_ended(shots: Mapping[str, History]) -> bool:
    """Returns whether no trial of any model is still training."""
    return all(history[-1].finished.all() for history in shots.values())
