"""Pruning: selects the experts to keep and makes the smaller layer (pruning2024, section 3.2 and algorithm 1)."""

from __future__ import annotations

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core import saliency
from moe_lab.core.config import require
from moe_lab.pruning.criteria import Scores
from moe_lab.pruning.model import Routing, Weights

Kept = Bool[Tensor, "T k"]


def pruned_counts(share: float, groups: tuple[int, int], called: str = "rho") -> tuple[int, int]:
    """Computes how many experts of the + and - groups to prune: rho of each, rounded down, but never all.

    Raises:
      ValueError: rho is not in [0, 1).
    """
    first, second = (saliency.pruned_count(share, size, called) for size in groups)
    return first, second


def kept_experts(scores: Scores, signs: Float[Tensor, " k"], prune: float | tuple[int, int]) -> Kept:
    """Selects the experts with the largest scores within the + and the - group (algorithm 1, step 3).

    Among equal scores, experts with lower numbers are kept. The scores of a diverged trial are NaN and rank last.

    Args:
      scores: (T, k) of a criterion.
      signs: (k,) a^(s).
      prune: rho, the share of each group to prune; or how many experts of the + and of the - group to prune.

    Raises:
      ValueError: rho is not in [0, 1), or a group would lose all of its experts.
    """
    sizes = int((signs > 0).sum()), int((signs < 0).sum())
    if isinstance(prune, tuple):
        whole = len(prune) == 2 and all(isinstance(count, int | np.integer) for count in prune)
        require(whole, "prune must be rho or two whole numbers, of the + and of the - group", prune=prune)
        for sign, size, count in zip("+-", sizes, prune, strict=True):
            rule = f"of the {size} experts that vote {sign} at least 0 must be pruned and at least 1 kept"
            require(0 <= count < size, rule, pruned=count)
        counts = prune
    else:
        counts = pruned_counts(prune, sizes, "prune")
    left = torch.where(signs > 0, sizes[0] - counts[0], sizes[1] - counts[1])
    return ranks_by_sign(scores, signs) < left


def ranks_by_sign(scores: Float[Tensor, "*axes k"], signs: Float[Tensor, " k"]) -> Int[Tensor, "*axes k"]:
    """Ranks the experts within the + and within the - group, from 0 for the largest score.

    Among equal scores the lower number ranks first; NaN ranks last. Reads no number.
    """
    order = (-scores).argsort(dim=-1, stable=True)
    positive = signs[order] > 0
    ranks = torch.where(positive, positive.cumsum(-1), (~positive).cumsum(-1)) - 1
    return torch.empty_like(order).scatter_(-1, order, ranks)


def pruned(weights: Weights, kept: Kept, routing: Routing) -> Weights:
    """Makes the smaller layer, without the weights of pruned experts.

    Expert-choice routing removes their routers too (eq. 6); token-choice routing keeps these, so that the gates of the
    other experts do not change (eq. 5).

    Args:
      weights: of an unpruned layer, or of a pruned one to be pruned further.
      kept: (T, k) whether to keep each expert; the same number of each sign in every trial.

    Raises:
      ValueError: kept has the wrong shape, keeps no expert of a sign, or different numbers in different trials.
    """
    rule = "kept must state for each expert of each trial whether it stays"
    require(kept.shape == weights.experts.shape, rule, kept=tuple(kept.shape), experts=tuple(weights.experts.shape))
    plus = kept[:, weights.signs > 0].sum(1).tolist()
    minus = kept[:, weights.signs < 0].sum(1).tolist()
    rule = "at least one expert of each sign must be kept, and the same number in every trial"
    valid = len(set(plus)) == 1 and len(set(minus)) == 1 and min(plus + minus) >= 1
    require(valid, rule, plus=plus, minus=minus)
    trials = kept.shape[0]
    index = kept.nonzero()[:, 1].view(trials, -1)  # ascending, so + experts stay before - ones

    def chosen(value: Tensor) -> Tensor:
        return value.gather(1, index.view(*index.shape, *(1,) * (value.ndim - 2)).expand(-1, -1, *value.shape[2:]))

    routers, experts = weights.routers, chosen(weights.experts)
    if routing == "expert-choice":
        routers = chosen(weights.own_routers)
        experts = torch.arange(index.shape[1], device=kept.device).expand(trials, -1)
    return Weights(routers, chosen(weights.neurons), experts, chosen(weights.numbers), weights.signs[index[0]])
