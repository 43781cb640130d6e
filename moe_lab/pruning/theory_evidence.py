"""Measurements of one fine-tuned trial, and the values that stand for the paper's Omega, O and "constant fraction"."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from moe_lab.core.config import require
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.measures import Evaluation, measure
from moe_lab.pruning.model import Weights
from moe_lab.pruning.run import TokenRun

Kind = Literal["important", "unimportant", "neither"]
Experts = Bool[np.ndarray, " k"]


@dataclass(frozen=True)
class Reading:
    """Values for the constants that the paper leaves open.

    Attributes:
      important: smallest p^(0) of an important expert, Omega(1).
      unimportant: largest p d of an unimportant expert, for O(1/d).
      fraction: share of the neurons that counts as "a constant fraction".
      constant: value of every other constant in an O or Omega.
    """

    important: float = 0.1
    unimportant: float = 1.0
    fraction: float = 0.25
    constant: float = 1.0


DEFAULT = Reading()


@dataclass(frozen=True)
class Evidence:
    """Measurements of one trial; o is o_1 for the experts that vote + and o_2 for the others.

    Attributes:
      run: its settings.
      before, after: (k,) each measure of the experts on the test samples, before and after fine-tuning.
      own_before, own_after: (k, m) <w_r, o>, the neurons' components along the own pattern.
      margin: (k,) smallest |<w_s, o - q>| over the irrelevant patterns q, before fine-tuning.
      samples: (k,) number of test samples in the class of each expert.
      diverged: whether the trial's loss became infinite or NaN.
    """

    run: TokenRun
    before: Mapping[str, np.ndarray]
    after: Mapping[str, np.ndarray]
    own_before: Float[np.ndarray, "k m"]
    own_after: Float[np.ndarray, "k m"]
    margin: Float[np.ndarray, " k"]
    samples: np.ndarray
    diverged: bool

    @property
    def halves(self) -> tuple[slice, slice]:
        """S_1 and S_2: the experts that vote + and those that vote -."""
        half = len(self.margin) // 2
        return slice(0, half), slice(half, None)

    def is_important(self, reading: Reading = DEFAULT) -> Experts:
        """Returns the experts with p^(0) = Omega(1) (definition C.1)."""
        return np.asarray(self.before["proficiency"] >= reading.important)

    def is_unimportant(self, reading: Reading = DEFAULT) -> Experts:
        """Returns the experts with p^(0) = O(1/d) (definition C.1)."""
        return np.asarray(self.before["proficiency"] <= reading.unimportant / self.run.task.patterns)

    def gamma(self, reading: Reading = DEFAULT) -> float:
        """Computes the share of unimportant experts in S_1 or S_2, whichever is smaller (theorem 4.3)."""
        unimportant = self.is_unimportant(reading)
        return min(float(unimportant[half].mean()) for half in self.halves)

    def per_class(self, reading: Reading = DEFAULT) -> tuple[int, int]:
        """Counts the important experts of S_1 and S_2."""
        important = self.is_important(reading)
        first, second = (int(important[half].sum()) for half in self.halves)
        return first, second


def one_trial(tuned: FineTuned, trial: int) -> FineTuned:
    """Returns one of several trials, with the same samples.

    Raises:
      ValueError: there is no such trial.
    """
    trials = tuned.before.trials
    require(0 <= trial < trials, "trial must be one of the run's, counted from 0", trial=trial, trials=trials)
    index = torch.tensor([trial], device=tuned.before.routers.device)
    return FineTuned(
        run=tuned.run.replace(trials=1, first_trial=tuned.run.first_trial + trial),
        before=tuned.before.of(index),
        after=tuned.after.of(index),
        diverged=tuned.diverged[[trial]],
        validation_samples=tuned.validation_samples,
    )


def evidence(tuned: FineTuned, trial: int = 0) -> Evidence:
    """Measures one trial before and after fine-tuning.

    Args:
      trial: its index, from 0.

    Raises:
      ValueError: there is no such trial.
    """
    alone = one_trial(tuned, trial)
    run, half = alone.run, alone.run.model.experts // 2
    first, last = alone.evaluate(alone.before), alone.evaluation
    routers = alone.before.routers[0].double().cpu().numpy()
    own = routers[np.arange(2 * half), np.repeat(run.task.specific, half)]
    classes = [int((first.labels == sign).sum()) for sign in (1, -1)]
    return Evidence(
        run=run,
        before=_measures(alone.before, alone.before, first, run),
        after=_measures(alone.after, alone.before, last, run),
        own_before=own_components(alone.before, run),
        own_after=own_components(alone.after, run),
        margin=np.abs(own[:, None] - routers[:, run.task.irrelevant]).min(1),
        samples=np.repeat(classes, half),
        diverged=bool(alone.diverged[0]),
    )


def kinds(tuned: FineTuned, trial: int = 0, reading: Reading = DEFAULT) -> list[Kind]:
    """Classifies the experts of a trial as important or unimportant by their p^(0) (definition C.1).

    Experts in between are "neither": no lemma covers them.
    """
    facts = evidence(tuned, trial)
    important, unimportant = facts.is_important(reading), facts.is_unimportant(reading)
    return [
        "important" if above else "unimportant" if below else "neither"
        for above, below in zip(important, unimportant, strict=True)
    ]


def own_components(weights: Weights, run: TokenRun) -> Float[np.ndarray, "k m"]:
    """Returns <w_r, o> of one trial's experts, with o = o_1 for those that vote + and o_2 for those that vote -."""
    first, second = (weights.neurons[0, :, pattern] for pattern in run.task.specific)
    own = torch.where(weights.signs[:, None] > 0, first, second)
    return np.asarray(own.double().cpu().numpy())


def _measures(weights: Weights, before: Weights, evaluation: Evaluation, run: TokenRun) -> dict[str, np.ndarray]:
    measured = measure(weights, before.routers, evaluation, run.model, run.task)
    return {name: value[0].double().cpu().numpy() for name, value in measured.items() if value.ndim == 2}
