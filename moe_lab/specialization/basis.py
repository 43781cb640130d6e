"""The signal basis: what the signal patches of generated samples give, by their strengths.

A signal patch is a strength times one of 2K known signals, so what it gives a filter depends on the filter's products
with the signals alone. All signal patches of all samples then cost one small product with a table that never changes,
where the general form has a matrix product with every patch. The random noise is left to the experts.

Shapes: T trials, M experts of J filters, N samples, d numbers in a patch, D directions, R rows of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.config import require
from moe_lab.specialization.activations import ACTIVATIONS, Activation
from moe_lab.specialization.data import FEATURE, FEATURE_NOISE, Samples


def rows_of(activation: str, biases: bool, signal_basis: bool | None) -> Literal["all", "noise", "none"]:
    """Which patches need a matrix product of their own: all, the random noise (signal basis), or none (linear).

    Raises:
      ValueError: a signal basis is asked for where there is none.
    """
    if activation == "linear":
        return "none"
    possible = activation == "cubic" or (ACTIVATIONS[activation].degree is not None and not biases)
    rule = "signal_basis needs cubic filters, or filters without biases and with sigma(a z) = a^p sigma(z)"
    require(possible or not signal_basis, rule, activation=activation, biases=biases)
    return "noise" if possible and signal_basis is not False else "all"


def make_basis(samples: Samples, activation: str, biases: bool) -> SignalBasis:
    """The basis of these samples for these filters."""
    return CubicWithBiases(samples) if biases else Homogeneous(samples, activation)


class SignalBasis(ABC):
    """The table of some samples.

    Attributes:
      amounts: (T, R, N) what multiplies the filters' terms, for every sample; it never changes.
    """

    amounts: Float[Tensor, "T R N"]

    @abstractmethod
    def outputs(self, weights: Float[Tensor, "T M J d"], signs: Float[Tensor, " J"]) -> tuple[Tensor, Any]:
        """(T, M, N) what the signal patches of each sample give at each expert, and what `gradient` wants to know."""

    @abstractmethod
    def gradient(self, saved: Any, spread: Float[Tensor, "T M N"], signs: Float[Tensor, " J"]) -> Tensor:
        """(T, M, J, d) the gradient, given each loss's slope in f at the expert that the sample is sent to."""


class Homogeneous(SignalBasis):
    """sigma(a z) = a^p sigma(z) for a > 0: a patch that is a times a direction s gives a^p sigma(<w, s>).

    A negative strength is a positive one of the opposite direction, so the directions are v_k, c_k and -v_k.
    """

    def __init__(self, samples: Samples, activation: str) -> None:
        self.activation: Activation = ACTIVATIONS[activation]
        kinds, degree = samples.kinds, self.activation.degree
        assert degree is not None
        self.directions = torch.cat((samples.signals, -samples.signals[:, :kinds]), dim=1)[:, None]
        rows = samples.directions.clone()
        for role in (FEATURE, FEATURE_NOISE):
            rows[..., role] += torch.where(samples.strengths[..., role] < 0, 2 * kinds, 0)
        empty = samples.strengths.new_zeros(len(rows), 3 * kinds, rows.shape[1])
        self.amounts = empty.scatter_(1, rows.mT, samples.strengths.abs().pow(degree).mT)

    def outputs(self, weights: Tensor, signs: Tensor) -> tuple[Tensor, Any]:
        values, slopes = self.activation.pair(weights @ self.directions.mT)  # (T, M, J, D)
        return (signs @ values) @ self.amounts, slopes

    def gradient(self, saved: Any, spread: Tensor, signs: Tensor) -> Tensor:
        amounts = spread @ self.amounts.mT  # (T, M, D)
        return (signs[:, None] * amounts[:, :, None] * saved) @ self.directions


class CubicWithBiases(SignalBasis):
    """A patch a s at a cubic filter with a bias: (a u + b)^3 = a^3 u^3 + a^2 3 u^2 b + a 3 u b^2 + b^3, u = <w, s>."""

    def __init__(self, samples: Samples) -> None:
        self.signals = samples.signals[:, None]
        empty = samples.strengths.new_zeros(len(samples.labels), samples.signals.shape[1], len(samples))
        strengths = empty.scatter_(1, samples.directions.mT, samples.strengths.mT)
        patches = torch.full_like(strengths[:, :1], samples.strengths.shape[2])  # each of them adds b^3
        self.amounts = torch.cat((strengths**3, strengths**2, strengths, patches), dim=1)

    def outputs(self, weights: Tensor, signs: Tensor) -> tuple[Tensor, Any]:
        u, b = weights[..., :-1] @ self.signals.mT, weights[..., -1:]  # (T, M, J, D) and (T, M, J, 1)
        terms = torch.cat((u**3, 3 * u * u * b, 3 * u * b * b, b**3), dim=-1)
        return (signs @ terms) @ self.amounts, (u, b)

    def gradient(self, saved: Any, spread: Tensor, signs: Tensor) -> Tensor:
        (u, b), size = saved, self.signals.shape[2]
        third, second, first, zeroth = (spread @ self.amounts.mT)[:, :, None].split((size, size, size, 1), dim=-1)
        by_u = third * 3 * u * u + second * 6 * u * b + first * 3 * b * b
        by_b = (second * 3 * u * u + first * 6 * u * b).sum(-1, keepdim=True) + zeroth * 3 * b * b
        return signs[:, None] * torch.cat((by_u @ self.signals, by_b), dim=-1)
