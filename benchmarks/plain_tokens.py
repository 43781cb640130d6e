"""The baselines of the engine for a step of pruning2024's layer: tokens as vectors, autograd, one trial."""

from __future__ import annotations

from collections.abc import Callable
from typing import NamedTuple

import torch
from torch import Tensor


class Plain(NamedTuple):
    """One trial: routers (k, d), neurons (k, d, m) and the experts' signs (k,)."""

    routers: Tensor
    neurons: Tensor
    signs: Tensor


Outputs = Callable[[Tensor, Plain, int], Tensor]


def experts_choose(tokens: Tensor, at: Plain, top: int) -> Tensor:
    """f(x), (B,), of tokens (B, n, d): each expert gathers the l tokens of each sample that it prefers."""
    samples, n, d = tokens.shape
    best, places = (tokens @ at.routers.T).permute(2, 0, 1).topk(top, dim=2)
    rows = places + torch.arange(0, samples * n, n)[:, None]
    chosen = tokens.view(-1, d)[rows.flatten(1)]
    answers = torch.bmm(chosen, at.neurons).relu().sum(2).view_as(best)
    return at.signs @ (best.softmax(2) * answers).sum(2)


def experts_choose_among_all(tokens: Tensor, at: Plain, top: int) -> Tensor:
    """The same with every expert at every token, and gates of 0 where it is not chosen."""
    scores = (tokens @ at.routers.T).permute(2, 0, 1)
    best, places = scores.topk(top, dim=2)
    gates = torch.zeros_like(scores).scatter(2, places, best.softmax(2))
    answers = torch.einsum("bnd,kdm->kbnm", tokens, at.neurons).relu().sum(3)
    return at.signs @ (gates * answers).sum(2)


def tokens_choose(tokens: Tensor, at: Plain, top: int) -> Tensor:
    """f(x), (B,): each expert takes the tokens that picked it, found by a mask."""
    samples, n, d = tokens.shape
    flat = tokens.view(-1, d)
    best, picked = (flat @ at.routers.T).topk(top, dim=1)
    gates = best.softmax(1)
    outputs = tokens.new_zeros(samples)
    for expert, sign in enumerate(at.signs.tolist()):
        rows, places = (picked == expert).nonzero(as_tuple=True)
        answers = (flat[rows] @ at.neurons[expert]).relu().sum(1)
        outputs = outputs.index_add(0, rows // n, sign * gates[rows, places] * answers)
    return outputs


def tokens_choose_among_all(tokens: Tensor, at: Plain, top: int) -> Tensor:
    """The same with every expert at every token, and gates of 0 where it is not picked."""
    scores = tokens @ at.routers.T
    best, picked = scores.topk(top, dim=2)
    gates = torch.zeros_like(scores).scatter(2, picked, best.softmax(2))
    answers = torch.einsum("bnd,kdm->bnkm", tokens, at.neurons).relu().sum(3)
    return ((gates * answers).sum(1)) @ at.signs


def step(at: Plain, tokens: Tensor, labels: Tensor, top: int, eta_e: float, eta_r: float, outputs: Outputs) -> Plain:
    """One step of SGD on the mean of 1 - y f (algorithm 1)."""
    routers, neurons = at.routers.detach().requires_grad_(), at.neurons.detach().requires_grad_()
    loss = (1 - labels * outputs(tokens, Plain(routers, neurons, at.signs), top)).mean()
    by_routers, by_neurons = torch.autograd.grad(loss, (routers, neurons))
    with torch.no_grad():
        return Plain(routers - eta_r * by_routers, neurons - eta_e * by_neurons, at.signs)
