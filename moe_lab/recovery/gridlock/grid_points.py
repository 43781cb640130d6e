"""Computes one grid point of a table or figure, for `moe_lab.core.sweep`: final fits, curves, and stuck trials."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Bool
from torch import Tensor

from moe_lab.core.graphs import on_accelerator
from moe_lab.core.grid import Point
from moe_lab.core.snapshots import Measure
from moe_lab.core.trials import threads_for
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples, Parameters
from moe_lab.recovery.em import EM, State
from moe_lab.recovery.gridlock.recipes import FROM_TRUTH, run_of
from moe_lab.recovery.gridlock.run import JointEM, MixtureRun
from moe_lab.recovery.gridlock.stages import Recovering, em_arguments, recovered
from moe_lab.recovery.gridlock.training import MEASURES, samples_of
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
    return 1 + sum(steps for phase, steps in run.stages if phase != "regressors") if every else 1


def _curves(run: MixtureRun, point: Point, every: bool) -> dict[str, np.ndarray]:
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        found = [fits(state, samples.truth) for state in _path(run, samples, point, every)]
    return {name: np.stack([values[name] for values in found], axis=1) for name in FITS}


def _path(run: MixtureRun, samples: MixtureSamples, point: Point, every: bool) -> Iterator[State]:
    """Yields the initial state of EM and the state after each iteration; or only the last."""
    truth = State(samples.truth.regressors, samples.truth.gates) if point["algorithm"] == FROM_TRUTH else None
    recovering = Recovering(run, samples, known=truth)
    em_begins = sum(steps for phase, steps in run.stages if phase == "regressors")
    recovering.advance(em_begins if every else recovering.last_step)
    yield recovering.state
    for _ in range(recovering.done, recovering.last_step):
        recovering.advance(1)
        yield recovering.state


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
    samples, task = samples_of(run), run.task
    device, rows = samples.x.device, torch.arange(run.trials, device=samples.x.device)
    with threads_for(0, device):
        now, iterations, how = _start(run, samples)
        em = EM(now, samples.x, samples.y, task.g, task.noise, move_regressors=True, **how)
    before = now
    while em.done < iterations and len(rows):
        with threads_for(0, device):  # not across a yield
            last = [part.clone() for part in em.state]
            em.advance(1)
            now = State(*(whole.index_copy(0, rows, part) for whole, part in zip(now, em.state, strict=True)))
            moved = [(new - old).abs().flatten(1).amax(1) for new, old in zip(em.state, last, strict=True)]
            rows = rows[_let_go(em, torch.maximum(*moved) < FIXED)]
        if em.done <= iterations - window:
            before = now
        if em.done % window == 0:
            yield None
    values, error = fits(now, samples.truth), fits(before, samples.truth)["error"]
    still = converged(error, values["error"], gain)
    values["converged"] = still.astype(float)
    values["stuck"] = (still & (values["regressor_fit"] < FOUND)).astype(float)
    for name in ("converged", "stuck"):
        values[name][np.isnan(values["error"])] = np.nan
    yield {name: values[name][None] for name in VERDICTS}


def _start(run: MixtureRun, samples: MixtureSamples) -> tuple[State, int, dict[str, Any]]:
    """Returns the initial state of EM of everything, the number of its iterations, and further arguments of `EM`."""
    if isinstance(run.model, JointEM):
        start = random_state(run.task, run.trial_numbers, run.seed, samples.x)
        return start, run.model.iterations, em_arguments(run.model)
    only = run.replace(model=run.model.replace(joint_iterations=0))
    return recovered(only, samples), run.model.joint_iterations, {}


def _let_go(em: EM, fixed: Bool[Tensor, " T"]) -> Bool[Tensor, " T"] | slice:
    """Lets EM go on without what is at a fixed point, once that is a quarter of its trials; returns who stays.

    On an accelerator, where fewer trials cost a new graph, half must be; and the host looks in every eighth iteration.
    """
    there = on_accelerator(fixed.device)
    if (there and em.done % 8) or int(fixed.sum()) * (2 if there else 4) < len(fixed):
        return slice(None)
    em.keep(np.flatnonzero(~fixed.cpu().numpy()))
    return ~fixed
