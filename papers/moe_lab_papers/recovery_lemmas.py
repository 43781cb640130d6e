"""Measurements behind claims of both recovery papers: regressors that are off, fresh samples each step, constants."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import Moments, State, posterior
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.losses import Weights
from moe_lab.recovery.measures import unit
from moe_lab.recovery.transforms import transforms
from moe_lab_papers.readers import reader

_RATE, _STEPS, _NEWTON = 4.0, 60, 12
_TURNS = 50
_OFF = MixtureTask(experts=3, dimension=10, noise=0.1, gating="orthogonal")


def wrong_regressors(
    errors: Sequence[float] = (0.25, 0.5, 1.0), trials: int = 12, seed: int = 0, *, samples: int = 20_000
) -> xr.Dataset:
    """Finds gates with regressors that are off by sigma^2 eps in a random direction, and with the true ones (k = 3).

    Returns:
      end(error, trial), the largest distance |w_i| of the ends of both descents on L_log, from the same random gates in
      the unit ball (gridlock2019, theorem 2, and gated2019, theorem 3, whose fixed points are the same).
    """
    task, found = _OFF, np.empty((len(errors), trials))
    for trial in range(trials):
        sampled = task.sample(samples, trials=[trial], seed=seed)
        true, random = sampled.truth.regressors, stream(seed, trial, "wrong regressors")
        away = unit(torch.as_tensor(random.standard_normal(true.shape)))
        gates = _in_ball(true, random)
        right = _descended(sampled, task, true, gates)
        for row, error in enumerate(errors):
            wrong = _descended(sampled, task, true + task.noise**2 * error * away, gates)
            found[row, trial] = float(torch.linalg.vector_norm(wrong - right, dim=2).max())
    return xr.Dataset({"end": (("error", "trial"), found)}, {"error": list(errors)})


def _in_ball(like: Tensor, random: np.random.Generator) -> Tensor:
    """Draws gates in the unit ball, w_k = 0."""
    gates = unit(torch.as_tensor(random.standard_normal(like.shape))) * random.random()
    gates[:, -1] = 0
    return gates


def _descended(sampled: MixtureSamples, task: MixtureTask, regressors: Tensor, gates: Tensor) -> Tensor:
    """Returns the end of a descent on L_log."""
    for _ in range(_STEPS):
        state = State(regressors, gates)
        gates = gates - _RATE * losses.l_log(state, sampled.x, sampled.y, task.g, task.noise).slope.gates
    return gates


def _worst(sampled: MixtureSamples, task: MixtureTask, gates: Tensor) -> Tensor:
    """Returns unit directions of both linear experts in which E[p_1 x] moves most, by alternating maximization."""
    x, y, true = sampled.x, sampled.y, sampled.truth.regressors
    responsibilities, _, _ = posterior(State(true, gates), x, y, task.g, task.noise)
    overlap = responsibilities[:, :1] * responsibilities[:, 1:]
    residual = y[:, None] - true @ x.mT
    residual[:, 1] *= -1
    change = Moments.of(x, y).gram(overlap * residual)[0] / x.shape[1]  # of E[p_1 x], by each expert's regressor
    along = torch.linalg.eigh(change[0])[1][:, -1]
    for _ in range(_TURNS):
        away = unit(change @ along)
        along = unit((change @ away[..., None]).sum(0)[:, 0])
    return away[None]


def fresh_samples(
    counts: Sequence[int] = (8000, 32_000, 128_000), trials: int = 8, seed: int = 0, *, steps: int = 20
) -> xr.Dataset:
    """Descends on L_log with n/T fresh samples in each of T steps, from the true gates' ball (gated2019, theorem 4).

    Returns:
      error(samples, trial), the largest |w_i - w_i*| after T steps; and deviation(samples, trial), the largest
      difference of the gradient at the true gates of n/T samples from 0, its expectation (lemma 4).
    """
    task, found = _OFF, np.empty((2, len(counts), trials))
    for trial in range(trials):
        drawn = task.sample(max(counts), trials=[trial], seed=seed)
        truth = drawn.truth
        for row, count in enumerate(counts):
            gates, each = torch.zeros_like(truth.gates), count // steps
            for step in range(steps):
                part = slice(step * each, (step + 1) * each)
                x, y = drawn.x[:, part], drawn.y[:, part]
                slope = losses.l_log(State(truth.regressors, gates), x, y, task.g, task.noise).slope.gates
                gates = gates - _RATE * slope
            last = losses.l_log(State(truth.regressors, truth.gates), x, y, task.g, task.noise).slope.gates
            found[:, row, trial] = (
                float(torch.linalg.vector_norm(gates - truth.gates, dim=2).max()),
                float(torch.linalg.vector_norm(last, dim=2).max()),
            )
    axes = ("samples", "trial")
    return xr.Dataset({"error": (axes, found[0]), "deviation": (axes, found[1])}, {"samples": list(counts)})


def landscape_by_samples(
    counts: Sequence[int] = (4096, 16_384, 65_536), trials: int = 8, seed: int = 0, *, points: int = 20
) -> xr.Dataset:
    """Compares L4 of n samples with eq. 8 at random points (gated2019, theorem 2; k = 2, d = 10, sigma = .05).

    Returns:
      deviation(samples, trial), the root mean square of the difference over the points.
    """
    task = MixtureTask(experts=2, dimension=10, noise=0.05, gating="orthogonal")
    weights, polynomials = Weights(mu=0.01, penalty=1.0, ridge=1.0), transforms("identity", task.noise)
    found = np.empty((len(counts), trials))
    for trial in range(trials):
        drawn = task.sample(max(counts), trials=[trial], seed=seed)
        random = stream(seed, trial, "points of a landscape")
        rows = torch.as_tensor(random.standard_normal((points, 2, 10))) / 10**0.5
        truth = [part.expand(points, -1, -1) for part in (drawn.truth.regressors, drawn.truth.gates)]
        stated, _ = losses.l4_population(rows, truth[0], losses.shares_of(truth[1]), weights)
        for row, count in enumerate(counts):
            x, y = drawn.x[:, :count].expand(points, -1, -1), drawn.y[:, :count].expand(points, -1)
            whole, _ = losses.l4(rows, x, y, polynomials, weights)
            found[row, trial] = float((whole - stated).square().mean().sqrt())
    return xr.Dataset({"deviation": (("samples", "trial"), found)}, {"samples": list(counts)})


def concavity() -> xr.Dataset:
    """Computes the constants of gridlock2019's theorems 2 and 5 by Gauss-Hermite quadrature; nothing is random.

    Returns:
      least and largest, over alpha from 0 to 1, of both eigenvalues of -Q's Hessian, E[f'(alpha Z)] and
      E[f'(alpha Z)] + alpha^2 E[f'''(alpha Z)], with the sigmoid f.
    """
    nodes, weights = np.polynomial.hermite_e.hermegauss(80)
    weights = weights / weights.sum()
    alpha = np.linspace(0, 1, 201)[:, None]
    f = 1 / (1 + np.exp(-alpha * nodes))
    first = (f * (1 - f)) @ weights
    third = (f * (1 - f) * (1 - 6 * f + 6 * f**2)) @ weights
    eigenvalues = np.stack((first, first + alpha[:, 0] ** 2 * third))
    return xr.Dataset({"least": float(eigenvalues.min()), "largest": float(eigenvalues.max())})


@reader
def slope_in(data: xr.Dataset, name: str, axis: str) -> np.ndarray:
    """Returns the slope of the log of a variable against the log of an axis, (trial,)."""
    values = data[name].transpose(axis, "trial").values
    return np.asarray(np.polyfit(np.log(data[axis].values), np.log(values), 1)[0])
