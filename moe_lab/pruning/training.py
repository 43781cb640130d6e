"""Fine-tuning as a stream of Snapshots (pruning2024, algorithm 1, step 2)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np

from moe_lab.core.origins import origin_of
from moe_lab.core.signatures import takes
from moe_lab.core.training import Snapshot, TrialProgress, joined
from moe_lab.core.trials import in_groups, on_one_thread, placement, threads_for
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.learner import Learner, group_size, start_weights
from moe_lab.pruning.measures import MEASURES, evaluate, measure
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.pruning.run import Run


@takes(Run)
def train(model: TokenMoE, task: TokenTask, **settings: Any) -> Iterator[Snapshot]:
    """Fine-tunes a layer on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.pruning import TokenMoE, TokenTask, train
    >>> for snapshot in train(TokenMoE(), TokenTask(), trials=5, seed=0):
    ...     change = snapshot["norm_change"]  # (trial, expert)

    `pruning.fine_tune` does the same and keeps the weights, to prune them.

    Args:
      settings: the other parameters of `Run`: start, steps, batch, trials, seed, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(Run(model=model, task=task, **settings))


def train_run(run: Run) -> Iterator[Snapshot]:
    """Runs `train` for a given Run."""
    return Training(run).snapshots()


class Training(TrialProgress):
    """The trials of a run in training, in groups that fit in the processor's cache."""

    def __init__(self, run: Run) -> None:
        super().__init__(run.trials, MEASURES)
        self.run = run
        self.device, self.dtype = placement(run)
        size = group_size(run, self.device)
        with threads_for(0, self.device):
            self._groups = [self._learner(trials) for trials in in_groups(run.trial_numbers, size)]
            self._before = [group.weights.clone() for group in self._groups]
        how: Any = {"seed": run.seed, "split": "test", "device": self.device, "dtype": self.dtype}
        self._tests = [run.task.sample(run.test_samples, trials=group.trials, **how) for group in self._groups]

    def _learner(self, trials: Sequence[int]) -> Learner:
        run = self.run
        weights = start_weights(run, trials, self.device, self.dtype)
        return Learner(weights, run.model, run.task, trials=trials, seed=run.seed, batch=run.batch)

    @property
    def before(self) -> Weights:
        """The checkpoint before training."""
        return Weights.joined(self._before)

    @property
    def after(self) -> Weights:
        """The weights now, as a copy."""
        return Weights.joined([group.weights for group in self._groups]).clone()

    def snapshots(self) -> Iterator[Snapshot]:
        """Step 0, every `record_every` steps, and the end."""
        return on_one_thread(self._snapshots(), self.device)

    def _snapshots(self) -> Iterator[Snapshot]:
        if self.run.measure == "every":
            self._measure()
        while True:
            self.finished = self.diverged | self._ended
            yield self.snapshot(origin_of(self.run, self.device))
            if self._ended:
                return
            self._advance(min(self.run.record_every, self.run.steps - self.step))

    def _advance(self, steps: int) -> None:
        for group in self._groups:
            group.advance(steps)
        self.step += steps
        self.steps = np.where(self.diverged, self.steps, self.step)
        self.diverged |= ~np.isfinite(joined(group.loss for group in self._groups))
        if self._ended or self.run.measure == "every":
            self._measure()

    @property
    def _ended(self) -> bool:
        return self.step >= self.run.steps or bool(self.diverged.all())

    def _measure(self) -> None:
        model, task = self.run.model, self.run.task
        measured = [
            measure(group.weights, before.routers, evaluate(group.weights, test, model, task), model, task)
            for group, before, test in zip(self._groups, self._before, self._tests, strict=True)
        ]
        values = {name: joined(part[name] for part in measured) for name in measured[0]}
        self.diverged |= ~np.isfinite(values["test_loss"]) | ~np.isfinite(values["router_norm"]).all(1)
        values["train_loss"] = joined(group.loss for group in self._groups)
        self.record(values)
