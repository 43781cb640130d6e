"""SGD and Adam, equal to those of `torch.optim`, which first loads torch's compiler: seconds in which a Lab would wait.

A gradient of None leaves a parameter and its averages as they are, as in torch. On an accelerator the learning rate and
Adam's counts lie there, so that a step can be captured as a graph.
"""

from __future__ import annotations

import math
from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence
from typing import Any

import torch
from torch import Tensor, nn

from moe_lab.core.graphs import on_accelerator


class Optimizer(ABC):
    """Changes parameters by their gradients.

    Attributes:
      parameters: that change; at least one.
      state: all other tensors that a step changes.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters = list(parameters)
        self.state: list[Tensor] = []
        there = on_accelerator(self.parameters[0].device)
        self._rate: float | Tensor = self._number(learning_rate) if there else learning_rate

    @property
    def learning_rate(self) -> float | Tensor:
        """Of the next step; on an accelerator a tensor there."""
        return self._rate

    @learning_rate.setter
    def learning_rate(self, value: float) -> None:
        if isinstance(self._rate, Tensor):
            self._rate.fill_(value)
        else:
            self._rate = value

    @torch.no_grad()
    def step(self, gradients: Sequence[Tensor | None]) -> None:
        """Takes a step.

        Args:
          gradients: one for each parameter, None for those that stay.
        """
        used = [place for place, gradient in enumerate(gradients) if gradient is not None]
        if used:
            self._change(used, [self.parameters[i] for i in used], [slope for slope in gradients if slope is not None])

    @abstractmethod
    def _change(self, used: list[int], weights: list[Tensor], slopes: list[Tensor]) -> None:
        """Changes some of the parameters, of which `used` are the places."""

    def _number(self, value: float) -> Tensor:
        return self.parameters[0].detach().new_full((), value)

    def _zeros(self) -> list[Tensor]:
        """Zeros like the parameters, which count as state."""
        zeros = [torch.zeros_like(one) for one in self.parameters]
        self.state += zeros
        return zeros


class Sgd(Optimizer):
    """Gradient descent with momentum; `weight_decay` times the parameter is added to its gradient."""

    def __init__(
        self, parameters: Iterable[Tensor], learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, learning_rate)
        self.momentum, self.weight_decay = momentum, weight_decay
        self._velocities = self._zeros() if momentum else []

    def _change(self, used: list[int], weights: list[Tensor], slopes: list[Tensor]) -> None:
        if self.weight_decay:
            slopes = list(torch._foreach_add(slopes, weights, alpha=self.weight_decay))
        if self.momentum:
            velocities = [self._velocities[i] for i in used]
            torch._foreach_mul_(velocities, self.momentum)
            torch._foreach_add_(velocities, slopes)
            slopes = velocities
        if isinstance(self.learning_rate, Tensor):
            torch._foreach_sub_(weights, torch._foreach_mul(slopes, self.learning_rate))
        else:
            torch._foreach_add_(weights, slopes, alpha=-self.learning_rate)


class Adam(Optimizer):
    """Adam with torch's constants (.9, .999, 1e-8).

    Args:
      weight_decay: times the parameter is added to its gradient; if `decoupled`, as in AdamW, the parameter shrinks by
        the learning rate times this share instead.
    """

    _FIRST, _SECOND, _EPSILON = 0.9, 0.999, 1e-8

    def __init__(
        self, parameters: Iterable[Tensor], learning_rate: float, weight_decay: float = 0.0, decoupled: bool = False
    ) -> None:
        super().__init__(parameters, learning_rate)
        self.weight_decay, self.decoupled = weight_decay, decoupled
        self._means, self._squares = self._zeros(), self._zeros()
        self._steps = [0] * len(self.parameters)
        self._counts: list[Tensor] = []  # the same on an accelerator, where a graph would not advance a host's count
        if on_accelerator(self.parameters[0].device):
            self._counts = [self._number(0) for _ in self.parameters]
            self.state += self._counts

    def _change(self, used: list[int], weights: list[Tensor], slopes: list[Tensor]) -> None:
        if self.weight_decay and self.decoupled:
            torch._foreach_mul_(weights, 1 - self.learning_rate * self.weight_decay)
        elif self.weight_decay:
            slopes = list(torch._foreach_add(slopes, weights, alpha=self.weight_decay))
        means, squares = [self._means[i] for i in used], [self._squares[i] for i in used]
        torch._foreach_lerp_(means, slopes, 1 - self._FIRST)
        torch._foreach_mul_(squares, self._SECOND)
        torch._foreach_addcmul_(squares, slopes, slopes, 1 - self._SECOND)
        roots = torch._foreach_sqrt(squares)
        divisors, rates = self._corrections(used)
        torch._foreach_div_(roots, divisors)
        torch._foreach_add_(roots, self._EPSILON)
        if self._counts:
            torch._foreach_div_(roots, rates)
            torch._foreach_addcdiv_(weights, means, roots)
        else:
            torch._foreach_addcdiv_(weights, means, roots, rates)

    def _corrections(self, used: list[int]) -> tuple[Sequence[Any], Sequence[Any]]:
        """Counts the step. Returns what roots are divided by, and minus the rates, as averages begin at 0."""
        if self._counts:
            counts = [self._counts[i] for i in used]
            torch._foreach_add_(counts, 1)
            steps = torch.stack(counts)
            first, second = (-torch.expm1(steps * math.log(share)) for share in (self._FIRST, self._SECOND))
            return second.sqrt().unbind(), (-self.learning_rate / first).unbind()
        for i in used:
            self._steps[i] += 1
        divisors = [(1 - self._SECOND ** self._steps[i]) ** 0.5 for i in used]
        return divisors, [-self.learning_rate / (1 - self._FIRST ** self._steps[i]) for i in used]


def changed_by(optimizers: Iterable[Optimizer], network: nn.Module) -> list[Tensor]:
    """Returns every tensor that a step of a network changes."""
    parts = [*network.parameters(), *network.buffers(), *(one for each in optimizers for one in each.state)]
    return [part.detach() for part in parts]


def clipped(gradients: Sequence[Tensor | None], most: float) -> list[Tensor | None]:
    """Scales gradients so that their norm over all parameters is at most `most`, as torch does."""
    norm = torch.nn.utils.get_total_norm([one for one in gradients if one is not None])
    share = (most / (norm + 1e-6)).clamp(max=1.0)
    return [None if one is None else one * share for one in gradients]
