"""pruning2024, sections 3 and 4.2 and algorithm 1, as printed: tokens and weights are vectors, autograd does the rest.

Slow on purpose. One trial at a time, no pattern coordinates, no counts, no width, and no code shared with moe_lab's
step, so that agreement between the two means something.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch
from torch import Tensor


@dataclass
class Mixture:
    """Some experts and the routers of a layer.

    Attributes:
      routers: w_s, (R, d). Where tokens choose, those of pruned experts are here, too.
      neurons: w_r^(s), (k, m, d).
      signs: a^(s), (k,).
      own: (k,) which of the routers is each expert's.
    """

    routers: Tensor
    neurons: Tensor
    signs: Tensor
    own: list[int]


def tokens_of(numbers: Tensor, patterns: Tensor) -> Tensor:
    """x^(j), (N, n, d): the patterns with these numbers (N, n) out of the rows of (d, d)."""
    return torch.stack([torch.stack([patterns[q] for q in row.tolist()]) for row in numbers])


def gates(x: Tensor, mixture: Mixture, routing: str, top: int) -> Tensor:
    """G_j^(s), (N, k, n); 0 where expert s does not receive token j (equations 2 to 4).

    The softmax is over the selected ones: an expert's l tokens, or a token's l experts among all that have a router.
    """
    scores = torch.einsum("njd,sd->nsj", x, mixture.routers)
    axis = 2 if routing == "expert-choice" else 1
    best = torch.topk(scores, top, dim=axis)
    every = torch.zeros_like(scores).scatter(axis, best.indices, best.values.softmax(dim=axis))
    return every[:, mixture.own]


def votes(x: Tensor, mixture: Mixture, routing: str, top: int) -> Tensor:
    """a^(s) sum_j G_j sum_r ReLU(<w_r, x^(j)>), (N, k)."""
    answers = torch.relu(torch.einsum("njd,srd->nsjr", x, mixture.neurons)).sum(3)
    return mixture.signs * (gates(x, mixture, routing, top) * answers).sum(2)


def losses(outputs: Tensor, labels: Tensor, loss: str) -> Tensor:
    """1 - y f, or the hinge loss itself: its mean is what is differentiated."""
    return 1 - labels * outputs if loss == "linear" else torch.relu(1 - labels * outputs)


def step(
    x: Tensor, labels: Tensor, mixture: Mixture, *, routing: str, top: int, loss: str, eta_e: float, eta_r: float
) -> tuple[Mixture, Tensor]:
    """One step of SGD: the mixture after it, and f(x) of every sample before it.

    Routers of pruned experts take part in the softmax and are no parameters any more.
    """
    routers = [row.detach().clone().requires_grad_(place in mixture.own) for place, row in enumerate(mixture.routers)]
    neurons = mixture.neurons.detach().clone().requires_grad_()
    live = Mixture(torch.stack(routers), neurons, mixture.signs, mixture.own)
    outputs = votes(x, live, routing, top).sum(1)
    trained = [routers[place] for place in mixture.own]
    slopes = torch.autograd.grad(losses(outputs, labels, loss).mean(), [neurons, *trained], allow_unused=True)
    after = mixture.routers.clone()
    for place, slope in zip(mixture.own, slopes[1:], strict=True):
        if slope is not None:
            after[place] -= eta_r * slope
    return Mixture(after, mixture.neurons - eta_e * slopes[0], mixture.signs, mixture.own), outputs.detach()


def separates(scores: Tensor, important: Tensor, signs: Tensor) -> Tensor:
    """(T,) whether, within each group, every important expert has a larger score than every other."""
    parts = []
    for sign in (1, -1):
        mine = signs == sign
        lowest = scores[:, mine].masked_fill(~important[:, mine], torch.inf).amin(1)
        highest = scores[:, mine].masked_fill(important[:, mine], -torch.inf).amax(1)
        parts.append(lowest > highest)
    return parts[0] & parts[1]
