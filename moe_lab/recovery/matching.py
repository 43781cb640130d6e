"""Which estimate belongs to which true expert: the best of all permutations.

Both functions are one operation of torch each, however many experts there are: what records a training sees no
permutation and no search.

Shapes: T trials, k experts.
"""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

_ALL_PERMUTATIONS = 6  # up to this many experts every permutation is tried, without scipy's 1.5 s of import


def assigned(costs: Float[Tensor, "T k k"]) -> Int[Tensor, "T k"]:
    """Returns the column of each row, all different, with the least sum of costs."""
    return _assigned(costs)


def bottleneck(values: Float[Tensor, "T k k"]) -> Float[Tensor, " T"]:
    """Computes the largest t such that some permutation takes a value of at least t from each row."""
    return _bottleneck(values)


@torch.library.custom_op("moe_lab::assigned", mutates_args=(), schema="(Tensor costs) -> Tensor")
def _assigned(costs: Tensor) -> Tensor:
    if costs.shape[1] <= _ALL_PERMUTATIONS:
        taken, orders = _of_permutations(costs)
        return orders[(-taken.sum(1)).argmax(1)]
    from scipy.optimize import linear_sum_assignment

    columns = [linear_sum_assignment(of_trial)[1] for of_trial in costs.cpu().numpy()]
    return torch.as_tensor(np.stack(columns), device=costs.device)


@torch.library.custom_op("moe_lab::bottleneck", mutates_args=(), schema="(Tensor values) -> Tensor")
def _bottleneck(values: Tensor) -> Tensor:
    if values.shape[1] <= _ALL_PERMUTATIONS:
        return _of_permutations(values)[0].amin(1).amax(1)
    return torch.stack([_bottleneck_of(of_trial) for of_trial in values])


def _bottleneck_of(values: Float[Tensor, "k k"]) -> Float[Tensor, ""]:
    levels = values.unique()
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high + 1) // 2
        allowed = (values >= levels[middle]).to(values)
        columns = _assigned(-allowed[None])[0]
        fits = bool(allowed.gather(1, columns[:, None]).all())
        low, high = (middle, high) if fits else (low, middle - 1)
    return levels[low]


def _of_permutations(values: Float[Tensor, "T k k"]) -> tuple[Tensor, Int[Tensor, "orders k"]]:
    """Returns (T, k, orders) what every permutation takes of each row, and the permutations."""
    k = values.shape[1]
    orders = torch.from_numpy(_permutations(k)).to(values.device)
    return values.gather(2, orders.mT.expand(len(values), -1, -1)), orders


@cache
def _permutations(k: int) -> Int[np.ndarray, "orders k"]:
    return np.array(list(itertools.permutations(range(k))))
