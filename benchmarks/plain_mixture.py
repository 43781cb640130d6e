"""The baselines of the engine for recovering a linear mixture: one trial after another."""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch import Tensor

Power = Callable[[Tensor, Tensor, int], Tensor]


def power(third: Tensor, starts: Tensor, iterations: int) -> Tensor:
    """(k,) the component of the largest weight, all starts in one product."""
    now = starts / starts.norm(dim=1, keepdim=True)
    for _ in range(iterations):
        now = torch.einsum("abc,lb,lc->la", third, now, now)
        now = now / now.norm(dim=1, keepdim=True)
    return now[torch.einsum("abc,la,lb,lc->l", third, now, now, now).argmax()]


def power_one_by_one(third: Tensor, starts: Tensor, iterations: int) -> Tensor:
    """The same as the algorithm is written: start after start."""
    found = []
    for start in starts:
        v = start / start.norm()
        for _ in range(iterations):
            v = third @ v @ v
            v = v / v.norm()
        found.append((float(third @ v @ v @ v), v))
    return max(found, key=lambda pair: pair[0])[1]


def regressors(
    x: Tensor, y: Tensor, k: int, sigma: float, starts: Tensor, iterations: int, method: Power = power
) -> Tensor:
    """(k, d) algorithm 1 with the engine's choices, x ~ N(0, I) and g the identity.

    Args:
      x: (n, d); y: (n,).
      k: how many to find.
      starts: (L, d) of the power method.
      iterations: of it, for each component.
      method: how.
    """
    count, d = x.shape
    weights = 4 * torch.tanh((y**3 - 3 * (1 + sigma**2) * y) / 4)
    second = torch.einsum("n,na,nb->ab", y**2, x, x) / count - (y**2).mean() * torch.eye(d, dtype=x.dtype)
    values, vectors = torch.linalg.eigh(second)
    values, vectors = values[-k:].flip(0), vectors[:, -k:].flip(1)
    whiten, undo = vectors / values.sqrt(), vectors * values.sqrt()
    u, gram = x @ whiten, whiten.T @ whiten
    mean = (weights[:, None] * u).mean(0)
    third = torch.einsum("n,na,nb,nc->abc", weights, u, u, u) / count
    third = third - torch.einsum("a,bc->abc", mean, gram)
    third = third - torch.einsum("b,ac->abc", mean, gram)
    third = third - torch.einsum("c,ab->abc", mean, gram)
    found = []
    for _ in range(k):
        v = method(third, starts @ vectors, iterations)
        third = third - (third @ v @ v @ v) * torch.einsum("a,b,c->abc", v, v, v)
        first, direction = undo @ v, whiten @ v
        product = x @ direction
        along = (weights * product**2) @ x / count - (direction @ direction) * (weights @ x) / count
        along = along - 2 * direction * (weights * product).mean()
        first, along = first / first.norm(), along / along.norm()
        one = first * torch.sign(first @ along) + along
        one = one / one.norm()
        product = x @ one
        sign = torch.sign(((y**3 - 3 * (1 + sigma**2) * y) * (product**3 - 3 * product)).mean())
        found.append(sign * one)
    return torch.stack(found)


def em(
    a: Tensor, w: Tensor, x: Tensor, y: Tensor, sigma: float, *, iterations: int, move_regressors: bool
) -> tuple[Tensor, Tensor]:
    """EM with a Newton step for the gates (w_k = 0), one Hessian block and one expert at a time."""
    k, d = w.shape
    eye = torch.eye(d, dtype=x.dtype)
    for _ in range(iterations):
        prior = (x @ w.T).softmax(1)
        joint = prior.log() - (y[:, None] - x @ a.T) ** 2 / (2 * sigma**2)
        after = joint.softmax(1)
        slope = ((after - prior)[:, :-1].T @ x).flatten()
        rows = []
        for i in range(k - 1):
            blocks = [(x * (prior[:, i] * (float(i == j) - prior[:, j]))[:, None]).T @ x for j in range(k - 1)]
            rows.append(torch.cat(blocks, dim=1))
        move = torch.linalg.solve(torch.cat(rows), slope).view(k - 1, d)
        w = torch.cat((w[:-1] + move, w[-1:]))
        if move_regressors:
            grams = [(x * after[:, i, None]).T @ x + 1e-9 * eye for i in range(k)]
            a = torch.stack([torch.linalg.solve(gram, (after[:, i] * y) @ x) for i, gram in enumerate(grams)])
    return a, w
