"""Marks of maps: how often runs succeed over two parameters, and what stands beside the rows of such a map.

Furniture: `ShareTable`. Of a record: `Shares`, and beside it `Track`, `Reaches` and `Lying`. A row stands at the height
of its number, the lowest number at the bottom.

Shapes: R rows, C columns, T trials.
"""

from __future__ import annotations

import math
from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Mark, in_order
from moe_lab.drawing.words import Number

ENOUGH = 0.9
"""The share of runs that must succeed, which a map's line shows."""


@dataclass(frozen=True)
class ShareTable(Mark):
    """Furniture for `Shares`, and a key to its colours.

    Attributes:
      rows: how many.
      columns: their names.
      cell: the name of a cell: a pattern for its row and its column.
      across, up: the names of the axes.
      key: pixels between the map and its key; NaN for no key.
      first: the number of the lowest row.
    """

    rows: Number
    columns: Sequence[str]
    cell: str
    across: str
    up: str
    key: float = math.nan
    first: int = 1


@dataclass(frozen=True)
class Shares(Mark):
    """The cells of a map, and the line from which on enough runs succeed; dashed until all have ended.

    A cell with only some of its runs is drawn smaller than its place.

    Attributes:
      share: (R, C) of the runs that have ended, those that succeed; NaN where none has ended.
      ended: (R, C) runs that have.
      trials: runs of each cell.
      running: (R, C) the cells that run now, in which their count is written.
      before: (R, C) the shares of the map before, pale where this one is not complete; NaN where there are none.
      enough: (R,) the column from which on enough runs succeed (`enough_from`).
      border: the name of the line.
      counted: what is counted, for the pointer: "trainings".
    """

    share: Float[Tensor, "R C"]
    ended: Float[Tensor, "R C"]
    trials: Number
    running: Bool[Tensor, "R C"]
    before: Float[Tensor, "R C"]
    enough: Float[Tensor, " R"]
    border: str
    counted: str


@dataclass(frozen=True)
class Track(Mark):
    """A number for each row, from row 1 on, as points on a line.

    Attributes:
      x: (R,) NaN where there is none; where it is infinite, a triangle stands at `edge`.
      sure: (R,) where it is final; elsewhere points are hollow.
      name: for the pointer; `unsure` of hollow points, `beyond` of triangles.
    """

    x: Float[Tensor, " R"]
    sure: Bool[Tensor, " R"]
    edge: float
    style: str
    name: str
    unsure: str
    beyond: str


@dataclass(frozen=True)
class Reaches(Mark):
    """A bar from 0 for each row, from row 1 on, and a line along it that says how far runs lie apart.

    Attributes:
      low, middle, high: (R,) the ends of the line, and the end of the bar; NaN where there is none.
      name: of the bar, for the pointer; `apart` of the line.
    """

    low: Float[Tensor, " R"]
    middle: Float[Tensor, " R"]
    high: Float[Tensor, " R"]
    name: str
    apart: str


@dataclass(frozen=True)
class Lying(Mark):
    """Bars from 0 along each row of a map, one for each part, the first part above.

    Attributes:
      values: (R, parts) NaN for no bar.
      first: the number of the lowest row.
      styles: of the parts.
      names: of the parts, for the pointer; with {} for the row.
    """

    values: Float[Tensor, "R parts"]
    first: int
    styles: Sequence[str]
    names: Sequence[str]


# ---- arithmetic ----


def numbers_of(rows: Tensor) -> Float[Tensor, " R"]:
    """Returns the numbers of the rows that a tensor (R, ...) has, from 1."""
    return torch.arange(1, len(rows) + 1, dtype=torch.float64)


def rows_beside(rows: Tensor, most: int, first: int = 1) -> dict[str, Any]:
    """Returns how `Scales` beside a map go on with its rows, of which there are at most so many."""
    ticks = [torch.where(rows > row, float(first + row), torch.nan) for row in range(most)]
    return {"y": (first - 0.5, rows + (first - 0.5)), "y_ticks": ticks, "bare": "y"}


def enough_from(share: Float[Tensor, "R C"]) -> Float[Tensor, " R"]:
    """Computes the column from which on at least 90 % succeed, for every row.

    Returns:
      (R,) its number, from 0; C where the last one is not enough, NaN where too little has run.
    """
    known = share.isfinite()
    failing = known & (share < ENOUGH - 1e-9)
    first = (failing * torch.arange(1, share.shape[1] + 1)).amax(1)
    beyond = torch.cat((known, torch.ones_like(known[:, :1])), 1)  # no column is as good as one that has run
    sure = beyond.gather(1, first[:, None])[:, 0] & known.any(1)
    return torch.where(sure, first.to(torch.float64), torch.nan)


def quantile(values: Float[Tensor, "*axes T"], share: float) -> Float[Tensor, "*axes"]:
    """Computes a quantile of the trials that have a number, between two of them in proportion; NaN where none has."""
    order, count = in_order(values)
    place = share * (count - 1).clamp(min=0).to(torch.float64)
    low = place.floor()
    high = torch.minimum(low + 1, (count - 1).clamp(min=0))
    begin, end = (order.gather(-1, at.to(torch.int64)) for at in (low, high))
    between = begin + (place - low) * (end - begin)
    return torch.where(count > 0, between, torch.nan).squeeze(-1)
