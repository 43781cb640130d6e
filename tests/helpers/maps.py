"""Maps of Labs made from arrays."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np

from moe_lab.core.grid import Point, Table


def map_of(
    axes: dict[str, Sequence[Any]], done: np.ndarray | None = None, running: Iterable[Point] = (), **values: np.ndarray
) -> Table:
    """Returns a map with values (axes..., trial), NaN where nothing has ended, and (axes...) the points that have run.

    Unless it is said which have run, it is those where all trials have a value.
    """
    trials = next(iter(values.values())).shape[-1]
    table = Table({name: list(labels) for name, labels in axes.items()}, trials, {}, {}, {}, {})
    table.values = {name: value.reshape(-1, trials) for name, value in values.items()}
    table.done = table.ended.all(-1) if done is None else done.reshape(-1)
    table.running = list(running)
    return table
