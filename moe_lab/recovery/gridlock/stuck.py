"""Who is stuck: joint EM from random parameters, or EM of everything from the spectral start (gridlock2019, 4.3)."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from functools import partial
from typing import TYPE_CHECKING, Any, NamedTuple

import numpy as np

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.figure import call_with, reproducible
from moe_lab.core.grid import Point, Table
from moe_lab.core.origins import as_tuple
from moe_lab.core.sweep import filling
from moe_lab.recovery.gridlock.grid_points import stuck_cells
from moe_lab.recovery.gridlock.recipes import MEANINGS, GridlockFigure
from moe_lab.recovery.gridlock.run import Spectral
from moe_lab.recovery.gridlock.verdicts import FOUND, GAIN, VERDICTS, WINDOW

if TYPE_CHECKING:
    import xarray

AXES = ("algorithm", "k", "samples")
FIRST = ("k", "samples", "methods", "trials", "seed")
"""The arguments that come first in a call of `stuck_rate`."""


@reproducible(first=FIRST)
@checked
def stuck_rate(
    k: int | Sequence[int] = (8,),
    d: int = 16,
    samples: int | Sequence[int] = (6000,),
    trials: int = 20,
    seed: int = 0,
    methods: str | Sequence[str] = ("spectral+em", "joint-em"),
    *,
    spectral_iterations: int = 60,
    joint_iterations: int = 250,
    noise: float = 0.1,
    regressors: str = "orthonormal",
    window: int = WINDOW,
    gain: float = GAIN,
    **more: Any,
) -> xarray.Dataset:
    """Measures how often EM gets stuck: joint EM from random parameters, and EM of everything from the spectral start.

    A trial is found where its regressor fit is at least `FOUND`. It is stuck where it is not found and has converged:
    its error E(A, W) fell by less than `gain` in its last `window` iterations. All others are still moving (`verdict`).

    At the default size, on seeds 0, 21, 22 and 23: joint EM is stuck in 13 to 15 of 20 trials and has found 1 to 4,
    EM from the spectral start has found 18 to 20 and is stuck in at most 1. With gain=.01 joint EM is stuck in 11 to
    13. Stuck does not mean for ever: at a gain of 2 % in 20 iterations as many iterations again would take a fifth of
    the error away, and on seed 0, 3 of the 13 stuck trials had got out by iteration 920.

    Args:
      k: experts, one or several.
      d: numbers in an input.
      samples: n, one or several.
      trials, seed, more: as for `table2`.
      methods: "spectral+em", "joint-em" or "joint-em-gradient".
      spectral_iterations: of EM of everything, after the spectral start and 5 iterations of EM of the gates.
      joint_iterations: of EM from random parameters.
      noise: sigma.
      regressors: "orthonormal" or "random".
      window, gain: the test of convergence.

    Returns:
      stuck, converged, regressor_fit, gating_fit and error over (algorithm, k, samples, trial).

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    size: dict[str, Any] = {"k": k, "d": d, "samples": samples, "trials": trials, "seed": seed, "methods": methods}
    how: dict[str, Any] = {"noise": noise, "regressors": regressors, "window": window, "gain": gain, **more}
    plan = plan_of(**size, spectral_iterations=spectral_iterations, joint_iterations=joint_iterations, **how)
    found = plan.figure.fill(stuck_cells, plan.axes, VERDICTS, **plan.test)
    found.attrs |= plan.test
    return found.transpose(*AXES, "trial")


def stuck_tables(**arguments: Any) -> Iterator[Table]:
    """Yields the map of `stuck_rate` (same arguments, all by name) for a live picture, from empty to full, as Tables.

    Cells are computed one by one, cheap ones first. Each Table is a copy of its own.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    plan = plan_of(**arguments)
    figure, call = plan.figure, call_with(stuck_rate, (), arguments, first=FIRST)
    cells = partial(stuck_cells, **figure.how(), **plan.test)
    axes = {name: plan.axes[name] for name in AXES}
    attrs = {**figure.attrs_of(plan.axes), **plan.test, "call": call}
    described: dict[str, Any] = {"measures": VERDICTS, "meanings": MEANINGS, "attrs": attrs}
    tables = filling(cells, axes, trials=figure.trials, seed=figure.seed, batch=_cheap_first, **described)
    return (table.copy() for table in tables)


def _cheap_first(points: list[Point]) -> list[list[Point]]:
    """Computes cells one by one: an iteration takes a time proportional to n and to the k (k + 1) / 2 blocks of H."""
    return [[point] for point in sorted(points, key=lambda point: point["samples"] * point["k"] * (point["k"] + 1))]


class Plan(NamedTuple):
    """What `stuck_rate` computes: its figure, its axes and its test."""

    figure: GridlockFigure
    axes: dict[str, tuple[Any, ...]]
    test: dict[str, Any]


def plan_of(
    *,
    k: int | Sequence[int],
    d: int,
    samples: int | Sequence[int],
    trials: int,
    seed: int,
    methods: str | Sequence[str],
    spectral_iterations: int,
    joint_iterations: int,
    noise: float,
    regressors: str,
    window: int = WINDOW,
    gain: float = GAIN,
    **more: Any,
) -> Plan:
    """Checks the arguments of `stuck_rate`.

    Raises:
      ValueError: a wrong value or combination.
    """
    names = as_tuple(methods)
    possible = ("spectral+em", "joint-em", "joint-em-gradient")
    require(all(name in possible for name in names), f"methods must be among {', '.join(possible)}", methods=names)
    require(window >= 1, "window must be at least 1", window=window)
    counts = {"spectral_iterations": spectral_iterations, "joint_iterations": joint_iterations}
    require(min(counts.values()) >= window, "iterations must be at least window", **counts, window=window)
    require(0 < gain < 1, "gain must be between 0 and 1", gain=gain)
    task = {"dimension": d, "noise": noise, "regressors": regressors}
    gates = Spectral().gate_iterations
    iterations = {name: joint_iterations for name in possible} | {"spectral+em": gates + spectral_iterations}
    figure = GridlockFigure("section 4.3", trials, seed, more, task, iterations=iterations)
    axes = {"k": as_tuple(k), "samples": as_tuple(samples), "algorithm": names}
    return Plan(figure, axes, {"window": window, "gain": gain})


def verdict(data: xarray.Dataset) -> xarray.DataArray:
    """Judges each trial in the Dataset of `stuck_rate`: "found", "stuck", "still moving" or "diverged".

    Raises:
      ValueError: the Dataset has no regressor_fit and stuck.
    """
    require({"regressor_fit", "stuck"} <= set(data), "data must be what stuck_rate returned", variables=list(data))
    fit, stuck = data["regressor_fit"], data["stuck"]
    return fit.copy(data=verdict_words(fit.values, stuck.values)).assign_attrs(long_name="what became of the trial")


def verdict_words(fit: np.ndarray, stuck: np.ndarray) -> np.ndarray:
    """Computes `verdict` from the regressor fits and the stuck trials, in arrays of any shape."""
    return np.select([np.isnan(fit), fit >= FOUND, stuck > 0], ["diverged", "found", "stuck"], "still moving")
