"""Runs a grid of settings into one xarray.Dataset, which fills during the sweep and can be resumed after a kill.

The grid is divided into batches; a batch is one call of the caller's `run`, in this process or through joblib. Every
finished grid point can be kept in a folder, one file per point, so that a later call computes only missing points.
"""

from __future__ import annotations

import time
import traceback
from collections import deque
from collections.abc import Callable, Generator, Iterable, Iterator, Mapping
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

import moe_lab
from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError, failed, trace_of
from moe_lab.core.grid import Point, Table, Values, checked_axes
from moe_lab.core.numbers import numbers_of
from moe_lab.core.snapshots import Measure
from moe_lab.core.store import Run, Store, name_of
from moe_lab.core.workers import unordered

if TYPE_CHECKING:
    import xarray

_WAIT = 0.2  # seconds between two looks at points that another process is computing
Divide = Callable[[list[Point]], Iterable[list[Point]]]


@checked
def sweep(
    run: Run,
    axes: Mapping[str, Iterable[Any]],
    *,
    trials: int,
    seed: int = 0,
    batch: int | Divide = 64,
    jobs: int | None = 1,
    store: Path | str | None = None,
    config: Any = None,
    measures: Mapping[str, Measure] | None = None,
    meanings: Mapping[str, str] | None = None,
    coords: Mapping[str, Any] | None = None,
    attrs: Mapping[str, Any] | None = None,
) -> Iterator[xarray.Dataset]:
    """Runs every point of a grid, and yields the results so far whenever there are new ones.

    `run(points, trials=..., seed=...)` gets a list of grid points such as {"samples": 100, "patches_per_expert": 6} and
    returns {name: array (points, trials, ...)}. It may also be a generator that yields the values so far (NaN where not
    yet known), or None to report progress; the last values are the result. With jobs=1 the sweep yields its Dataset
    after each, so that a consumer can stop there.

    Args:
      run: a function at the top of a module (or a functools.partial of one), so that other processes can call it.
      axes: the different values of each axis, numbers or strings. The last axis changes fastest.
      batch: the largest number of points in one call of run; or a function that divides the missing points into lists,
        in the order in which to run them.
      jobs: 1 computes in this process; n in n processes; None leaves it to `joblib.parallel_config`, and so to a Dask
        or Ray cluster. Each worker process uses one torch thread.
      store: a folder of finished points, which are not computed again. Several sweeps may use one at the same time, on
        one machine or on a shared disk with locks: what one is computing, the others leave to it, and read it after.
      config: everything else that the results depend on (Configs, numbers, strings, lists, mappings). A stored point is
        used only if run, config, trials, seed, the library's version and the point itself are the same.
      measures: describes each value, and names its axes after the trial.
      meanings: describes each axis.
      coords: labels of the axes that the measures name.
      attrs: of the result as a whole.

    Yields:
      Datasets with value(axes..., trial, ...), NaN where not yet run, and done(axes...). Each is a copy of its own.

    Raises:
      ValueError: an axis is empty, repeats a value or has a taken name; trials, batch or jobs is out of bounds; with a
        store, run has no name of its own or config cannot be written down.
      RuntimeError: the store cannot be written to (before any work), or, once all else is done, a batch failed.
    """
    of_table: dict[str, Any] = {"measures": measures, "meanings": meanings, "coords": coords, "attrs": attrs}
    how: dict[str, Any] = {"trials": trials, "seed": seed, "batch": batch, "jobs": jobs, "store": store}
    return _datasets(filling(run, axes, config=config, **how, **of_table))


def _datasets(tables: Iterator[Table]) -> Iterator[xarray.Dataset]:
    """Yields the Dataset of each table; computed only where that has changed."""
    changes = -1
    for table in tables:
        if table.changes != changes:
            shown, changes = table.dataset(), table.changes
        yield shown


def filling(
    run: Run,
    axes: Mapping[str, Iterable[Any]],
    *,
    trials: int,
    seed: int = 0,
    batch: int | Divide = 64,
    jobs: int | None = 1,
    store: Path | str | None = None,
    config: Any = None,
    **of_table: Mapping[str, Any] | None,
) -> Iterator[Table]:
    """As `sweep`, but yields the one table that fills, as arrays: a live picture need not wait for Datasets.

    Args:
      of_table: measures, meanings, coords and attrs.
    """
    grid = checked_axes(axes)
    require(trials >= 1, "trials must be at least 1", trials=trials)
    require(not isinstance(batch, int) or batch >= 1, "batch must be at least 1", batch=batch)
    require(jobs is None or jobs >= 1 or jobs == -1, "jobs must be at least 1, -1 (all cores) or None", jobs=jobs)
    opened = None if store is None else Store.open(store, run, config, trials, seed)
    plan = _Plan(run, trials, seed, opened)
    about = {"seed": seed, "trials": trials, "version": moe_lab.__version__, **(of_table.get("attrs") or {})}
    measures, meanings, coords = (dict(of_table.get(name) or {}) for name in ("measures", "meanings", "coords"))
    table = Table(grid, trials, measures, meanings, coords, about)
    return _fill(plan, table, batch, jobs)


def _fill(plan: _Plan, table: Table, batch: int | Divide, jobs: int | None) -> Iterator[Table]:
    """Reads what is stored, computes the rest, and yields the table each time that it has changed."""
    for index, point in enumerate(table.points):
        stored = plan.store.read(point) if plan.store is not None else None
        if stored is not None:
            table.put([index], {name: value[None] for name, value in stored.items()})
    yield table
    missing = [index for index in range(len(table.points)) if not table.done[index]]
    batches = _batches(table.points, missing, batch, jobs)
    failures: list[_Failed] = []
    with closing(_here(plan, table, batches) if jobs == 1 else _elsewhere(plan, table, batches, jobs)) as results:
        for result in results:
            if isinstance(result, _Failed):
                failures.append(result)
            elif result is not None:
                if result.last and plan.store is not None and not result.stored:
                    plan.store.write([table.points[index] for index in result.indices], result.values)
                table.put(result.indices, result.values, done=result.last)
            yield table
    if failures:
        first = failures[0]
        raise failed(
            f"{len(failures)} of {len(batches)} batches failed, the others are done; the first to fail starts at "
            f"{table.points[first.indices[0]]} ({first.reason})",
            first.trace,
        )


def _batches(points: list[Point], missing: list[int], batch: int | Divide, jobs: int | None) -> list[list[int]]:
    """The points still to run, as lists of their places in the grid."""
    if isinstance(batch, int):
        most = batch if jobs is None else min(batch, max(1, -(-len(missing) // max(jobs, 1))))
        return [missing[start : start + most] for start in range(0, len(missing), most)]
    place = {tuple(points[index].values()): index for index in missing}
    batches = [[place[tuple(point.values())] for point in part] for part in batch([dict(points[i]) for i in missing])]
    flat = [index for indices in batches for index in indices]
    require(
        sorted(flat) == missing,
        "batch must divide the points so that each comes once",
        points=len(missing),
        got=len(flat),
    )
    return [indices for indices in batches if indices]


@dataclass(frozen=True)
class _Result:
    """Values of a batch: the last ones, or those so far. `stored` once they are in the store."""

    indices: list[int]
    values: dict[str, np.ndarray]
    last: bool = True
    stored: bool = False


@dataclass(frozen=True)
class _Left:
    """Points that another process is computing."""

    indices: list[int]


@dataclass(frozen=True)
class _Failed:
    indices: list[int]
    reason: str
    trace: str  # "" where the user can do something about it


def _here(plan: _Plan, table: Table, batches: list[list[int]]) -> Generator[_Result | _Failed | None, None, None]:
    """Computes in this process, and yields whenever the run does. What another process is computing comes last."""
    waiting, later = list(batches), list[list[int]]()
    while waiting:
        for indices in waiting:
            points = [table.points[index] for index in indices]
            with plan.claimed(indices, points) as (mine, stored, left):
                yield from stored
                later += [left] if left else []
                table.running = [table.points[index] for index in mine]
                for result in _batch(plan, mine, table.running) if mine else ():
                    table.running = [] if isinstance(result, _Failed) or (result and result.last) else table.running
                    yield result
        waiting, later = later, []
        if waiting:
            yield None
            time.sleep(_WAIT)


def _batch(plan: _Plan, indices: list[int], points: list[Point]) -> Generator[_Result | _Failed | None, None, None]:
    """Computes some points: yields the values so far, then the result, which it keeps before the points' locks end."""
    latest = None
    try:
        with closing(plan.compute(points)) as steps:
            for values in steps:
                yield None if values is None else _Result(indices, values, last=False)
                latest = values if values is not None else latest
        final = plan.final(latest)
    except Exception as error:  # as words: it must not lose the others, and not every exception can be pickled
        yield _Failed(indices, _reason(error), trace_of(error))
        return
    if plan.store is not None and plan.reaches_store:
        plan.store.write(points, final)
    yield _Result(indices, final, stored=plan.reaches_store)


def _elsewhere(
    plan: _Plan, table: Table, batches: list[list[int]], jobs: int | None
) -> Generator[_Result | _Failed | None, None, None]:
    """Computes through joblib, whatever its backend; results come in the order in which they are ready."""
    waiting = batches
    while waiting:
        calls = [(plan, indices, [table.points[index] for index in indices]) for indices in waiting]
        waiting = []
        with closing(unordered(_work, calls, jobs)) as results:
            for found in results:
                for result in found:
                    if isinstance(result, _Left):
                        waiting.append(result.indices)
                    else:
                        yield result
        if waiting:
            yield None
            time.sleep(_WAIT)


def _work(plan: _Plan, indices: list[int], points: list[Point]) -> list[_Result | _Failed | _Left]:
    """Computes one batch in a worker, which stores its own results if it can, so that none waits for the consumer."""
    import torch

    torch.set_num_threads(1)
    with plan.claimed(indices, points) as (mine, stored, left):
        found: list[_Result | _Failed | _Left] = [*stored, *([_Left(left)] if left else [])]
        if mine:
            last = deque(_batch(plan, mine, [points[indices.index(index)] for index in mine]), maxlen=1).pop()
            assert last is not None  # a batch ends with its result, or with why there is none
            found.append(last)
        return found


def _reason(error: Exception) -> str:
    frame = traceback.extract_tb(error.__traceback__)[-1]
    return f"{type(error).__name__} in {Path(frame.filename).name}, line {frame.lineno}: {error}"


@dataclass(frozen=True)
class _Plan:
    """Everything that a worker needs to compute a batch."""

    run: Run
    trials: int
    seed: int
    store: Store | None

    @property
    def reaches_store(self) -> bool:
        """Whether there is a store, and this machine has its folder."""
        return self.store is not None and self.store.folder.is_dir()

    @contextmanager
    def claimed(self, indices: list[int], points: list[Point]) -> Iterator[tuple[list[int], list[_Result], list[int]]]:
        """Divides points into those to compute now, those finished meanwhile, and those that another process has."""
        if self.store is None or not self.reaches_store:
            yield indices, [], []
            return
        with self.store.taken(points) as taken:
            stored, (mine, left) = list[_Result](), (list[int](), list[int]())
            for index, point, free in zip(indices, points, taken, strict=True):
                values = self.store.read(point)
                if values is not None:
                    row = {name: value[None] for name, value in values.items()}
                    stored.append(_Result([index], row, stored=True))
                else:
                    (mine if free else left).append(index)
            yield mine, stored, left

    def compute(self, points: list[Point]) -> Generator[dict[str, np.ndarray] | None, None, None]:
        given = self.run([dict(point) for point in points], trials=self.trials, seed=self.seed)
        if isinstance(given, Mapping):
            yield self._checked(given, len(points))
            return
        proper = isinstance(given, Iterator) and hasattr(given, "close")
        require(
            proper, "run must return a mapping of arrays, or be a generator that yields them", run=name_of(self.run)
        )
        with closing(given):
            for values in given:
                yield None if values is None else self._checked(values, len(points))

    def final(self, values: dict[str, np.ndarray] | None) -> dict[str, np.ndarray]:
        if not values:
            raise InputError(f"run must give values for each batch: got none from {name_of(self.run)}")
        return values

    def _checked(self, values: Values, points: int) -> dict[str, np.ndarray]:
        arrays = {name: numbers_of(name, value) for name, value in values.items()}
        for name, array in arrays.items():
            require(
                array.shape[:2] == (points, self.trials),
                f"run must give arrays of shape (points, trials, ...), here ({points}, {self.trials}, ...)",
                **{name: array.shape},
            )
        return arrays
