"""Computes one grid point of a table or figure, for `moe_lab.core.sweep`: final fits, curves, and stuck trials."""

from __future__ import annotations

from collections import deque
from collections.abc import Iterable, Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.grid import Point
from moe_lab.core.snapshots import Measure
from moe_lab.core.trials import threads_for
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples, Parameters
from moe_lab.recovery.em import State, em
from moe_lab.recovery.gridlock.recipes import FROM_TRUTH, run_of
from moe_lab.recovery.gridlock.run import JointEM, MixtureRun, Spectral
from moe_lab.recovery.gridlock.training import MEASURES, m_step, samples_of, states
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.tensor import RankError

FOUND = 0.95
"""The least regressor fit of a trial that counts as found. Good solutions have .99 and more, and nothing lies between
that and .9 for long."""
WINDOW, GAIN = 20, 0.02
"""EM has converged where its error fell by less than 2 % in the last 20 iterations (`converged`)."""
FITS = {name: MEASURES[name] for name in ("regressor_fit", "gating_fit", "error")}
VERDICTS = {
    "stuck": Measure((), "", "1 where a trial has converged and its regressors are not found"),
    "converged": Measure((), "", "1 where the error fell by less than `gain` in the last `window` iterations"),
    **FITS,
}
FIXED = 1e-10  # a move of all parameters, in an iteration, below which EM is at a fixed point


def fit_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point to its end.

    Yields:
      regressor_fit, gating_fit and error, (1, trials) each; NaN where T2 has no k directions or EM diverged.
    """
    (point,) = points
    curves = _by_trial(run_of(point, trials=trials, seed=seed, **how), point, every=False)
    yield {name: value[None, :, -1] for name, value in curves.items()}


def curve_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point and measures every iteration of EM; iteration 0 is where it starts.

    Yields:
      regressor_fit, gating_fit and error, (1, trials, iteration) each.
    """
    (point,) = points
    curves = _by_trial(run_of(point, trials=trials, seed=seed, **how), point, every=True)
    yield {name: value[None] for name, value in curves.items()}


def _by_trial(run: MixtureRun, point: Point, every: bool) -> dict[str, np.ndarray]:
    """Curves (trials, iteration); where one trial has no whitener, each is run on its own and that one is NaN."""
    try:
        return _curves(run, point, every)
    except RankError:
        parts: list[dict[str, np.ndarray] | None] = []
        for trial in run.trial_numbers:
            try:
                parts.append(_curves(run.replace(trials=1, first_trial=trial), point, every))
            except RankError:
                parts.append(None)
        none = np.full((1, _length(run, every)), np.nan)
        return {name: np.concatenate([none if part is None else part[name] for part in parts]) for name in FITS}


def _length(run: MixtureRun, every: bool) -> int:
    model = run.model
    steps = model.iterations if isinstance(model, JointEM) else model.gate_iterations + model.joint_iterations
    return steps + 1 if every else 1


def _curves(run: MixtureRun, point: Point, every: bool) -> dict[str, np.ndarray]:
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        path: Iterable[State] = _path(run, samples, point)
        path = path if every else deque(path, maxlen=1)
        found = [fits(state, samples.truth) for state in path]
    return {name: np.stack([values[name] for values in found], axis=1) for name in FITS}


def _path(run: MixtureRun, samples: MixtureSamples, point: Point) -> Iterator[State]:
    """Yields the initial state of EM, then the state after each iteration."""
    if isinstance(run.model, JointEM) and point["algorithm"] == FROM_TRUTH:
        truth, task = State(samples.truth.regressors, samples.truth.gates), run.task
        how: dict[str, Any] = {"iterations": run.model.iterations, "move_regressors": True}
        for progress in em(truth, samples.x, samples.y, task.g, task.noise, **how):
            yield progress.state
        return
    first = None  # the latest state of phase 0, in which regressors are sought
    for _, phase, state in states(run, samples, watch=False):
        if phase and first is not None:
            yield first
        first = None if phase else state
        if phase:
            yield state
    if first is not None:  # no iteration of EM at all
        yield first


def converged(before: np.ndarray, now: np.ndarray, gain: float = GAIN) -> np.ndarray:
    """Whether an error E(A, W) fell by less than `gain` of what it was `WINDOW` iterations before, or rose.

    With a regressor fit below `FOUND` that is what "stuck" means in this room. False where an error is NaN.
    """
    return np.asarray(before - now < gain * before)


def fits(state: State, truth: Parameters) -> dict[str, np.ndarray]:
    """Returns regressor_fit, gating_fit and error, (trials,) each; NaN where a parameter is not finite."""
    bad = ~(torch.isfinite(state.regressors) & torch.isfinite(state.gates)).flatten(1).all(1)
    regressors, gates = (torch.where(bad[:, None, None], torch.zeros_like(part), part) for part in state)
    values = {
        "regressor_fit": measures.regressor_fit(regressors, truth.regressors),
        "gating_fit": measures.gating_fit(gates, regressors, truth),
        "error": measures.parameter_error(regressors, gates, truth),
    }
    broken = bad.cpu().numpy()
    return {name: np.where(broken, np.nan, value.cpu().numpy()) for name, value in values.items()}


def stuck_cells(
    points: list[Point], *, trials: int, seed: int, window: int, gain: float, **how: Any
) -> Iterator[dict[str, np.ndarray] | None]:
    """Runs one grid point and finds the trials that are stuck.

    Trials whose parameters an iteration has left where they were (to 1e-10) are at a fixed point. They would stay
    there, so EM goes on without them, which changes nothing but the time.

    Yields:
      None as a sign of life; at the end `VERDICTS`, (1, trials) each; NaN where T2 has no k directions or EM diverged.
    """
    (point,) = points
    run = run_of(point, trials=trials, seed=seed, **how)
    try:
        yield from _verdicts(run, window, gain)
    except RankError:  # of one trial at least: each on its own
        parts = []
        for trial in run.trial_numbers:
            values = {name: np.full((1, 1), np.nan) for name in VERDICTS}
            try:
                for found in _verdicts(run.replace(trials=1, first_trial=trial), window, gain):
                    values = values if found is None else found
                    yield None
            except RankError:
                yield None
            parts.append(values)
        yield {name: np.concatenate([part[name] for part in parts], axis=1) for name in VERDICTS}


def _verdicts(run: MixtureRun, window: int, gain: float) -> Iterator[dict[str, np.ndarray] | None]:
    """What `stuck_cells` yields for one run.

    Raises:
      RankError: a trial's T2 has no k directions, before anything is yielded.
    """
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        now, left = _start(run, samples)
    before, done = fits(now, samples.truth)["error"], 0
    moving = torch.arange(run.trials, device=samples.x.device)
    while done < left and len(moving):
        for state, fixed in _until_some_are_fixed(run, samples, now, moving, left - done):
            now, converged_rows, done = state, fixed, done + 1
            if done == left - window:
                before = fits(now, samples.truth)["error"]
            if done % window == 0:
                yield None
        moving = moving[~converged_rows]
    if done < left - window:  # all trials are at a fixed point
        before = fits(now, samples.truth)["error"]
    values = fits(now, samples.truth)
    still = converged(before, values["error"], gain)
    values["converged"] = still.astype(float)
    values["stuck"] = (still & (values["regressor_fit"] < FOUND)).astype(float)
    for name in ("converged", "stuck"):
        values[name][np.isnan(values["error"])] = np.nan
    yield {name: values[name][None] for name in VERDICTS}


def _start(run: MixtureRun, samples: MixtureSamples) -> tuple[State, int]:
    """Returns the initial state of joint EM and the number of its iterations."""
    if isinstance(run.model, JointEM):
        return random_state(run.task, run.trial_numbers, run.seed, samples.x), run.model.iterations
    spectral: Spectral = run.model
    only = run.replace(model=spectral.replace(joint_iterations=0))
    *_, (_, _, state) = states(only, samples, watch=False)
    return state, spectral.joint_iterations


def _until_some_are_fixed(
    run: MixtureRun, samples: MixtureSamples, state: State, rows: Tensor, most: int
) -> Iterator[tuple[State, Tensor]]:
    """Runs joint EM of some trials until a quarter of them are at a fixed point; on an accelerator until half are.

    There fewer trials cost a new graph, and the host looks in every eighth iteration only.

    Yields:
      The parameters of all trials after each iteration, and which of these rows are at a fixed point.
    """
    task, part = run.task, State(*(whole[rows] for whole in state))
    how = m_step(run.model) if isinstance(run.model, JointEM) else {}
    x, y = samples.x[rows], samples.y[rows]
    steps = em(part, x, y, task.g, task.noise, iterations=most, move_regressors=True, **how)
    with threads_for(0, samples.x.device):
        before = next(steps).state
    there = on_accelerator(samples.x.device)
    for number in range(1, most + 1):
        with threads_for(0, samples.x.device):  # not across a yield
            after = next(steps).state
        moved = [(a - b).abs().flatten(1).amax(1) for a, b in zip(after, before, strict=True)]
        fixed = torch.maximum(*moved) < FIXED
        before = after
        yield State(*(whole.index_copy(0, rows, new) for whole, new in zip(state, after, strict=True))), fixed
        if (not there or number % 8 == 0) and int(fixed.sum()) * (2 if there else 4) >= len(rows):
            return
