"""What the theorems of gridlock2019 claim, measured: labelled Datasets that `gridlock2019` reads."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.recovery.data import MixtureTask, Samples
from moe_lab.recovery.em import Moments, State, gate_gradient, gate_newton, posterior
from moe_lab.recovery.moments import nearer_to_second
from moe_lab.trials import stream

_NEWTON = 3  # steps of an M-step, which leave nothing to maximise
_AT_REST = 1e-6  # as near to the fixed point rounding hides a contraction


def gates_from_anywhere(
    noise: Sequence[float] = (0.05, 0.1, 0.5), trials: int = 8, seed: int = 0, *, experts: int = 3,
    samples: int = 20_000, iterations: int = 25, rate: float = 4.0,
) -> xr.Dataset:  # fmt: skip
    """EM of the gates with the true regressors from two random starts (theorem 2), by M-steps and by gradients (5).

    Args:
      experts, samples: k and n, with d=10 and gates orthogonal to all regressors.
      iterations: of EM; of gradient EM four times as many.
      rate: of gradient EM.

    Returns:
      contraction, apart and error(step, noise, trial): the largest ratio of an iteration's distance to where EM ends
      to that of the iteration before; how far apart the two ends are; and how far the end is from the true gates, all
      in the norm of theorem 2, the largest |w_i|.
    """
    values = np.zeros((3, 2, len(noise), trials))
    for place, sigma in enumerate(noise):
        task = MixtureTask(experts=experts, dimension=10, noise=sigma, gating="orthogonal")
        drawn = task.sample(samples, trials=range(trials), seed=seed)
        for row, (count, by) in enumerate(((iterations, None), (4 * iterations, rate))):
            paths = [_gates(drawn, task, _start(drawn, seed, name), count, by) for name in ("first", "second")]
            distance = _largest(paths[0] - paths[0][-1])
            values[0, row, place] = _worst_ratio(distance)
            values[1, row, place] = _largest(paths[0][-1:] - paths[1][-1:])[0]
            values[2, row, place] = _largest(paths[0][-1:] - drawn.truth.gates.numpy())[0]
    dims = ("step", "noise", "trial")
    coords = {"step": ["EM", "gradient EM"], "noise": list(noise), "trial": np.arange(trials)}
    return xr.Dataset({name: (dims, one) for name, one in zip(("contraction", "apart", "error"), values, strict=True)},
                      coords)  # fmt: skip


def _start(drawn: Samples, seed: int, name: str) -> Tensor:
    """Gates at random in the unit ball, w_k = 0."""
    truth = drawn.truth.gates
    draws = [stream(seed, trial, f"start/{name}") for trial in range(len(truth))]
    start = torch.as_tensor(np.stack([draw.standard_normal(truth.shape[1:]) for draw in draws]))
    radius = torch.as_tensor(np.stack([draw.random(truth.shape[1]) for draw in draws]))
    start = start / torch.linalg.vector_norm(start, dim=2, keepdim=True) * radius[..., None] ** (1 / truth.shape[2])
    start[:, -1] = 0
    return start


def _gates(drawn: Samples, task: MixtureTask, gates: Tensor, iterations: int, rate: float | None) -> np.ndarray:
    """(iteration, T, k, d) the gates on their way."""
    moments, path = Moments.of(drawn.x, drawn.y), [gates]
    for _ in range(iterations):
        after, _, _ = posterior(State(drawn.truth.regressors, gates), drawn.x, drawn.y, task.g, task.noise)
        if rate is None:
            gates = gate_newton(gates, after, moments, steps=_NEWTON)
        else:
            gates = gate_gradient(gates, after, moments, rate)
        path.append(gates)
    return torch.stack(path).numpy()


def _largest(gap: np.ndarray) -> np.ndarray:
    """(iteration, T) max_i |w_i|."""
    return np.linalg.norm(gap, axis=3).max(2)


def _worst_ratio(distance: np.ndarray) -> np.ndarray:
    """(T,) the largest ratio of a distance to the one before, until it rests."""
    before, now = distance[:-1], distance[1:]
    return np.where(before > _AT_REST, now / np.maximum(before, _AT_REST), 0.0).max(0)


def gate_moment(
    noise: Sequence[float] = (0.1, 0.5), trials: int = 8, seed: int = 0, *, samples: int = 200_000
) -> xr.Dataset:
    """Theorem 3: the moment of 1{Ratio <= 1/2} with x, against alpha w, with the true regressors (k=2, d=10).

    Returns:
      cosine(noise, trial) of the moment and the true gate, with its sign; ratio(noise, trial) of its part along the
      gate to the alpha of theorem 3, which is averaged over the same x.
    """
    values = np.zeros((2, len(noise), trials))
    normal = torch.distributions.Normal(0.0, 1.0)
    for place, sigma in enumerate(noise):
        task = MixtureTask(experts=2, dimension=10, noise=sigma, gating="orthogonal")
        for trial in range(trials):
            drawn = task.sample(samples, trials=[trial], seed=seed)
            w, (first, second) = drawn.truth.gates[0, 0], drawn.truth.regressors[0]
            x = drawn.x[0]
            moment = nearer_to_second(drawn.truth.regressors, drawn.x, drawn.y, task.g)[0] @ x / samples
            gate = torch.sigmoid(x @ w)
            slope = gate * (1 - gate) * (1 - 2 * normal.cdf((x @ (first - second)).abs() / (2 * sigma)))
            values[:, place, trial] = float(moment @ w / moment.norm() / w.norm()), float(moment @ w / slope.mean())
    dims = ("noise", "trial")
    return xr.Dataset({"cosine": (dims, values[0]), "ratio": (dims, values[1])},
                      {"noise": list(noise), "trial": np.arange(trials)})  # fmt: skip
