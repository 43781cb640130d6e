"""Computes one grid point of a table or figure, for `moe_lab.core.sweep`: final fits, curves, and stuck trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np

from moe_lab.core.grid import Point
from moe_lab.core.trials import threads_for
from moe_lab.recovery.data import MixtureSamples, Parameters
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.recipes import run_of
from moe_lab.recovery.gridlock.run import MixtureRun
from moe_lab.recovery.gridlock.stages import Recovering
from moe_lab.recovery.gridlock.training import samples_of
from moe_lab.recovery.gridlock.verdicts import FITS, VERDICTS, JudgedRun, fits_of, judged_snapshots


def fit_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point to its end.

    Yields:
      regressor_fit, gating_fit and error, (1, trials) each; NaN where T2 has no k directions or EM diverged.
    """
    (point,) = points
    curves = _curves(run_of(point, trials=trials, seed=seed, **how), every=False)
    yield {name: value[None, :, -1] for name, value in curves.items()}


def curve_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point and measures every iteration of EM; iteration 0 is where it starts.

    Yields:
      regressor_fit, gating_fit and error, (1, trials, iteration) each.
    """
    (point,) = points
    curves = _curves(run_of(point, trials=trials, seed=seed, **how), every=True)
    yield {name: value[None] for name, value in curves.items()}


def _curves(run: MixtureRun, every: bool) -> dict[str, np.ndarray]:
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        found = [fits(state, samples.truth) for state in _path(run, samples, every)]
    return {name: np.stack([values[name] for values in found], axis=1) for name in FITS}


def _path(run: MixtureRun, samples: MixtureSamples, every: bool) -> Iterator[State]:
    """Yields the initial state of EM and the state after each iteration; or only the last."""
    recovering = Recovering(run, samples)
    em_begins = sum(steps for phase, steps in run.stages if phase == "regressors")
    recovering.advance(em_begins if every else recovering.last_step)
    yield recovering.state
    for _ in range(recovering.done, recovering.last_step):
        recovering.advance(1)
        yield recovering.state


def fits(state: State, truth: Parameters) -> dict[str, np.ndarray]:
    """Returns regressor_fit, gating_fit and error, (trials,) each; NaN where a parameter is not finite."""
    return {name: value.cpu().numpy() for name, value in fits_of(state, truth).items()}


def stuck_cells(
    points: list[Point], *, trials: int, seed: int, window: int, gain: float, **how: Any
) -> Iterator[dict[str, np.ndarray] | None]:
    """Runs one grid point and finds the trials that are stuck.

    Yields:
      None as a sign of life; at the end `VERDICTS`, (1, trials) each; NaN where T2 has no k directions or EM diverged.
    """
    (point,) = points
    run = run_of(point, trials=trials, seed=seed, **how).replace(record_every=window)
    found: dict[str, np.ndarray] = {}
    for snapshot in judged_snapshots(JudgedRun(**dict(run), window=window, gain=gain)):
        found = dict(snapshot.values)
        yield None
    yield {name: found[name][None] for name in VERDICTS}
