"""Figure 5 of pmoe2023: how often separate training succeeds, for every l and N.

One call is thousands of trainings. They run as batches of rows: cells of one l share a batch whatever their N, and all
share the trials' data. `phase_map_stream` yields the map as it fills, cheap cells first, and often enough in between
that a reader can stop it within a fraction of a second.
"""

from __future__ import annotations

import json
from collections.abc import Iterator, Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab import __version__
from moe_lab.config import require
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.model import SeparateMoE
from moe_lab.patch_routing.training import Run, Task, train_batch
from moe_lab.training import Snapshot
from moe_lab.trials import choose_device, device_label

SUCCESS = 0.95  # test accuracy from which a training counts as a success; the paper does not define it
SAMPLES = (60, 100, 140, 180, 240, 300, 360, 500, 700, 1000)
_ROWS_AT_ONCE = {"cpu": 40, "mps": 400, "cuda": 4000}
_HEARTBEAT = 25  # steps between two chances to stop


def make_task(source: str, *, root: Any = None, **changes: Any) -> Task:
    """The task behind the name of a source: "digits" (6, 7), "mnist" (1, 0; needs root) or "patterns".

    Raises:
      ValueError: the name is not one of these, or a value breaks a rule of the task.
    """
    if source == "patterns":
        return PatternTask(**changes)
    require(source in ("digits", "mnist"), "source must be 'digits', 'mnist' or 'patterns'", source=source)
    digits = {"digits": (6, 7), "mnist": (1, 0)}[source]
    return DigitTask(source=source, root=root, **{"digits": digits, **changes})


def phase_map(
    source: str = "digits",
    patches_per_expert: Sequence[int] = tuple(range(1, 9)),
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    **settings: Any,
) -> xr.Dataset:
    """Figure 5 in one call: the share of trainings that succeed, against l and N; see `phase_map_stream`.

    Returns:
      success(patches_per_expert, samples, trial), 1 where test accuracy reached 95 %, with test_accuracy and coverage.
    """
    last = None
    for last in phase_map_stream(source, patches_per_expert, samples, trials, seed, **settings):
        pass
    assert last is not None  # the stream always ends with the finished map
    return last


def phase_map_stream(
    source: str = "digits",
    patches_per_expert: Sequence[int] = tuple(range(1, 9)),
    samples: Sequence[int] = SAMPLES,
    trials: int = 20,
    seed: int = 0,
    *,
    task: Task | None = None,
    model: SeparateMoE | None = None,
    root: Any = None,
    cell_by_cell: bool = False,
    **settings: Any,
) -> Iterator[xr.Dataset]:
    """The map of `phase_map` while it fills: NaN where nothing has run yet.

    Args:
      source: "digits", "mnist" (with root=, a folder of IDX files) or "patterns"; ignored where a task is given.
      patches_per_expert: the values of l.
      samples: the values of N.
      trials: independent trainings of each cell; all cells of a trial share its data.
      seed: of all streams.
      task, model: to change anything else.
      cell_by_cell: train one cell after another (for a live picture) instead of as many as fit.
      settings: other parameters of `Run`, such as device or test_samples.

    Yields:
      Datasets with success, test_accuracy and worst-class coverage over (patches_per_expert, samples, trial).

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    require(len(patches_per_expert) > 0, "patches_per_expert needs at least one value", patches_per_expert=())
    require(len(samples) > 0, "samples needs at least one value", samples=())
    chosen = task if task is not None else make_task(source, root=root)
    base = model if model is not None else SeparateMoE()
    common = {"task": chosen, "trials": trials, "seed": seed, "measure": "last", "record_every": _HEARTBEAT, **settings}
    runs = {
        (l, count): Run(model=base.replace(patches_per_expert=l), samples=count, **common)
        for l in patches_per_expert
        for count in samples
    }
    return _fill(_Map(runs, list(patches_per_expert), list(samples)), cell_by_cell)


def _batches(runs: dict[tuple[int, int], Run], at_once: int) -> Iterator[list[tuple[int, int]]]:
    """Cells that train together: those of one l, as many as fit; one by one they come in the order of their cost."""
    if at_once == 1:
        yield from ([cell] for cell in sorted(runs, key=lambda cell: (cell[1], cell[0])))
        return
    for kept in sorted({l for l, _ in runs}):
        cells = sorted(cell for cell in runs if cell[0] == kept)
        yield from (cells[begin : begin + at_once] for begin in range(0, len(cells), at_once))


class _Map:
    """The arrays that fill, and the Dataset that shows them."""

    def __init__(self, runs: dict[tuple[int, int], Run], kept: list[int], samples: list[int]) -> None:
        self.runs, self.kept, self.samples = runs, kept, samples
        self.run = next(iter(runs.values()))
        shape = (len(kept), len(samples), self.run.trials)
        self.accuracy, self.coverage = np.full(shape, np.nan), np.full(shape, np.nan)

    def store(self, cells: list[tuple[int, int]], last: Snapshot) -> None:
        by_cell = (len(cells), self.run.trials)
        accuracy = last["test_accuracy"].reshape(by_cell)
        worst = last["coverage"].min(axis=-1).reshape(by_cell)
        for row, (kept, count) in enumerate(cells):
            place = self.kept.index(kept), self.samples.index(count)
            self.accuracy[place], self.coverage[place] = accuracy[row], worst[row]

    def dataset(self) -> xr.Dataset:
        """A copy of the map as it is now. A diverged training has no accuracy and counts as a failure."""
        axes = ("patches_per_expert", "samples", "trial")
        done = ~np.isnan(self.coverage)
        success = np.where(done, (self.accuracy >= SUCCESS).astype(float), np.nan)
        about = {
            "success": f"1 where test accuracy reached {SUCCESS:.0%}, 0 where it did not, NaN where nothing has run",
            "test_accuracy": "share of test samples with the right label",
            "coverage": "share of test samples whose o reaches its class's best expert, for the worst class",
        }
        arrays = {"success": success, "test_accuracy": self.accuracy.copy(), "coverage": self.coverage.copy()}
        coords = {
            "patches_per_expert": ("patches_per_expert", self.kept, {"symbol": "l"}),
            "samples": ("samples", self.samples, {"symbol": "N"}),
            "trial": np.arange(self.run.first_trial, self.run.first_trial + self.run.trials),
        }
        variables = {name: (axes, array, {"long_name": about[name]}) for name, array in arrays.items()}
        return xr.Dataset(variables, coords=coords, attrs=self.attrs())

    def attrs(self) -> dict[str, Any]:
        run = self.run
        call = (
            f"phase_map(patches_per_expert={tuple(self.kept)}, samples={tuple(self.samples)}, trials={run.trials}, "
            f"seed={run.seed}, task={run.task.code()}, model={run.model.replace(patches_per_expert=1).code()})"
        )
        return {
            "call": call,
            "config": json.dumps(run.model_dump(mode="json")),
            "seed": run.seed,
            "device": device_label(choose_device(run.device)),
            "version": __version__,
            "paper": "pmoe2023, figure 5",
        }


def _fill(filling: _Map, cell_by_cell: bool) -> Iterator[xr.Dataset]:
    """Trains batch after batch; yields at every heartbeat and after every batch."""
    run = filling.run
    at_once = 1 if cell_by_cell else max(1, _ROWS_AT_ONCE[choose_device(run.device).type] // run.trials)
    for cells in _batches(filling.runs, at_once):
        for snapshot in train_batch([filling.runs[cell] for cell in cells]):
            if not snapshot.finished.all():
                yield filling.dataset()
        filling.store(cells, snapshot)
        yield filling.dataset()
