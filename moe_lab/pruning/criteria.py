"""Pruning criteria: functions of the layer before and after fine-tuning and of its routing statistics.

A criterion scores every expert, and the experts with the largest scores are kept. `CRITERIA` lists them by name; any
other function of the same three arguments can be used instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.config import require
from moe_lab.pruning.data import Samples, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.routing import expert_choice, token_choice
from moe_lab.trials import stream

Scores = Float[Tensor, "T k"]


@dataclass(frozen=True)
class Statistics:
    """Routing statistics of the fine-tuned layer on validation samples, for criteria that need more than weights.

    Attributes:
      received: (T, k) the share of all tokens that the expert receives; l/n for every expert in expert-choice routing.
      top1: (T, k) the share of all tokens whose largest gate belongs to the expert (Koishekenov et al., 2023).
      confidence: (T, k) the mean gate of these tokens, 0 if there are none.
      chance: (T, k) uniform random numbers, for the random baseline.
    """

    received: Scores
    top1: Scores
    confidence: Scores
    chance: Scores


Criterion = Callable[[Weights, Weights, Statistics], Scores]


class UndefinedCriterionError(ValueError):
    """Raised when a criterion cannot rank the experts because its value is the same for all of them."""


def router_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes Delta_s = |w_s after| - |w_s before|, the signed change of the router norm (section 3.2).

    Raises:
      UndefinedCriterionError: no router of some trial has moved, as with l=1, where the only gate is constant.
    """
    _check_routers_moved(before, after)
    return _norm(after.own_routers) - _norm(before.own_routers)


def router_difference_norm(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes |w_s after - w_s before|. Unlike Delta_s, it is large for a router that turns without growing.

    Raises:
      UndefinedCriterionError: no router of some trial has moved.
    """
    _check_routers_moved(before, after)
    return _norm(after.own_routers - before.own_routers)


def random(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Returns random scores, the baseline of figure 4a."""
    return statistics.chance


def importance_score(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes top1(s) conf(s), the share of tokens with this top-1 expert times their mean gate (section 5.2.1, I)."""
    return statistics.top1 * statistics.confidence


def router_magnitude(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes |w_s after| (section 5.2.1, II)."""
    return _norm(after.own_routers)


def neuron_magnitude(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes the mean norm of the expert's neurons after fine-tuning (section 5.2.1, III)."""
    return _neuron_norms(after)


def neuron_magnitude_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes the mean change of the norm of the expert's neurons (section 5.2.1, IV)."""
    return _neuron_norms(after) - _neuron_norms(before)


CRITERIA: dict[str, Criterion] = {
    "router-norm-change": router_norm_change,
    "random": random,
    "importance-score": importance_score,
    "router-magnitude": router_magnitude,
    "neuron-magnitude": neuron_magnitude,
    "neuron-magnitude-change": neuron_magnitude_change,
    "router-difference-norm": router_difference_norm,
}


def criterion_of(name: str) -> Criterion:
    """Returns the criterion of this name.

    Raises:
      ValueError: the name is unknown.
    """
    require(name in CRITERIA, f"a criterion must be one of {', '.join(CRITERIA)}", criterion=name)
    return CRITERIA[name]


def scores_of(criterion: str | Criterion, before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Computes a criterion's score for each expert; those of a diverged trial are NaN.

    Raises:
      ValueError: the name is unknown, or the checkpoints belong to different layers.
      UndefinedCriterionError: the criterion cannot rank the experts of some trial.
    """
    rule = "the checkpoints before and after must be of one layer: the same trials, experts, neurons and patterns"
    shapes = [(tuple(weights.routers.shape), tuple(weights.neurons.shape)) for weights in (before, after)]
    same = shapes[0] == shapes[1] and torch.equal(before.numbers, after.numbers)
    require(same, rule, before=shapes[0], after=shapes[1])
    return (criterion if callable(criterion) else criterion_of(criterion))(before, after, statistics)


def routing_statistics(
    weights: Weights, samples: Samples, model: TokenMoE, task: TokenTask, *, trials: Sequence[int], seed: int
) -> Statistics:
    """Computes how many tokens of the samples each expert receives, and with which gates.

    If several experts keep a token, its top-1 expert is the one with the largest gate; a token that no expert keeps
    has no top-1 expert.

    Args:
      trials, seed: determine the random streams of the random criterion.
    """
    k = weights.experts.shape[1]
    totals = [torch.zeros_like(weights.routers[:, :k, 0]) for _ in range(3)]
    block = max(1, 2**21 // (k * task.tokens * weights.trials))
    for begin in range(0, len(samples), block):
        for total, part in zip(totals, _counts(weights, samples.only(begin, begin + block), model), strict=True):
            total += part
    received, top1, gates = totals
    tokens = len(samples) * task.tokens
    chance = np.stack([stream(seed, trial, "criterion/random").random(k) for trial in trials])
    return Statistics(
        received=received / tokens,
        top1=top1 / tokens,
        confidence=gates / top1.clamp(min=1),
        chance=torch.as_tensor(chance, device=received.device, dtype=received.dtype),
    )


def _counts(weights: Weights, samples: Samples, model: TokenMoE) -> tuple[Scores, Scores, Scores]:
    """Returns, (T, k) each: tokens received, tokens received as top-1 expert, and the sum of the latter's gates."""
    routers, tokens = weights.routers, samples.tokens
    k = routers.shape[1]
    index = tokens[:, None].expand(-1, k, -1, -1)
    scores = routers[:, :, None].expand(-1, -1, tokens.shape[1], -1).gather(3, index)  # (T, k, N, n)
    if model.routing == "expert-choice":
        mask, gates = expert_choice(scores, model.top)
    else:
        mask, gates = (value.movedim(3, 1) for value in token_choice(scores.movedim(1, 3), model.top))
    largest, winner = gates.max(1)
    experts = torch.arange(k, device=winner.device)[:, None, None]
    is_top1 = (winner[:, None] == experts) & (largest > 0)[:, None]
    received, top1, top1_gates = (value.flatten(2).sum(2).to(gates.dtype) for value in (mask, is_top1, gates * is_top1))
    return received, top1, top1_gates


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=2)


def _neuron_norms(weights: Weights) -> Scores:
    return torch.linalg.vector_norm(weights.neurons, dim=2).mean(2)


def _check_routers_moved(before: Weights, after: Weights) -> None:
    unmoved = (before.routers == after.routers).flatten(1).all(1)
    if bool(unmoved.any()):
        raise UndefinedCriterionError(
            "the change of the routers is undefined where no router has moved (with l=1 each gate is 1 and "
            "its gradient is 0; with eta_r=0 the routers do not learn): choose l >= 2 and eta_r > 0; got "
            f"trials {unmoved.nonzero()[:, 0].tolist()}"
        )
