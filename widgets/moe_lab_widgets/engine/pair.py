"""Labs that run two models side by side on the same samples."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab.training import Snapshot, collect
from moe_lab_widgets.engine.lab import Lab

if TYPE_CHECKING:
    import xarray

History = tuple[Snapshot, ...]


@dataclass(frozen=True)
class Pair:
    """One record of two runs: all their Snapshots so far.

    Attributes:
      first, second: the Snapshots of each run; the second has none in the first record of some Labs, which does not
        wait until the second run has sampled its data.
      names: what each run is called (set by subclasses).
    """

    first: History
    second: History

    names: ClassVar[tuple[str, str]] = ("first", "second")

    def shots(self, name: str) -> History:
        """Returns the Snapshots of a run up to this record."""
        return self.first if name == self.names[0] else self.second

    def of(self, name: str) -> Snapshot | None:
        """Returns the latest Snapshot of a run; None before it has begun."""
        shots = self.shots(name)
        return shots[-1] if shots else None

    @property
    def parts(self) -> dict[str, Snapshot]:
        """The latest Snapshot of each run that has begun."""
        return {name: shots[-1] for name in self.names if (shots := self.shots(name))}

    @property
    def trials(self) -> int:
        return self.first[-1].trials

    @property
    def ended(self) -> bool:
        """Whether no trial of either run is still training."""
        return len(self.parts) == 2 and all(part.finished.all() for part in self.parts.values())

    @property
    def steps(self) -> NDArray[np.int64]:
        """(records,) steps of the run that has come further; a run that has ended keeps its last step."""
        rows = max(len(self.first), len(self.second))
        return np.max([_filled([shot.step for shot in shots], rows) for shots in (self.first, self.second) if shots], 0)

    @property
    def step(self) -> int:
        return int(self.steps[-1])

    def measured(self, name: str, measure: str) -> NDArray[np.float64]:
        """Returns a measure (records, trial, ...) of a run at `steps`; a run that has ended keeps its last values."""
        shots = self.shots(name)
        if not shots:
            return np.zeros((0, *self.first[-1][measure].shape))
        rows = max(len(self.first), len(self.second))
        return np.array(_filled([shot[measure] for shot in shots], rows))


def _filled(values: list[Any], count: int) -> list[Any]:
    """Values with the last one repeated up to a count."""
    return values + values[-1:] * (count - len(values))


def side_by_side(
    first: Iterator[Snapshot], second: Callable[[], Iterator[Snapshot]]
) -> Iterator[tuple[History, History]]:
    """Yields the histories of two runs with the same `record_every`, record by record.

    The first record does not wait until the second run has sampled its data. A run that has ended adds nothing.
    """
    ours: History = (next(first),)
    theirs: History = ()
    yield ours, theirs
    beside = second()
    theirs = (next(beside),)
    while True:
        yield ours, theirs
        new, other = next(first, None), next(beside, None)
        if new is None and other is None:
            return
        ours += () if new is None else (new,)
        theirs += () if other is None else (other,)


def model_axis(names: Sequence[str], sets: Sequence[xarray.Dataset]) -> xarray.Dataset:
    """Joins Datasets of several models along a `model` axis, with the call that makes each."""
    import xarray  # here: it takes half a second, for which the first picture need not wait

    models = xarray.DataArray(list(names), dims="model", name="model")
    joined = xarray.concat(sets, models, join="outer", combine_attrs="drop_conflicts")
    calls = {f"call_{name}": data.attrs["call"] for name, data in zip(names, sets, strict=True) if "call" in data.attrs}
    return joined.assign_attrs(calls)


class PairLab(Lab):
    """A Lab whose records are Pairs."""

    def label(self, record: Any, name: str) -> str:
        """Returns what a run is called in data and messages."""
        return name

    def parts(self, record: Any) -> dict[str, Snapshot]:
        return {self.label(record, name): part for name, part in record.parts.items()}

    def data(self, records: Sequence[Any]) -> xarray.Dataset:
        """Returns both runs along a `model` axis, with the call that makes each."""
        last = records[-1]
        return model_axis(list(self.parts(last)), [collect(last.shots(name)) for name in last.parts])
