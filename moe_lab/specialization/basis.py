"""The signal basis: expert outputs for the signal patches of generated samples, computed from their strengths.

A signal patch is a strength times one of 2K known signals, so the output of a filter for it depends only on the
filter's inner products with the signals. All signal patches of all samples then take one small matrix product with a
constant table, instead of a matrix product with every patch. The random noise is left to the experts.

Shapes: T trials, M experts of J filters, N samples, d numbers in a patch, D directions, R rows of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from typing import Any, Literal

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.specialization.activations import ACTIVATIONS, Activation
from moe_lab.specialization.data import FEATURE, FEATURE_NOISE, Samples


def rows_of(activation: str, biases: bool, signal_basis: bool | None) -> Literal["all", "noise", "none"]:
    """Returns which patches need a matrix product each: all, the random noise (signal basis), or none (linear).

    Raises:
      ValueError: signal_basis is True, but these filters have no signal basis.
    """
    if activation == "linear":
        return "none"
    possible = activation == "cubic" or (ACTIVATIONS[activation].degree is not None and not biases)
    rule = "signal_basis needs cubic filters, or filters without biases and with sigma(a z) = a^p sigma(z)"
    require(possible or not signal_basis, rule, activation=activation, biases=biases)
    return "noise" if possible and signal_basis is not False else "all"


def make_basis(samples: Samples, activation: str, biases: bool) -> SignalBasis:
    """Makes the signal basis of samples for filters with this activation, with or without biases."""
    return CubicWithBiases(samples) if biases else Homogeneous(samples, activation)


class SignalBasis(ABC):
    """The contribution of the signal patches of a set of samples."""

    coefficients: Float[Tensor, "T R N"]  # the constant coefficients of the filters' terms for every sample

    @abstractmethod
    def outputs(self, weights: Float[Tensor, "T M J d"], signs: Float[Tensor, " J"]) -> tuple[Tensor, Any]:
        """Returns each expert's output for the signal patches of each sample, (T, M, N), and values for `gradient`."""

    @abstractmethod
    def gradient(self, saved: Any, slopes: Float[Tensor, "T M N"], signs: Float[Tensor, " J"]) -> Tensor:
        """Returns the gradient, (T, M, J, d), for the values saved by `outputs`.

        `slopes` are the derivatives of the samples' losses in f at the expert of each sample, 0 at the others.
        """


class Homogeneous(SignalBasis):
    """Filters with sigma(a z) = a^p sigma(z) for a > 0: the output for a patch a s is a^p sigma(<w, s>).

    A negative strength is a positive strength of the opposite direction; the directions are v_k, c_k and -v_k.
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
        self.coefficients = empty.scatter_(1, rows.mT, samples.strengths.abs().pow(degree).mT)

    def outputs(self, weights: Tensor, signs: Tensor) -> tuple[Tensor, Any]:
        values, derivatives = self.activation.pair(weights @ self.directions.mT)  # (T, M, J, D)
        return (signs @ values) @ self.coefficients, derivatives

    def gradient(self, saved: Any, slopes: Tensor, signs: Tensor) -> Tensor:
        by_direction = slopes @ self.coefficients.mT  # (T, M, D)
        return (signs[:, None] * by_direction[:, :, None] * saved) @ self.directions


class CubicWithBiases(SignalBasis):
    """Cubic filters with biases: for a patch a s, (a u + b)^3 = a^3 u^3 + a^2 3 u^2 b + a 3 u b^2 + b^3, u = <w, s>."""

    def __init__(self, samples: Samples) -> None:
        self.signals = samples.signals[:, None]
        empty = samples.strengths.new_zeros(len(samples.labels), samples.signals.shape[1], len(samples))
        strengths = empty.scatter_(1, samples.directions.mT, samples.strengths.mT)
        patches = torch.full_like(strengths[:, :1], samples.strengths.shape[2])  # each patch adds b^3
        self.coefficients = torch.cat((strengths**3, strengths**2, strengths, patches), dim=1)

    def outputs(self, weights: Tensor, signs: Tensor) -> tuple[Tensor, Any]:
        u, b = weights[..., :-1] @ self.signals.mT, weights[..., -1:]  # (T, M, J, D) and (T, M, J, 1)
        terms = torch.cat((u**3, 3 * u * u * b, 3 * u * b * b, b**3), dim=-1)
        return (signs @ terms) @ self.coefficients, (u, b)

    def gradient(self, saved: Any, slopes: Tensor, signs: Tensor) -> Tensor:
        (u, b), size = saved, self.signals.shape[2]
        third, second, first, zeroth = (slopes @ self.coefficients.mT)[:, :, None].split((size, size, size, 1), dim=-1)
        by_u = third * 3 * u * u + second * 6 * u * b + first * 3 * b * b
        by_b = (second * 3 * u * u + first * 6 * u * b).sum(-1, keepdim=True) + zeroth * 3 * b * b
        return signs[:, None] * torch.cat((by_u @ self.signals, by_b), dim=-1)
