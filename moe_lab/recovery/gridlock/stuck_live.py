"""The map of `stuck_rate` while it is computed, for a live picture: the cells of the figure, cheap ones first."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from functools import partial
from typing import TYPE_CHECKING, Any, Self

import numpy as np
from jaxtyping import Bool, Float

from moe_lab.core.figure import call_with
from moe_lab.core.grid import Point, Table
from moe_lab.core.sweep import filling
from moe_lab.recovery.gridlock.grid_points import stuck_cells
from moe_lab.recovery.gridlock.recipes import MEANINGS
from moe_lab.recovery.gridlock.stuck import AXES, FIRST, plan_of, stuck_rate
from moe_lab.recovery.gridlock.verdicts import VERDICTS

if TYPE_CHECKING:
    import xarray

Cell = tuple[str, int, int]
"""(method, k, n)"""


@dataclass(frozen=True)
class StuckRecord:
    """The map at one moment.

    Attributes:
      methods, experts, samples: the methods, and the values of k and of n.
      done: which trials have been computed; those of a cell come together.
      values: what `stuck_rate` returns, by name; NaN for the others.
      running: the cell that is computed now.
      origin: the attrs that reproduce the map.
    """

    methods: tuple[str, ...]
    experts: tuple[int, ...]
    samples: tuple[int, ...]
    done: Bool[np.ndarray, "method k n trial"]
    values: Mapping[str, Float[np.ndarray, "method k n trial"]]
    running: Cell | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, origin: Mapping[str, Any]) -> Self:
        """Returns a table's present state."""
        values = {name: table.on_grid(value) for name, value in table.values.items()}
        running = next(((point["algorithm"], point["k"], point["samples"]) for point in table.running), None)
        methods, experts, samples = map(tuple, table.grid.values())
        done = np.repeat(table.on_grid(table.done)[..., None], table.trials, axis=-1)
        return cls(methods, experts, samples, done, values, running, origin)

    @property
    def trials(self) -> int:
        return int(self.done.shape[3])

    @property
    def finished(self) -> bool:
        """Whether all cells have been computed."""
        return bool(self.done.all())

    @property
    def active(self) -> Bool[np.ndarray, "method k n"]:
        """The cell that is computed now."""
        cells = np.zeros(self.done.shape[:-1], dtype=bool)
        if self.running is not None:
            method, k, n = self.running
            cells[self.methods.index(method), self.experts.index(k), self.samples.index(n)] = True
        return cells

    @property
    def regressor_fit(self) -> Float[np.ndarray, "method k n trial"]:
        """NaN where a trial has no result."""
        return self.values["regressor_fit"]

    @property
    def stuck(self) -> Float[np.ndarray, "method k n trial"]:
        """1 where a trial is stuck."""
        return self.values["stuck"]

    def dataset(self) -> xarray.Dataset:
        """Returns the Dataset of `stuck_rate`, NaN in cells that have not been computed."""
        grid = dict(zip(AXES, map(list, (self.methods, self.experts, self.samples)), strict=True))
        table = Table(grid, self.trials, dict(VERDICTS), dict(MEANINGS), {}, dict(self.origin))
        table.values = {name: value.reshape(-1, self.trials) for name, value in self.values.items()}
        return table.dataset()[list(VERDICTS)]


def stuck_records(**arguments: Any) -> Iterator[StuckRecord]:
    """Yields the map of `stuck_rate` (same arguments, all by name) while it fills, from the empty map to the full one.

    Raises:
      ValueError: a wrong value or combination, before anything runs.
    """
    plan = plan_of(**arguments)
    figure, call = plan.figure, call_with(stuck_rate, (), arguments, first=FIRST)
    origin = {**figure.attrs_of(plan.axes), **plan.test, "call": call}
    cells = partial(stuck_cells, **figure.how(), **plan.test)
    axes = {name: plan.axes[name] for name in AXES}
    described: dict[str, Any] = {"measures": VERDICTS, "meanings": MEANINGS}
    tables = filling(cells, axes, trials=figure.trials, seed=figure.seed, batch=_cheap_first, **described)
    return (StuckRecord.of(table, origin) for table in tables)


def _cheap_first(points: list[Point]) -> list[list[Point]]:
    """Computes cells one by one: an iteration takes a time proportional to n and to the k (k + 1) / 2 blocks of H."""
    return [[point] for point in sorted(points, key=lambda point: point["samples"] * point["k"] * (point["k"] + 1))]
