"""Fine-tuning as a stream of Snapshots (pruning2024, algorithm 1, step 2)."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any

from torch import Tensor

from moe_lab.core import training
from moe_lab.core.signatures import with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.training import groups_of, samples_of
from moe_lab.core.trials import device_and_dtype
from moe_lab.pruning.data import TokenTask
from moe_lab.pruning.learner import TokenLearner, group_size, start_weights
from moe_lab.pruning.measures import MEASURES, Evaluation, evaluate, measure
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.pruning.run import TokenRun


@with_settings_of(TokenRun)
def train(model: TokenMoE, task: TokenTask, **settings: Any) -> Iterator[Snapshot]:
    """Fine-tunes a layer on a task and yields Snapshots: step 0, every `record_every` steps, and the end.

    >>> from moe_lab.pruning import TokenMoE, TokenTask, train
    >>> for snapshot in train(TokenMoE(), TokenTask(), trials=5, seed=0):
    ...     change = snapshot["norm_change"]  # (trial, expert)

    `pruning.fine_tune` does the same and keeps the weights, to prune them.

    Args:
      settings: the other parameters of `TokenRun`: start, steps, batch, trials, seed, device, precision, ...

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(TokenRun(model=model, task=task, **settings))


def train_run(run: TokenRun) -> Iterator[Snapshot]:
    """Runs `train` for a given TokenRun."""
    return TokenTraining(run).snapshots()


class FineTuning(TokenLearner):
    """Some trials of a run, measured on test samples against the checkpoint `before`."""

    def __init__(self, run: TokenRun, trials: Sequence[int]) -> None:
        weights = start_weights(run, trials, *device_and_dtype(run))
        super().__init__(weights, run.model, run.task, trials=trials, seed=run.seed, batch=run.batch)
        self.before, self.test = weights.clone(), samples_of(run, trials, "test")

    def measure(self, whole: bool) -> dict[str, Tensor]:
        return self.measured(self.evaluated())

    def evaluated(self) -> Evaluation:
        """Evaluates the layer on the test samples."""
        return evaluate(self.weights, self.test, self.model, self.task)

    def measured(self, evaluation: Evaluation) -> dict[str, Tensor]:
        """Computes all measures of an evaluation."""
        measured = measure(self.weights, self.before.routers, evaluation, self.model, self.task)
        return measured | {"train_loss": self.loss}


class TokenTraining(training.Training[FineTuning]):
    """The trials of a run in training, in groups that fit in the processor's cache, or in a device."""

    must_be_finite = ("test_loss", "router_norm")

    def __init__(
        self, run: TokenRun, learners: Iterable[FineTuning] | None = None, measures: Mapping[str, Measure] = MEASURES
    ) -> None:
        if learners is None:
            learners = (FineTuning(run, trials) for trials in groups_of(run, group_size(run)))
        super().__init__(run, measures, learners)

    @property
    def before(self) -> Weights:
        """The checkpoint before training."""
        return Weights.joined([learner.before for learner in self.learners])

    @property
    def after(self) -> Weights:
        """The weights now, as a copy."""
        return Weights.joined([learner.weights for learner in self.learners]).clone()
