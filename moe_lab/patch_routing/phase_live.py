"""The map of figure 5 while it is computed, as plain records for a live picture.

It is the map of `phase_map`, in another order: a few trials of every grid point train first, so that the whole map
shows within seconds, then its columns are completed one by one, small N first. Records are frequent enough for a
consumer to stop within a tenth of a second.
"""

from __future__ import annotations

import functools
from collections.abc import Iterator, Mapping, Sequence
from dataclasses import dataclass, field, replace
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool, Float

from moe_lab.core.config import require
from moe_lab.core.grid import Point, Table, checked_axes
from moe_lab.core.origins import origin_of
from moe_lab.core.sweep import filling
from moe_lab.core.trials import device_and_dtype
from moe_lab.patch_routing.data import PatternTask
from moe_lab.patch_routing.model import JointMoE, SeparateMoE
from moe_lab.patch_routing.phase import AXES, MEANINGS, MEASURES, SUCCESS, call_of, grid_of
from moe_lab.patch_routing.run import Task

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

    @classmethod
    def empty(
        cls, per_expert: tuple[int, ...], samples: tuple[int, ...], trials: int, origin: Mapping[str, Any]
    ) -> Self:
        """Returns the map before anything has run."""
        shape = len(per_expert), len(samples), trials
        return cls(
            per_expert, samples, np.zeros(shape, bool), np.full(shape, np.nan), np.full(shape, np.nan), (), origin
        )

    def filled(self, trials: slice, table: Table) -> Self:
        """Returns a copy in which some trials are those of a table that `phase.train_map` fills."""
        success, *values = (table.on_grid(table.values[name]) for name in ("success", "test_accuracy", "coverage"))
        done, accuracy, coverage = self.done.copy(), self.test_accuracy.copy(), self.coverage.copy()
        for array, new in zip((done, accuracy, coverage), (np.isfinite(success), *values), strict=True):
            array[..., trials] = new
        running = tuple((point["patches_per_expert"], point["samples"]) for point in table.running)
        return replace(self, done=done, test_accuracy=accuracy, coverage=coverage, running=running)

    @property
    def trials(self) -> int:
        return int(self.done.shape[2])

    @property
    def counts(self) -> np.ndarray:
        """(l, N) trainings that have ended."""
        return np.asarray(self.done.sum(-1))

    @property
    def active(self) -> np.ndarray:
        """(l, N) bool, grid points in training."""
        return np.array([[(kept, count) in self.running for count in self.samples] for kept in self.patches_per_expert])

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
    require(quick_look >= 0, "quick_look must be at least 0", quick_look=quick_look)
    per_expert, counts = checked_axes({"patches_per_expert": patches_per_expert, "samples": samples}).values()
    how = grid_of(model, task, per_expert, counts, trials, seed, settings)
    (first, *_) = how.pop("runs")
    star = {"l_star": task.l_star} if isinstance(task, PatternTask) else {}
    origin = origin_of(first, device_and_dtype(first)[0], paper=how["attrs"]["paper"], **star)
    origin["call"] = call_of(model, task, tuple(per_expert), tuple(counts), trials, seed, settings)
    return _records(how, min(quick_look, trials), PhaseRecord.empty(tuple(per_expert), tuple(counts), trials, origin))


def _records(how: dict[str, Any], quick_look: int, now: PhaseRecord) -> Iterator[PhaseRecord]:
    """Fills the map twice: a few trials of every grid point, column by column, then the others."""
    trials, run = now.trials, how.pop("run")
    yield now
    for first, count in ((0, quick_look), (quick_look, trials - quick_look)):
        settings = {**run.keywords["settings"], "first_trial": first}
        part = functools.partial(run.func, **{**run.keywords, "settings": settings})
        for table in filling(part, **{**how, "trials": count}, batch=_columns) if count else ():
            now = now.filled(slice(first, first + count), table)
            yield now


def _columns(points: list[Point]) -> Iterator[list[Point]]:
    """Divides a grid by N, small ones first: all l of one N share their routers."""
    for count in sorted({point["samples"] for point in points}):
        column = [point for point in points if point["samples"] == count]
        yield sorted(column, key=lambda point: point["patches_per_expert"])
