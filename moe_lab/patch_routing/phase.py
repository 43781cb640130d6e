"""Figure 5 of pmoe2023: how often training succeeds, for every l and N.

One call is thousands of trainings. They run as batches of rows: grid points with the same N share a batch and their
routers whatever their l, and all share the trials' data. `phase_map_stream` yields the map as it fills, and often
enough in between that a consumer can stop it within a fraction of a second.
"""

from __future__ import annotations

import functools
import json
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.core import origins
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.devices import device_label
from moe_lab.core.grid import Point, Table, points_of
from moe_lab.core.snapshots import Measure
from moe_lab.core.store import Scratch
from moe_lab.core.sweep import filling, sweep
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.data import PatchSamples, joined
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.grid_points import batches_of, device_of, make_task, run_of
from moe_lab.patch_routing.model import JointMoE, PatchModel, SeparateMoE
from moe_lab.patch_routing.run import PatchRun, Task
from moe_lab.patch_routing.training import train_batch

if TYPE_CHECKING:
    import xarray

MEANINGS = {"patches_per_expert": "l, patches each expert keeps", "samples": "N, training samples"}
SUCCESS = 0.95  # test accuracy from which a training counts as a success; the paper does not define it
MEASURES = {
    "success": f"1 where test accuracy reached {SUCCESS:.0%}, 0 where not, NaN where not run",
    "test_accuracy": "share of test samples with the right label",
    "coverage": "share of the worst class's test samples whose o is routed to its best expert",
}
PATCHES_PER_EXPERT = (1, 2, 3, 4, 5, 6, 7, 8)
SAMPLES = (60, 100, 140, 180, 240, 300, 360, 500, 700, 1000)


@checked
def phase_map(
    source: str = "digits",
    patches_per_expert: Sequence[int] = PATCHES_PER_EXPERT,
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    **settings: Any,
) -> xarray.Dataset:
    """Figure 5 in one call: which trainings succeed, against l and N. See `phase_map_stream` for all arguments.

    Returns:
      success(patches_per_expert, samples, trial), 1 where test accuracy reached 95 %, with test_accuracy and the
      worst class's coverage.
    """
    *_, finished = phase_map_stream(source, patches_per_expert, samples, trials, seed, **settings)
    return finished


@checked
def phase_map_stream(
    source: str = "digits",
    patches_per_expert: Sequence[int] = PATCHES_PER_EXPERT,
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    *,
    task: Task | None = None,
    model: SeparateMoE | JointMoE | None = None,
    root: Path | str | None = None,
    jobs: int | None = 1,
    store: Path | str | None = None,
    **settings: Any,
) -> Iterator[xarray.Dataset]:
    """Yields the map of `phase_map` while it fills; NaN where nothing has run yet.

    Args:
      source: "digits", "mnist" (with root=, a folder of IDX files) or "patterns"; ignored where a task is given.
      patches_per_expert, samples: the values of l and N.
      trials: independent trainings per grid point; all grid points of a trial share its data.
      task, model: to change anything else; the paper's figure is of separate training.
      jobs, store: processes, and a folder to resume from; see `moe_lab.core.sweep.sweep`.
      settings: other parameters of `PatchRun`, such as device or test_samples.

    Yields:
      Datasets with success, test_accuracy and coverage (of the worst class) over (patches_per_expert, samples, trial).
      In one process the same one is yielded again while a batch trains.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    chosen = task if task is not None else make_task(source, root=root)
    base = model if model is not None else SeparateMoE()
    sizes = tuple(patches_per_expert), tuple(samples)
    how = grid_of(base, chosen, *sizes, trials, seed, settings, one_process=jobs == 1)
    runs = how.pop("runs")
    return sweep(**how, batch=batches_of(runs, jobs=jobs) if runs else 1, jobs=jobs, store=store)


def phase_tables(
    task: Task,
    model: SeparateMoE | JointMoE,
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    quick_look: int = 5,
    **settings: Any,
) -> Iterator[Table]:
    """Yields the map of `phase_map(task=task, model=model, ...)` for a live picture, from empty to full, as Tables.

    A few trials of every grid point train first, so that the whole map shows within seconds, then its columns are
    completed one by one, small N first. Each Table is a copy of its own, and they are frequent enough for a consumer to
    stop within a tenth of a second.

    Args:
      quick_look: trials of every grid point that train first.
      settings: other parameters of `PatchRun`, such as device or test_samples.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    require(quick_look >= 0, "quick_look must be at least 0", quick_look=quick_look)
    how = grid_of(model, task, patches_per_expert, samples, trials, seed, settings) | {"batch": _columns}
    del how["runs"]
    return _in_two_passes(how, min(quick_look, trials), next(filling(**how)))


def _in_two_passes(how: dict[str, Any], quick_look: int, table: Table) -> Iterator[Table]:
    """Fills the map twice: a few trials of every grid point, column by column, then the others."""
    run = how.pop("run")
    yield table.copy()
    for first, count in ((0, quick_look), (quick_look, table.trials - quick_look)):
        settings = {**run.keywords["settings"], "first_trial": first}
        part = functools.partial(run.func, **{**run.keywords, "settings": settings})
        for filled in filling(part, **{**how, "trials": count}) if count else ():
            table.take(filled, first)
            yield table.copy()


def _columns(points: list[Point]) -> Iterator[list[Point]]:
    """Divides a grid by N, small ones first: all l of one N share their routers."""
    for count in sorted({point["samples"] for point in points}):
        column = [point for point in points if point["samples"] == count]
        yield sorted(column, key=lambda point: point["patches_per_expert"])


def grid_of(
    model: SeparateMoE | JointMoE,
    task: Task,
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int,
    settings: Mapping[str, Any],
    one_process: bool = True,
) -> dict[str, Any]:
    """Returns what `sweep` needs for the map, and under "runs" the run of each grid point.

    Args:
      one_process: whether its batches share data that are sampled once, for the largest N.

    Raises:
      ValueError: a wrong value or combination; every grid point is checked before any is trained.
    """
    axes = {"patches_per_expert": list(patches_per_expert), "samples": list(samples)}
    common: dict[str, Any] = {"model": model, "task": task, "trials": trials, "seed": seed}
    runs = [run_of(point, **common, settings=settings) for point in points_of(axes)]
    device = device_of(runs)
    there = {**settings, "device": str(device)}
    drawn = Drawn(max(samples)) if one_process and runs else Drawn()
    return {
        "run": functools.partial(train_map, model=model, task=task, settings=there, drawn=drawn),
        "axes": axes,
        "trials": trials,
        "seed": seed,
        "config": [model, task, settings],
        "measures": {name: Measure(meaning=meaning) for name, meaning in MEASURES.items()},
        "meanings": MEANINGS,
        "attrs": {
            "config": json.dumps([run.record() for run in runs[:1]]),
            "device": device_label(device),
            "paper": "pmoe2023, figure 5",
            "figure": "figure 5",
            "call": call_of(model, task, tuple(patches_per_expert), tuple(samples), trials, seed, settings),
        },
        "runs": runs,
    }


class Drawn(Scratch):
    """The samples of each trial, drawn when they are first needed.

    Args:
      most: training samples to draw; None for as many as the batch needs that asks.
    """

    def __init__(self, most: int | None = None) -> None:
        self.most = most
        self._of_trial: dict[tuple[int, int], tuple[PatchSamples, PatchSamples]] = {}

    def of(self, runs: Sequence[PatchRun]) -> Iterator[tuple[PatchSamples, PatchSamples] | None]:
        """Yields None for each trial that had to be drawn, then the training and test samples of some runs."""
        count = self.most or max(run.samples for run in runs)
        keys = [(trial, count) for trial in runs[0].trial_numbers]
        for trial, _ in keys:
            if (trial, count) not in self._of_trial:
                alone = runs[0].replace(samples=count, first_trial=trial, trials=1)
                self._of_trial[trial, count] = samples_of([alone])
                yield None
        task = runs[0].task
        one_bank = isinstance(task, DigitTask) and not task.noise
        train, test = zip(*(self._of_trial[key] for key in keys), strict=True)
        yield joined(train, one_bank), joined(test, one_bank)


def train_map(
    points: list[Point],
    *,
    trials: int,
    seed: int,
    model: PatchModel,
    task: Task,
    settings: Mapping[str, Any],
    drawn: Drawn,
) -> Iterator[dict[str, np.ndarray] | None]:
    """Trains grid points as one batch, for `sweep`: yields the values of the trainings that have ended, else None."""
    runs = [run_of(point, model=model, task=task, trials=trials, seed=seed, settings=settings) for point in points]
    ended, data = 0, None
    for data in drawn.of(runs):
        if data is None:
            yield None
    for snapshot in train_batch(runs, data):
        by_point = (len(points), trials)
        if (now := int(snapshot.finished.sum())) == ended:
            yield None
            continue
        ended, finished = now, snapshot.finished.reshape(by_point)
        accuracy = snapshot["test_accuracy"].reshape(by_point)
        coverage = snapshot["coverage"].min(axis=-1).reshape(by_point)
        success = (np.nan_to_num(accuracy) >= SUCCESS).astype(float)  # a diverged training has no accuracy: a failure
        values = {"success": success, "test_accuracy": accuracy, "coverage": coverage}
        yield {name: np.where(finished, value, np.nan) for name, value in values.items()}


def call_of(
    model: SeparateMoE | JointMoE,
    task: Task,
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int,
    settings: Mapping[str, Any],
) -> str:
    """Returns the call of `phase_map` that computes a map."""
    axes = {"patches_per_expert": tuple(patches_per_expert), "samples": tuple(samples)}
    return origins.call_of(
        "phase_map", axes | {"trials": trials, "seed": seed, "task": task, "model": model, **settings}
    )
