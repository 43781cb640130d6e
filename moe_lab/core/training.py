"""A run is an iterator of Snapshots; stop consuming it and it stops.

Progress bars, live pictures, early stopping and tests all read the same stream; `collect` turns it into one labelled
`xarray.Dataset` whose attrs state how to make it again.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from torch import Tensor

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError

if TYPE_CHECKING:
    import xarray


@dataclass(frozen=True)
class Measure:
    """Describes a measured value: its axes after the trial axis, its unit and its meaning.

    A `constant` value is the same in every Snapshot of a run (the example images, say) and is collected once.
    """

    dims: tuple[str, ...] = ()
    unit: str = ""
    meaning: str = ""
    constant: bool = False


@dataclass(frozen=True)
class Snapshot:
    """A plain record of a run at one step. Pictures read Snapshots and nothing else.

    Attributes:
      step: updates done so far by the trials still in training.
      values: measured arrays; the first axis of each is the trial.
      steps: (trial,) updates that each trial has done; constant once the trial has finished.
      finished: (trial,) True where training has ended (zero training error, the epoch limit, or divergence).
      diverged: (trial,) True where the loss became infinite or NaN; such a trial's values are NaN.
      coords: labels of the axes that the measures name.
      origin: how to make this run again: config, seed, device, version, paper.
    """

    step: int
    values: Mapping[str, np.ndarray]
    measures: Mapping[str, Measure]
    steps: np.ndarray
    finished: np.ndarray
    diverged: np.ndarray
    coords: Mapping[str, Any] = field(default_factory=dict)
    origin: Mapping[str, Any] = field(default_factory=dict)

    def __getitem__(self, name: str) -> np.ndarray:
        return self.values[name]

    @property
    def trials(self) -> int:
        return len(self.finished)


class TrialProgress:
    """The state of a run from which Snapshots are made, with their attributes. A room adds training and evaluation."""

    def __init__(self, trials: int, measures: Mapping[str, Measure]) -> None:
        self.step, self.measures = 0, measures
        self.steps = np.zeros(trials, dtype=np.int64)
        self.finished, self.diverged = np.zeros(trials, dtype=bool), np.zeros(trials, dtype=bool)
        self.values: dict[str, np.ndarray] = {}

    def record(self, values: Mapping[str, np.ndarray]) -> None:
        """Keeps a copy of measured values, with NaN where a trial has diverged."""
        self.values = {name: np.array(value, dtype=float) for name, value in values.items()}
        for value in self.values.values():
            value[self.diverged] = np.nan

    def snapshot(
        self,
        origin: Mapping[str, Any],
        coords: Mapping[str, Any] | None = None,
        constants: Mapping[str, np.ndarray] | None = None,
    ) -> Snapshot:
        """Copies the present state, and adds values that are the same in every Snapshot."""
        values = {name: value.copy() for name, value in self.values.items()} | dict(constants or {})
        return Snapshot(
            step=self.step,
            values=values,
            measures={name: self.measures[name] for name in values},
            steps=self.steps.copy(),
            finished=self.finished.copy(),
            diverged=self.diverged.copy(),
            coords=coords or {},
            origin=origin,
        )


def joined(parts: Iterable[Tensor]) -> np.ndarray:
    """Joins tensors of groups of trials along the trial axis, as an array of floats."""
    return np.concatenate([part.detach().cpu().numpy() for part in parts]).astype(float)


@checked
def collect(run: Iterable[Snapshot]) -> xarray.Dataset:
    """Consumes a run and returns everything recorded, with named axes (step, trial, ...).

    Values that only some Snapshots hold are NaN at the steps of the others.

    Raises:
      ValueError: the run gave no Snapshot.
    """
    import xarray  # here: it takes half a second, which a live run need not wait for

    snapshots = list(_snapshots(run))
    if not snapshots:
        raise InputError("the run gave no snapshots: was it consumed before?")
    last = snapshots[-1]
    names = {name: measure for snapshot in snapshots for name, measure in snapshot.measures.items()}
    variables: dict[str, Any] = {}
    for name, measure in names.items():
        known = next(snapshot.values[name] for snapshot in snapshots if name in snapshot.values)
        attrs = {"units": measure.unit, "long_name": measure.meaning}
        if measure.constant:
            variables[name] = (("trial", *measure.dims), known, attrs)
            continue
        empty = np.full(known.shape, np.nan)
        stacked = np.stack([snapshot.values.get(name, empty) for snapshot in snapshots])
        variables[name] = (("step", "trial", *measure.dims), stacked, attrs)
    variables["steps"] = ("trial", last.steps, {"units": "updates", "long_name": "updates done by the trial"})
    variables["diverged"] = ("trial", last.diverged, {"long_name": "the trial's loss became infinite or NaN"})
    steps = np.array([snapshot.step for snapshot in snapshots])
    coords = {"step": ("step", steps, {"units": "updates"}), "trial": np.arange(last.trials), **last.coords}
    return xarray.Dataset(variables, coords=coords, attrs=dict(last.origin))


def _snapshots(run: Iterable[Any]) -> Iterator[Snapshot]:
    """Yields what a run gives, where that is Snapshots."""
    for one in run:
        require(isinstance(one, Snapshot), "a run must give Snapshots", run=one)
        yield one


@checked
def final(run: Iterable[Snapshot]) -> Snapshot:
    """Consumes a run and returns its last Snapshot.

    Raises:
      ValueError: the run gave no Snapshot.
    """
    last: Snapshot | None = None
    for snapshot in _snapshots(run):
        last = snapshot
    if last is None:
        raise InputError("the run gave no snapshots: was it consumed before?")
    return last


@checked
def every(run: Iterable[Snapshot], count: int) -> Iterator[Snapshot]:
    """Yields every count-th Snapshot of a run, and always the first and the last.

    Raises:
      ValueError: count is less than 1.
    """
    require(count >= 1, "count must be at least 1", count=count)
    return _every(run, count)


def _every(run: Iterable[Snapshot], count: int) -> Iterator[Snapshot]:
    pending: Snapshot | None = None
    for position, snapshot in enumerate(_snapshots(run)):
        pending = snapshot
        if position % count == 0:
            yield snapshot
            pending = None
    if pending is not None:
        yield pending
