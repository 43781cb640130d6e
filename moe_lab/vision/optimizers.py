"""SGD and Adam, equal to those of `torch.optim`, which first loads torch's compiler: seconds in which a Lab would wait.

A gradient of None leaves a parameter and its averages as they are, as in torch.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Iterable, Sequence

import torch
from torch import Tensor, nn


class Optimizer(ABC):
    """Changes parameters by their gradients.

    Attributes:
      parameters: that change.
      learning_rate: of the next step.
    """

    def __init__(self, parameters: Iterable[Tensor], learning_rate: float) -> None:
        self.parameters, self.learning_rate = list(parameters), learning_rate

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


class Sgd(Optimizer):
    """Gradient descent with momentum; `weight_decay` times the parameter is added to its gradient."""

    def __init__(
        self, parameters: Iterable[Tensor], learning_rate: float, momentum: float = 0.0, weight_decay: float = 0.0
    ) -> None:
        super().__init__(parameters, learning_rate)
        self.momentum, self.weight_decay = momentum, weight_decay
        self.velocities = [torch.zeros_like(one) for one in self.parameters] if momentum else []

    def _change(self, used: list[int], weights: list[Tensor], slopes: list[Tensor]) -> None:
        if self.weight_decay:
            slopes = list(torch._foreach_add(slopes, weights, alpha=self.weight_decay))
        if self.momentum:
            velocities = [self.velocities[i] for i in used]
            torch._foreach_mul_(velocities, self.momentum)
            torch._foreach_add_(velocities, slopes)
            slopes = velocities
        torch._foreach_add_(weights, slopes, alpha=-self.learning_rate)


def changed_by(optimizers: Iterable[Sgd], network: nn.Module) -> list[Tensor]:
    """Returns every tensor that a step of a network changes."""
    parts = [*network.parameters(), *network.buffers(), *(one for each in optimizers for one in each.velocities)]
    return [part.detach() for part in parts]


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
        self.means = [torch.zeros_like(one) for one in self.parameters]
        self.squares = [torch.zeros_like(one) for one in self.parameters]
        self.steps = [0] * len(self.parameters)

    def _change(self, used: list[int], weights: list[Tensor], slopes: list[Tensor]) -> None:
        if self.weight_decay and self.decoupled:
            torch._foreach_mul_(weights, 1 - self.learning_rate * self.weight_decay)
        elif self.weight_decay:
            slopes = list(torch._foreach_add(slopes, weights, alpha=self.weight_decay))
        means, squares = [self.means[i] for i in used], [self.squares[i] for i in used]
        torch._foreach_lerp_(means, slopes, 1 - self._FIRST)
        torch._foreach_mul_(squares, self._SECOND)
        torch._foreach_addcmul_(squares, slopes, slopes, 1 - self._SECOND)
        for i in used:
            self.steps[i] += 1
        roots = torch._foreach_sqrt(squares)
        torch._foreach_div_(roots, [(1 - self._SECOND ** self.steps[i]) ** 0.5 for i in used])
        torch._foreach_add_(roots, self._EPSILON)
        rates = [-self.learning_rate / (1 - self._FIRST ** self.steps[i]) for i in used]
        torch._foreach_addcdiv_(weights, means, roots, rates)


def clipped(gradients: Sequence[Tensor | None], most: float) -> list[Tensor | None]:
    """Scales gradients so that their norm over all parameters is at most `most`, as torch does."""
    norm = torch.nn.utils.get_total_norm([one for one in gradients if one is not None])
    share = (most / (norm + 1e-6)).clamp(max=1.0)
    return [None if one is None else one * share for one in gradients]
