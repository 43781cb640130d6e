"""Measurements behind gridlock2019's statements on the gates of more than two experts."""

from __future__ import annotations

import math
from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import Moments, State, gate_gradient, gate_newton, posterior, projected, regressor_step
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.measures import parameter_error, unit

_NEWTON = 12
_DIRECTIONS = 4
_STEPS = 20


def one_m_step(
    experts: Sequence[int],
    activations: Sequence[str],
    dimensions: Sequence[int],
    trials: int,
    samples: int,
    seed: int = 0,
    *,
    error: float = 0.1,
    noise: float = 0.5,
) -> xr.Dataset:
    """Compares M-steps with regressors off by sigma^2 eps, and with the true ones, from random gates (lemma 4).

    Args:
      experts: numbers k.
      activations: names of g.
      dimensions: numbers d, of at least 2k - 1.
      error: eps, of every regressor.
      noise: sigma.

    Returns:
      moved(experts, activation, dimension, trial): the largest distance |w_i| of the two M-steps over eps, in the worst
      of four random directions of all regressors; and over_kappa, the same over (k - 1) sqrt(6 (2 + sigma^2)) / 2, too.
    """
    found = np.empty((len(experts), len(activations), len(dimensions), trials))
    for place in np.ndindex(found.shape[:3]):
        k, g, d = experts[place[0]], activations[place[1]], dimensions[place[2]]
        task = MixtureTask(experts=k, dimension=d, noise=noise, activation=g, gating="orthogonal")
        for trial in range(trials):
            sampled = task.sample(samples, trials=[trial], seed=seed)
            random, true = stream(seed, trial, "one M-step"), sampled.truth.regressors
            gates = _in_ball(true, random)
            right = _m_step(sampled, task, true, gates)
            away = unit(torch.as_tensor(random.standard_normal((_DIRECTIONS, *true.shape))))
            off = [_m_step(sampled, task, true + noise**2 * error * one, gates) for one in away]
            distances = [float(torch.linalg.vector_norm(wrong - right, dim=2).max()) for wrong in off]
            found[(*place, trial)] = max(distances) / error
    kappa = (np.array(experts) - 1) * math.sqrt(6 * (2 + noise**2)) / 2
    coords = {"experts": list(experts), "activation": list(activations), "dimension": list(dimensions)}
    axes = ("experts", "activation", "dimension", "trial")
    return xr.Dataset({"moved": (axes, found), "over_kappa": (axes, found / kappa[:, None, None, None])}, coords)


def _in_ball(like: Tensor, random: np.random.Generator) -> Tensor:
    """Draws gates in the unit ball, w_k = 0."""
    gates = unit(torch.as_tensor(random.standard_normal(like.shape))) * random.random()
    gates[:, -1] = 0
    return gates


def _m_step(sampled: MixtureSamples, task: MixtureTask, regressors: Tensor, gates: Tensor) -> Tensor:
    state = State(regressors, gates)
    responsibilities, _, _ = posterior(state, sampled.x, sampled.y, task.g, task.noise)
    return gate_newton(gates, responsibilities, Moments.of(sampled.x, sampled.y), steps=_NEWTON)


KEPT = ("newton", "newton in the ball", "exact in the ball", "gradient in the ball", "true regressors in the ball")
"""How `within_ball` moves the gates; the last one keeps the true regressors, in another order than the truth's."""


def within_ball(
    trials: int,
    seed: int = 0,
    *,
    experts: Sequence[int] = (3, 4),
    kept: Sequence[str] = KEPT,
    samples: int = 8000,
    dimension: int = 10,
    noise: float = 0.5,
    iterations: int = 60,
) -> xr.Dataset:
    """Runs EM from random parameters with and without gates kept within R = 1, as algorithm 2 has them (figure 3).

    Args:
      experts: numbers k.
      kept: some of `KEPT`. In the ball, Newton's and the gradient's step are projected onto it, "exact" repeats the
        projected gradient step until the M-step's maximum within the ball.
      samples, dimension, noise, iterations: as in figure 3.

    Returns:
      reached(kept, experts, trial): 1 where the error ends within a tenth of that of EM from the truth.
    """
    reached = np.empty((len(kept), len(experts), trials))
    for column, k in enumerate(experts):
        task = MixtureTask(experts=k, dimension=dimension, noise=noise)
        sampled = task.sample(samples, trials=range(trials), seed=seed)
        start = random_state(task, range(trials), seed, sampled.x)
        truth = State(sampled.truth.regressors, sampled.truth.gates)
        best = _error(_followed(truth, "newton", sampled, task, iterations), sampled)
        for row, how in enumerate(kept):
            begin = start if how != KEPT[-1] else State(truth.regressors.roll(1, dims=1), start.gates)
            found = _error(_followed(begin, how, sampled, task, iterations), sampled)
            reached[row, column] = found <= 1.1 * best
    coords = {"kept": list(kept), "experts": list(experts), "trial": range(trials)}
    return xr.Dataset({"reached": (("kept", "experts", "trial"), reached)}, coords)


def _followed(state: State, how: str, sampled: MixtureSamples, task: MixtureTask, iterations: int) -> State:
    moments = Moments.of(sampled.x, sampled.y)
    for _ in range(iterations):
        responsibilities, _, _ = posterior(state, sampled.x, sampled.y, task.g, task.noise)
        gates, regressors = state.gates, state.regressors
        if how.startswith("newton"):
            gates = gate_newton(gates, responsibilities, moments)
        else:
            for _ in range(1 if how.startswith("gradient") else _STEPS):
                gates = projected(gate_gradient(gates, responsibilities, moments, 1.0), 1.0)
        if how != KEPT[-1]:
            regressors = regressor_step(regressors, responsibilities, moments, task.g)
        state = State(regressors, gates if how == "newton" else projected(gates, 1.0))
    return state


def _error(state: State, sampled: MixtureSamples) -> np.ndarray:
    return parameter_error(state.regressors, state.gates, sampled.truth).numpy()
