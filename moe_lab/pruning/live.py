"""Accuracies after pruning a trained layer, for every criterion and every rho, before and after fine-tuning.

Without fine-tuning all of it comes from the experts' votes on the test samples, in a few milliseconds. With it, one
fine-tuning serves every criterion and rho where experts are trained apart; where they are coupled, each pruned layer is
fine-tuned on its own, and only those of the chosen criterion.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.criteria import Criterion, UndefinedCriterionError
from moe_lab.pruning.layer import operations
from moe_lab.pruning.measures import Evaluation
from moe_lab.pruning.model import Weights
from moe_lab.pruning.select import kept_by_count, pruned_counts


@dataclass(frozen=True)
class PruningChoice:
    """How a trained layer is pruned: by which criterion, how far, and with how many steps of fine-tuning."""

    rho: float
    criterion: str
    fine_tune: bool
    tuning_steps: int

    def count(self, half: int) -> int:
        """Returns how many experts of each half are pruned."""
        return pruned_counts(float(self.rho), (half, half))[0]


class Tuner:
    """Fine-tunes a layer, pruned or not, a few steps at a time."""

    def __init__(self, tuned: FineTuned, weights: Weights) -> None:
        self.steps = 0
        self.learners = list(tuned.learners(weights))

    def advance(self, steps: int) -> Weights:
        """Takes further steps and returns the weights."""
        for learner in self.learners:
            learner.advance(steps)
        self.steps += steps
        return Weights.joined([learner.weights for learner in self.learners])


Results = Mapping[tuple[str, int, int], NDArray[np.float64]]
"""Accuracies by criterion, number of experts pruned of each half, and steps of fine-tuning: (rho, trial) where one
fine-tuning serves every criterion and rho, else (trial,)."""


class Pruned:
    """A trained layer pruned by every criterion. Nothing in it changes.

    Rho takes half as many values as there are experts: 0 to k/2 - 1 experts of each half go.

    Args:
      tuned: the trained layer.
      criteria: by name.

    Attributes:
      half: k/2.
      scores: by criterion, (trial, expert).
      undefined: by criterion that has no scores, the reason as a sentence.
      kept: by criterion, (rho, trial, expert): which experts stay.
      plain: by criterion, (rho, trial): accuracy without fine-tuning.
    """

    def __init__(self, tuned: FineTuned, criteria: Mapping[str, Criterion]) -> None:
        self.tuned = tuned
        self.half = tuned.run.model.experts // 2
        self.scores: dict[str, NDArray[np.float64]] = {}
        self.undefined: dict[str, str] = {}
        self.kept: dict[str, Bool[Tensor, "R T k"]] = {}
        for name, criterion in criteria.items():
            try:
                scores = tuned.scores(criterion)
            except UndefinedCriterionError as error:
                self.undefined[name] = str(error)
                continue
            self.scores[name] = scores.cpu().numpy().astype(float)
            self.kept[name] = kept_by_count(scores, tuned.after.signs)
        self.plain = self.by_criterion(tuned.evaluation)

    def by_criterion(self, evaluation: Evaluation) -> dict[str, NDArray[np.float64]]:
        """Returns by criterion the (rho, trial) accuracies from the votes of all experts."""
        names = list(self.kept)
        accuracies = self.accuracies(evaluation, torch.cat([self.kept[name] for name in names]))
        return dict(zip(names, accuracies.reshape(len(names), self.half, -1), strict=True))

    def accuracies(self, evaluation: Evaluation, kept: Bool[Tensor, "M T k"]) -> Float[NDArray[Any], "M T"]:
        """Returns the accuracies with those experts alone that are kept."""
        return np.asarray(self.tuned.accuracies_of(evaluation, kept).cpu().numpy(), dtype=float)

    @property
    def coupled(self) -> bool:
        """Whether every pruned layer must be fine-tuned on its own."""
        return self.tuned.run.model.coupled

    def parameters(self, gone: int) -> float:
        """Returns the share of the layer's parameters that is left when this many experts of each half are pruned."""
        model, d = self.tuned.run.model, self.tuned.run.task.patterns
        left = 2 * (self.half - gone)
        routers = left if model.routing == "expert-choice" else model.experts
        return (routers * d + left * d * model.neurons) / (model.experts * d * (1 + model.neurons))

    def operations(self, criterion: str, gone: int) -> float:
        """Returns the share of the layer's operations that is left, the mean over the trials.

        Where tokens choose it depends on how many tokens the experts that stay receive on validation samples.
        """
        model, task = self.tuned.run.model, self.tuned.run.task
        size: dict[str, Any] = {"tokens": task.tokens, "dimension": task.patterns}
        pairs = task.tokens * (self.tuned.statistics.received * self.kept[criterion][gone]).sum(1).mean().item()
        whole = operations(model, experts=model.experts, received=float(task.tokens * model.top), **size)
        return operations(model, experts=2 * (self.half - gone), received=pairs, **size) / whole

    def after(self, choice: PruningChoice, results: Results) -> dict[str, tuple[int, NDArray[np.float64]]]:
        """Returns by criterion the least steps of fine-tuning and the accuracies after them.

        Accuracies are (rho, trial), NaN where there is no result yet.
        """
        latest: dict[tuple[str, int], int] = {}
        for name, gone, steps in results:
            if steps <= choice.tuning_steps and (not self.coupled or name == choice.criterion):
                latest[name, gone] = max(steps, latest.get((name, gone), 0))
        found: dict[str, tuple[int, NDArray[np.float64]]] = {}
        for (name, gone), steps in latest.items():
            least, values = found.get(name, (steps, np.full(self.plain[name].shape, np.nan)))
            values[gone if self.coupled else slice(None)] = results[name, gone, steps]
            found[name] = min(least, steps), values
        return found


class FineTuning:
    """Fine-tunes a pruned layer for the latest choice.

    Args:
      pruned: the layer.
      interval: steps of fine-tuning from one result to the next.

    Attributes:
      results: all results so far.
    """

    def __init__(self, pruned: Pruned, interval: int) -> None:
        self.pruned, self.interval = pruned, interval
        self.results: dict[tuple[str, int, int], NDArray[np.float64]] = {}
        self._tuners: dict[tuple[str, int], Tuner] = {}

    def work(self, choice: Callable[[], PruningChoice]) -> Iterator[Results]:
        """Fine-tunes until every result of the latest choice is computed; yields a copy of the results each time.

        Args:
          choice: returns the latest choice; called again every `interval` steps.
        """
        while (missing := self._missing(choice())) is not None:
            self._tune(*missing)
            yield dict(self.results)

    def lacks(self, choice: PruningChoice) -> bool:
        """Returns whether a result of this choice has not been computed yet."""
        return self._missing(choice) is not None

    def _missing(self, choice: PruningChoice) -> tuple[str, int] | None:
        """Returns the next layer to fine-tune further: its criterion, and how many experts of each half are pruned."""
        pruned = self.pruned
        if not pruned.coupled:  # also while no fine-tuning is chosen, so that its results are there at once
            enough = ("", 0) in self._tuners and self._tuners["", 0].steps >= choice.tuning_steps
            return None if enough else ("", 0)
        if not choice.fine_tune or choice.criterion in pruned.undefined:
            return None
        here = choice.count(pruned.half)
        for gone in sorted(range(pruned.half), key=lambda count: abs(count - here)):
            tuner = self._tuners.get((choice.criterion, gone))
            if tuner is None or tuner.steps < choice.tuning_steps:
                return choice.criterion, gone
        return None

    def _tune(self, criterion: str, gone: int) -> None:
        key, pruned, tuned = (criterion, gone), self.pruned, self.pruned.tuned
        if key not in self._tuners:
            weights = tuned.pruned(pruned.kept[criterion][gone]) if pruned.coupled else tuned.after
            self._tuners[key] = Tuner(tuned, weights)
        tuner = self._tuners[key]
        evaluation = tuned.evaluate(tuner.advance(self.interval))
        if pruned.coupled:
            whole = torch.ones((1, *evaluation.votes.shape[:2]), dtype=torch.bool)
            accuracies = {criterion: pruned.accuracies(evaluation, whole)[0]}
        else:
            accuracies = pruned.by_criterion(evaluation)
        for name, values in accuracies.items():
            self.results[name, gone, tuner.steps] = values
