"""Small convolutional networks, ResNet18, and a mixture of either (chen2022, section 3.2 and table 2).

Shapes: B images, M experts, c classes.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Float, Int
from torch import Tensor, nn
from torch.nn import functional

from moe_lab.core.config import require
from moe_lab.core.routing import one_hot
from moe_lab.routers.balance import switch_loss


class Dispatched(NamedTuple):
    """The forward pass of a mixture.

    Attributes:
      logits: pi_m* f_m*(x), of the expert that each image is sent to.
      expert: m*.
      scores: h(x) of the router, without noise.
    """

    logits: Float[Tensor, "B c"]
    expert: Int[Tensor, " B"]
    scores: Float[Tensor, "B M"]


def small_cnn(channels: int, filters: Sequence[int], classes: int) -> nn.Sequential:
    """Returns two convolutions with ReLU and pooling, to a map of 2x2, and a dense layer."""
    first, second = filters
    return nn.Sequential(
        nn.Conv2d(channels, first, 3, padding=1),
        nn.ReLU(),
        nn.MaxPool2d(2),
        nn.Conv2d(first, second, 3, padding=1),
        nn.ReLU(),
        nn.AdaptiveAvgPool2d(2),
        nn.Flatten(),
        nn.Linear(4 * second, classes),
    )


class Residual(nn.Module):
    """The basic block of ResNet18."""

    def __init__(self, inputs: int, outputs: int, stride: int) -> None:
        super().__init__()
        self.residual = nn.Sequential(
            nn.Conv2d(inputs, outputs, 3, stride, 1, bias=False),
            nn.BatchNorm2d(outputs),
            nn.ReLU(),
            nn.Conv2d(outputs, outputs, 3, 1, 1, bias=False),
            nn.BatchNorm2d(outputs),
        )
        self.identity = nn.Sequential()
        if stride > 1 or inputs != outputs:
            self.identity = nn.Sequential(nn.Conv2d(inputs, outputs, 1, stride, bias=False), nn.BatchNorm2d(outputs))

    def forward(self, x: Tensor) -> Tensor:
        return functional.relu(self.residual(x) + self.identity(x))


def resnet18(channels: int, width: int, classes: int) -> nn.Sequential:
    """Returns a ResNet18 for images of 32x32: a first convolution of 3x3, no pooling before the last."""
    stages = [(1, 1, 1), (1, 1, 1), (1, 2, 2), (2, 2, 1), (2, 4, 2), (4, 4, 1), (4, 8, 2), (8, 8, 1)]
    return nn.Sequential(
        nn.Conv2d(channels, width, 3, 1, 1, bias=False),
        nn.BatchNorm2d(width),
        nn.ReLU(),
        *(Residual(inputs * width, outputs * width, stride) for inputs, outputs, stride in stages),
        nn.AdaptiveAvgPool2d(1),
        nn.Flatten(),
        nn.Linear(8 * width, classes),
    )


class MixtureNetwork(nn.Module):
    """Experts of which each image is sent to one; the others do not see it.

    Args:
      pixels: of an image, over all channels.
      learned: whether there is a router; otherwise the caller says who gets what, and there are no gates.
    """

    def __init__(self, experts: Sequence[nn.Module], pixels: int, learned: bool) -> None:
        super().__init__()
        self.experts = nn.ModuleList(experts)
        self.router = nn.Linear(pixels, len(experts)) if learned else None  # h(x)

    def forward(self, x: Float[Tensor, "B C H W"]) -> Float[Tensor, "B c"]:
        return self.dispatched(x).logits

    def dispatched(
        self,
        x: Float[Tensor, "B C H W"],
        noise: Float[Tensor, "B M"] | None = None,
        expert: Int[Tensor, " B"] | None = None,
        everywhere: bool = False,
    ) -> Dispatched:
        """Computes F(x) = pi_m* f_m*(x) with m* = argmax(h(x) + r) and pi = softmax(h(x)).

        Args:
          noise: r, added to the router's scores.
          expert: m*, where there is no router; then pi is 1.
          everywhere: whether every expert computes every image, so that no shape depends on a number. The logits are
            the same unless `sees_batches`.
        """
        scores, expert, gate = self.chosen(x, noise, expert)
        if everywhere:
            every = torch.stack([network(x) for network in self.experts], dim=1)
            logits = every.gather(1, expert[:, None, None].expand(-1, 1, every.shape[2]))[:, 0]
            return Dispatched(logits * gate[:, None], expert, scores)
        answers = [(rows, self.experts[m](x[rows])) for m, rows in self._rows(expert)]
        logits = x.new_zeros(len(x), answers[0][1].shape[1])
        for rows, answer in answers:
            logits = logits.index_copy(0, rows, answer)
        return Dispatched(logits * gate[:, None], expert, scores)

    @property
    def sees_batches(self) -> bool:
        """Whether an expert's answer to an image depends on its other images, as with batch norm."""
        return any(isinstance(part, nn.BatchNorm2d) for part in self.modules())

    def chosen(self, x: Tensor, noise: Tensor | None, expert: Tensor | None) -> tuple[Tensor, Tensor, Tensor]:
        """Computes h(x), m* and pi_m*."""
        rule = "a mixture with a router chooses the experts itself"
        require(self.router is None or expert is None, rule, experts=len(self.experts))
        if self.router is None:
            expert = torch.zeros(len(x), dtype=torch.int64, device=x.device) if expert is None else expert
            return x.new_zeros(len(x), len(self.experts)), expert, x.new_ones(len(x))
        scores = self.router(x.flatten(1))
        expert = (scores if noise is None else scores + noise).argmax(1)
        return scores, expert, scores.softmax(1).gather(1, expert[:, None])[:, 0]

    def _rows(self, expert: Tensor) -> list[tuple[int, Tensor]]:
        """The images of every expert that has any.

        The host waits for an accelerator here, once: how many images an expert has decides the shapes of all that
        follows.
        """
        counts = one_hot(expert, len(self.experts)).sum(0).tolist()
        parts = expert.argsort(stable=True).split(counts)
        return [(m, rows) for m, rows in enumerate(parts) if len(rows)]


def balance_loss(scores: Float[Tensor, "B M"], expert: Int[Tensor, " B"]) -> Tensor:
    """Computes M times the sum over experts of share of images times mean gate: 1 where all are alike."""
    load = one_hot(expert, scores.shape[1]).to(scores.dtype).mean(0, keepdim=True)
    return switch_loss(load, scores.softmax(1).mean(0, keepdim=True)).value[0]
