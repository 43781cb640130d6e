"""A layer in training that, at its end, is pruned by every criterion and every rho.

Everything comes from the experts' votes on the test samples and from their scores; nothing is trained again. With rho
taking as many values as a half has experts, 0 to k/2 - 1 experts of each half go.

Shapes: T trials, C criteria, R = k/2 values of rho, k experts.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence, Sized
from typing import Any

import torch
from jaxtyping import Bool, Num
from torch import Tensor

from moe_lab.core import saliency
from moe_lab.core.snapshots import Measure
from moe_lab.core.training import groups_of
from moe_lab.pruning.criteria import CRITERIA, Criterion, Statistics, chance_of, routing_statistics
from moe_lab.pruning.learner import group_size
from moe_lab.pruning.measures import MEASURES, Evaluation
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.pruning.run import TokenRun
from moe_lab.pruning.select import ranks_by_sign
from moe_lab.pruning.training import FineTuning, TokenTraining

VALIDATION_SAMPLES = 200
"""Samples from which routing statistics are counted."""
AFTER_PRUNING = {
    "score": Measure(("criterion", "expert"), "", "score by the criterion; the experts with the largest ones stay"),
    "undefined": Measure(("criterion",), "", "1 where the criterion is the same for all experts"),
    "rank": Measure(("criterion", "expert"), "", "rank of the score within the half that votes alike, from 0"),
    "pruned_accuracy": Measure(("criterion", "rho"), "", "test accuracy after pruning"),
    "received": Measure(("expert",), "", "share of all tokens that the expert receives in validation samples"),
}
"""What is measured after pruning; NaN before."""


class Pruning(FineTuning):
    """Some trials of a run, which are pruned where training ends.

    Args:
      criteria: by name.
    """

    def __init__(self, run: TokenRun, trials: Sequence[int], criteria: Mapping[str, Criterion]) -> None:
        super().__init__(run, trials)
        self.criteria = criteria
        how: dict[str, Any] = {"trials": trials, "seed": run.seed, "device": self.like.device, "dtype": self.like.dtype}
        self.validation = run.task.sample(VALIDATION_SAMPLES, split="validation", **how)
        self.chance = chance_of(self.weights, trials, run.seed)

    def online(self) -> dict[str, Tensor]:
        return {"train_loss": self.loss}

    def measure(self, whole: bool) -> dict[str, Tensor]:
        evaluation = self.evaluated()
        found = self.measured(evaluation)
        if not (whole and self.done):
            sizes = sizes_of(self.model, self.criteria, len(self.trials))
            shapes = {name: [sizes[axis] for axis in ("trial", *one.dims)] for name, one in AFTER_PRUNING.items()}
            return found | {name: self.like.new_full(shape, torch.nan) for name, shape in shapes.items()}
        statistics = routing_statistics(self.weights, self.validation, self.model, self.task, self.chance)
        return found | pruned_by_all(self.before, self.weights, statistics, evaluation, self.criteria)


class PruningTraining(TokenTraining):
    """A run in training, whose last Snapshot has what comes of pruning it by every criterion and every rho."""

    def __init__(self, run: TokenRun, criteria: Mapping[str, Criterion] = CRITERIA) -> None:
        self._criteria = criteria
        learners = (Pruning(run, trials, criteria) for trials in groups_of(run, group_size(run)))
        super().__init__(run, learners, MEASURES | AFTER_PRUNING)

    @property
    def coords(self) -> dict[str, Any]:
        half = self.run.model.experts // 2
        return {"criterion": list(self._criteria), "rho": [gone / half for gone in range(half)]}


def sizes_of(model: TokenMoE, criteria: Sized, trials: int) -> dict[str, int]:
    """Returns the sizes of the axes that measures name."""
    k = model.experts
    return {"trial": trials, "criterion": len(criteria), "rho": k // 2, "expert": k}


def pruned_by_all(
    before: Weights,
    after: Weights,
    statistics: Statistics,
    evaluation: Evaluation,
    criteria: Mapping[str, Criterion],
) -> dict[str, Tensor]:
    """Prunes an unpruned layer by every criterion and every rho; returns the measures of `AFTER_PRUNING`.

    What a criterion leaves undefined in a trial is NaN there.
    """
    found = [saliency.scores_where_defined(one, before, after, statistics) for one in criteria.values()]
    undefined = torch.stack([one for _, one in found], 1)
    scores = torch.stack([one for one, _ in found], 1).masked_fill(undefined[..., None], torch.nan)
    rank = ranks_by_sign(scores, after.signs)
    accuracy = evaluation.accuracies(kept_by_count(rank).flatten(1, 2)).unflatten(1, (len(found), -1))
    return {
        "score": scores,
        "undefined": undefined.to(scores),
        "rank": rank.to(scores).masked_fill(undefined[..., None], torch.nan),
        "pruned_accuracy": accuracy.masked_fill(undefined[..., None], torch.nan),
        "received": statistics.received,
    }


def kept_by_count(rank: Num[Tensor, "*axes k"]) -> Bool[Tensor, "*axes R k"]:
    """Marks the experts that stay when 0, 1, ... k/2 - 1 of each half go."""
    half = rank.shape[-1] // 2
    return rank[..., None, :] < half - torch.arange(half, device=rank.device)[:, None]
