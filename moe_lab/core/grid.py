"""The points of a grid, and a table of their results so far."""

from __future__ import annotations

import itertools
from collections.abc import Iterable, Iterator, Mapping, Sequence
from copy import copy
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any, Self

import numpy as np

from moe_lab.core.config import require
from moe_lab.core.sentences import brief
from moe_lab.core.snapshots import Measure

if TYPE_CHECKING:
    import xarray

Point = dict[str, Any]
Values = Mapping[str, Any]


def checked_axes(axes: Mapping[str, Iterable[Any]]) -> dict[str, list[Any]]:
    """Returns the axes with plain Python values.

    Raises:
      ValueError: there is no axis, or one is empty, repeats a value, has a taken name, or holds anything but
        finite numbers and strings.
    """
    require(len(axes) > 0, "axes must name at least one axis", axes=dict(axes))
    grid = {}
    for name, values in axes.items():
        axis = f"axis {brief(name)}"
        plain = [value.item() if isinstance(value, np.generic) else value for value in values]
        require(name not in ("trial", "done"), "an axis must not be named 'trial' or 'done'", axis=name)
        require(len(plain) > 0, f"{axis} must have at least one value", values=plain)
        proper = all(
            isinstance(value, str | int) or (isinstance(value, float) and np.isfinite(value)) for value in plain
        )
        require(proper, f"values of {axis} must be finite numbers or strings", values=plain)
        require(len(set(plain)) == len(plain), f"values of {axis} must differ", values=plain)
        grid[name] = plain
    return grid


def points_of(axes: Mapping[str, Sequence[Any]]) -> list[Point]:
    """Returns the grid points of some axes; the last axis changes fastest."""
    return [dict(zip(axes, values, strict=True)) for values in itertools.product(*axes.values())]


@dataclass(eq=False)
class Table:
    """A grid and its results so far, one row per grid point.

    By name it holds them on the grid: the values of each axis, each value (axes..., trial, ...), "done" (axes...,
    trial), which trials have ended, and "active" (axes...), the points that are computed now.

    Attributes:
      points: in the order of the rows; the last axis changes fastest.
      done: (points,) which have been run.
      values: (points, trials, ...) by name, NaN where not yet known.
      running: the points that are computed now, in one process.
      changes: how often values were written.
    """

    grid: dict[str, list[Any]]
    trials: int
    measures: dict[str, Measure]
    meanings: dict[str, str]
    coords: dict[str, Any]
    attrs: dict[str, Any]
    points: list[Point] = field(init=False)
    done: np.ndarray = field(init=False)
    values: dict[str, np.ndarray] = field(init=False, default_factory=dict)
    running: list[Point] = field(init=False, default_factory=list)
    changes: int = field(init=False, default=0)

    def __post_init__(self) -> None:
        self.points = points_of(self.grid)
        self.done = np.zeros(len(self.points), dtype=bool)
        for name, measure in self.measures.items():  # where the shape is known, the first Dataset shows it
            if all(dim in self.coords for dim in measure.dims):
                self._add(name, tuple(len(self.coords[dim]) for dim in measure.dims))

    def _add(self, name: str, shape: tuple[int, ...]) -> None:
        self.values[name] = np.full((len(self.points), self.trials, *shape), np.nan)

    def put(self, indices: list[int], values: Values, done: bool = True) -> None:
        """Writes the values (points, trials, ...) of some points and, unless `done` is False, marks them as done.

        Raises:
          ValueError: a value's shape is not that of other points.
        """
        for name, value in values.items():
            if name not in self.values:
                self._add(name, value.shape[2:])
            require(
                value.shape[2:] == self.values[name].shape[2:],
                f"{name} must have one shape at every grid point, here {self.values[name].shape[2:]} after the trials",
                got=value.shape[2:],
            )
            self.values[name][indices] = value
        self.done[indices] = done
        self.changes += 1

    def take(self, table: Table, first_trial: int) -> None:
        """Takes over the values of a table of the same points, whose trials are some of this one's."""
        for name, value in table.values.items():
            self.values[name][:, first_trial : first_trial + table.trials] = value
        self.done = np.asarray(self.ended.all(-1))
        self.running = table.running
        self.changes += 1

    def copy(self) -> Self:
        """Returns the table as it is now, for who keeps it while this one fills."""
        new = copy(self)
        new.values = {name: value.copy() for name, value in self.values.items()}
        new.done, new.running = self.done.copy(), list(self.running)
        return new

    @property
    def ended(self) -> np.ndarray:
        """(points, trials) which trials have ended: all of the points that have been run, and those with a value."""
        known = [np.isfinite(value).reshape(*value.shape[:2], -1).any(-1) for value in self.values.values()]
        return np.logical_or.reduce([np.repeat(self.done[:, None], self.trials, axis=1), *known])

    @property
    def finished(self) -> bool:
        """Whether all points have been run."""
        return bool(self.done.all())

    def __getitem__(self, name: str) -> np.ndarray:
        if name in self.grid:
            return np.array(self.grid[name])
        if name == "active":
            return self.on_grid(np.array([point in self.running for point in self.points]))
        return self.on_grid(self.ended if name == "done" else self.values[name])

    def __iter__(self) -> Iterator[str]:
        return iter((*self.grid, *self.values, "done", "active"))

    def on_grid(self, values: np.ndarray) -> np.ndarray:
        """Returns a copy of `done` or of a value with the grid's axes in place of the points."""
        return values.reshape(*(len(labels) for labels in self.grid.values()), *values.shape[1:]).copy()

    def dataset(self) -> xarray.Dataset:
        """Returns a copy of all results, with named axes: value(axes..., trial, ...) and done(axes...)."""
        import xarray  # here: it takes half a second, which a live map need not wait for

        dims, about = tuple(self.grid), {"long_name": "this grid point has been run"}
        variables: dict[str, Any] = {"done": (dims, self.on_grid(self.done), about)}
        for name, value in self.values.items():
            rest = tuple(f"{name}_{axis}" for axis in range(value.ndim - 2))
            measure = self.measures.get(name, Measure(rest))
            attrs = {"units": measure.unit, "long_name": measure.meaning or name}
            variables[name] = ((*dims, "trial", *measure.dims), self.on_grid(value), attrs)
        coords: dict[str, Any] = {"trial": np.arange(self.trials)}
        for name, labels in self.grid.items():
            coords[name] = (name, np.array(labels), {"long_name": self.meanings.get(name, name)})
        used = {dim for dims, *_ in variables.values() for dim in dims}
        coords.update({name: labels for name, labels in self.coords.items() if name in used})
        return xarray.Dataset(variables, coords=coords, attrs=self.attrs)
