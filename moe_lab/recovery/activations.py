"""The experts' activations g, each with the points where it is not smooth, at which quadrature is split."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import torch
from torch import Tensor

from moe_lab.config import require


@dataclass(frozen=True)
class Activation:
    """g of a generalised linear expert, y = g(<a, x>) + noise.

    Attributes:
      name: what to call it.
      function: g, elementwise on tensors.
      kinks: where g or its derivative jumps.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    kinks: tuple[float, ...] = ()

    def __call__(self, values: Tensor) -> Tensor:
        return self.function(values)

    @property
    def linear(self) -> bool:
        """Whether regressors solve a linear least-squares problem."""
        return self.name == "identity"


def _identity(values: Tensor) -> Tensor:
    return values


def _leaky(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 0.01 * values)


ACTIVATIONS = {
    one.name: one
    for one in (
        Activation("identity", _identity),
        Activation("relu", torch.relu, (0.0,)),
        Activation("leaky-relu", _leaky, (0.0,)),
        Activation("sigmoid", torch.sigmoid),
        Activation("tanh", torch.tanh),
    )
}


def activation_of(g: str | Activation) -> Activation:
    """The activation behind a name, or the one that was given.

    Raises:
      ValueError: there is none of this name.
    """
    if isinstance(g, Activation):
        return g
    require(g in ACTIVATIONS, f"g must be one of {', '.join(ACTIVATIONS)}, or an Activation", g=g)
    return ACTIVATIONS[g]
