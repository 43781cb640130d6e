"""The operators of both recovery papers near the true gate of two experts: EM, gradient EM and the stability of Q."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import Moments, projected
from moe_lab.recovery.measures import unit
from moe_lab_papers.readers import reader
from moe_lab_papers.recovery_lemmas import concavity

_NEWTON = 6  # steps, enough to reach the maximum to rounding
_ALONG = (-1.0, 0.0, 0.99)  # multiples of the true gate, along which -Q is flattest
STEPS = ("whole", "half")
"""Of the step of gradient EM: alpha_0 = 2 / (mu + lambda), and half of it."""


def constants() -> tuple[float, float]:
    """Returns lambda and mu, the least and the largest curvature of -Q over the unit ball for k = 2."""
    found = concavity()
    return float(found["least"]), float(found["largest"])


def operators(
    noise: Sequence[float] = (0.025, 0.05, 0.1),
    trials: int = 4,
    seed: int = 0,
    *,
    samples: int = 20_000,
    points: int = 8,
) -> xr.Dataset:
    """Applies the operators to gates in the unit ball, with the true regressors (gridlock2019, theorems 4 and 5; k=2).

    p_w stands for the posterior. E[p_w* x] is replaced by E[f(<w*, x>) x], to which it is equal, so that the true gate
    is a fixed point on samples, too, as it is in expectation.

    Departs from the paper: M-steps are not kept within the unit ball; steps of gradient EM are.

    Args:
      noise: sigma, with d=10, linear experts and a gate orthogonal to both regressors.
      samples: over which expectations are taken.
      points: random gates, uniform in the ball; three multiples of the true gate come on top.

    Returns:
      Over (noise, trial), the largest over the gates w: stability, |E[(p_w - p_w*) x]| / |w - w*|, which is gamma of
      assumption 3; em, |M(w) - w*| / |w - w*| for an M-step; gradient(step, noise, trial), the same for a step of
      gradient EM and its projection onto the ball; and moved, for lemma 5, by how much an M-step moves with regressors
      that are off by sigma^2 / 2, over L / lambda.
    """
    names = ("stability", "em", "moved")
    values, gradient = np.zeros((3, len(noise), trials)), np.zeros((2, len(noise), trials))
    for place, sigma in enumerate(noise):
        task = MixtureTask(experts=2, dimension=10, noise=sigma, gating="orthogonal")
        for trial in range(trials):
            sampled, random = task.sample(samples, trials=[trial], seed=seed), stream(seed, trial, "operators")
            found = _ratios(sampled, task, random, points)
            values[:, place, trial], gradient[:, place, trial] = found[:3], found[3:]
    coords = {"step": list(STEPS), "noise": list(noise), "trial": np.arange(trials)}
    parts = {name: (("noise", "trial"), part) for name, part in zip(names, values, strict=True)}
    return xr.Dataset({**parts, "gradient": (("step", "noise", "trial"), gradient)}, coords)


def _ratios(sampled: MixtureSamples, task: MixtureTask, random: np.random.Generator, points: int) -> tuple[float, ...]:
    """Returns the largest ratios of a trial: stability, em, moved, and those of both steps of gradient EM."""
    least, largest = constants()
    x, true, target = sampled.x[0], sampled.truth.regressors[0], sampled.truth.gates[0, 0]
    around = unit(torch.as_tensor(random.standard_normal((points, task.dimension))))
    around = around * torch.as_tensor(random.random((points, 1))) ** (1 / task.dimension)
    gates = torch.cat((around, *(part * target[None] for part in _ALONG)))
    wrong = true + task.noise**2 / 2 * unit(torch.as_tensor(random.standard_normal(true.shape)))
    odds, wrong_odds = (_log_odds(regressors, sampled, task) for regressors in (true, wrong))
    scores, distance = gates @ x.T, _length(gates - target)

    at_truth, prior_at_truth = ((target @ x.T + more).sigmoid() for more in (odds, 0.0))
    posterior, wrong_posterior = ((scores + more).sigmoid() for more in (odds, wrong_odds))
    shift = _moment(posterior - at_truth, x)
    lipschitz = _length(_moment(wrong_posterior - posterior, x))
    wanted = [_moment(each - at_truth + prior_at_truth, x) for each in (posterior, wrong_posterior)]
    after, after_wrong = _m_step(torch.cat(wanted), sampled, target).chunk(2)
    slope = wanted[0] - _moment(scores.sigmoid(), x)
    steps = [2 / (least + largest) * part for part in (1.0, 0.5)]
    return (
        float((_length(shift) / distance).max()),
        float((_length(after - target) / distance).max()),
        float((_length(after_wrong - after) * least / lipschitz).max()),
        *(
            float((_length(projected((gates + step * slope)[None], 1.0)[0] - target) / distance).max())
            for step in steps
        ),
    )


def _log_odds(regressors: Tensor, sampled: MixtureSamples, task: MixtureTask) -> Tensor:
    """Returns log N(y | first expert) - log N(y | second expert), (N,)."""
    squares = (sampled.y[0] - task.g(regressors @ sampled.x[0].T)).square() / (2 * task.noise**2)
    return squares[1] - squares[0]


def _moment(weights: Tensor, x: Tensor) -> Tensor:
    """Returns E[weight x], (gate, d)."""
    return weights @ x / len(x)


def _length(vectors: Tensor) -> Tensor:
    return torch.linalg.vector_norm(vectors, dim=1)


def _m_step(wanted: Tensor, sampled: MixtureSamples, start: Tensor) -> Tensor:
    """Maximizes Q by Newton steps from the true gate: E[f(<w, x>) x] is as wanted, (gate, d)."""
    x, moments = sampled.x[0], Moments.of(sampled.x, sampled.y)
    gates = start.expand(len(wanted), -1)
    for _ in range(_NEWTON):
        prior = (gates @ x.T).sigmoid()
        curvature = moments.gram((prior * (1 - prior))[None])[0] / len(x)
        gates = gates + torch.linalg.solve(curvature, wanted - _moment(prior, x))
    return gates


@reader
def power_of_noise(data: xr.Dataset, name: str) -> np.ndarray:
    """Returns the power of sigma with which a variable grows, (trial,)."""
    values = data[name].transpose("noise", "trial").values
    return np.asarray(np.polyfit(np.log(data["noise"].values), np.log(values), 1)[0])


@reader
def without_noise(data: xr.Dataset) -> np.ndarray:
    """Returns gradient EM's factor in the limit of sigma to 0, on a line through the smaller two sigma, (trial,)."""
    first, second = data["noise"].values[:2]
    low, high = (data["gradient"].sel(step="whole", noise=sigma).values for sigma in (first, second))
    return np.asarray(low - (high - low) * first / (second - first))


@reader
def rate(data: xr.Dataset, sigma: float, sign: int) -> xr.DataArray:
    """Returns gradient EM's factor at the whole step over rho = 1 - (2 lambda + sign 2 gamma) / (mu + lambda)."""
    least, largest = constants()
    at = data.sel(noise=sigma)
    stated = 1 - (2 * least + sign * 2 * at["stability"]) / (largest + least)
    return at["gradient"].sel(step="whole") / stated


@reader
def over_bound(data: xr.Dataset, sigma: float) -> xr.DataArray:
    """Returns EM's factor over gamma / lambda (theorem 4)."""
    at = data.sel(noise=sigma)
    return at["em"] * constants()[0] / at["stability"]
