"""The baselines of the engine for a step of chen2022's mixture: autograd, one trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor
from torch.nn.functional import softplus


class Plain(NamedTuple):
    """One trial: filters (M, J, d) and routers (M, d)."""

    filters: Tensor
    routers: Tensor


class Data(NamedTuple):
    """One trial's samples: patches (N, P, d), and y (N,)."""

    patches: Tensor
    signs: Tensor


Outputs = Callable[[Tensor, Tensor, Tensor], Tensor]


def dispatched(patches: Tensor, filters: Tensor, chosen: Tensor) -> Tensor:
    """f_m*(x), (N,): each cubic expert takes the samples routed to it, found by a mask."""
    outputs = patches.new_zeros(len(patches))
    for m, expert in enumerate(filters):
        mine = chosen == m
        outputs[mine] = ((patches[mine] @ expert.T) ** 3).sum((1, 2))
    return outputs


def everywhere(patches: Tensor, filters: Tensor, chosen: Tensor) -> Tensor:
    """f_m*(x), (N,): every cubic expert is evaluated on every sample, and one output is picked."""
    every = (torch.einsum("npd,mjd->nmjp", patches, filters) ** 3).sum((2, 3))
    return every.gather(1, chosen[:, None])[:, 0]


def step(at: Plain, data: Data, noise: Tensor, eta: float, eta_r: float, outputs: Outputs) -> Plain:
    """One step of algorithm 1 (eq. 3.2 to 3.5) with noise (N, M)."""
    filters, routers = (part.detach().requires_grad_() for part in at)
    scores = (data.patches @ routers.T).sum(1)  # h(x) = sum_p Theta^T x^(p)
    chosen = (scores + noise).argmax(1)
    gates = scores.softmax(1).gather(1, chosen[:, None])[:, 0]
    margins = data.signs * gates * outputs(data.patches, filters, chosen)
    by_filters, by_routers = torch.autograd.grad(softplus(-margins).mean(), (filters, routers))
    with torch.no_grad():
        length = by_filters.norm(dim=(1, 2), keepdim=True)
        return Plain(filters - eta * by_filters / length.clamp(min=1e-30), routers - eta_r * by_routers)
