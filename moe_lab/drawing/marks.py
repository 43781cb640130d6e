"""One vocabulary of pictures: what is drawn of a record, as marks of plain arrays and words. Nothing here draws.

A picture is made by functions that return marks, with operations of torch alone: so that a Lab's panels, a matplotlib
figure and a page without Python draw the same, and a page can repeat the operations. What depends on room (labels that
are pushed apart, numbers left out of small cells) is the renderer's.

Numbers are tensors or plain numbers; a tensor that holds one number may stand for it. NaN is what is not there: a
point, a record to come, a number in a sentence. A style is a name: "model" is the model under study, "other" what it is
compared with, "other 1" to "other 4" where there are several; "ink" and "muted" are text, "failure" thresholds and
failures, "rule" thin rules; "class 1" and "class 2" are the classes of samples.

Furniture, which depends on the values of the knobs alone: `Scales`, `Table`, `Level`, `Key`, `Title`, `Note`. Of a
record: `Curves`, `Ends`, `Lines`, `Ways`, `Cells`, `Bars`, `Stacks`, `Swarm`. Both: `Heads`, `Outline`, `Points`,
`Writing`. Those of patches, maps, planes and pruning are in modules of their own beside this one.

Shapes: R records, T trials; k experts, n patches.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.words import NOTHING, Number, Words


class Mark:
    """A part of a picture."""


# ---- furniture ----


@dataclass(frozen=True)
class Scales(Mark):
    """Limits, ticks and names of a pair of axes.

    Attributes:
      x_ticks, y_ticks: where; those that are NaN are left out.
      x_name, y_name: of the axes.
      x_style, y_style: of their names.
      x_pad: points between the ticks and the name below them, if not the usual ones.
      x_reads, y_reads: what a pointer calls a place along the axis.
      percent: the axes whose ticks are percents, of "xy".
      log: those that are logarithmic.
      bare: those whose numbers have no tick marks.
      last_y: what is written at the last of the y ticks in place of its number.
      x_words, y_words: what is written at each of the ticks in place of its number.
    """

    x: tuple[Number, Number]
    y: tuple[Number, Number]
    x_ticks: Sequence[Number] = ()
    y_ticks: Sequence[Number] = ()
    x_name: str = ""
    y_name: str = ""
    x_style: str = "ink"
    y_style: str = "ink"
    x_pad: float | None = None
    x_reads: str = ""
    y_reads: str = ""
    percent: str = ""
    log: str = ""
    bare: str = ""
    last_y: str = ""
    x_words: Sequence[str] = ()
    y_words: Sequence[str] = ()


@dataclass(frozen=True)
class Table(Mark):
    """Furniture for `Cells`, with names at the left.

    Attributes:
      rows, columns: patterns for the number of each ("expert {}"), or the names.
      shape: how many rows and columns.
      heads: what stands above the columns.
      below: the name of what the columns are, under them; their numbers stand there, too, if `numbered`.
      firm: 1 for each row whose name is bold; by default none is.
      widest, highest: of a cell, in pixels.
    """

    rows: str | Sequence[str]
    columns: str | Sequence[str]
    shape: tuple[Number, Number]
    heads: Sequence[Words] = ()
    below: str = ""
    numbered: bool = False
    firm: Sequence[Number] = ()
    widest: float = 90
    highest: float = 60


@dataclass(frozen=True)
class Level(Mark):
    """A line across at a height: "dashed", "axis", "bound", or in a style; or an `upright` one.

    Attributes:
      at: NaN for no line.
      words: written right of it.
    """

    at: Number
    style: str = "dashed"
    upright: bool = False
    words: Words = NOTHING


@dataclass(frozen=True)
class Outline(Mark):
    """A line through points (P,), or what they surround in the pale colour of a class; its name is for the pointer."""

    x: Float[Tensor, " P"]
    y: Float[Tensor, " P"]
    style: str
    filled: bool = False
    name: str = ""


@dataclass(frozen=True)
class Key(Mark):
    """The shades of `Cells` from 0 to `most`, above the right end of the axes."""

    most: Number
    unit: str = ""


@dataclass(frozen=True)
class Title(Mark):
    """A heading, from pixels left of the axes on."""

    words: Words
    left: float = 0


@dataclass(frozen=True)
class Note(Mark):
    """Small print, pixels right of and below the upper left corner of the axes, or (`under`) the lower left one."""

    words: Words
    right: float
    down: float
    style: str = "muted"
    under: bool = True


# ---- a record ----


@dataclass(frozen=True)
class Curves(Mark):
    """Trials over the records as thin lines, many of them as bands, with their median.

    Attributes:
      x: (R,) steps.
      y: (R, T).
      name: for the pointer.
      width: of the median's line, in points.
      firm: whether the first trial's line is firmer than the others.
    """

    x: Float[Tensor, " R"]
    y: Float[Tensor, "R T"]
    style: str
    name: str
    width: float = 2.6
    firm: bool = True


@dataclass(frozen=True)
class Ends(Mark):
    """Names of curves right of the axes, at the heights at which they end, pushed apart.

    Attributes:
      heights: of each.
      words, styles: of each.
      apart: the least distance, in parts of the axes' height.
      size: of the letters, in points.
    """

    heights: Sequence[Number]
    words: Sequence[Words]
    styles: Sequence[str]
    apart: float = 0.14
    size: float = 10.5


@dataclass(frozen=True)
class Lines(Mark):
    """A line over the records for each of many things, with its number at its end.

    Attributes:
      x: (R,) steps.
      y: (R, things).
      name: of one, for the pointer.
      least: the height from which on a line is numbered.
      apart: the distance of two numbers, in data; those that are nearer stand side by side.
      most: numbers that may stand side by side.
    """

    x: Float[Tensor, " R"]
    y: Float[Tensor, "R things"]
    name: str
    least: float = 0.04
    apart: float = 0.1
    most: int = 2


@dataclass(frozen=True)
class Ways(Mark):
    """The way of each expert over the records, and where it is now: its head, pushed apart from the others.

    Attributes:
      x, y: (R, k).
      latest: how many records of the way are drawn.
      width: of the lines, in points.
      size: of the heads, in points.
      apart: the least distance of two heads, in data.
      name: of an expert's head, for the pointer; `of_way` of its way.
    """

    x: Float[Tensor, "R k"]
    y: Float[Tensor, "R k"]
    latest: Number
    width: Number
    size: Number
    apart: Number
    name: str
    of_way: str


@dataclass(frozen=True)
class Heads(Mark):
    """The heads of experts 1, 2, ... at x = 0, 1, ... and one height, moved down by pixels; sizes in points."""

    count: Number
    y: Number
    size: Number
    down: float = 0


@dataclass(frozen=True)
class Points(Mark):
    """A sign at each of some places (P,), of the first ones where there are more than `most`.

    Attributes:
      shape: "dot", "star", "target" (a star for gold), "ring", "disc", "cross"; "left", "right", "up" or "down", which
        point; "hollow", which points down.
    """

    x: Float[Tensor, " P"]
    y: Float[Tensor, " P"]
    style: str
    shape: str = "dot"
    name: str = ""
    most: Number = torch.inf


@dataclass(frozen=True)
class Bars(Mark):
    """A bar for each part of each expert, side by side at x = 0, 1, ...

    Attributes:
      heights: (k, parts).
      strong: (k, parts) where a bar is in the full colour of its style, else it is pale.
      styles: of the parts.
      names: of the parts, for the pointer; with {} for the expert.
      least: the height of the smallest bar that is drawn, so that a bar of 0 can be seen.
    """

    heights: Float[Tensor, "k parts"]
    strong: Bool[Tensor, "k parts"]
    styles: Sequence[str]
    names: Sequence[str]
    least: float = 0


@dataclass(frozen=True)
class Stacks(Mark):
    """A bar for each expert in its colour at x = 0, 1, ..., and a hollow one on top of it, as far as the axes reach.

    Of few experts the sum stands above.

    Attributes:
      full, hollow: (k,) heights.
      names: of the two parts, for the pointer; with {} for the expert.
    """

    full: Float[Tensor, " k"]
    hollow: Float[Tensor, " k"]
    names: tuple[str, str]


@dataclass(frozen=True)
class Cells(Mark):
    """A table of shaded cells with a number in each, on axes with a `Table`.

    Attributes:
      shades: (rows, columns) from 0 to 1.
      numbers: (rows, columns).
      forms: how numbers are written (see `say`): one form, or one for each column.
      least: numbers below are left out, as are all in cells that are too small.
      size: of the letters, in points.
    """

    shades: Float[Tensor, "rows columns"]
    numbers: Float[Tensor, "rows columns"]
    forms: tuple[str, ...]
    least: Number = -torch.inf
    size: float = 10.5


@dataclass(frozen=True)
class Swarm(Mark):
    """A mark for each trial in a column, of many trials at even ranks; with a bar at their median.

    Marks are moved aside where they would overlap; those below the axes are triangles at their edge.

    Attributes:
      place: of the column, along x.
      values: (T,).
      bad: (T,) which are crosses.
      name: for the pointer.
      reach: half the length of the bar.
    """

    place: float
    values: Float[Tensor, " T"]
    bad: Bool[Tensor, " T"]
    style: str
    name: str
    reach: float = 0.22


@dataclass(frozen=True)
class Writing(Mark):
    """Words at a place in data, moved by pixels; or (`each`) the numbers 1, 2, ... of things at x = 0, 1, ...

    Attributes:
      each: (things,) 1 where a number is bold and in `style`, else it is in the style "other".
    """

    x: Number
    y: Number
    words: Words = NOTHING
    style: str = "ink"
    align: str = "center"
    bold: bool = False
    size: float = 10.5
    right: float = 0
    down: float = 0
    each: Bool[Tensor, " things"] | None = None


# ---- arithmetic ----


def in_order(values: Float[Tensor, "*axes T"]) -> tuple[Float[Tensor, "*axes T"], Tensor]:
    """Returns the trials from the smallest to the largest, those that have diverged last, and how many have not."""
    finite = values.isfinite()
    count = finite.sum(-1, keepdim=True)
    return torch.where(finite, values, torch.inf).sort(-1).values, count


def middle(values: Float[Tensor, "*axes T"]) -> Float[Tensor, "*axes"]:
    """Computes the median over the trials that have not diverged; NaN where none is left."""
    order, count = in_order(values)
    low, high = (
        order.gather(-1, ((count + upper).clamp(min=0) // 2).clamp(max=values.shape[-1] - 1)) for upper in (-1, 0)
    )
    return torch.where(count > 0, (low + high) / 2, torch.nan).squeeze(-1)


def chosen(when: Tensor, number: float, instead: float) -> Tensor:
    """Returns one of two plain numbers, in float64."""
    one, other = (torch.tensor(float(value), dtype=torch.float64) for value in (number, instead))
    return torch.where(when, one, other)


def picked(values: Tensor, place: Tensor, dim: int = 0) -> Tensor:
    """Returns what is at a place of an axis, which a page may move later; NaN elsewhere does no harm."""
    numbers = torch.arange(values.shape[dim]).view(-1, *[1] * (values.ndim - 1 - dim % values.ndim))
    return torch.where(numbers == place, values, 0).sum(dim)


def first_true(which: Bool[Tensor, " things"]) -> Tensor:
    """Returns the number of the first thing that is true, counted from 1."""
    return which.to(torch.float64).argmax() + 1


def parts_of(mark: Any) -> Iterable[tuple[str, Any]]:
    """Yields the attributes of a mark, or of words, by name."""
    return {field.name: getattr(mark, field.name) for field in fields(mark)}.items()
