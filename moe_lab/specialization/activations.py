"""The activations of chen2022 (section 3.2 and table 7) and their derivatives."""

from __future__ import annotations

import math
from collections.abc import Callable
from dataclasses import dataclass
from typing import Literal

import torch
from jaxtyping import Float
from torch import Tensor

ActivationName = Literal["cubic", "linear", "relu", "celu", "gelu", "tanh"]
Values = Float[Tensor, "*shape"]


@dataclass(frozen=True)
class Activation:
    """An activation function sigma and its derivative.

    Attributes:
      pair: z -> (sigma(z), sigma'(z)), computed together because they share most operations.
      odd: whether sigma(-z) = -sigma(z). If so, a_j = 1 for all filters; otherwise a_j = -1 for half of them, because
        a sum of ReLUs is never negative.
      degree: p if sigma(a z) = a^p sigma(z) for all a > 0, else None.
    """

    pair: Callable[[Values], tuple[Values, Values]]
    odd: bool
    degree: int | None = None


def _cubic(z: Values) -> tuple[Values, Values]:
    square = z * z
    return square * z, square.mul_(3)


def _linear(z: Values) -> tuple[Values, Values]:
    return z, torch.ones_like(z)


def _relu(z: Values) -> tuple[Values, Values]:
    return z.clamp(min=0), (z > 0).to(z.dtype)


def _celu(z: Values) -> tuple[Values, Values]:
    below = z.clamp(max=0).exp_()
    return z.clamp(min=0) + below - 1, below


def _gelu(z: Values) -> tuple[Values, Values]:
    below = torch.erf(z * math.sqrt(0.5)).add_(1).mul_(0.5)  # Phi(z)
    density = (z * z).mul_(-0.5).exp_().mul_(1 / math.sqrt(2 * math.pi))
    return z * below, density.mul_(z).add_(below)


def _tanh(z: Values) -> tuple[Values, Values]:
    value = torch.tanh(z)
    return value, 1 - value * value


ACTIVATIONS: dict[str, Activation] = {
    "cubic": Activation(_cubic, odd=True, degree=3),
    "linear": Activation(_linear, odd=True, degree=1),
    "relu": Activation(_relu, odd=False, degree=1),
    "celu": Activation(_celu, odd=False),
    "gelu": Activation(_gelu, odd=False),
    "tanh": Activation(_tanh, odd=True),
}
