"""Which experts matter: criteria, each a function of the layer before and after fine-tuning and of what was counted.

A criterion gives every expert a score; those with the largest scores are kept. All of them can be had by name from
`CRITERIA`, and any other function of the same three arguments can be used in their place.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass

import numpy as np
import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.config import require
from moe_lab.pruning.data import Samples, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights
from moe_lab.routing import expert_choice, token_choice
from moe_lab.trials import stream

Scores = Float[Tensor, "T k"]


@dataclass(frozen=True)
class Statistics:
    """What is counted of the fine-tuned layer on validation samples, for criteria that need more than weights.

    Attributes:
      received: (T, k) the share of all tokens that the expert receives; l/n for everyone where experts choose.
      top1: (T, k) the share of all tokens whose largest gate is the expert's (Koishekenov et al., 2023).
      confidence: (T, k) the mean gate of these tokens, 0 where there are none.
      chance: (T, k) uniform random numbers, for the baseline.
    """

    received: Scores
    top1: Scores
    confidence: Scores
    chance: Scores


Criterion = Callable[[Weights, Weights, Statistics], Scores]


class UndefinedCriterionError(ValueError):
    """A criterion cannot tell experts apart, because what it measures is the same for all."""


def router_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Delta_s = |w_s after| - |w_s before|: a difference of norms, with its sign (section 3.2).

    Raises:
      UndefinedCriterionError: no router of a trial has moved, as with l=1, where the only gate is 1 and has no slope.
    """
    _check_routers_moved(before, after)
    return _norm(after.own_routers) - _norm(before.own_routers)


def router_difference_norm(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """|w_s after - w_s before|. Another thing than Delta_s: it is large for a router that turns and does not grow.

    Raises:
      UndefinedCriterionError: no router of a trial has moved.
    """
    _check_routers_moved(before, after)
    return _norm(after.own_routers - before.own_routers)


def random(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """Chance: the baseline of figure 4a."""
    return statistics.chance


def importance_score(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """top1(s) conf(s): share of tokens received as their top-1 expert, times their mean gate (section 5.2.1, I)."""
    return statistics.top1 * statistics.confidence


def router_magnitude(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """|w_s after| (section 5.2.1, II)."""
    return _norm(after.own_routers)


def neuron_magnitude(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """The mean length of the expert's neurons after fine-tuning (section 5.2.1, III)."""
    return _neuron_norms(after)


def neuron_magnitude_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """The mean change of the length of the expert's neurons (section 5.2.1, IV)."""
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
    """The criterion behind a name.

    Raises:
      ValueError: there is none of this name.
    """
    require(name in CRITERIA, f"a criterion must be one of {', '.join(CRITERIA)}", criterion=name)
    return CRITERIA[name]


def scores_of(criterion: str | Criterion, before: Weights, after: Weights, statistics: Statistics) -> Scores:
    """A criterion's scores, one an expert; a diverged trial's are NaN.

    Raises:
      ValueError: an unknown name, or two checkpoints that are not of one layer.
      UndefinedCriterionError: the criterion cannot tell the experts of some trial apart.
    """
    rule = "the checkpoints before and after must be of one layer: the same trials, experts, neurons and patterns"
    shapes = [(tuple(one.routers.shape), tuple(one.neurons.shape)) for one in (before, after)]
    same = shapes[0] == shapes[1] and torch.equal(before.numbers, after.numbers)
    require(same, rule, before=shapes[0], after=shapes[1])
    return (criterion if callable(criterion) else criterion_of(criterion))(before, after, statistics)


def count(
    weights: Weights, samples: Samples, model: TokenMoE, task: TokenTask, *, trials: Sequence[int], seed: int
) -> Statistics:
    """Counts who receives which tokens of the samples.

    Where several experts keep a token, its top-1 expert is the one that gives it the largest gate; a token that no
    expert keeps counts for none.

    Args:
      trials, seed: name the streams of the random criterion.
    """
    k = weights.experts.shape[1]
    tally = [torch.zeros_like(weights.routers[:, :k, 0]) for _ in range(3)]
    portion = max(1, 2**21 // (k * task.tokens * weights.trials))
    for begin in range(0, len(samples), portion):
        for sum_, part in zip(tally, _counted(weights, samples.only(begin, begin + portion), model), strict=True):
            sum_ += part
    received, top1, gates = tally
    tokens = len(samples) * task.tokens
    chance = np.stack([stream(seed, trial, "criterion/random").random(k) for trial in trials])
    return Statistics(
        received=received / tokens,
        top1=top1 / tokens,
        confidence=gates / top1.clamp(min=1),
        chance=torch.as_tensor(chance, device=received.device, dtype=received.dtype),
    )


def _counted(weights: Weights, samples: Samples, model: TokenMoE) -> tuple[Scores, Scores, Scores]:
    """(T, k) tokens received, tokens received as top-1, and the sum of the latter's gates."""
    routers, tokens = weights.routers, samples.tokens
    k = routers.shape[1]
    index = tokens[:, None].expand(-1, k, -1, -1)
    scores = routers[:, :, None].expand(-1, -1, tokens.shape[1], -1).gather(3, index)  # (T, k, N, n)
    if model.routing == "expert-choice":
        mask, gates = expert_choice(scores, model.top)
    else:
        mask, gates = (value.movedim(3, 1) for value in token_choice(scores.movedim(1, 3), model.top))
    largest, winner = gates.max(1)
    numbers = torch.arange(k, device=winner.device)[:, None, None]
    won = (winner[:, None] == numbers) & (largest > 0)[:, None]
    return tuple(value.flatten(2).sum(2).to(gates.dtype) for value in (mask, won, gates * won))  # type: ignore[return-value]


def separates(scores: Scores, important: Bool[Tensor, "T k"], signs: Float[Tensor, " k"]) -> Bool[Tensor, " T"]:
    """Whether, within each group, every important expert scores above every other."""
    parts = []
    for sign in (1, -1):
        mine = signs == sign
        low = scores[:, mine].masked_fill(~important[:, mine], torch.inf).amin(1)
        high = scores[:, mine].masked_fill(important[:, mine], -torch.inf).amax(1)
        parts.append(low > high)
    return parts[0] & parts[1]


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=2)


def _neuron_norms(weights: Weights) -> Scores:
    return torch.linalg.vector_norm(weights.neurons, dim=2).mean(2)


def _check_routers_moved(before: Weights, after: Weights) -> None:
    still = (before.routers == after.routers).flatten(1).all(1)
    if bool(still.any()):
        raise UndefinedCriterionError(
            "the change of the routers is undefined where no router has moved (with l=1 each gate is 1 whatever the "
            "router says, so its gradient is 0; with eta_r=0 no router learns): choose l >= 2 and eta_r > 0; got "
            f"trials {still.nonzero()[:, 0].tolist()}"
        )
