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
class Choice:
    """How a trained layer is pruned: by which criterion, how far, and with how many steps of fine-tuning."""

    rho: float
    criterion: str
    fine_tune: bool
    tuning_steps: int

    def count(self, half: int) -> int:
        """How many experts of each half are pruned."""
        return pruned_counts(float(self.rho), (half, half))[0]


class Tuner:
    """Fine-tunes a layer, pruned or not, a few steps at a time."""

    def __init__(self, tuned: FineTuned, weights: Weights) -> None:
        self.steps = 0
        self._groups = list(tuned.learners(weights))

    def advance(self, steps: int) -> Weights:
        """Takes further steps and returns the weights."""
        for group in self._groups:
            group.advance(steps)
        self.steps += steps
        return Weights.joined([group.weights for group in self._groups])


class Pruned:
    """A trained layer pruned by every criterion; results of fine-tuning are added while it goes on.

    Rho takes half as many values as there are experts: 0 to k/2 - 1 experts of each half go.

    Args:
      tuned: the trained layer.
      criteria: by name.
      interval: steps of fine-tuning from one result to the next.

    Attributes:
      half: k/2.
      scores: by criterion, (trial, expert).
      undefined: by criterion that has no scores, the reason as a sentence.
      kept: by criterion, (rho, trial, expert): which experts stay.
      plain: by criterion, (rho, trial): accuracy without fine-tuning.
    """

    def __init__(self, tuned: FineTuned, criteria: Mapping[str, Criterion], interval: int) -> None:
        self.tuned, self.interval = tuned, interval
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
            self.scores[name] = scores.numpy().astype(float)
            self.kept[name] = kept_by_count(scores, tuned.after.signs)
        self.plain = self._by_criterion(tuned.evaluation)
        self._tuners: dict[tuple[str, int], Tuner] = {}
        self._results: dict[tuple[str, int, int], tuple[int, NDArray[np.float64]]] = {}

    def _by_criterion(self, evaluation: Evaluation) -> dict[str, NDArray[np.float64]]:
        """By criterion, (rho, trial) accuracies from the votes of all experts."""
        names = list(self.kept)
        accuracies = self._accuracies(evaluation, torch.cat([self.kept[name] for name in names]))
        return dict(zip(names, accuracies.reshape(len(names), self.half, -1), strict=True))

    def _accuracies(self, evaluation: Evaluation, kept: Bool[Tensor, "M T k"]) -> Float[NDArray[Any], "M T"]:
        return np.asarray(self.tuned.accuracies_of(evaluation, kept).cpu().numpy(), dtype=float)

    @property
    def coupled(self) -> bool:
        """Whether every pruned layer must be fine-tuned on its own."""
        return self.tuned.run.model.coupled

    @property
    def known(self) -> int:
        """The number of results of fine-tuning; `after` returns what was known when there were so many."""
        return len(self._results)

    # ---- what it costs ----

    def parameters(self, gone: int) -> float:
        """The share of the layer's parameters that is left when so many experts of each half are pruned."""
        model, d = self.tuned.run.model, self.tuned.run.task.patterns
        left = 2 * (self.half - gone)
        routers = left if model.routing == "expert-choice" else model.experts
        return (routers * d + left * d * model.neurons) / (model.experts * d * (1 + model.neurons))

    def operations(self, criterion: str, gone: int) -> float:
        """The share of the layer's operations that is left, the mean over the trials.

        Where tokens choose it depends on how many tokens the experts that stay receive on validation samples.
        """
        model, task = self.tuned.run.model, self.tuned.run.task
        size: dict[str, Any] = {"tokens": task.tokens, "dimension": task.patterns}
        pairs = task.tokens * (self.tuned.statistics.received * self.kept[criterion][gone]).sum(1).mean().item()
        whole = operations(model, experts=model.experts, received=float(task.tokens * model.top), **size)
        return operations(model, experts=2 * (self.half - gone), received=pairs, **size) / whole

    # ---- fine-tuning ----

    def work(self, choice: Callable[[], Choice]) -> Iterator[None]:
        """Fine-tunes `interval` steps at a time until every result of the latest choice is there."""
        while (missing := self._missing(choice())) is not None:
            self._tune(*missing)
            yield

    def lacks(self, choice: Choice) -> bool:
        """Whether a result of this choice has not been computed yet."""
        return self._missing(choice) is not None

    def _missing(self, choice: Choice) -> tuple[str, int] | None:
        """The next layer to fine-tune further: its criterion, and how many experts of each half are pruned."""
        if not self.coupled:  # also while no fine-tuning is chosen, so that its results are there at once
            enough = ("", 0) in self._tuners and self._tuners["", 0].steps >= choice.tuning_steps
            return None if enough else ("", 0)
        if not choice.fine_tune or choice.criterion in self.undefined:
            return None
        here = choice.count(self.half)
        for gone in sorted(range(self.half), key=lambda count: abs(count - here)):
            tuner = self._tuners.get((choice.criterion, gone))
            if tuner is None or tuner.steps < choice.tuning_steps:
                return choice.criterion, gone
        return None

    def _tune(self, criterion: str, gone: int) -> None:
        key = criterion, gone
        if key not in self._tuners:
            weights = self.tuned.pruned(self.kept[criterion][gone]) if self.coupled else self.tuned.after
            self._tuners[key] = Tuner(self.tuned, weights)
        tuner = self._tuners[key]
        evaluation = self.tuned.evaluate(tuner.advance(self.interval))
        if self.coupled:
            whole = torch.ones((1, *evaluation.votes.shape[:2]), dtype=torch.bool)
            accuracies = {criterion: self._accuracies(evaluation, whole)[0]}
        else:
            accuracies = self._by_criterion(evaluation)
        for name, values in accuracies.items():
            self._results[name, gone, tuner.steps] = len(self._results), values

    def after(self, choice: Choice, known: int) -> dict[str, tuple[int, NDArray[np.float64]]]:
        """By criterion: the least steps of fine-tuning, and (rho, trial) accuracies after it, NaN where there is none.

        Args:
          known: how many results there were.
        """
        found = {}
        for name in self.kept if not self.coupled else {choice.criterion} & set(self.kept):
            values = np.full(self.plain[name].shape, np.nan)
            reached = []
            for gone in range(self.half) if self.coupled else (0,):
                steps = self._latest(name, gone, choice.tuning_steps, known)
                if steps:
                    reached.append(steps)
                    result = self._results[name, gone, steps][1]
                    values[gone if self.coupled else slice(None)] = result
            if reached:
                found[name] = min(reached), values
        return found

    def _latest(self, name: str, gone: int, steps: int, known: int) -> int:
        """The most steps up to `steps` of which a result was known."""
        for done in range(steps, 0, -self.interval):
            if self._results.get((name, gone, done), (known,))[0] < known:
                return done
        return 0
