"""The outputs of experts for patches that are known multiples of a few directions, such as the signals.

The output of a filter for such a patch depends on its products with the directions alone, so that all these patches of
all samples take one small product with a constant table, instead of a product each.

Shapes: T trials, M experts of J filters, N samples, d numbers in a patch, R entries of the table.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.data import FEATURE, FEATURE_NOISE, ClusterSamples

Pull = Callable[[Tensor], Tensor]
"""Takes a derivative in what a function returned to the derivative in the weights that it was given."""


class Table(ABC):
    """f = (sum_j a_j features(w_j)) @ coefficients: a few features of a filter, and how much of each a sample has."""

    coefficients: Float[Tensor, "T R N"]

    def __init__(self, signs: Float[Tensor, " J"]) -> None:
        self.signs = signs

    @abstractmethod
    def features(self, weights: Float[Tensor, "T M J d"]) -> tuple[Float[Tensor, "T M J R"], Pull]:
        """Computes the features of filters."""

    def every(self, weights: Float[Tensor, "T M J d"]) -> tuple[Float[Tensor, "T M N"], Pull]:
        """Computes every expert's output for every sample."""
        values, pull = self.features(weights)

        def back(by_outputs: Float[Tensor, "T M N"]) -> Float[Tensor, "T M J d"]:
            return pull(self.signs[:, None] * (by_outputs @ self.coefficients.mT)[:, :, None])

        return (self.signs @ values) @ self.coefficients, back


class Linear(Table):
    """sigma(z) = z: an expert depends on sum_j a_j w_mj alone, and a sample on the sum of its patches."""

    def __init__(self, totals: Float[Tensor, "T N d"], signs: Float[Tensor, " J"]) -> None:
        super().__init__(signs)
        self.coefficients = totals.mT

    def features(self, weights: Tensor) -> tuple[Tensor, Pull]:
        return weights, lambda by: by


class Homogeneous(Table):
    """sigma(a z) = a^p sigma(z) for a > 0: a patch a s gives a^p sigma(<w, s>), with directions v_k, c_k and -v_k."""

    def __init__(self, samples: ClusterSamples, activation: str, signs: Float[Tensor, " J"]) -> None:
        super().__init__(signs)
        self.activation = ACTIVATIONS[activation]
        kinds, places, degree = samples.kinds, samples.directions.clone(), self.activation.degree
        assert degree is not None
        for role in (FEATURE, FEATURE_NOISE):  # a negative strength is a positive one of the opposite direction
            places[..., role] += torch.where(samples.strengths[..., role] < 0, 2 * kinds, 0)
        empty = samples.strengths.new_zeros(len(places), 3 * kinds, len(samples))
        self.coefficients = empty.scatter_(1, places.mT, samples.strengths.abs().pow(degree).mT)
        self.directions = torch.cat((samples.signals, -samples.signals[:, :kinds]), dim=1)[:, None]

    def features(self, weights: Tensor) -> tuple[Tensor, Pull]:
        values, slopes = self.activation.pair(weights @ self.directions.mT)
        return values, lambda by: (by * slopes) @ self.directions


class CubicWithBiases(Table):
    """A patch a s gives (a u + b)^3 = a^3 u^3 + a^2 3 u^2 b + a 3 u b^2 + b^3 with u = <w, s>."""

    def __init__(self, samples: ClusterSamples, signs: Float[Tensor, " J"]) -> None:
        super().__init__(signs)
        self.signals = samples.signals[:, None]
        a = samples.strengths.new_zeros(len(samples.labels), samples.signals.shape[1], len(samples))
        a.scatter_(1, samples.directions.mT, samples.strengths.mT)
        patches = torch.full_like(a[:, :1], samples.strengths.shape[2])  # each adds b^3
        self.coefficients = torch.cat((a**3, a**2, a, patches), dim=1)

    def features(self, weights: Tensor) -> tuple[Tensor, Pull]:
        u, b, size = weights[..., :-1] @ self.signals.mT, weights[..., -1:], self.signals.shape[2]

        def pull(by: Float[Tensor, "T M J R"]) -> Float[Tensor, "T M J d"]:
            third, second, first, zeroth = by.split((size, size, size, 1), dim=-1)
            by_u = third * 3 * u * u + second * 6 * u * b + first * 3 * b * b
            by_b = (second * 3 * u * u + first * 6 * u * b).sum(-1, keepdim=True) + zeroth * 3 * b * b
            return torch.cat((by_u @ self.signals, by_b), dim=-1)

        return torch.cat((u**3, 3 * u * u * b, 3 * u * b * b, b**3), dim=-1), pull
