"""Accuracy of estimates: fits (gridlock2019, eq. 11 and 12), and the error E(A, W) of section 4.3."""

from __future__ import annotations

import torch
from jaxtyping import Float, Int
from torch import Tensor

from moe_lab.recovery.data import Parameters
from moe_lab.recovery.matching import assigned, bottleneck

_FAR, _TIE = 1e30, 1e-9


def in_gauge(gates: Float[Tensor, "*T k d"]) -> Float[Tensor, "*T k d"]:
    """Shifts the gates such that w_k = 0, which does not change their softmax."""
    return gates - gates[..., -1:, :]


def matched(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Int[Tensor, "T k"]:
    """Matches an estimate to each true expert, by the least sum of squares over all permutations.

    Estimates that are all 0, as those that are not sought yet, stay in their order: rounding must not decide.
    """
    squares = (truth[:, :, None] - regressors[:, None]).square().sum(3)
    place = torch.arange(squares.shape[1], dtype=squares.dtype, device=squares.device)
    ordered = squares + _TIE * (place[:, None] - place).square()
    return assigned(ordered.nan_to_num(_FAR, _FAR))  # gives a diverged trial any order


def regressor_fit(regressors: Float[Tensor, "T k d"], truth: Float[Tensor, "T k d"]) -> Float[Tensor, " T"]:
    """Computes max over permutations of min_i |cos(a_pi(i), a_i*)| (eq. 11; bottleneck assignment)."""
    return bottleneck((unit(truth) @ unit(regressors).mT).abs())


def gating_fit(
    gates: Float[Tensor, "T k d"], regressors: Float[Tensor, "T k d"], truth: Parameters
) -> Float[Tensor, " T"]:
    """Computes min_i |cos(w_i, w_i*)| over i < k, with experts matched and w_k = 0 (eq. 12 for k = 2)."""
    order = matched(_aligned(regressors, truth.regressors), truth.regressors)
    estimates = in_gauge(gates.gather(1, order[..., None].expand_as(gates)))[:, :-1]
    return (unit(estimates) * unit(truth.gates[:, :-1])).sum(2).abs().amin(1)


def parameter_error(
    regressors: Float[Tensor, "T k d"], gates: Float[Tensor, "T k d"], truth: Parameters
) -> Float[Tensor, " T"]:
    """Computes E(A, W) = |A - A*_pi|_F + |W - W*_pi|_F for the permutation that is best for A, with w_k = 0.

    Departs from the paper: section 4.3 takes the permutation that is best for A and W together, which needs k! trials.
    Near the truth they are one: in forty recoveries of figure 3's size (k = 3 and 4, by joint EM and from spectral
    starts) no error differs.
    """
    order = matched(regressors, truth.regressors)[..., None]
    a = regressors.gather(1, order.expand_as(regressors))
    w = in_gauge(gates.gather(1, order.expand_as(gates)))
    return (a - truth.regressors).flatten(1).norm(dim=1) + (w - truth.gates).flatten(1).norm(dim=1)


def _aligned(regressors: Tensor, truth: Tensor) -> Tensor:
    """Returns unit vectors, each with the sign of the nearest true one."""
    directions = unit(regressors)
    cosines = directions @ unit(truth).mT
    nearest = cosines.abs().argmax(2, keepdim=True)
    return directions * torch.sign(cosines.gather(2, nearest))


def unit(vectors: Tensor) -> Tensor:
    """Returns vectors (..., d) scaled to length 1; a zero vector stays zero."""
    return vectors / torch.linalg.vector_norm(vectors, dim=-1, keepdim=True).clamp(min=torch.finfo(vectors.dtype).tiny)


def cosines(truth: Float[Tensor, "T k d"], estimates: Float[Tensor, "T m d"]) -> Float[Tensor, "T k m"]:
    """Computes |cos| between every true vector and every estimate; 0 for a zero vector."""
    return (unit(truth) @ unit(estimates).mT).abs()
