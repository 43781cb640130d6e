"""Pruning criteria: functions of the experts before and after fine-tuning and of their routing statistics.

A criterion scores every expert, and the experts with the largest scores are kept. `CRITERIA` lists those of the paper
(pruning2024, sections 3.2 and 5.2.1) by name; any other function of the same three arguments can be used instead.
Everything is computed in the precision of the weights.
"""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from decimal import Decimal
from functools import wraps
from numbers import Real
from typing import Any, Protocol, TypeVar, runtime_checkable

import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.scalars import python_of

Scores = Float[Tensor, "T k"]
_SLACK = 1e-9  # so that .3 of 10 is 3 despite rounding


@runtime_checkable
class Experts(Protocol):
    """What criteria read of a layer; axes are trials (or layers of one shape), experts, neurons and dimensions."""

    @property
    def own_routers(self) -> Float[Tensor, "T k d"]:
        """The router of each expert."""

    @property
    def neurons(self) -> Float[Tensor, "T k d m"]:
        """The neurons of each expert, one in each column."""


@dataclass(frozen=True)
class ExpertWeights:
    """The plainest `Experts`: two tensors.

    Attributes:
      own_routers: (T, k, d) the router of each expert.
      neurons: (T, k, d, m) the m neurons of each expert, one in each column.
    """

    own_routers: Float[Tensor, "T k d"]
    neurons: Float[Tensor, "T k d m"]


@dataclass(frozen=True)
class Statistics:
    """Routing statistics of the fine-tuned layer on validation samples, for criteria that need more than weights.

    Attributes:
      received: (T, k) the share of all tokens that the expert receives; l/n for every expert in expert-choice routing.
      top1: (T, k) the share of all tokens whose largest gate belongs to the expert (Koishekenov et al., 2023).
      confidence: (T, k) the mean gate of these tokens, 0 if there are none.
      chance: (T, k) uniform random numbers, for the random baseline.
      output: (T, k) the mean of gate times norm of the expert's output over the tokens that it receives, 0 if there are
        none; None where it was not measured.
    """

    received: Scores
    top1: Scores
    confidence: Scores
    chance: Scores
    output: Scores | None = None


Criterion = Callable[[Experts, Experts, Statistics], Scores]


class UndefinedCriterionError(InputError):
    """Raised when a criterion cannot rank the experts because its value is the same for all of them."""


Test = Callable[[Experts, Experts, Statistics], Bool[Tensor, " T"]]
_OfLayer = TypeVar("_OfLayer", bound=Callable[..., Scores])
"""A criterion of any layer, or of one kind."""


def undefined_where(test: Test, why: str) -> Callable[[_OfLayer], _OfLayer]:
    """Returns what makes a criterion of a function: it is refused where a test says so of some trial.

    Args:
      test: returns in which trials the function has the same value for all experts, and reads no number.
      why: the sentence, which ends where it is told in how many trials.
    """

    def made(plain: _OfLayer) -> _OfLayer:
        @wraps(plain)
        def criterion(before: Any, after: Any, statistics: Statistics) -> Scores:
            same = test(before, after, statistics)
            if bool(same.any()):
                raise UndefinedCriterionError(f"{why} {_in_trials(same)}")
            return plain(before, after, statistics)

        criterion.undefined_where = test  # type: ignore[attr-defined]
        return criterion  # type: ignore[return-value]

    return made


def scores_where_defined(
    criterion: Callable[..., Scores], before: Experts, after: Experts, statistics: Statistics
) -> tuple[Scores, Bool[Tensor, " T"]]:
    """Computes a criterion's scores, and in which trials they are undefined, without reading a number."""
    scores = getattr(criterion, "__wrapped__", criterion)(before, after, statistics)
    test = getattr(criterion, "undefined_where", None)
    if test is None:
        return scores, torch.zeros_like(scores[:, 0], dtype=torch.bool)
    return scores, test(before, after, statistics)


def routers_unmoved(before: Experts, after: Experts, statistics: Statistics) -> Bool[Tensor, " T"]:
    """Returns in which trials no router has moved."""
    return (before.own_routers == after.own_routers).flatten(1).all(1)


def received_alike(before: Experts, after: Experts, statistics: Statistics) -> Bool[Tensor, " T"]:
    """Returns in which trials all experts, of which there are several, receive equally many tokens."""
    received = statistics.received
    return (received == received[:, :1]).all(1) & (received.shape[1] > 1)


UNMOVED = (
    "the change of the routers is undefined where no router has moved (with l=1 each gate is 1 and its gradient is 0; "
    "with eta_r=0 the routers do not learn): choose l >= 2 and eta_r > 0: got routers that have not moved"
)
ALIKE = (
    "token counts are undefined as a criterion where all experts receive equally many tokens, as they do where each "
    "chooses l: let tokens choose, or take another criterion: got equal counts"
)


@undefined_where(routers_unmoved, UNMOVED)
def router_norm_change(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes Delta_s = |w_s after| - |w_s before|, the signed change of the router's norm (section 3.2).

    Raises:
      UndefinedCriterionError: no router of some trial has moved, as with l=1, where the only gate is constant.
    """
    return _norm(after.own_routers) - _norm(before.own_routers)


@undefined_where(routers_unmoved, UNMOVED)
def router_difference_norm(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes |w_s after - w_s before|. Unlike Delta_s, it is large for a router that turns without growing.

    Raises:
      UndefinedCriterionError: no router of some trial has moved.
    """
    return _norm(after.own_routers - before.own_routers)


def random(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Returns random scores, the baseline of figure 4a."""
    return statistics.chance


def importance_score(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes top1(s) conf(s), the share of tokens with this top-1 expert times their mean gate (section 5.2.1, I)."""
    return statistics.top1 * statistics.confidence


@undefined_where(received_alike, ALIKE)
def token_count(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Returns the share of all tokens that the expert receives (sections 1 and 5.2.1, I; Chen et al., 2022).

    Raises:
      UndefinedCriterionError: all experts of some trial receive equally many, as where experts choose l tokens each.
    """
    return statistics.received


def router_magnitude(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes |w_s after| (section 5.2.1, II)."""
    return _norm(after.own_routers)


def neuron_magnitude(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes the mean norm of the expert's neurons after fine-tuning (section 5.2.1, III)."""
    return _neuron_norms(after)


def neuron_magnitude_change(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Computes the mean change of the norm of the expert's neurons (section 5.2.1, IV)."""
    return _neuron_norms(after) - _neuron_norms(before)


def reap(before: Experts, after: Experts, statistics: Statistics) -> Scores:
    """Returns the mean of gate times output norm over the expert's tokens (Lasby et al., 2025, "REAP").

    Raises:
      ValueError: the statistics were taken without outputs.
    """
    require(statistics.output is not None, "reap needs statistics of the experts' outputs", output=None)
    assert statistics.output is not None
    return statistics.output


CRITERIA: dict[str, Criterion] = {
    "router-norm-change": router_norm_change,
    "random": random,
    "importance-score": importance_score,
    "router-magnitude": router_magnitude,
    "neuron-magnitude": neuron_magnitude,
    "neuron-magnitude-change": neuron_magnitude_change,
    "router-difference-norm": router_difference_norm,
    "token-count": token_count,
}
"""The paper's criteria by name, and two more that it mentions; `reap` is not one of them."""

NAMES = {
    "router-norm-change": "norm change",
    "random": "random",
    "importance-score": "importance",
    "router-magnitude": "router norm",
    "neuron-magnitude": "neuron norm",
    "neuron-magnitude-change": "neuron change",
    "router-difference-norm": "difference",
    "token-count": "token count",
}
"""What each criterion is called in pictures and Labs."""

NEED_BEFORE = frozenset({"router-norm-change", "router-difference-norm", "neuron-magnitude-change"})
"""Criteria that compare with the model before fine-tuning."""

NEED_TOKENS = frozenset({"importance-score", "token-count", "reap"})
"""Criteria that need the statistics of tokens."""


def name_of(criterion: str) -> str:
    """Returns what a criterion is called in pictures; one that is not in `NAMES` keeps its own name."""
    return NAMES.get(criterion, criterion)


def ranks(scores: Float[Tensor, "*axes k"]) -> Int[Tensor, "*axes k"]:
    """Ranks experts from 0 for the largest score; among equal scores the lower number ranks first, and NaN last."""
    return (-scores).argsort(dim=-1, stable=True).argsort(dim=-1)


def pruned_count(share: Any, size: int, called: str = "share") -> int:  # any: what is no share is refused
    """Computes how many of some experts to prune: a share of them, rounded down, but never all.

    Args:
      called: what the user calls the share.

    Raises:
      ValueError: the share is not in [0, 1).
    """
    given = python_of(share)
    real = isinstance(given, Real | Decimal) and not isinstance(given, bool)
    require(real and 0 <= given < 1, f"{called} must be at least 0 and less than 1", **{called: share})
    return min(size - 1, math.floor(float(given) * size + _SLACK))


def _norm(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=2)


def _neuron_norms(experts: Experts) -> Scores:
    return torch.linalg.vector_norm(experts.neurons, dim=2).mean(2)


def _in_trials(which: Tensor) -> str:
    """Returns how many trials are meant, in words."""
    return f"in {int(which.sum())} of {len(which)} trials" if len(which) > 1 else "in the one trial"
