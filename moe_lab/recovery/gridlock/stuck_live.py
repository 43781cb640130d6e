"""The map of `stuck_rate` while it is computed, as plain records for a live picture.

The numbers are those of `stuck_rate`. Cells are computed one by one, cheap ones first, all starts of one in a batch.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

import numpy as np
from jaxtyping import Bool, Float

from moe_lab.core.figure import call_with
from moe_lab.core.grid import Table, points_of
from moe_lab.recovery.gridlock.grid_points import VERDICTS, stuck_cells
from moe_lab.recovery.gridlock.recipes import MEANINGS
from moe_lab.recovery.gridlock.stuck import AXES, FIRST, Plan, plan_of, stuck_rate, verdict_words

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

    @property
    def trials(self) -> int:
        return int(self.values["stuck"].shape[3])

    @property
    def finished(self) -> bool:
        """Whether all cells have been computed."""
        return bool(self.done.all())

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
    call = call_with(stuck_rate, (), arguments, first=FIRST)
    return _fill(plan, {**plan.figure.attrs_of(plan.axes), **plan.test, "call": call})


def _fill(plan: Plan, origin: Mapping[str, Any]) -> Iterator[StuckRecord]:
    """Computes cell after cell; yields at every sign of life."""
    methods, experts, samples = (plan.axes[name] for name in AXES)
    shape = len(methods), len(experts), len(samples)
    done = np.zeros(shape, dtype=bool)
    values = {name: np.full((*shape, plan.figure.trials), np.nan) for name in VERDICTS}

    def record(running: Cell | None = None) -> StuckRecord:
        arrays = {name: value.copy() for name, value in values.items()}
        return StuckRecord(methods, experts, samples, done.copy(), arrays, running, origin)

    yield record()
    how = {"trials": plan.figure.trials, "seed": plan.figure.seed, **plan.figure.how(), **plan.test}
    for point in sorted(points_of(plan.axes), key=lambda point: cost_of(point["k"], point["samples"])):
        cell = point["algorithm"], point["k"], point["samples"]
        place = methods.index(cell[0]), experts.index(cell[1]), samples.index(cell[2])
        yield record(cell)
        for found in stuck_cells([point], **how):
            if found is None:
                yield record(cell)
                continue
            for name, value in found.items():
                values[name][place] = value[0]
        done[place] = True
        yield record()


def cost_of(k: int, samples: int) -> int:
    """Estimates the relative time of an iteration: proportional to n and to the k (k + 1) / 2 blocks of the Hessian."""
    return samples * k * (k + 1)
