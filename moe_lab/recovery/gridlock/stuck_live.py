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
from moe_lab.recovery.gridlock.grid_points import VERDICTS, stuck_cells
from moe_lab.recovery.gridlock.recipes import MEANINGS
from moe_lab.recovery.gridlock.stuck import AXES, FIRST, plan_of, stuck_rate, verdict_words

if TYPE_CHECKING:
    import xarray

Cell = tuple[str, int, int]
"""(method, k, n)"""


@dataclass(frozen=True)
class StuckRecord:
    """The map at one moment.

    Attributes:
      methods, experts, samples: the methods, and the values of k and of n.
      done: which cells have been computed.
      values: what `stuck_rate` returns, by name; NaN for the other cells.
      running: the cell that is computed now.
      origin: the attrs that reproduce the map.
    """

    methods: tuple[str, ...]
    experts: tuple[int, ...]
    samples: tuple[int, ...]
    done: Bool[np.ndarray, "method k n"]
    values: Mapping[str, Float[np.ndarray, "method k n trial"]]
    running: Cell | None = None
    origin: Mapping[str, Any] = field(default_factory=dict)

    @classmethod
    def of(cls, table: Table, origin: Mapping[str, Any]) -> Self:
        """Returns a table's present state."""
        values = {name: table.on_grid(value) for name, value in table.values.items()}
        running = next(((point["algorithm"], point["k"], point["samples"]) for point in table.running), None)
        methods, experts, samples = map(tuple, table.grid.values())
        return cls(methods, experts, samples, table.on_grid(table.done), values, running, origin)

    @property
    def trials(self) -> int:
        return int(self.values["stuck"].shape[3])

    @property
    def finished(self) -> bool:
        """Whether all cells have been computed."""
        return bool(self.done.all())

    @property
    def active(self) -> Bool[np.ndarray, "method k n"]:
        """The cell that is computed now."""
        cells = np.zeros(self.done.shape, dtype=bool)
        if self.running is not None:
            method, k, n = self.running
            cells[self.methods.index(method), self.experts.index(k), self.samples.index(n)] = True
        return cells

    @property
    def found(self) -> Float[np.ndarray, "method k n"]:
        """The share of each cell's trials that find all regressors; NaN if not run."""
        return self.share("found")

    @property
    def stuck(self) -> Float[np.ndarray, "method k n"]:
        """The share that are stuck."""
        return self.share("stuck")

    @property
    def diverged(self) -> Float[np.ndarray, "method k n"]:
        """The share that ended without a result."""
        return self.share("diverged")

    def share(self, verdict: str) -> Float[np.ndarray, "method k n"]:
        """Returns the share of each cell's trials with a verdict, such as "found" or "stuck"; NaN if not run."""
        words = verdict_words(self.values["regressor_fit"], self.values["stuck"])
        return np.where(self.done, (words == verdict).mean(-1), np.nan)

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
