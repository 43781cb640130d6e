"""Training as a stream of Snapshots (chen2022, algorithm 1; Adam for the single expert)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moe_lab.core import training
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Snapshot
from moe_lab.core.training import groups_of
from moe_lab.specialization.arrays import ArrayTask
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.learners import ClusterLearner, MixtureLearner, SingleLearner, trials_at_once
from moe_lab.specialization.measures import MEASURES, TOP_K_MEASURES
from moe_lab.specialization.model import SingleExpert
from moe_lab.specialization.run import ClusterRun, Model


@with_settings_of(ClusterRun)
def train(model: Model, task: ClusterTask | ArrayTask, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.specialization import ClusterTask, SwitchMoE, train
    >>> for snapshot in train(SwitchMoE(), ClusterTask.setting(3), samples=2000, trials=5, seed=0):
    ...     entropy = snapshot["dispatch_entropy"]  # (trial,)

    Args:
      model: SwitchMoE, SingleExpert or TopKMoE.
      task: ClusterTask, or ArrayTask for samples of your own.
      settings: the other parameters of `ClusterRun`: samples, trials, seed, steps, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(ClusterRun(model=model, task=task, **settings))


def train_run(run: ClusterRun) -> Iterator[Snapshot]:
    """Runs `train` for a given ClusterRun."""
    return ClusterTraining(run).snapshots()


class ClusterTraining(training.Training[ClusterLearner]):
    """The trials of a run in training, in groups that fit in the processor's cache, or in a device."""

    def __init__(self, run: ClusterRun) -> None:
        learner = SingleLearner if isinstance(run.model, SingleExpert) else MixtureLearner
        learners = (learner(run, trials) for trials in groups_of(run, trials_at_once(run)))
        super().__init__(run, MEASURES | TOP_K_MEASURES, learners, stops=run.why_it_stops)
