"""What is looked at of one fine-tuned trial, and how the paper's Omega, O and "constant fraction" are read."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Literal

import numpy as np
import torch
from jaxtyping import Bool, Float

from moe_lab.config import require
from moe_lab.pruning.checkpoints import FineTuned
from moe_lab.pruning.measures import Evaluation, measure
from moe_lab.pruning.model import Weights
from moe_lab.pruning.run import Run

Kind = Literal["important", "unimportant", "neither"]


@dataclass(frozen=True)
class Reading:
    """How words without numbers are read. The paper hides every constant; all of them are arguments here.

    Attributes:
      important: p^(0) from which an expert is important: Omega(1).
      unimportant: up to this many d-ths an expert's p is O(1/d).
      fraction: share of the neurons that is "a constant fraction".
      constant: what stands for every other constant in an O or Omega.
    """

    important: float = 0.1
    unimportant: float = 1.0
    fraction: float = 0.25
    constant: float = 1.0


DEFAULT = Reading()


@dataclass(frozen=True)
class Evidence:
    """One trial before and after fine-tuning; o is o_1 for the experts that vote +, o_2 for the others.

    Attributes:
      run: what was trained.
      before, after: (k,) every measure of the experts on the test samples.
      own_before, own_after: (k, m) <w_r, o>, the neurons' components along the own pattern.
      margin: (k,) smallest |<w_s, o - q>| over the irrelevant patterns q before fine-tuning.
      samples: how many test samples the class of each expert has, (k,).
      diverged: whether the trial's loss became infinite or NaN.
    """

    run: Run
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

    def is_important(self, reading: Reading = DEFAULT) -> Bool[np.ndarray, " k"]:
        """p^(0) = Omega(1) (definition C.1)."""
        return np.asarray(self.before["proficiency"] >= reading.important)

    def is_unimportant(self, reading: Reading = DEFAULT) -> Bool[np.ndarray, " k"]:
        """p^(0) = O(1/d) (definition C.1)."""
        return np.asarray(self.before["proficiency"] <= reading.unimportant / self.run.task.patterns)

    def gamma(self, reading: Reading = DEFAULT) -> float:
        """The share of unimportant experts, of S_1 or of S_2, whichever has the smaller (theorem 4.3)."""
        unimportant = self.is_unimportant(reading)
        return min(float(unimportant[half].mean()) for half in self.halves)

    def per_class(self, reading: Reading = DEFAULT) -> tuple[int, int]:
        """How many important experts S_1 and S_2 have."""
        important = self.is_important(reading)
        first, second = (int(important[half].sum()) for half in self.halves)
        return first, second


def single(tuned: FineTuned, trial: int) -> FineTuned:
    """One trial of several, with the same samples.

    Raises:
      ValueError: there is no such trial.
    """
    trials = tuned.before.trials
    require(0 <= trial < trials, "trial must be one of the run's, counted from 0", trial=trial, trials=trials)
    place = torch.tensor([trial], device=tuned.before.routers.device)
    return FineTuned(
        run=tuned.run.replace(trials=1, first_trial=tuned.run.first_trial + trial),
        before=tuned.before.of(place),
        after=tuned.after.of(place),
        diverged=tuned.diverged[[trial]],
        validation_samples=tuned.validation_samples,
    )


def evidence(tuned: FineTuned, trial: int = 0) -> Evidence:
    """Looks at one trial.

    Args:
      trial: its place, counted from 0.

    Raises:
      ValueError: there is no such trial.
    """
    one = single(tuned, trial)
    run, half = one.run, one.run.model.experts // 2
    first, last = one.evaluate(one.before), one.evaluation
    routers = one.before.routers[0].double().cpu().numpy()
    own = routers[np.arange(2 * half), np.repeat(run.task.specific, half)]
    classes = [int((first.labels == sign).sum()) for sign in (1, -1)]
    return Evidence(
        run=run,
        before=_measures(one.before, one.before, first, run),
        after=_measures(one.after, one.before, last, run),
        own_before=own_components(one.before, run),
        own_after=own_components(one.after, run),
        margin=np.abs(own[:, None] - routers[:, run.task.irrelevant]).min(1),
        samples=np.repeat(classes, half),
        diverged=bool(one.diverged[0]),
    )


def kinds(tuned: FineTuned, trial: int = 0, reading: Reading = DEFAULT) -> list[Kind]:
    """Which experts of a trial the paper calls important and unimportant (definition C.1), by their p^(0).

    Those in between are "neither": no lemma speaks of them.
    """
    seen = evidence(tuned, trial)
    important, unimportant = seen.is_important(reading), seen.is_unimportant(reading)
    return [
        "important" if one else "unimportant" if other else "neither"
        for one, other in zip(important, unimportant, strict=True)
    ]


def own_components(weights: Weights, run: Run) -> Float[np.ndarray, "k m"]:
    """<w_r, o> of one trial's experts, o being o_1 for those that vote + and o_2 for those that vote -."""
    first, second = (weights.neurons[0, :, pattern] for pattern in run.task.specific)
    own = torch.where(weights.signs[:, None] > 0, first, second)
    return np.asarray(own.double().cpu().numpy())


def _measures(weights: Weights, before: Weights, seen: Evaluation, run: Run) -> dict[str, np.ndarray]:
    measured = measure(weights, before.routers, seen, run.model, run.task)
    return {name: value[0].double().cpu().numpy() for name, value in measured.items() if value.ndim == 2}
