"""What a record of the gridlock Lab holds: where both methods are, what they have found, and which trials are stuck."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import replace
from itertools import islice
from typing import Any

import numpy as np
import torch
from numpy.typing import NDArray

from moe_lab.core.snapshots import Measure
from moe_lab.recovery.em import EM, State
from moe_lab.recovery.gridlock import MixtureRun, Spectral, train_run
from moe_lab.recovery.gridlock.training import samples_of
from moe_lab.recovery.gridlock.verdicts import FOUND, WINDOW, converged
from moe_lab.recovery.measures import parameter_error
from moe_lab_widgets.engine.knobs import on_gpu, record_count, time_limit
from moe_lab_widgets.engine.record import Record

SPECTRAL, JOINT = "spectral", "joint"
POWER_ITERATIONS = 10
"""Per regressor: power iterations converge quadratically, so that 30 find the same to three digits."""
GATE_ITERATIONS, EVERYTHING_ITERATIONS = 5, 40
"""EM after the power iterations: of the gates alone, then of everything."""
BEST_ITERATIONS = 12
"""EM from the true parameters, which no method can beat on these samples."""
POWER_RECORDS = 40
"""Approximate number of records in which the power iterations are seen."""
JOINT_RECORDS, SLOWEST_PIECE = 80, 0.045
"""Approximate records of joint EM, and the seconds that one may take, so that a slider is answered soon."""
BEST = Measure((), "", "E(A, W) that EM from the true parameters has reached")


def power(values: Mapping[str, Any]) -> int:
    """Returns the iterations of the power method in all, after which the spectral method's EM begins."""
    return int(values["experts"] * POWER_ITERATIONS)


# ---- the runs ----


def joint_every(values: Mapping[str, Any]) -> int:
    """Returns the iterations of joint EM per record. Depends on the values alone."""
    few = round(values["iterations"] / record_count(JOINT_RECORDS, values))
    few = few if on_gpu(values) else min(few, int(time_limit(SLOWEST_PIECE, values) / seconds(values)))
    return max(every for every in range(1, max(few, 1) + 1) if WINDOW % every == 0)  # "stuck" compares over WINDOW


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one EM iteration of all trials takes on one CPU thread (measured, within a third)."""
    k, d, rows = values["experts"], values["dimension"], values["trials"] * values["samples"]
    return float(rows * (k * (k + 1) / 2 * d * (d + 1) / 2 * 1.7e-10 + k * 3e-8))


def begin(run: MixtureRun, cache: dict[str, Any]) -> Iterator[Any]:
    """Begins a method: joint EM as it is, the spectral one with the error of EM from the truth beside its own."""
    return _with_best(run) if isinstance(run.model, Spectral) else train_run(run)


def _with_best(run: MixtureRun) -> Iterator[Any]:
    """Yields the spectral method, several power iterations at a time, then EM with what no EM can beat as "best"."""
    shots, floors, floor = train_run(run), from_the_truth(run), np.full(run.trials, np.nan)
    last = power({"experts": run.task.experts})
    stride = max(1, round(last / POWER_RECORDS))
    yield next(shots)
    while together := list(islice(shots, stride)):
        yield together
        if together[-1].step == last:
            break
    for shot in shots:
        floor = next(floors, floor)
        yield replace(shot, values={**shot.values, "best": floor}, measures={**shot.measures, "best": BEST})


def from_the_truth(run: MixtureRun) -> Iterator[NDArray[np.float64]]:
    """Yields the errors (trial,) of EM from the true parameters, which no method can beat on these samples."""
    samples, task = samples_of(run), run.task
    start = State(samples.truth.regressors, samples.truth.gates)
    em = EM(start, samples.x, samples.y, task.g, task.noise, move_regressors=True)
    for iteration in range(BEST_ITERATIONS + 1):
        em.advance(int(iteration > 0))
        yield parameter_error(*em.state, samples.truth).cpu().numpy()


# ---- where a method is ----


def shown(now: Record) -> int:
    """Returns the trial on show, counted from 0."""
    return int(min(now.values["shown"], now.trials)) - 1


def seeking(now: Record) -> bool:
    """Whether the spectral method is still in its power iterations."""
    return bool(now.of(SPECTRAL).step <= power(now.values))


def iteration(now: Record, name: str) -> int:
    """Returns the iterations of EM that a method has done; negative ones are power iterations still to come."""
    return int(now.of(name).step) - (power(now.values) if name == SPECTRAL else 0)


def em_errors(now: Record, name: str) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
    """Returns (m,) iterations of EM and (m, trial) the errors after them, from the first iterate of EM on."""
    first = power(now.values) if name == SPECTRAL else 0
    shots = [shot for shot in now.shots.get(name, ()) if shot.step >= first]
    steps = np.array([shot.step - first for shot in shots], dtype=np.int64)
    return steps, np.array([shot["error"] for shot in shots]).reshape(len(shots), now.trials)


# ---- what it has found, and whether it is stuck ----


def cosines(now: Record, name: str, trial: int) -> NDArray[np.float64]:
    """Returns (expert, expert) |cos| of each estimate with each true regressor, in matched order; 0 before the run."""
    shot = now.of(name)
    return np.zeros_like(now["cosines"][trial]) if shot is None else np.nan_to_num(shot["cosines"][trial]).T


def gate_cosines(now: Record, name: str, trial: int) -> NDArray[np.float64]:
    """Returns (expert - 1,) |cos| of each gate with the true one; 0 before they are sought."""
    shot = now.of(name)
    unknown = shot is None or (name == SPECTRAL and seeking(now))
    return np.zeros_like(now["gate_cosines"][trial]) if unknown else np.nan_to_num(shot["gate_cosines"][trial])


def found(now: Record, name: str) -> NDArray[np.bool_]:
    """Returns (trial, expert) which true regressors have an estimate of |cos| >= `FOUND`."""
    shot = now.of(name)
    if shot is None:
        return np.zeros(now["cosines"].shape[:2], dtype=bool)
    return np.asarray(np.diagonal(shot["cosines"], axis1=1, axis2=2) >= FOUND)  # NaN is not found


def whole(now: Record, name: str) -> NDArray[np.bool_]:
    """Returns (trial,) whether all regressors are found: their fit is at least `FOUND`."""
    shot = now.of(name)
    return np.zeros(now.trials, dtype=bool) if shot is None else np.asarray(shot["regressor_fit"] >= FOUND)


def verdicts(now: Record, name: str) -> tuple[NDArray[np.bool_], NDArray[np.bool_]]:
    """Returns (trial,) stuck, where EM has converged and a regressor is missing, and (trial,) still falling.

    EM has converged (`verdicts.converged`) at the earliest after `WINDOW` iterations.
    """
    steps, errors = em_errors(now, name)
    if not len(steps):
        return np.zeros(now.trials, dtype=bool), np.zeros(now.trials, dtype=bool)
    before = np.flatnonzero(steps <= steps[-1] - WINDOW)
    ended = np.zeros(now.trials, dtype=bool)
    if len(before):
        ended = converged(torch.from_numpy(errors[before[-1]]), torch.from_numpy(errors[-1])).numpy()
    missing = ~whole(now, name)
    return ended & missing, ~ended & missing & np.isfinite(errors[-1])


def components(now: Record, trial: int) -> list[NDArray[np.float64]]:
    """Returns for each component, in the order of the search, its best |cos| after each power iteration.

    Snapshots have estimates in the order of the true regressors, so the component that an iteration moved is the
    estimate that differs from all estimates before it.
    """
    shots = [shot["cosines"][trial] for shot in now.shots[SPECTRAL] if shot.step <= power(now.values)]
    known = np.nan_to_num(np.array(shots)).swapaxes(-1, -2)  # (shot, estimate, true); 0 where not sought yet
    after, before = known[1:], known[:-1]
    sought = after.any(2)
    apart = np.abs(after[:, :, None] - before[:, None]).max(3).min(2)
    moved = np.where(sought, apart, -1.0).argmax(1)
    best = after[np.arange(len(after)), moved].max(1)
    starts = np.flatnonzero(np.diff(sought.sum(1)) > 0) + 1
    return np.split(best, starts) if len(best) else []


def found_by_stage(now: Record, trial: int) -> list[list[str]]:
    """Returns of regressors and gates how many are found at the end of power iterations, EM of gates, EM of all."""
    ends = stage_ends(now.values)
    counts: dict[str, list[str]] = {"cosines": [], "gate_cosines": []}
    for first, last in zip((0, *ends), ends, strict=False):
        shots = [shot for shot in now.shots[SPECTRAL] if first < shot.step <= last]
        for name, row in counts.items():
            if not shots or (name == "gate_cosines" and first == 0):
                row.append("–")
                continue
            values = shots[-1][name][trial]
            values = np.diagonal(values) if values.ndim == 2 else values
            row.append(f"{int((values >= FOUND).sum())} of {len(values)}")
    return list(counts.values())


def stage_ends(values: Mapping[str, Any]) -> tuple[int, int, int]:
    """Returns the last step of each stage of the spectral method."""
    first = power(values)
    return first, first + GATE_ITERATIONS, first + GATE_ITERATIONS + EVERYTHING_ITERATIONS
