"""Adam, which trains the single expert: torch's own, and the same arithmetic for a step that is captured as a graph."""

from __future__ import annotations

import math

import torch
from torch import Tensor

_FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8  # as in torch


class TorchAdam:
    """torch.optim.Adam on one tensor. It keeps its count of steps on the host, which a graph would not advance.

    Args:
      weights: changed in place.
      weight_decay: times the weights is added to their gradient.
    """

    state: tuple[Tensor, ...] = ()

    def __init__(self, weights: Tensor, rate: float, weight_decay: float) -> None:
        self._weights = weights
        self._adam = torch.optim.Adam([weights], lr=rate, weight_decay=weight_decay)

    def step(self, gradient: Tensor) -> None:
        """Changes the weights."""
        self._weights.grad = gradient
        self._adam.step()


class CapturedAdam:
    """The same with the count on the device.

    Attributes:
      state: all tensors that a step changes besides the weights.
    """

    def __init__(self, weights: Tensor, rate: float, weight_decay: float) -> None:
        self._weights, self._rate, self._decay = weights, rate, weight_decay
        self._means, self._squares = torch.zeros_like(weights), torch.zeros_like(weights)
        self._count = weights.new_zeros(())
        self.state = (self._means, self._squares, self._count)

    def step(self, gradient: Tensor) -> None:
        """Changes the weights."""
        gradient = gradient.add(self._weights, alpha=self._decay)
        self._count += 1
        self._means.lerp_(gradient, 1 - _FIRST)
        self._squares.mul_(_SECOND).addcmul_(gradient, gradient, value=1 - _SECOND)
        first, second = (-torch.expm1(self._count * math.log(share)) for share in (_FIRST, _SECOND))  # 1 - share^count
        self._weights -= self._rate / first * self._means / ((self._squares / second).sqrt() + _EPSILON)
