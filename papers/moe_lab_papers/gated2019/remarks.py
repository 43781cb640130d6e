"""Measurements behind gated2019's remark 2, parameters for theorem 1, and its appendix A, gates without an input."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from scipy.optimize import minimize
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery import measures
from moe_lab.recovery.activations import activation_of
from moe_lab.recovery.data import MixtureTask, Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.landscape.losses import Weights, l2_value, l4_population, regressors_from, shares_of

_C, _TOLERANCE = 0.01, 0.01  # remark 2's "e.g. c = .01", and eps_0


def remark_2(truth: Parameters, c: float = _C, tolerance: float = _TOLERANCE) -> Weights:
    """Computes the largest mu and delta and the least lambda that remark 2 allows, for the parameters of one trial.

    Args:
      c: the remark's small constant.
      tolerance: eps_0, the error allowed in theorem 1.
    """
    shares = shares_of(truth.gates)[0].numpy()
    k, d = truth.regressors.shape[1:]
    spectrum = np.linalg.eigvalsh((truth.regressors[0] @ truth.regressors[0].T).numpy())  # of M, whose weights are 1
    largest, least = float(1 / shares.min()), float(1 / shares.max())  # of a_i* = 1 / E p_i
    mu, penalty = c * float(shares.min() / shares.max()), 1 / (c * least)
    condition = float(spectrum[-1] / spectrum[0])
    tau = c * min(mu / (condition * d * largest), penalty) * float(spectrum[0])
    return Weights(mu, penalty, min(c * tolerance / (largest * k * (d * condition**0.5) ** 0.5), tau / 2))


def remark_2_landscape(
    experts: Sequence[int] = (2, 3, 5), trials: int = 8, seed: int = 0, *, dimension: int = 10, scale: float = 1.0
) -> xr.Dataset:
    """Minimizes eq. 8 with the parameters of remark 2 from random points (theorem 1; d=10, gates orthogonal).

    delta is so small that a descent would take millions of steps. Newton's method in a trust region takes tens, and
    leaves saddles as a descent does.

    Args:
      experts: k; regressors are random, not orthonormal.
      dimension: d.
      scale: of the random points.

    Returns:
      error(experts, trial), the norm of E in theorem 1, and scale(experts, trial), the largest distance of an entry of
      its D from 1; least(experts, trial), the least eigenvalue of the Hessian at the end over delta.
    """
    found = np.empty((3, len(experts), trials))
    for row, k in enumerate(experts):
        task = MixtureTask(experts=k, dimension=dimension, noise=0.05, gating="orthogonal")
        for trial in range(trials):
            truth = task.parameters([trial], seed)
            start = scale * stream(seed, trial, "remark 2").standard_normal((k, dimension)) / dimension**0.5
            found[:, row, trial] = _minimized(truth, remark_2(truth), start)
    axes = ("experts", "trial")
    parts = {name: (axes, part) for name, part in zip(("error", "scale", "least"), found, strict=True)}
    return xr.Dataset(parts, {"experts": list(experts), "trial": np.arange(trials)})


def _minimized(truth: Parameters, weights: Weights, start: np.ndarray) -> tuple[float, float, float]:
    """Returns |E|, the largest |D - 1| and the least curvature over delta, at the end of Newton's method."""
    shares, shape = shares_of(truth.gates), (1, *start.shape)

    def slope(flat: Tensor) -> Tensor:
        return l4_population(flat.view(shape), truth.regressors, shares, weights)[1].flatten()

    def value(flat: np.ndarray) -> tuple[float, np.ndarray]:
        at, down = l4_population(torch.as_tensor(flat).view(shape), truth.regressors, shares, weights)
        return float(at), down.flatten().numpy()

    def hessian(flat: np.ndarray) -> np.ndarray:
        square = torch.autograd.functional.jacobian(slope, torch.as_tensor(flat)).numpy()
        return np.asarray((square + square.T) / 2)

    options = {"gtol": 1e-10, "maxiter": 1000, "initial_trust_radius": 0.5, "max_trust_radius": 10.0}
    end = minimize(value, start.flatten(), jac=True, hess=hessian, method="trust-exact", options=options).x
    rows = torch.as_tensor(end).view(shape)
    inverse = torch.linalg.pinv(rows).mT
    order = measures.matched(regressors_from(rows).abs(), truth.regressors.abs())
    inverse = inverse.gather(1, order[..., None].expand_as(inverse))[0]
    stated = (shares.sqrt()[..., None] * truth.regressors)[0]  # Gamma A*
    length = (inverse * stated).sum(1) / stated.square().sum(1)  # D, up to the sign of a row
    error = inverse - length[:, None] * stated
    least = float(np.linalg.eigvalsh(hessian(end))[0]) / weights.ridge
    return float(torch.linalg.matrix_norm(error, 2)), float((length.abs() - 1).abs().max()), least


def constant_gates(
    activations: Sequence[str] = ("identity", "relu", "sigmoid"),
    trials: int = 4,
    seed: int = 0,
    *,
    experts: int = 3,
    samples: int = 1000,
) -> xr.Dataset:
    """Compares a mixture whose gates have a bias alone with a network of one hidden layer (appendix A, eq. 10).

    Returns:
      gap(activation, trial), the root mean square of the difference.
    """
    gap = np.empty((len(activations), trials))
    for row, name in enumerate(activations):
        g = activation_of(name)
        for trial in range(trials):
            random = stream(seed, trial, "constant gates")
            hidden = random.standard_normal((experts, 10))
            bias, x = random.standard_normal(experts), random.standard_normal((samples, 10))
            output = np.exp(bias) / np.exp(bias).sum()
            network = g(torch.as_tensor(x @ hidden.T)) @ torch.as_tensor(output)
            one = np.concatenate((x, np.ones((samples, 1))), axis=1)  # the bias is the gate of a constant input
            regressors = np.concatenate((hidden, np.zeros((experts, 1))), axis=1)
            gates = np.concatenate((np.zeros_like(hidden), bias[:, None]), axis=1)
            state = State(*(torch.as_tensor(part)[None] for part in (regressors, gates)))
            gap[row, trial] = float(l2_value(state, torch.as_tensor(one)[None], network[None], g)[0]) ** 0.5
    return xr.Dataset({"gap": (("activation", "trial"), gap)}, {"activation": list(activations)})
