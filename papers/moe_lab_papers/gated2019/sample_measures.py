"""Measurements behind gated2019's statements on samples: in a batch of L4, and with d and T in a descent on L_log."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
import xarray as xr

from moe_lab.core.snapshots import collect
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import PAPER_TASK, RECIPES, LossRun
from moe_lab.recovery.landscape.training import descend_run

_RATE = 4.0  # alpha of the descent on L_log, as for theorem 3


def batches(sizes: Sequence[int], trials: int, steps: int, seed: int = 0, *, every: int = 10) -> xr.Dataset:
    """Minimizes L4 with fresh batches of several sizes, by one recipe and from the same starts (d=10, k=2).

    Args:
      sizes: samples in a batch.
      steps: of each descent.
      every: steps from one value to the next.

    Returns:
      regressor_error(batch, step, trial).
    """
    model = RECIPES["fresh"].model.replace(steps=steps)
    how = {"model": model, "task": PAPER_TASK, "trials": trials, "seed": seed, "record_every": every}
    found = [collect(descend_run(LossRun(**how, batch=size)))["regressor_error"] for size in sizes]  # type: ignore[arg-type]
    return xr.concat(found, xr.Variable("batch", list(sizes))).to_dataset(name="regressor_error")


def split_samples(
    dimensions: Sequence[int],
    steps: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    each: int = 400,
    samples: int = 16_000,
) -> xr.Dataset:
    """Descends on L_log with fresh samples in each of T steps and the true regressors, from gates of 0 (k=3, sigma=.1).

    Args:
      dimensions: numbers d, with T = 20.
      steps: numbers T, with d = 10.
      each: samples a step while d varies.
      samples: n, of all steps together, while T varies.

    Returns:
      by_dimension(dimension, trial) and by_steps(steps, trial), the largest |w_i - w_i*| after the last step.
    """
    by_dimension = [_ends(d, 20, each, trials, seed) for d in dimensions]
    by_steps = [_ends(10, count, samples // count, trials, seed) for count in steps]
    values = {"by_dimension": (("dimension", "trial"), by_dimension), "by_steps": (("steps", "trial"), by_steps)}
    return xr.Dataset(values, {"dimension": list(dimensions), "steps": list(steps)})


def _ends(dimension: int, steps: int, each: int, trials: int, seed: int) -> np.ndarray:
    """Returns the largest distance of a gate from the truth after so many steps of `each` samples, (trial,)."""
    task = MixtureTask(experts=3, dimension=dimension, noise=0.1, gating="orthogonal")
    drawn = task.sample(steps * each, trials=range(trials), seed=seed)
    gates = torch.zeros_like(drawn.truth.gates)
    for step in range(steps):
        part = slice(step * each, (step + 1) * each)
        state = State(drawn.truth.regressors, gates)
        slope = losses.l_log(state, drawn.x[:, part], drawn.y[:, part], task.g, task.noise).slope.gates
        gates = gates - _RATE * slope
    return torch.linalg.vector_norm(gates - drawn.truth.gates, dim=2).amax(1).numpy()
