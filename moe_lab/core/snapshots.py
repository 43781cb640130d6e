"""A run is an iterator of Snapshots; stop consuming it and it stops.

Progress bars, live pictures, early stopping and tests all read the same stream; `collect` turns it into one labelled
`xarray.Dataset` whose attrs state how to make it again.
"""

from __future__ import annotations

import textwrap
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab.core.sentences import not_measured

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


SCALARS_SHOWN = 5
"""Lines that the text of a Snapshot has at most for measures with a value for each trial."""


class UnmeasuredError(InputError, KeyError):
    """A name that a Snapshot does not have."""

    __str__ = Exception.__str__  # a KeyError's has the sentence in quotes


@dataclass(frozen=True, repr=False)
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

    Raises:
      KeyError: `snapshot[name]` of what is not measured.
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
        if name not in self.values:
            raise UnmeasuredError(not_measured(name, list(self.values)))
        return self.values[name]

    def __repr__(self) -> str:
        """Step and trials, mean and spread of what has one value for each trial, and the shapes of the rest."""
        lines = [f"Snapshot at step {self.step}, {self._state}"]
        rest = {name: values for name, values in self.values.items() if values.ndim != 1}
        scalars = [_row(name, values) for name, values in self.values.items() if name not in rest]
        more = len(scalars) - SCALARS_SHOWN
        lines += scalars if more <= 1 else [*scalars[:SCALARS_SHOWN], f"and {more} more with a value for each trial"]
        shapes = [f"{name} {'x'.join(map(str, values.shape))}" for name, values in rest.items()]
        return "\n  ".join([*lines, *textwrap.wrap(", ".join(shapes), 100, max_lines=3, placeholder=" ...")])

    @property
    def _state(self) -> str:
        """The number of trials, and how many of them have finished or diverged."""
        counts = {"finished": int(self.finished.sum()), "diverged": int(self.diverged.sum())}
        ended = [f", {count} {word}" for word, count in counts.items() if count]
        return f"{self.trials} {'trial' if self.trials == 1 else 'trials'}{''.join(ended)}"

    @property
    def trials(self) -> int:
        return len(self.finished)


def _row(name: str, values: np.ndarray) -> str:
    """A measure with its mean over the trials that have a value, and their standard deviation."""
    known = values[np.isfinite(values)]
    if not known.size:
        return f"{name}: no value"
    spread = f" ± {known.std(ddof=1):.3g}" if known.size > 1 else ""
    return f"{name}: {known.mean():.4g}{spread}" + (f" ({known.size} trials)" if known.size < values.size else "")


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
    """Yields the Snapshots of a run, and refuses anything else."""
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
