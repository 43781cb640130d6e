"""Fine-tuning of pruned layers, a few steps at a time, for a choice that may change (algorithm 1, step 4).

One fine-tuning serves every criterion and rho where experts are trained apart; where they are coupled, each pruned
layer is fine-tuned on its own, and only those of the chosen criterion.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from numpy.typing import NDArray

from moe_lab.core.config import require
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.model import Weights
from moe_lab.pruning.pruned import kept_by_count
from moe_lab.pruning.select import pruned_counts

Accuracies = Float[NDArray[Any], "T S C R"]
"""Test accuracies after 1, 2, ... S times the interval of fine-tuning, NaN where they are not known."""


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


class Tuning:
    """Fine-tunes a pruned layer, from one result to the next.

    Args:
      tuned: the trained layer.
      found: what was measured of pruning it (`pruned.AFTER_PRUNING`).
      criteria: the names of the criteria.
      interval: steps of fine-tuning from one result to the next.

    Attributes:
      accuracies: all results so far; at first one row without any.
    """

    def __init__(
        self, tuned: FineTuned, found: Mapping[str, NDArray[Any]], criteria: Sequence[str], interval: int
    ) -> None:
        self.tuned, self.criteria, self.interval = tuned, list(criteria), interval
        self.coupled = tuned.run.model.coupled
        self.undefined: NDArray[np.bool_] = np.asarray((found["undefined"] == 1).any(axis=0))  # NaN where diverged
        self.kept = kept_by_count(torch.as_tensor(found["rank"]))  # (T, C, R, k)
        trials, count, half, _ = self.kept.shape
        self.accuracies: Accuracies = np.full((trials, 1, count, half), np.nan)
        self._tuners: dict[tuple[str, int], Tuner] = {}

    def advance(self, choice: PruningChoice) -> Accuracies:
        """Fine-tunes the next layer of a choice that lacks a result by `interval` steps; returns a copy of all results.

        Raises:
          ValueError: the choice lacks none.
        """
        missing = self._missing(choice)
        require(missing is not None, "a choice must lack a result to be fine-tuned for", steps=choice.tuning_steps)
        assert missing is not None
        self._tune(*missing)
        return self.accuracies.copy()

    def lacks(self, choice: PruningChoice) -> bool:
        """Returns whether a result of this choice has not been computed yet."""
        return self._missing(choice) is not None

    def _missing(self, choice: PruningChoice) -> tuple[str, int] | None:
        """Returns the next layer to fine-tune further: its criterion, and how many experts of each half are pruned."""
        if not self.coupled:  # also while no fine-tuning is chosen, so that its results are there at once
            enough = ("", 0) in self._tuners and self._tuners["", 0].steps >= choice.tuning_steps
            return None if enough else ("", 0)
        if not choice.fine_tune or self.undefined[self.criteria.index(choice.criterion)]:
            return None
        half = self.kept.shape[2]
        here = choice.count(half)
        for gone in sorted(range(half), key=lambda count: abs(count - here)):
            tuner = self._tuners.get((choice.criterion, gone))
            if tuner is None or tuner.steps < choice.tuning_steps:
                return choice.criterion, gone
        return None

    def _tune(self, criterion: str, gone: int) -> None:
        key, tuned = (criterion, gone), self.tuned
        if key not in self._tuners:
            whole = tuned.after
            if self.coupled:
                whole = tuned.pruned(self.kept[:, self.criteria.index(criterion), gone].to(whole.routers.device))
            self._tuners[key] = Tuner(tuned, whole)
        tuner = self._tuners[key]
        evaluation = tuned.evaluate(tuner.advance(self.interval))
        if self.coupled:
            every = torch.ones_like(evaluation.votes[:, None, :, 0], dtype=torch.bool)
            own = tuned.accuracies_of(evaluation, every)[:, 0]
            self._row(tuner.steps)[:, self.criteria.index(criterion), gone] = own.cpu().numpy()
        else:
            found = tuned.accuracies_of(evaluation, self.kept.flatten(1, 2)).unflatten(1, self.kept.shape[1:3])
            self._row(tuner.steps)[:] = np.where(self.undefined[:, None], np.nan, found.cpu().numpy())

    def _row(self, steps: int) -> Float[NDArray[Any], "T C R"]:
        """Returns the results after so many steps, to be written to."""
        lacking = steps // self.interval - self.accuracies.shape[1]
        if lacking > 0:
            more = np.full_like(self.accuracies[:, :1], np.nan).repeat(lacking, axis=1)
            self.accuracies = np.concatenate((self.accuracies, more), axis=1)
        return self.accuracies[:, steps // self.interval - 1]
