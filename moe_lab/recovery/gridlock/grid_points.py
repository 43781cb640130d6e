"""What one cell of a table or figure computes, for `moe_lab.sweep`: fits at the end, curves, and who is stuck."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from torch import Tensor

from moe_lab.grid import Point
from moe_lab.recovery import measures
from moe_lab.recovery.data import Parameters, Samples
from moe_lab.recovery.em import State, em
from moe_lab.recovery.gridlock.recipes import FROM_TRUTH, run_of
from moe_lab.recovery.gridlock.run import JointEM, Run, Spectral
from moe_lab.recovery.gridlock.training import samples_of, states
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.tensor import RankError
from moe_lab.training import Measure
from moe_lab.trials import threads_for

FOUND = 0.95
"""The least regressor fit of a trial that counts as found. Good solutions have .99 and more, and nothing lies between
that and .9 for long."""
WINDOW, GAIN = 20, 0.02
"""EM has converged where its error fell by less than 2 % in the last 20 iterations (`converged`)."""
FITS = {
    "regressor_fit": Measure((), "", "smallest |cos| of a regressor to its true one, experts matched (eq. 11)"),
    "gating_fit": Measure((), "", "smallest |cos| of a gate to its true one, in the gauge w_k = 0 (eq. 12)"),
    "error": Measure((), "", "E(A, W), distance of all parameters to the true ones (section 4.3)"),
}
VERDICTS = {
    "stuck": Measure((), "", "1 where a trial has converged and its regressors are not found"),
    "converged": Measure((), "", "1 where the error fell by less than `gain` in the last `window` iterations"),
    **FITS,
}
_FIXED = 1e-10  # a move of all parameters, in an iteration, below which EM is at a fixed point


def fit_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point to its end.

    Yields:
      regressor_fit, gating_fit and error, (1, trials) each; NaN where T2 has no k directions or EM diverged.
    """
    (point,) = points
    run = run_of(point, trials=trials, seed=seed, **how)
    curves = _by_trial(run, point, every=False)
    yield {name: value[None, :, -1] for name, value in curves.items()}


def curve_cells(points: list[Point], *, trials: int, seed: int, **how: Any) -> Iterator[dict[str, np.ndarray]]:
    """Runs one grid point and measures every iteration of EM; iteration 0 is where it starts.

    Yields:
      regressor_fit, gating_fit and error, (1, trials, iteration) each.
    """
    (point,) = points
    run = run_of(point, trials=trials, seed=seed, **how)
    curves = _by_trial(run, point, every=True)
    yield {name: value[None] for name, value in curves.items()}


def _by_trial(run: Run, point: Point, every: bool) -> dict[str, np.ndarray]:
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


def _length(run: Run, every: bool) -> int:
    model = run.model
    steps = model.iterations if isinstance(model, JointEM) else model.gate_iterations + model.joint_iterations
    return steps + 1 if every else 1


def _curves(run: Run, point: Point, every: bool) -> dict[str, np.ndarray]:
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        path = _path(run, samples, point)
        if every:
            found = [fits(state, samples.truth) for state in path]
        else:
            *_, last = path
            found = [fits(last, samples.truth)]
    return {name: np.stack([values[name] for values in found], axis=1) for name in FITS}


def _path(run: Run, samples: Samples, point: Point) -> Iterator[State]:
    """The state that EM starts with, then the state after each iteration."""
    task, joint = run.task, isinstance(run.model, JointEM)
    if isinstance(run.model, JointEM) and point["algorithm"] == FROM_TRUTH:
        truth = State(samples.truth.regressors, samples.truth.gates)
        how: dict[str, Any] = {"iterations": run.model.iterations, "move_regressors": True}
        for progress in em(truth, samples.x, samples.y, task.g, task.noise, **how):
            yield progress.state
        return
    first = None  # the latest state of phase 0, in which regressors are sought
    for _, phase, state in states(run, samples, watch=False):
        if phase == 0 and not joint:
            first = state
            continue
        if first is not None:
            yield first
            first = None
        yield state
    if first is not None:  # no iteration of EM at all
        yield first


def converged(before: np.ndarray, now: np.ndarray, gain: float = GAIN) -> np.ndarray:
    """Whether an error E(A, W) fell by less than `gain` of what it was `WINDOW` iterations before, or rose.

    With a regressor fit below `FOUND` that is what "stuck" means in this room. False where an error is NaN.
    """
    return np.asarray(before - now < gain * before)


def fits(state: State, truth: Parameters) -> dict[str, np.ndarray]:
    """regressor_fit, gating_fit and error of some trials, (trials,) each; NaN where a parameter is not finite."""
    bad = ~(torch.isfinite(state.regressors) & torch.isfinite(state.gates)).flatten(1).all(1)
    regressors, gates = (torch.where(bad[:, None, None], torch.zeros_like(part), part) for part in state)
    values = {
        "regressor_fit": measures.regressor_fit(regressors, truth.regressors),
        "gating_fit": measures.gating_fit(gates, regressors, truth),
        "error": measures.parameter_error(regressors, gates, truth),
    }
    broken = bad.cpu().numpy()
    return {name: np.where(broken, np.nan, value) for name, value in values.items()}


def stuck_cells(
    points: list[Point], *, trials: int, seed: int, window: int, gain: float, **how: Any
) -> Iterator[dict[str, np.ndarray] | None]:
    """Runs one grid point and says which trials have stopped short of the truth.

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


def _verdicts(run: Run, window: int, gain: float) -> Iterator[dict[str, np.ndarray] | None]:
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
        resting = torch.zeros_like(moving, dtype=torch.bool)
        for state, at_rest in _until_some_rest(run, samples, now, moving, left - done):
            now, resting, done = state, at_rest, done + 1
            if done == left - window:
                before = fits(now, samples.truth)["error"]
            if done % window == 0:
                yield None
        moving = moving[~resting]
    if done < left - window:  # all trials rest
        before = fits(now, samples.truth)["error"]
    values = fits(now, samples.truth)
    still = converged(before, values["error"], gain)
    values["converged"] = still.astype(float)
    values["stuck"] = (still & (values["regressor_fit"] < FOUND)).astype(float)
    for name in ("converged", "stuck"):
        values[name][np.isnan(values["error"])] = np.nan
    yield {name: values[name][None] for name in VERDICTS}


def _start(run: Run, samples: Samples) -> tuple[State, int]:
    """Where joint EM begins, and how many iterations of it there are."""
    if isinstance(run.model, JointEM):
        return random_state(run.task, run.trial_numbers, run.seed, samples.x), run.model.iterations
    spectral: Spectral = run.model
    only = run.replace(model=spectral.replace(joint_iterations=0))
    *_, (_, _, state) = states(only, samples, watch=False)
    return state, spectral.joint_iterations


def _until_some_rest(
    run: Run, samples: Samples, state: State, rows: Tensor, most: int
) -> Iterator[tuple[State, Tensor]]:
    """Joint EM of some trials, until a quarter of them are at a fixed point: all trials' parameters, and who rests."""
    task, part = run.task, State(*(whole[rows] for whole in state))
    steps = em(part, samples.x[rows], samples.y[rows], task.g, task.noise, iterations=most, move_regressors=True)
    with threads_for(0, samples.x.device):
        before = next(steps).state
    for _ in range(most):
        with threads_for(0, samples.x.device):  # not across a yield
            after = next(steps).state
        moved = [(a - b).abs().flatten(1).amax(1) for a, b in zip(after, before, strict=True)]
        resting = torch.maximum(*moved) < _FIXED
        before = after
        yield State(*(whole.index_copy(0, rows, new) for whole, new in zip(state, after, strict=True))), resting
        if int(resting.sum()) * 4 >= len(rows):
            return
