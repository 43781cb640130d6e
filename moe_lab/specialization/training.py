"""Training as a stream of Snapshots (chen2022, algorithm 1; Adam for the single expert)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.memory import trials_in_groups
from moe_lab.core.origins import origin_of
from moe_lab.core.signatures import takes
from moe_lab.core.training import Snapshot, TrialProgress, joined
from moe_lab.core.trials import in_groups, on_one_thread, placement
from moe_lab.specialization import model as models
from moe_lab.specialization.arrays import ArrayTask
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.learners import Learner, SingleLearner, SwitchLearner, block_size, samples_of
from moe_lab.specialization.measures import MEASURES, TOP_K_MEASURES
from moe_lab.specialization.run import Model, Run
from moe_lab.specialization.topk import TopKMoE
from moe_lab.specialization.topk_learner import TopKLearner


@takes(Run)
def train(model: Model, task: ClusterTask | ArrayTask, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.specialization import ClusterTask, SwitchMoE, train
    >>> for snapshot in train(SwitchMoE(), ClusterTask.setting(3), samples=2000, trials=5, seed=0):
    ...     entropy = snapshot["dispatch_entropy"]  # (trial,)

    Args:
      model: SwitchMoE, SingleExpert or TopKMoE.
      task: ClusterTask, or ArrayTask for samples of your own.
      settings: the other parameters of `Run`: samples, trials, seed, steps, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(Run(model=model, task=task, **settings))


def train_run(run: Run) -> Iterator[Snapshot]:
    """Runs `train` for a given Run."""
    device, _ = placement(run)
    return on_one_thread(Training(run).snapshots(), device)  # a step takes blocks of samples too small to share


class Training(TrialProgress):
    """The trials of a run in training, in groups that fit in the processor's cache block by block, or in a device."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.trials, MEASURES | TOP_K_MEASURES)
        self.run, (self.device, _) = run, placement(run)
        there = on_accelerator(self.device)
        size = trials_in_groups(run.memory, run.trials, self.device) if there else block_size(run, run.samples)[0]
        self.groups = [self._learner(trials) for trials in in_groups(run.trial_numbers, size)]

    def _learner(self, trials: Sequence[int]) -> Learner[Any]:
        run = self.run
        data = samples_of(run, trials, "train"), samples_of(run, trials, "test")
        if isinstance(run.model, models.SwitchMoE):
            return SwitchLearner(run, run.model, trials, *data)
        if isinstance(run.model, TopKMoE):
            return TopKLearner(run, run.model, trials, *data)
        return SingleLearner(run, run.model, trials, *data)

    def snapshots(self) -> Iterator[Snapshot]:
        """Step 0, every `record_every` steps, and the end."""
        origin = origin_of(self.run, self.device, stops=self.run.why_it_stops)
        if self.run.measure == "every":
            self._measure()
        yield self.snapshot(origin)
        while self.step < self.run.last_step and not self.finished.all():
            self._advance(min(self.run.record_every, self.run.last_step - self.step))
            yield self.snapshot(origin)

    def _advance(self, steps: int) -> None:
        for group in self.groups:
            if group.active.any():
                group.advance(steps)
        self.step += steps
        taken = joined(group.steps for group in self.groups).astype(np.int64)
        self.steps = np.where(self.finished, self.steps, taken)
        self.diverged |= ~np.isfinite(joined(group.loss for group in self.groups))
        self.finished |= self.diverged | (joined(group.active for group in self.groups) == 0)
        if self.step >= self.run.last_step:
            self.finished[:] = True
        if self.finished.all() or self.run.measure == "every":
            self._measure()

    def _measure(self) -> None:
        measured = [group.evaluate() for group in self.groups]
        values = {name: joined(part[name] for part in measured) for name in measured[0]}
        if self.step == 0 or self.finished.all():
            accuracy, loss = zip(*(group.training_error() for group in self.groups), strict=True)
            values["train_accuracy"], values["train_loss"] = joined(accuracy), joined(loss)
            self.diverged |= ~np.isfinite(values["train_loss"])  # the last step may have broken them
        else:
            values["train_accuracy"] = joined(group.right for group in self.groups) / self.run.samples
            values["train_loss"] = joined(group.loss for group in self.groups)
        self.record(values)
