"""Training as a stream of Snapshots (chen2022, algorithm 1; Adam for the single expert)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from moe_lab.origins import origin_of
from moe_lab.specialization import model as models
from moe_lab.specialization.data import ClusterTask
from moe_lab.specialization.learners import Learner, SingleLearner, SwitchLearner, block_size, samples_of
from moe_lab.specialization.measures import MEASURES
from moe_lab.specialization.run import Run
from moe_lab.training import Snapshot
from moe_lab.trials import choose_device, choose_dtype, threads_for


def train(model: models.Model, task: ClusterTask, **settings: Any) -> Iterator[Snapshot]:
    """Trains a model on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.specialization import ClusterTask, SwitchMoE, train
    >>> for snapshot in train(SwitchMoE(), ClusterTask.setting(3), samples=2000, trials=5, seed=0):
    ...     entropy = snapshot["dispatch_entropy"]  # (trial,)

    Args:
      model: SwitchMoE or SingleExpert.
      task: ClusterTask.
      settings: the other parameters of `Run`: samples, trials, seed, steps, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(Run(model=model, task=task, **settings))


def train_run(run: Run) -> Iterator[Snapshot]:
    """`train` for a Run that is made already."""
    choose_dtype(run.precision, choose_device(run.device))
    return _Training(run).snapshots()


class _Training:
    """The trials of a run on their way, in groups that the device likes."""

    def __init__(self, run: Run) -> None:
        self.run, self.device = run, choose_device(run.device)
        trials = run.trial_numbers
        size = len(trials) if self.device.type != "cpu" else block_size(run, run.samples)[0]
        self.groups = [self._learner(trials[begin : begin + size]) for begin in range(0, len(trials), size)]
        self.finished, self.diverged = np.zeros(run.trials, dtype=bool), np.zeros(run.trials, dtype=bool)
        self.steps = np.zeros(run.trials, dtype=np.int64)
        self.values: dict[str, np.ndarray] = {}
        self.step = 0

    def _learner(self, trials: list[int]) -> Learner[Any]:
        run = self.run
        data = samples_of(run, trials, "train"), samples_of(run, trials, "test")
        if isinstance(run.model, models.SwitchMoE):
            return SwitchLearner(run, run.model, trials, *data)
        return SingleLearner(run, run.model, trials, *data)

    def snapshots(self) -> Iterator[Snapshot]:
        with self._threads():
            if self.run.measure == "every":
                self._measure()
        yield self._snapshot()
        while self.step < self.run.last_step and not self.finished.all():
            with self._threads():  # not across the yield: the consumer keeps its own threads
                self._advance(min(self.run.record_every, self.run.last_step - self.step))
            yield self._snapshot()

    def _advance(self, steps: int) -> None:
        for group in self.groups:
            if group.active.any():
                group.advance(steps)
        self.step += steps
        taken = self._joined([group.steps for group in self.groups]).astype(np.int64)
        self.steps = np.where(self.finished, self.steps, taken)
        self.diverged |= ~np.isfinite(self._joined([group.loss for group in self.groups]))
        self.finished |= self.diverged | (self._joined([group.active for group in self.groups]) == 0)
        if self.step >= self.run.last_step:
            self.finished[:] = True
        if self.finished.all() or self.run.measure == "every":
            self._measure()

    def _threads(self) -> Any:
        """One torch thread: a step goes through its samples in blocks too small to share."""
        return threads_for(0, self.device)

    # What a Snapshot holds -------------------------------------------------------------------------------------------

    @staticmethod
    def _joined(parts: list[Tensor]) -> np.ndarray:
        return np.concatenate([part.detach().cpu().numpy() for part in parts]).astype(float)

    def _measure(self) -> None:
        measured = [group.evaluate() for group in self.groups]
        values = {name: self._joined([part[name] for part in measured]) for name in measured[0]}
        if self.step == 0 or self.finished.all():
            accuracy, loss = zip(*(group.training_error() for group in self.groups), strict=True)
            values["train_accuracy"], values["train_loss"] = self._joined(list(accuracy)), self._joined(list(loss))
            self.diverged |= ~np.isfinite(values["train_loss"])  # the last step may have broken them
        else:
            values["train_accuracy"] = self._joined([group.right for group in self.groups]) / self.run.samples
            values["train_loss"] = self._joined([group.loss for group in self.groups])
        for value in values.values():
            value[self.diverged] = np.nan
        self.values = values

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            step=self.step,
            values={name: value.copy() for name, value in self.values.items()},
            measures={name: MEASURES[name] for name in self.values},
            steps=self.steps.copy(),
            finished=self.finished.copy(),
            diverged=self.diverged.copy(),
            coords={},
            origin=origin_of(self.run, self.device, stops=self.run.why_it_stops),
        )
