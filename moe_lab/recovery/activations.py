"""The experts' activations g, each with the points where it is not smooth, at which quadrature splits."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import require


@dataclass(frozen=True)
class Activation:
    """The activation g of a generalised linear expert, y = g(<a, x>) + noise.

    Attributes:
      name: its name.
      function: g, elementwise on tensors.
      kinks: points where g or its derivative jumps.
    """

    name: str
    function: Callable[[Tensor], Tensor]
    kinks: tuple[float, ...] = ()

    def __call__(self, values: Tensor) -> Tensor:
        return self.function(values)

    def with_slope(self, values: Tensor) -> tuple[Tensor, Tensor]:
        """Computes g and g', elementwise; g' is 0 if g does not depend on its argument."""
        if self.linear:
            return values, torch.ones_like(values)
        with torch.enable_grad():
            at = values.detach().requires_grad_()
            value = self.function(at)
            if not value.requires_grad:
                return value, torch.zeros_like(values)
            (slope,) = torch.autograd.grad(value.sum(), at, materialize_grads=True)
        return value.detach(), slope

    @property
    def linear(self) -> bool:
        """Whether the regressors solve a linear least-squares problem."""
        return self.name == "identity"


def _identity(values: Tensor) -> Tensor:
    return values


def _leaky(values: Tensor) -> Tensor:
    return torch.where(values > 0, values, 0.01 * values)


ACTIVATIONS = {
    activation.name: activation
    for activation in (
        Activation("identity", _identity),
        Activation("relu", torch.relu, (0.0,)),
        Activation("leaky-relu", _leaky, (0.0,)),
        Activation("sigmoid", torch.sigmoid),
        Activation("tanh", torch.tanh),
    )
}


def activation_of(g: Any, called: str = "g") -> Activation:  # any: what is none is refused
    """Returns the activation of this name, or the given Activation itself.

    Args:
      called: what the user calls g.

    Raises:
      ValueError: the name is unknown.
    """
    if isinstance(g, Activation):
        return g
    known = isinstance(g, str) and g in ACTIVATIONS
    require(known, f"{called} must be one of {', '.join(ACTIVATIONS)}, or an Activation", **{called: g})
    return ACTIVATIONS[g]
