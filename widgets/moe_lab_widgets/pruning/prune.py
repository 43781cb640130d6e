"""What pruning makes of a trained layer, for every criterion and every rho, before and after fine-tuning what is left.

Without fine-tuning all of it comes from the experts' votes on the test samples, in a few milliseconds. With it, one
fine-tuning serves every criterion and rho where experts are trained apart; where they are coupled, each pruned layer is
fine-tuned on its own, and only those that are looked at.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool, Float
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.pruning import FineTuned, Weights
from moe_lab.pruning.criteria import UndefinedCriterionError
from moe_lab.pruning.layer import operations
from moe_lab.pruning.learner import Learner, group_size
from moe_lab.pruning.measures import Evaluation
from moe_lab.pruning.select import pruned_counts
from moe_lab_widgets.pruning.settings import CHUNK, OFFERED


@dataclass(frozen=True)
class View:
    """What is looked at: the values of the Lab's `looks`."""

    rho: float
    criterion: str
    fine_tune: bool
    tuning_steps: int
    shown: int

    def count(self, half: int) -> int:
        """How many experts of each half are pruned."""
        return pruned_counts(float(self.rho), (half, half))[0]


class Tuner:
    """A layer, pruned or not, on its way through fine-tuning, in the same groups of trials as `FineTuned` takes."""

    def __init__(self, tuned: FineTuned, weights: Weights) -> None:
        run, device = tuned.run, weights.routers.device
        size, numbers = group_size(run.model, run.task, run.batch, device), run.trial_numbers
        self.steps = 0
        self._groups = [
            Learner(
                weights.of(torch.arange(begin, min(begin + size, weights.trials), device=device)),
                run.model,
                run.task,
                trials=numbers[begin : begin + size],
                seed=run.seed,
                batch=run.batch,
                split="post",
            )
            for begin in range(0, weights.trials, size)
        ]

    def advance(self, steps: int) -> Weights:
        """The weights after so many further steps."""
        for group in self._groups:
            group.advance(steps)
        self.steps += steps
        return Weights.joined([group.weights for group in self._groups])


def accuracies(
    evaluation: Evaluation, kept: Bool[Tensor, "M T k"], diverged: Bool[Tensor, " T"]
) -> Float[NDArray[Any], "M T"]:
    """(M, T) accuracy of M choices of experts, from the votes of all: as `FineTuned.accuracy` gives one at a time."""
    votes = evaluation.votes
    output = kept.movedim(0, 1).to(votes.dtype) @ votes  # (T, M, N)
    right = (evaluation.labels[:, None] * output > 0).to(votes.dtype).mean(2).mT
    broken = diverged | ~torch.isfinite(votes).flatten(1).all(1)
    return np.asarray(right.masked_fill(broken, torch.nan).cpu().numpy(), dtype=float)


def kept_at_every_rho(scores: Float[Tensor, "T k"]) -> Bool[Tensor, "R T k"]:
    """Who stays when 0, 1, ... k/2 - 1 experts of each half go: `kept_experts` for all of them in one sorting."""
    trials, k = scores.shape
    halves = -scores.view(trials, 2, k // 2)
    ranks = halves.argsort(dim=2, stable=True).argsort(dim=2)
    left = k // 2 - torch.arange(k // 2)
    return (ranks < left[:, None, None, None]).flatten(2)


class Pruned:
    """A trained layer and all that is known of pruning it; it learns more while fine-tuning goes on.

    Rho takes half as many values as there are experts: 0 to k/2 - 1 experts of each half go.

    Attributes:
      tuned: the trained layer.
      half: k/2.
      scores: by criterion, (trial, expert).
      undefined: by criterion that has no scores, why, in a sentence.
      kept: by criterion, (rho, trial, expert): who stays.
      plain: by criterion, (rho, trial): accuracy without fine-tuning.
    """

    def __init__(self, tuned: FineTuned) -> None:
        self.tuned = tuned
        self.half = tuned.run.model.experts // 2
        self.scores: dict[str, NDArray[np.float64]] = {}
        self.undefined: dict[str, str] = {}
        self.kept: dict[str, Bool[Tensor, "R T k"]] = {}
        for name, criterion in OFFERED.items():
            try:
                scores = tuned.scores(criterion)
            except UndefinedCriterionError as error:
                self.undefined[name] = str(error)
                continue
            self.scores[name] = scores.numpy().astype(float)
            self.kept[name] = kept_at_every_rho(scores)
        self.plain = self._all(tuned.evaluation)
        self._tuners: dict[tuple[str, int], Tuner] = {}
        self._results: dict[tuple[str, int, int], tuple[int, NDArray[np.float64]]] = {}

    def _all(self, evaluation: Evaluation) -> dict[str, NDArray[np.float64]]:
        names = list(self.kept)
        every = accuracies(evaluation, torch.cat([self.kept[name] for name in names]), self.tuned.diverged)
        return dict(zip(names, every.reshape(len(names), self.half, -1), strict=True))

    @property
    def coupled(self) -> bool:
        """Whether every pruned layer must be fine-tuned on its own."""
        return self.tuned.run.model.coupled

    @property
    def known(self) -> int:
        """How many results of fine-tuning there are; a record that says so can be shown again as it was."""
        return len(self._results)

    # ---- what it costs ----

    def parameters(self, gone: int) -> float:
        """The share of the layer's numbers that is left when so many experts of each half are gone."""
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

    def work(self, view: Callable[[], View]) -> Iterator[None]:
        """Fine-tunes what the latest view still lacks, piece by piece, until nothing lacks."""
        while (piece := self._lacking(view())) is not None:
            self._do(*piece)
            yield

    def lacks(self, view: View) -> bool:
        """Whether the view shows something that has not been computed."""
        return self._lacking(view) is not None

    def _lacking(self, view: View) -> tuple[str, int] | None:
        """The next tuner that has to go on: (criterion, how many are gone)."""
        if not self.coupled:  # at once, so that nobody waits who ticks the box
            enough = ("", 0) in self._tuners and self._tuners["", 0].steps >= view.tuning_steps
            return None if enough else ("", 0)
        if not view.fine_tune or view.criterion in self.undefined:
            return None
        here = view.count(self.half)
        for gone in sorted(range(self.half), key=lambda one: abs(one - here)):
            tuner = self._tuners.get((view.criterion, gone))
            if tuner is None or tuner.steps < view.tuning_steps:
                return view.criterion, gone
        return None

    def _do(self, criterion: str, gone: int) -> None:
        key = criterion, gone
        if key not in self._tuners:
            start = self.tuned.pruned(self.kept[criterion][gone]) if self.coupled else self.tuned.after
            self._tuners[key] = Tuner(self.tuned, start)
        tuner = self._tuners[key]
        evaluation = self.tuned.evaluate(tuner.advance(CHUNK))
        if self.coupled:
            whole = torch.ones((1, *evaluation.votes.shape[:2]), dtype=torch.bool)
            made = {criterion: accuracies(evaluation, whole, self.tuned.diverged)[0]}
        else:
            made = self._all(evaluation)
        for name, values in made.items():
            self._results[name, gone, tuner.steps] = len(self._results), values

    def after(self, view: View, known: int) -> dict[str, tuple[int, NDArray[np.float64]]]:
        """By criterion: the least steps of fine-tuning, and (rho, trial) accuracies after it, NaN where there is none.

        Args:
          known: how many results there were.
        """
        found = {}
        for name in self.kept if not self.coupled else {view.criterion} & set(self.kept):
            values = np.full(self.plain[name].shape, np.nan)
            reached = []
            for gone in range(self.half) if self.coupled else (0,):
                steps = self._latest(name, gone, view.tuning_steps, known)
                if steps:
                    reached.append(steps)
                    result = self._results[name, gone, steps][1]
                    values[gone if self.coupled else slice(None)] = result
            if reached:
                found[name] = min(reached), values
        return found

    def _latest(self, name: str, gone: int, steps: int, known: int) -> int:
        """The most steps up to `steps` of which a result was known."""
        for done in range(steps, 0, -CHUNK):
            if self._results.get((name, gone, done), (known,))[0] < known:
                return done
        return 0
