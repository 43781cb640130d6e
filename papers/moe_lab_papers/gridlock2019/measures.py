"""Measurements behind the claims of gridlock2019's theorems, as labelled Datasets."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import Moments, State, gate_newton, posterior
from moe_lab.recovery.moments import nearer_to_second

_NEWTON = 3  # Newton steps of an M-step, enough to reach the maximum
_CONVERGED = 1e-6  # closer to the fixed point rounding hides a contraction


def gates_from_anywhere(
    noise: Sequence[float] = (0.05, 0.1, 0.5),
    trials: int = 8,
    seed: int = 0,
    *,
    experts: int = 3,
    samples: int = 20_000,
    iterations: int = 25,
) -> xr.Dataset:
    """Runs EM of the gates with the true regressors from two random points (theorem 2).

    Args:
      experts, samples: k and n, with d=10 and gates orthogonal to all regressors.
      iterations: of EM.

    Returns:
      contraction, apart and error(noise, trial): the largest ratio of an iteration's distance to the end of EM to that
      of the iteration before; the distance between the two ends; and the distance of the end from the true gates, all
      in the norm of theorem 2, the largest |w_i|.
    """
    values = np.zeros((3, len(noise), trials))
    for place, sigma in enumerate(noise):
        task = MixtureTask(experts=experts, dimension=10, noise=sigma, gating="orthogonal")
        sampled = task.sample(samples, trials=range(trials), seed=seed)
        paths = [_gates(sampled, task, _start(sampled, seed, name), iterations) for name in ("first", "second")]
        values[0, place] = _worst_ratio(_largest(paths[0] - paths[0][-1]))
        values[1, place] = _largest(paths[0][-1:] - paths[1][-1:])[0]
        values[2, place] = _largest(paths[0][-1:] - sampled.truth.gates.numpy())[0]
    dims, coords = ("noise", "trial"), {"noise": list(noise), "trial": np.arange(trials)}
    return xr.Dataset(
        {name: (dims, array) for name, array in zip(("contraction", "apart", "error"), values, strict=True)}, coords
    )


def _start(sampled: MixtureSamples, seed: int, name: str) -> Tensor:
    """Draws gates uniformly in the unit ball, w_k = 0."""
    truth = sampled.truth.gates
    draws = [stream(seed, trial, f"start/{name}") for trial in range(len(truth))]
    start = torch.as_tensor(np.stack([draw.standard_normal(truth.shape[1:]) for draw in draws]))
    radius = torch.as_tensor(np.stack([draw.random(truth.shape[1]) for draw in draws]))
    start = start / torch.linalg.vector_norm(start, dim=2, keepdim=True) * radius[..., None] ** (1 / truth.shape[2])
    start[:, -1] = 0
    return start


def _gates(sampled: MixtureSamples, task: MixtureTask, gates: Tensor, iterations: int) -> np.ndarray:
    """Returns the gates of every iteration, (iteration, T, k, d)."""
    moments, path = Moments.of(sampled.x, sampled.y), [gates]
    for _ in range(iterations):
        responsibilities, _, _ = posterior(
            State(sampled.truth.regressors, gates), sampled.x, sampled.y, task.g, task.noise
        )
        gates = gate_newton(gates, responsibilities, moments, steps=_NEWTON)
        path.append(gates)
    return torch.stack(path).numpy()


def _largest(gap: np.ndarray) -> np.ndarray:
    """Returns max_i |w_i|, (iteration, T)."""
    return np.linalg.norm(gap, axis=3).max(2)


def _worst_ratio(distance: np.ndarray) -> np.ndarray:
    """Returns the largest ratio of a distance to the one before, until it converges, (T,)."""
    before, now = distance[:-1], distance[1:]
    return np.where(before > _CONVERGED, now / np.maximum(before, _CONVERGED), 0.0).max(0)


def gate_moment(
    noise: Sequence[float] = (0.1, 0.5), trials: int = 8, seed: int = 0, *, samples: int = 200_000
) -> xr.Dataset:
    """Compares the moment of 1{Ratio <= 1/2} with x to alpha w, with the true regressors (theorem 3; k=2, d=10).

    Returns:
      cosine(noise, trial) of the moment and the true gate, with its sign; ratio(noise, trial) of its component along
      the gate to the alpha of theorem 3, averaged over the same x.
    """
    values = np.zeros((2, len(noise), trials))
    normal = torch.distributions.Normal(0.0, 1.0)
    for place, sigma in enumerate(noise):
        task = MixtureTask(experts=2, dimension=10, noise=sigma, gating="orthogonal")
        for trial in range(trials):
            sampled = task.sample(samples, trials=[trial], seed=seed)
            w, (first, second) = sampled.truth.gates[0, 0], sampled.truth.regressors[0]
            x = sampled.x[0]
            moment = nearer_to_second(sampled.truth.regressors, sampled.x, sampled.y, task.g)[0] @ x / samples
            gate = torch.sigmoid(x @ w)
            slope = gate * (1 - gate) * (1 - 2 * normal.cdf((x @ (first - second)).abs() / (2 * sigma)))
            values[:, place, trial] = float(moment @ w / moment.norm() / w.norm()), float(moment @ w / slope.mean())
    dims = ("noise", "trial")
    return xr.Dataset(
        {"cosine": (dims, values[0]), "ratio": (dims, values[1])}, {"noise": list(noise), "trial": np.arange(trials)}
    )
