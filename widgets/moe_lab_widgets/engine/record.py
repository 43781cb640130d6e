"""A record of a Lab: every run's Snapshots so far, and the values of the knobs."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, replace
from typing import TYPE_CHECKING, Any

import numpy as np
from numpy.typing import NDArray

from moe_lab.core.errors import InputError
from moe_lab.core.grid import Table
from moe_lab.core.snapshots import Snapshot, collect

if TYPE_CHECKING:
    import xarray

ONLY = "run"
"""The name of the run of a Lab that has only one."""


@dataclass(frozen=True)
class Record:
    """A record of a Lab. It is complete: it holds its own history.

    `now["loss"]` is the latest value of the first run; `now.curve("loss")` returns its steps and values so far.

    Attributes:
      shots: the records so far of every run that has begun, by its name; the first one is under study.
      values: of the knobs, and of the Lab's own arguments.
      names: of all runs.
      total: steps of a whole run; 0 if it is not known.
      before: the last record of the run before, with its latest Snapshots alone, to compare with; where that run was
        cut short, its own `before` is that of the last whole run.
    """

    shots: Mapping[str, tuple[Any, ...]]
    values: Mapping[str, Any]
    names: tuple[str, ...]
    total: int = 0
    before: Record | None = None

    def __getitem__(self, measure: str) -> Any:
        return value_of(self.of(), measure)

    def has(self, measure: str) -> bool:
        """Whether a run has recorded a measure."""
        return any(has(shot, measure) for shots in self.shots.values() for shot in shots)

    def of(self, name: str | None = None) -> Any:
        """Returns the latest record of a run, of the first where none is named; None before it has begun."""
        shots = self.shots.get(self.names[0] if name is None else name, ())
        return shots[-1] if shots else None

    def curve(self, measure: str, name: str | None = None) -> tuple[NDArray[np.int64], NDArray[np.float64]]:
        """Returns the steps (m,) at which a run has recorded a measure, and the values (m, ...).

        A run that has ended keeps its last value while others go on.
        """
        shots = [shot for shot in self.shots.get(self.names[0] if name is None else name, ()) if has(shot, measure)]
        if not shots:
            return np.zeros(0, dtype=np.int64), np.zeros((0, *self._shape(measure)))
        steps = [step_of(shot, place) for place, shot in enumerate(shots)]
        if steps[-1] < self.step and _ended(shots[-1]):
            steps, shots = [*steps, self.step], [*shots, shots[-1]]
        return np.array(steps), np.array([value_of(shot, measure) for shot in shots], dtype=float)

    def last(self, measure: str, name: str | None = None) -> NDArray[np.float64]:
        """Returns the latest values (trial, ...) of a measure, NaN before the run has recorded it."""
        shots = self.shots.get(self.names[0] if name is None else name, ())
        shot = next((shot for shot in reversed(shots) if has(shot, measure)), None)
        return np.full(self._shape(measure), np.nan) if shot is None else np.asarray(value_of(shot, measure), float)

    def _shape(self, measure: str) -> tuple[int, ...]:
        """Returns the shape of a measure that a run has not recorded: that of the first run, or a number per trial."""
        first = self.of()
        if isinstance(first, Mapping | Table):
            value_of(first, measure)  # which says what there is
        return np.shape(value_of(first, measure)) if has(first, measure) else (self.trials,)

    def seen_with(self, view: Mapping[str, Any]) -> Record:
        """Returns the same record, seen with other values of view-only knobs."""
        return replace(self, values={**self.values, **view})

    @property
    def parts(self) -> dict[str, Any]:
        """The latest record of every run that has begun."""
        return {name: shots[-1] for name, shots in self.shots.items() if shots}

    @property
    def trials(self) -> int:
        return int(getattr(self.of(), "trials", 1))

    @property
    def step(self) -> int:
        """Of the run that has come furthest."""
        return max(step_of(shots[-1], len(shots) - 1) for shots in self.shots.values() if shots)

    @property
    def begun(self) -> bool:
        """Whether every run has begun."""
        return len(self.parts) == len(self.names)

    @property
    def ended(self) -> bool:
        """Whether no trial of any run is still training."""
        if not all(hasattr(part, "finished") for part in self.parts.values()):
            return bool(self.total and self.step >= self.total)
        return self.begun and all(map(_ended, self.parts.values()))

    @property
    def own_size(self) -> list[Any]:
        """What it has and the record before has not, for `recorder.size_of`."""
        return list(self.parts.values())


def _ended(record: Any) -> bool:
    return bool(np.all(getattr(record, "finished", False)))


def side_by_side(
    runs: Mapping[str, Callable[[], Iterator[Any]]], values: Mapping[str, Any], total: int, before: Record | None = None
) -> Iterator[Record]:
    """Yields runs side by side, record by record.

    The first has the first run alone, so that the picture does not wait until the others have sampled their
    data; a run that has ended adds nothing. A run may yield a list of records, which are added together.
    """
    names, first = tuple(runs), next(iter(runs))
    begun = {first: runs[first]()}
    shots: dict[str, tuple[Any, ...]] = {first: (next(begun[first]),)}
    yield Record(shots, values, names, total, before)
    if len(runs) > 1:
        begun |= {name: begin() for name, begin in runs.items() if name != first}
        shots = {name: shots.get(name) or (next(run),) for name, run in begun.items()}
        yield Record(shots, values, names, total, before)
    while True:
        fresh = {name: record for name, run in begun.items() if (record := next(run, None)) is not None}
        if not fresh:
            return
        shots = {name: _with(old, fresh[name]) if name in fresh else old for name, old in shots.items()}
        yield Record(shots, values, names, total, before)


def _with(shots: tuple[Any, ...], fresh: Any) -> tuple[Any, ...]:
    return (*shots, *fresh) if isinstance(fresh, list) else (*shots, fresh)


# ---- what a run may yield: Snapshots, mappings, or any objects with attributes ----


def has(record: Any, measure: str) -> bool:
    """Whether a record has a measure."""
    if isinstance(record, Snapshot):
        return measure in record.values or measure == "step"
    return measure in record if isinstance(record, Mapping | Table) else hasattr(record, measure)


def value_of(record: Any, measure: str) -> Any:
    """Returns a measure of a record."""
    if isinstance(record, Snapshot):
        return record.step if measure == "step" else record[measure]
    if isinstance(record, Mapping | Table) and measure not in record:
        raise InputError(f"a measure must be one of {', '.join(map(repr, record))}: got {measure!r}")
    return record[measure] if isinstance(record, Mapping | Table) else getattr(record, measure)


def step_of(record: Any, place: int) -> int:
    """Returns the step of a record: its own, or its place in the run."""
    return int(value_of(record, "step")) if has(record, "step") else place


# ---- saved data ----


def dataset(record: Record, code: str) -> xarray.Dataset:
    """Returns what was recorded: all runs along a `model` axis with their calls, or what plain records hold.

    Args:
      code: makes the run; kept with plain records, which have no call of their own.
    """
    if all(isinstance(part, Snapshot) for part in record.parts.values()):
        sets = [collect(record.shots[name]) for name in record.parts]
        return sets[0] if record.names == (ONLY,) else model_axis(list(record.parts), sets)
    import xarray  # here: it takes half a second, for which the first picture need not wait

    shots = record.shots[record.names[0]]
    last = shots[-1]
    measures = [name for name in (last if isinstance(last, Mapping) else vars(last)) if name != "step"]
    variables = {}
    for name in measures:
        try:
            values = np.array([value_of(shot, name) for shot in shots])
        except ValueError as error:
            rule = "records must have the same keys, and arrays of one shape, to be saved as data"
            raise InputError(f"{rule}: got {name}") from error
        variables[name] = (("step", *(f"{name}_{axis}" for axis in range(1, values.ndim))), values)
    steps = [step_of(shot, place) for place, shot in enumerate(shots)]
    return xarray.Dataset(variables, coords={"step": steps}, attrs={"call": code})


def model_axis(names: Sequence[str], sets: Sequence[xarray.Dataset]) -> xarray.Dataset:
    """Joins Datasets of several models along a `model` axis, with the call that makes each."""
    import xarray

    models = xarray.DataArray(list(names), dims="model", name="model")
    joined = xarray.concat(sets, models, join="outer", combine_attrs="drop_conflicts")
    calls = {f"call_{name}": data.attrs["call"] for name, data in zip(names, sets, strict=True) if "call" in data.attrs}
    return joined.assign_attrs(calls)
