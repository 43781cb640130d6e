"""Training of several grid points of one model on one task, for the sweeps of all figures."""

from __future__ import annotations

import functools
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import torch

from moe_lab.core.config import require
from moe_lab.core.grid import Point
from moe_lab.core.memory import trials_at_once
from moe_lab.core.trials import device_and_dtype
from moe_lab.patch_routing.batch import memory_of
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.model import PatchModel
from moe_lab.patch_routing.run import PatchRun, Task
from moe_lab.patch_routing.training import train_batch

_HEARTBEAT = 25  # steps between two reports of progress
ROWS_AT_ONCE = {"cpu": 800, "mps": 400, "cuda": 4000}
_RESULTS = ("test_accuracy", "coverage", "largest_gate", "signal_kept", "signal_share", "lost", "dropped")


DIGITS = {"digits": (6, 7), "mnist": (1, 0)}
"""Which digits decide the class, by the source of the images."""


def make_task(source: str, *, root: Any = None, **changes: Any) -> PatternTask | DigitTask:
    """Makes the task of a source: "digits" (6, 7), "mnist" (1, 0; needs root) or "patterns".

    Raises:
      ValueError: the source is unknown, or a value is invalid.
    """
    if source == "patterns":
        return PatternTask(**changes)
    require(source in ("digits", "mnist"), "source must be 'digits', 'mnist' or 'patterns'", source=source)
    return DigitTask(source=source, root=root, **{"digits": DIGITS[source], **changes})


def run_of(
    point: Point, *, model: PatchModel, task: Task, trials: int, seed: int, settings: Mapping[str, Any]
) -> PatchRun:
    """Makes the PatchRun of a grid point, which names parameters of the model or of `PatchRun`."""
    changes = {name: value for name, value in point.items() if name in type(model).model_fields}
    others = {name: value for name, value in point.items() if name not in changes}
    fixed = {"measure": "last", "record_every": _HEARTBEAT, **settings}
    return PatchRun(model=model.replace(**changes), task=task, trials=trials, seed=seed, **{**fixed, **others})


def train_cells(
    points: list[Point], *, trials: int, seed: int, model: PatchModel, task: Task, settings: Mapping[str, Any]
) -> Iterator[dict[str, np.ndarray] | None]:
    """Trains grid points as one batch, for `moe_lab.core.sweep`: yields None as progress, then the final values.

    Yields:
      test_accuracy (points, trials) and, for models with routers, coverage and largest_gate (points, trials, class);
      for RoutedMoE also what is kept, lost and dropped (points, trials).
    """
    runs = [run_of(point, model=model, task=task, trials=trials, seed=seed, settings=settings) for point in points]
    for snapshot in train_batch(runs):
        last = snapshot
        yield None
    named = {name: last[name] for name in _RESULTS if name in last.values}
    yield {name: value.reshape(len(points), trials, *value.shape[1:]) for name, value in named.items()}


def cells_of(
    model: PatchModel, task: Task, settings: Mapping[str, Any]
) -> Callable[..., Iterator[dict[str, np.ndarray] | None]]:
    """Returns `train_cells` with everything but the grid, as `sweep` expects; can be pickled."""
    return functools.partial(train_cells, model=model, task=task, settings=settings)


def device_of(runs: Sequence[PatchRun]) -> torch.device:
    """Returns where the batches of a grid are trained: as many of its rows step at once as the device takes."""
    rows = sum(run.trials for run in runs)
    numbers = sum(run.numbers_per_step for run in runs) * min(1.0, ROWS_AT_ONCE["cuda"] / max(rows, 1))
    return device_and_dtype(runs[0], numbers)[0] if runs else torch.device("cpu")


def batches_of(
    runs: Sequence[PatchRun], *apart: str, jobs: int | None = 1
) -> Callable[[list[Point]], Iterator[list[Point]]]:
    """Divides a grid for `sweep` into batches whose size suits the device, points of the same N together if they fit.

    They share their data and their routers. Within a batch points come in the order of l, as batches want it. For
    several processes each N has batches of its own, and the largest, which takes longest, comes first.

    Args:
      runs: one for each point.
      apart: axes along which points share no batch.
      jobs: processes, as `sweep` takes them.

    Raises:
      RuntimeError: the device's memory has no room for a single trial.
    """
    device, need = device_of(runs), memory_of(runs)
    most = max(1, trials_at_once(need, ROWS_AT_ONCE[device.type], device) // runs[0].trials)

    def divide(points: list[Point]) -> Iterator[list[Point]]:
        for alike in _grouped(points, *apart):
            batch: list[Point] = []
            groups = _grouped(alike, "samples")
            if jobs != 1:
                groups.sort(key=lambda group: group[0].get("samples", 0), reverse=True)
            for group in groups:
                if batch and (jobs != 1 or len(batch) + len(group) > most):
                    yield sorted(batch, key=_kept)
                    batch = []
                batch += group
                while len(batch) > most:
                    yield sorted(batch[:most], key=_kept)
                    batch = batch[most:]
            if batch:
                yield sorted(batch, key=_kept)

    return divide


def _grouped(points: Sequence[Point], *axes: str) -> list[list[Point]]:
    """Groups points by their values along some axes, in the order of the first of each."""
    groups: dict[tuple[Any, ...], list[Point]] = {}
    for point in points:
        groups.setdefault(tuple(point.get(name) for name in axes), []).append(point)
    return list(groups.values())


def _kept(point: Point) -> Any:
    return point.get("patches_per_expert", 0)
