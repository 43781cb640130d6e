"""Fine-tuning as a stream of Snapshots (pruning2024, algorithm 1, step 2)."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
from torch import Tensor

from moe_lab.origins import origin_of
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.learner import Learner, group_size, start_weights
from moe_lab.pruning.measures import MEASURES, evaluate, measure
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.pruning.run import Run
from moe_lab.training import Snapshot
from moe_lab.trials import choose_device, choose_dtype, threads_for


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
    """`train` for a Run that is made already."""
    choose_dtype(run.precision, choose_device(run.device))
    return Training(run).snapshots()


class Training:
    """The trials of a run on their way, in groups that the device likes.

    Args:
      run: what is trained.

    Attributes:
      step: steps done.
      diverged: (trial,) whose loss became infinite or NaN.
    """

    def __init__(self, run: Run) -> None:
        self.run, self.device = run, choose_device(run.device)
        self.dtype = choose_dtype(run.precision, self.device)
        self.step = 0
        self.diverged = np.zeros(run.trials, dtype=bool)
        self._steps = np.zeros(run.trials, dtype=np.int64)
        self._values: dict[str, np.ndarray] = {}
        size = group_size(run.model, run.task, run.batch, self.device)
        numbers = run.trial_numbers
        with threads_for(0, self.device):
            self._groups = [self._learner(numbers[begin : begin + size]) for begin in range(0, len(numbers), size)]
            self._before = [group.weights.clone() for group in self._groups]
        self._tests = [
            run.task.sample(
                run.test_samples,
                trials=group.trials,
                seed=run.seed,
                split="test",
                device=self.device,
                dtype=self.dtype,
            )
            for group in self._groups
        ]

    def _learner(self, trials: list[int]) -> Learner:
        run = self.run
        weights = start_weights(run, trials, self.device, self.dtype)
        return Learner(weights, run.model, run.task, trials=trials, seed=run.seed, batch=run.batch)

    @property
    def before(self) -> Weights:
        """The checkpoint that training began with."""
        return Weights.joined(self._before)

    @property
    def after(self) -> Weights:
        """The weights now, as a copy."""
        return Weights.joined([group.weights for group in self._groups]).clone()

    def snapshots(self) -> Iterator[Snapshot]:
        """Step 0, every `record_every` steps, and the end."""
        with threads_for(0, self.device):
            if self.run.measure == "every":
                self._measure()
        yield self._snapshot()
        while self.step < self.run.steps and not self.diverged.all():
            with threads_for(0, self.device):  # not across the yield: the consumer keeps its own threads
                self._advance(min(self.run.record_every, self.run.steps - self.step))
            yield self._snapshot()

    def _advance(self, steps: int) -> None:
        for group in self._groups:
            group.advance(steps)
        self.step += steps
        self._steps = np.where(self.diverged, self._steps, self.step)
        self.diverged |= ~np.isfinite(self._joined([group.loss for group in self._groups]))
        if self._ended or self.run.measure == "every":
            self._measure()

    @property
    def _ended(self) -> bool:
        return self.step >= self.run.steps or bool(self.diverged.all())

    @staticmethod
    def _joined(parts: list[Tensor]) -> np.ndarray:
        return np.concatenate([part.detach().cpu().numpy() for part in parts]).astype(float)

    def _measure(self) -> None:
        model, task = self.run.model, self.run.task
        measured = [
            measure(group.weights, before.routers, evaluate(group.weights, test, model, task), model, task)
            for group, before, test in zip(self._groups, self._before, self._tests, strict=True)
        ]
        values = {name: self._joined([part[name] for part in measured]) for name in measured[0]}
        self.diverged |= ~np.isfinite(values["test_loss"]) | ~np.isfinite(values["router_norm"]).all(1)
        values["train_loss"] = self._joined([group.loss for group in self._groups])
        for value in values.values():
            value[self.diverged] = np.nan
        self._values = values

    def _snapshot(self) -> Snapshot:
        return Snapshot(
            step=self.step,
            values={name: value.copy() for name, value in self._values.items()},
            measures={name: MEASURES[name] for name in self._values},
            steps=self._steps.copy(),
            finished=np.full(self.run.trials, self._ended) | self.diverged,
            diverged=self.diverged.copy(),
            coords={},
            origin=self.origin,
        )

    @property
    def origin(self) -> dict[str, Any]:
        """How to make this run again."""
        return origin_of(self.run, self.device)
