"""Accuracy of estimates: fits (gridlock2019, eq. 11 and 12), and the error E(A, W) of section 4.3."""

from __future__ import annotations

import itertools
from functools import cache

import numpy as np
import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.recovery.data import Parameters

_FAR = 1e30
_ALL_PERMUTATIONS = 6  # up to this many experts, every permutation is tried


def in_gauge(gates: Float[Tensor, "*T k d"]) -> Float[Tensor, "*T k d"]:
    """Shifts the gates such that w_k = 0, which does not change their softmax."""
    return gates - gates[..., -1:, :]


@cache
def _permutations(k: int) -> Int[np.ndarray, "orders k"]:
    return np.array(list(itertools.permutations(range(k))))


def assigned(costs: Float[np.ndarray, "k k"]) -> Int[np.ndarray, " k"]:
    """Returns the column of each row, all different, with the least sum of costs."""
    k = len(costs)
    if k <= _ALL_PERMUTATIONS:
        orders = _permutations(k)
        return np.asarray(orders[costs[np.arange(k), orders].sum(1).argmin()])
    from scipy.optimize import linear_sum_assignment  # here, because importing it takes a moment

    return np.asarray(linear_sum_assignment(costs)[1])


def matched(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Int[Tensor, "T k"]:
    """Matches an estimate to each true expert, by the least sum of squares over all permutations."""
    squares = torch.cdist(truth, regressors).square().nan_to_num(_FAR, _FAR)  # gives a diverged trial any order
    order = [assigned(costs) for costs in squares.cpu().numpy()]
    return torch.as_tensor(np.stack(order), device=regressors.device)


def regressor_fit(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Float[np.ndarray, " T"]:
    """Computes max over permutations of min_i |cos(a_pi(i), a_i*)| (eq. 11; bottleneck assignment)."""
    cosines = (unit(truth) @ unit(regressors).mT).abs().cpu().numpy()
    return np.array([_bottleneck(of_trial) for of_trial in cosines])


def _bottleneck(values: Float[np.ndarray, "k k"]) -> float:
    """Returns the largest t such that some permutation has all its values >= t."""
    k = len(values)
    if k <= _ALL_PERMUTATIONS:
        return float(values[np.arange(k), _permutations(k)].min(1).max())
    levels = np.unique(values)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high + 1) // 2
        allowed = (values >= levels[middle]).astype(float)
        low, high = (middle, high) if allowed[np.arange(k), assigned(-allowed)].sum() == k else (low, middle - 1)
    return float(levels[low])


def gating_fit(
    gates: Float[Tensor, "T k d"], regressors: Float[Tensor, "T k d"], truth: Parameters
) -> Float[np.ndarray, " T"]:
    """Computes min_i |cos(w_i, w_i*)| over i < k, with experts matched and w_k = 0 (eq. 12 for k = 2)."""
    order = matched(_aligned(regressors, truth.regressors), truth.regressors)
    estimates = in_gauge(gates.gather(1, order[..., None].expand_as(gates)))[:, :-1]
    return (unit(estimates) * unit(truth.gates[:, :-1])).sum(2).abs().amin(1).cpu().numpy()


def parameter_error(
    regressors: Float[Tensor, "T k d"], gates: Float[Tensor, "T k d"], truth: Parameters
) -> Float[np.ndarray, " T"]:
    """Computes E(A, W) = |A - A*_pi|_F + |W - W*_pi|_F for the permutation that is best for A, with w_k = 0.

    Departs from the paper: section 4.3 takes the permutation that is best for A and W together, which needs k! trials.
    Near the truth they are one: in forty recoveries of figure 3's size (k = 3 and 4, by joint EM and from spectral
    starts) no error differs.
    """
    order = matched(regressors, truth.regressors)[..., None]
    a = regressors.gather(1, order.expand_as(regressors))
    w = in_gauge(gates.gather(1, order.expand_as(gates)))
    error = (a - truth.regressors).flatten(1).norm(dim=1) + (w - truth.gates).flatten(1).norm(dim=1)
    return error.cpu().numpy()


def _aligned(regressors: Tensor, truth: Tensor) -> Tensor:
    """Returns unit vectors, each with the sign of the nearest true one."""
    directions = unit(regressors)
    cosines = directions @ unit(truth).mT
    nearest = cosines.abs().argmax(2, keepdim=True)
    return directions * torch.sign(cosines.gather(2, nearest))


def unit(vectors: Tensor) -> Tensor:
    """Returns vectors (..., d) scaled to length 1; a zero vector stays zero."""
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)


def cosines(truth: Float[Tensor, "T k d"], estimates: Float[Tensor, "T m d"]) -> Float[np.ndarray, "T k m"]:
    """Computes |cos| between every true vector and every estimate; 0 for a zero vector."""
    return (unit(truth) @ unit(estimates).mT).abs().cpu().numpy()
