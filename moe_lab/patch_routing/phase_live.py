"""The map of figure 5 while it is computed, as plain records for a live picture.

The numbers are those of `phase_map`, to rounding, in another order: a few trials of every grid point train first, so
that the whole map shows within seconds, then its columns are completed one by one, small N first. All batches
share data that are sampled once, and records are frequent enough for a consumer to stop within a tenth of a second.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
import torch
from jaxtyping import Bool, Float

from moe_lab.core.config import require
from moe_lab.core.origins import origin_of
from moe_lab.core.snapshots import Snapshot
from moe_lab.core.trials import device_and_dtype
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.data import INTEGER_PARTS, PatchSamples, PatternTask
from moe_lab.patch_routing.digits import DigitTask
from moe_lab.patch_routing.grid_points import device_of, run_of
from moe_lab.patch_routing.model import JointMoE, SeparateMoE
from moe_lab.patch_routing.phase import AXES, MEANINGS, MEASURES, SUCCESS, call_of
from moe_lab.patch_routing.run import PatchRun, Task
from moe_lab.patch_routing.training import train_batch

if TYPE_CHECKING:
    import xarray

Cell = tuple[int, int]
"""(l, N)"""


@dataclass(frozen=True)
class PhaseRecord:
    """The map at one moment.

    Attributes:
      patches_per_expert, samples: the values of l and of N.
      done: which trainings have ended.
      test_accuracy, coverage: NaN for the others; coverage is that of the worst class.
      running: the grid points in training.
      origin: the attrs that reproduce the map, and l* where the data determine it.
    """

    patches_per_expert: tuple[int, ...]
    samples: tuple[int, ...]
    done: Bool[np.ndarray, "l N trial"]
    test_accuracy: Float[np.ndarray, "l N trial"]
    coverage: Float[np.ndarray, "l N trial"]
    running: tuple[Cell, ...] = ()
    origin: Mapping[str, Any] = field(default_factory=dict)

    @property
    def trials(self) -> int:
        return int(self.done.shape[2])

    @property
    def counts(self) -> np.ndarray:
        """(l, N) trainings that have ended."""
        return np.asarray(self.done.sum(-1))

    @property
    def complete(self) -> np.ndarray:
        """(l, N) bool, grid points of which all trainings have ended."""
        return np.asarray(self.done.all(-1))

    @property
    def finished(self) -> bool:
        """Whether all trainings have ended."""
        return bool(self.done.all())

    @property
    def share(self) -> Float[np.ndarray, "l N"]:
        """Share of the ended trainings that reached 95 % test accuracy; NaN where none has ended.

        A training whose loss became infinite has no accuracy and counts as a failure.
        """
        right = (np.nan_to_num(self.test_accuracy) >= SUCCESS) & self.done
        return np.where(self.counts > 0, right.sum(-1) / np.maximum(self.counts, 1), np.nan)

    def dataset(self) -> xarray.Dataset:
        """Returns the map as a Dataset over (patches_per_expert, samples, trial), NaN where not yet known."""
        import xarray  # here: a live map need not wait for it

        success = np.where(self.done, np.nan_to_num(self.test_accuracy) >= SUCCESS, np.nan)
        values = {"success": success, "test_accuracy": self.test_accuracy, "coverage": self.coverage}
        variables = {name: (AXES, values[name], {"long_name": meaning}) for name, meaning in MEASURES.items()}
        coords: dict[str, Any] = {
            name: (name, list(getattr(self, name)), {"long_name": meaning}) for name, meaning in MEANINGS.items()
        }
        coords["trial"] = np.arange(self.trials)
        return xarray.Dataset(variables, coords=coords, attrs=dict(self.origin))


def phase_records(
    task: Task,
    model: SeparateMoE | JointMoE,
    patches_per_expert: Sequence[int],
    samples: Sequence[int],
    trials: int,
    seed: int = 0,
    *,
    quick_look: int = 5,
    **settings: Any,
) -> Iterator[PhaseRecord]:
    """Yields the map of `phase_map(task=task, model=model, ...)` while it fills, from the empty map to the full one.

    Args:
      quick_look: trials of every grid point that train first.
      settings: other parameters of `PatchRun`, such as device or test_samples.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    require(len(patches_per_expert) > 0, "patches_per_expert needs at least one value", patches_per_expert=())
    require(len(samples) > 0, "samples needs at least one value", samples=())
    require(quick_look >= 0, "quick_look must be at least 0", quick_look=quick_look)
    common: dict[str, Any] = {"model": model, "task": task, "trials": trials, "seed": seed, "settings": settings}
    runs = {
        (kept, count): run_of({"patches_per_expert": kept, "samples": count}, **common)
        for kept in patches_per_expert
        for count in samples
    }
    device = str(device_of([run for (_, count), run in runs.items() if count == max(samples)]))
    runs = {cell: run.replace(device=device) for cell, run in runs.items()}  # of all jobs, however few rows one has
    filling = _Map(runs, tuple(patches_per_expert), tuple(samples))
    filling.origin["call"] = call_of(model, task, filling.kept, filling.samples, trials, seed, settings)
    return _fill(filling, min(quick_look, trials))


@dataclass(frozen=True)
class _Job:
    """One batch: trials first ... first + trials - 1 of some grid points."""

    cells: tuple[Cell, ...]
    first: int
    trials: int


def _jobs(cells: Sequence[Cell], trials: int, quick_look: int) -> Iterator[_Job]:
    """Yields some trials of every grid point, then the rest: all l of one N together, which share their routers."""
    columns = [
        tuple(sorted(cell for cell in cells if cell[1] == count)) for count in sorted({count for _, count in cells})
    ]
    if quick_look:
        yield from (_Job(column, 0, quick_look) for column in columns)
    if trials > quick_look:
        yield from (_Job(column, quick_look, trials - quick_look) for column in columns)


class _Map:
    """The arrays of the map, which are filled job by job."""

    def __init__(self, runs: dict[Cell, PatchRun], kept: tuple[int, ...], samples: tuple[int, ...]) -> None:
        self.runs, self.kept, self.samples = runs, kept, samples
        self.run = runs[kept[0], max(samples)]
        shape = (len(kept), len(samples), self.run.trials)
        self.done = np.zeros(shape, dtype=bool)
        self.accuracy, self.coverage = np.full(shape, np.nan), np.full(shape, np.nan)
        run = self.run
        more = {"l_star": run.task.l_star} if isinstance(run.task, PatternTask) else {}
        self.origin = origin_of(run, device_and_dtype(run)[0], paper="pmoe2023, figure 5", **more)

    def store(self, job: _Job, now: Snapshot) -> None:
        """Stores the results of a job's trainings that have ended."""
        by_cell = (len(job.cells), job.trials)
        ended, empty = now.finished.reshape(by_cell), np.full(by_cell, np.nan)
        accuracy, coverage = now.values.get("test_accuracy"), now.values.get("coverage")
        accuracy = empty if accuracy is None else accuracy.reshape(by_cell)
        coverage = empty if coverage is None else coverage.min(axis=-1).reshape(by_cell)
        for row, (kept, count) in enumerate(job.cells):
            place = self.kept.index(kept), self.samples.index(count), slice(job.first, job.first + job.trials)
            self.done[place] = ended[row]
            self.accuracy[place] = np.where(ended[row], accuracy[row], np.nan)
            self.coverage[place] = np.where(ended[row], coverage[row], np.nan)

    def record(self, running: tuple[Cell, ...] = ()) -> PhaseRecord:
        arrays = (self.done.copy(), self.accuracy.copy(), self.coverage.copy())
        return PhaseRecord(self.kept, self.samples, *arrays, running, self.origin)


def _fill(filling: _Map, quick_look: int) -> Iterator[PhaseRecord]:
    """Trains job after job; yields at every Snapshot and after every job."""
    yield filling.record()
    data: list[tuple[PatchSamples, PatchSamples]] = []  # per trial
    for job in _jobs(list(filling.runs), filling.run.trials, quick_look):
        while len(data) < job.first + job.trials:  # sampled only when first needed
            data.append(samples_of([filling.run.replace(first_trial=len(data), trials=1)]))
            yield filling.record(job.cells)
        own = data[job.first : job.first + job.trials]
        shared = isinstance(filling.run.task, DigitTask) and not filling.run.task.noise
        train = _join([train for train, _ in own], max(count for _, count in job.cells), shared)
        test = _join([test for _, test in own], filling.run.test_samples, shared)
        runs = [filling.runs[cell].replace(first_trial=job.first, trials=job.trials) for cell in job.cells]
        for snapshot in train_batch(runs, (train, test)):
            filling.store(job, snapshot)
            if not snapshot.finished.all():
                yield filling.record(job.cells)
        yield filling.record()


def _join(trials: Sequence[PatchSamples], count: int, shared: bool) -> PatchSamples:
    """Joins the first `count` samples of some trials, as if sampled together; `shared` where all have one bank."""
    parts = {name: torch.cat([getattr(data, name)[:, :count] for data in trials]) for name in INTEGER_PARTS}
    rows = int(parts["index"].max()) + 1
    bank = trials[0].bank if shared else torch.cat([data.bank[:, :rows] for data in trials])
    return PatchSamples(bank=bank, **parts)
