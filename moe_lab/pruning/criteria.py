"""Pruning criteria for this room's layer: those of `moe_lab.core.saliency`, and the routing statistics that they read.

A criterion scores every expert, and the experts with the largest scores are kept. `CRITERIA` lists them by name; any
other function of the same three arguments can be used instead.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any

import numpy as np
import torch
from jaxtyping import Int
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.graphs import on_accelerator
from moe_lab.core.routing import expert_choice, token_choice
from moe_lab.core.saliency import (
    CRITERIA,
    Scores,
    Statistics,
    UndefinedCriterionError,
    importance_score,
    neuron_magnitude,
    neuron_magnitude_change,
    random,
    router_difference_norm,
    router_magnitude,
    router_norm_change,
    token_count,
)
from moe_lab.core.sentences import shown
from moe_lab.core.trials import Draw
from moe_lab.pruning.data import TokenSamples, TokenTask
from moe_lab.pruning.model import TokenMoE, Weights

__all__ = [
    "CRITERIA",
    "Criterion",
    "Scores",
    "Statistics",
    "UndefinedCriterionError",
    "chance_of",
    "criterion_of",
    "importance_score",
    "neuron_magnitude",
    "neuron_magnitude_change",
    "of_routers",
    "random",
    "router_difference_norm",
    "router_magnitude",
    "router_norm_change",
    "routing_statistics",
    "scores_of",
    "token_count",
]

Criterion = Callable[[Weights, Weights, Statistics], Scores]

TIE = 64
"""Gates of a token that differ by less, in units of rounding, are equal."""


def of_routers(score: Callable[[Any, Any], Any]) -> Criterion:
    """Returns the criterion that a function of the routers of one trial is.

    Args:
      score: takes the (k, d) routers before and after training, as NumPy arrays, and returns (k,) scores.

    Raises:
      ValueError: by the criterion, where the function returns anything else; a trial that diverged has scores of NaN.
    """

    def criterion(before: Weights, after: Weights, statistics: Statistics) -> Scores:
        found = torch.full_like(statistics.chance, torch.nan)
        for trial, pair in enumerate(zip(before.own_routers, after.own_routers, strict=True)):
            if all(bool(one.isfinite().all()) for one in pair):
                routers_before, routers_after = (one.cpu().numpy() for one in pair)
                found[trial] = torch.as_tensor(scores_of_one(score, routers_before, routers_after))
        return found

    criterion.__name__ = getattr(score, "__name__", "score")
    return criterion


def scores_of_one(score: Callable[[Any, Any], Any], before: NDArray[Any], after: NDArray[Any]) -> NDArray[np.float64]:
    """Returns the (k,) scores of a function for the (k, d) routers of one trial.

    Raises:
      ValueError: it returns anything else than a finite number for each expert.
    """
    given = score(before.copy(), after.copy())
    name = getattr(score, "__name__", "score")
    rule = f"{name}(before, after) must return a finite number for each expert, shape ({len(after)},)"
    try:
        found = np.asarray(given, dtype=np.float64)
    except (TypeError, ValueError):
        raise InputError(f"{rule}: got {shown(given)}") from None
    require(found.shape == (len(after),), rule, shape=found.shape)
    require(bool(np.isfinite(found).all()), rule, returned=found)
    return found


def criterion_of(name: str) -> Criterion:
    """Returns the criterion of this name.

    Raises:
      ValueError: the name is unknown.
    """
    require(name in CRITERIA, f"a criterion must be one of {', '.join(CRITERIA)}", criterion=name)
    return CRITERIA[name]


def name_of(criterion: str | Criterion) -> str:
    """Returns the name of a criterion: its own, or that of the function.

    Raises:
      ValueError: the name is unknown; or the function has none, or one that another criterion has.
    """
    if isinstance(criterion, str):
        criterion_of(criterion)
        return criterion
    name = getattr(criterion, "__name__", "<no name>")
    rule = "a criterion of your own must be a function with a name that no other criterion has"
    require("<" not in name and name not in CRITERIA, rule, criterion=name)
    return name


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
    scores = (criterion if callable(criterion) else criterion_of(criterion))(before, after, statistics)
    wanted = tuple(after.own_routers.shape[:2])
    rule = f"a criterion must return a tensor with a score for each expert of each trial, here {wanted}"
    given = tuple(scores.shape) if isinstance(scores, torch.Tensor) else type(scores).__name__
    require(given == wanted, rule, returned=given)
    return scores


def routing_statistics(
    weights: Weights, samples: TokenSamples, model: TokenMoE, task: TokenTask, chance: Scores
) -> Statistics:
    """Computes how many tokens of the samples each expert receives, and with which gates.

    If several experts keep a token, its top-1 expert is the one with the largest gate, of equal ones the first; a token
    that no expert keeps has no top-1 expert.

    Args:
      chance: the scores of the random criterion (`chance_of`).
    """
    k = weights.experts.shape[1]
    gates = torch.zeros_like(weights.routers[:, :k, 0])
    received, top1 = torch.zeros_like(gates, dtype=torch.int64), torch.zeros_like(gates, dtype=torch.int64)
    block = len(samples) if on_accelerator(gates.device) else max(1, 2**21 // (k * task.tokens * weights.trials))
    for begin in range(0, len(samples), block):
        counted = _counts(weights, samples.only(begin, begin + block), model)
        for total, part in zip((received, top1, gates), counted, strict=True):
            total += part
    tokens = len(samples) * task.tokens
    return Statistics(
        received=received.to(gates.dtype) / tokens,
        top1=top1.to(gates.dtype) / tokens,
        confidence=gates / top1.clamp(min=1),
        chance=chance,
    )


def chance_of(weights: Weights, trials: Sequence[int], seed: int) -> Scores:
    """Draws the scores of the random criterion."""
    chance = Draw("criterion/random", (weights.experts.shape[1],)).by_trial(trials, seed)
    return chance.to(weights.routers)


def _counts(
    weights: Weights, samples: TokenSamples, model: TokenMoE
) -> tuple[Int[Tensor, "T k"], Int[Tensor, "T k"], Scores]:
    """Returns, (T, k) each: tokens received, tokens received as top-1 expert, and the sum of the latter's gates."""
    routers, tokens = weights.routers, samples.tokens
    k = routers.shape[1]
    index = tokens[:, None].expand(-1, k, -1, -1)
    scores = routers[:, :, None].expand(-1, -1, tokens.shape[1], -1).gather(3, index)  # (T, k, N, n)
    if model.routing == "expert-choice":
        mask, gates = expert_choice(scores, model.top)
    else:
        mask, gates = (value.movedim(3, 1) for value in token_choice(scores.movedim(1, 3), model.top))
    largest = gates.amax(1)
    # Gates that are equal but for rounding, which differs between devices, are a tie; the first expert has it.
    winner = (gates >= largest[:, None] * (1 - TIE * torch.finfo(gates.dtype).eps)).to(torch.int8).argmax(1)
    experts = torch.arange(k, device=winner.device)[:, None, None]
    is_top1 = (winner[:, None] == experts) & (largest > 0)[:, None]
    received, top1, top1_gates = (value.flatten(2).sum(2) for value in (mask, is_top1, gates * is_top1))
    return received, top1, top1_gates
