"""How near estimates are to the truth: fits (gridlock2019, eq. 11 and 12), and the error E(A, W) of section 4.3."""

from __future__ import annotations

import itertools

import numpy as np
import torch
from jaxtyping import Float, Int
from scipy.optimize import linear_sum_assignment
from torch import Tensor

from moe_lab.recovery.data import Parameters

_FAR = 1e30
_ALL_PERMUTATIONS = 6  # up to so many experts every permutation is tried where the criterion is no sum


def in_gauge(gates: Float[Tensor, "*T k d"]) -> Float[Tensor, "*T k d"]:
    """The gates with w_k = 0: a softmax does not change when one vector is added to all of them."""
    return gates - gates[..., -1:, :]


def matched(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Int[Tensor, "T k"]:
    """For each true expert the estimate that goes with it: least sum of squares over all permutations."""
    cost = (
        torch.cdist(truth, regressors).square().nan_to_num(_FAR, _FAR).cpu().numpy()
    )  # a diverged trial has some order
    return torch.as_tensor(np.stack([linear_sum_assignment(one)[1] for one in cost]), device=regressors.device)


def regressor_fit(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Float[np.ndarray, " T"]:
    """max over permutations of min_i |cos(a_pi(i), a_i*)| (eq. 11; bottleneck assignment)."""
    cosines = (_unit(truth) @ _unit(regressors).mT).abs().cpu().numpy()
    return np.array([_bottleneck(one) for one in cosines])


def _bottleneck(values: Float[np.ndarray, "k k"]) -> float:
    """The largest t such that a permutation has all its values >= t."""
    k = len(values)
    if k <= _ALL_PERMUTATIONS:
        return max(min(values[i, p[i]] for i in range(k)) for p in itertools.permutations(range(k)))
    levels = np.unique(values)
    low, high = 0, len(levels) - 1
    while low < high:
        middle = (low + high + 1) // 2
        allowed = (values >= levels[middle]).astype(float)
        rows, columns = linear_sum_assignment(-allowed)
        low, high = (middle, high) if allowed[rows, columns].sum() == k else (low, middle - 1)
    return float(levels[low])


def gating_fit(
    gates: Float[Tensor, "T k d"], regressors: Float[Tensor, "T k d"], truth: Parameters
) -> Float[np.ndarray, " T"]:
    """min_i |cos(w_i, w_i*)| over i < k, experts matched and both in the gauge w_k = 0 (eq. 12 for k = 2)."""
    order = matched(_aligned(regressors, truth.regressors), truth.regressors)
    found = in_gauge(gates.gather(1, order[..., None].expand_as(gates)))[:, :-1]
    return (_unit(found) * _unit(truth.gates[:, :-1])).sum(2).abs().amin(1).cpu().numpy()


def parameter_error(
    regressors: Float[Tensor, "T k d"], gates: Float[Tensor, "T k d"], truth: Parameters
) -> Float[np.ndarray, " T"]:
    """E(A, W) = |A - A*_pi|_F + |W - W*_pi|_F at the permutation that serves A best, in the gauge w_k = 0."""
    order = matched(regressors, truth.regressors)[..., None]
    a = regressors.gather(1, order.expand_as(regressors))
    w = in_gauge(gates.gather(1, order.expand_as(gates)))
    error = (a - truth.regressors).flatten(1).norm(dim=1) + (w - truth.gates).flatten(1).norm(dim=1)
    return error.cpu().numpy()


def _aligned(regressors: Tensor, truth: Tensor) -> Tensor:
    """Unit vectors, each with the sign of its nearest true one."""
    unit = _unit(regressors)
    cosines = unit @ _unit(truth).mT
    nearest = cosines.abs().argmax(2, keepdim=True)
    return unit * torch.sign(cosines.gather(2, nearest))


def _unit(vectors: Tensor) -> Tensor:
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)


def cosines(truth: Float[Tensor, "T k d"], found: Float[Tensor, "T m d"]) -> Float[np.ndarray, "T k m"]:
    """|cos| of every true vector and every estimate; 0 for a vector of length 0."""
    return (_unit(truth) @ _unit(found).mT).abs().cpu().numpy()
