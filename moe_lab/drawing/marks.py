"""One vocabulary of pictures: what is drawn of a record, as marks of plain arrays and words. Nothing here draws.

A picture is made by functions that return marks, with operations of torch alone: so that a Lab's panels, a matplotlib
figure and a page without Python draw the same, and a page can repeat the operations. What depends on room (labels that
are pushed apart, numbers left out of small cells) is the renderer's.

Numbers are tensors or plain numbers; a tensor that holds one number may stand for it. NaN is what is not there: a
point, a record to come, a number in a sentence. A style is a name: "model" is the model under study, "other" what it is
compared with; "ink" and "muted" are text, "failure" thresholds and failures, "rule" thin rules.

Furniture, which depends on the values of the knobs alone: `Scales`, `Table`, `Level`, `Key`, `Title`, `Note`. Of a
record: `Curves`, `Ends`, `Lines`, `Cells`, `Swarm`. Both: `Writing`.

Shapes: R records, T trials.
"""

from __future__ import annotations

import re
from collections.abc import Iterable, Sequence
from dataclasses import dataclass, fields
from typing import Any

import torch
from jaxtyping import Bool, Float
from torch import Tensor

Number = Tensor | float
"""A number, or a tensor that holds one."""

_NUMBER = re.compile(r"\{:(,?)\.(\d)([f%s])\}")


class Mark:
    """A part of a picture."""


# ---- words ----


@dataclass(frozen=True)
class Words:
    """Text in which numbers are written (see `say`)."""

    text: str
    numbers: tuple[Number, ...] = ()
    when: Number | None = None
    instead: Words | None = None
    then: Words | None = None

    def __add__(self, more: Words) -> Words:
        """Returns the words followed by others."""
        return Words(**{**_fields(self), "then": more if self.then is None else self.then + more})


def say(text: str, *numbers: Number, when: Number | None = None, instead: Words | None = None) -> Words:
    """Returns words with numbers in them.

    Args:
      text: with `{:.1f}` (digits after the point), `{:.0%}` (percent), `{:.1s}` (digits only below ten) or `{:,.0f}`
        (thousands apart) for each number; one that is NaN becomes a dash.
      when: 0 where the text is not said.
      instead: what is said there; nothing by default.
    """
    return Words(text, numbers, when, instead)


def written(words: Words | None) -> str:
    """Returns words as text."""
    if words is None:
        return ""
    if words.when is not None and not float(words.when):
        text = written(words.instead)
    else:
        numbers = iter(words.numbers)
        text = _NUMBER.sub(lambda found: number(float(next(numbers)), *found.groups()), words.text)
    return text + written(words.then)


def number(value: float, comma: str = "", digits: str = "0", kind: str = "f") -> str:
    """Returns a number in one of the forms of `say`."""
    if value != value or abs(value) == float("inf"):
        return "–"
    if kind == "s":
        return f"{value:.{digits if abs(value) < 10 - 0.5 / 10 ** int(digits) else 0}f}"
    return f"{100 * value:.{digits}f} %" if kind == "%" else f"{value:{comma}.{digits}f}"


# ---- furniture ----


@dataclass(frozen=True)
class Scales(Mark):
    """Limits, ticks and names of a pair of axes.

    Attributes:
      x_ticks, y_ticks: where; those that are NaN are left out.
      x_name: below the axis.
      x_reads, y_reads: what a pointer calls a place along the axis.
      percent: the axes whose ticks are percents, of "xy".
      last_y: what is written at the last of the y ticks in place of its number.
    """

    x: tuple[Number, Number]
    y: tuple[Number, Number]
    x_ticks: Sequence[Number] = ()
    y_ticks: Sequence[Number] = ()
    x_name: str = ""
    x_reads: str = ""
    y_reads: str = ""
    percent: str = ""
    last_y: str = ""


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
    """A line across at a height: "dashed", or in a style."""

    at: Number
    style: str = "dashed"


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
    """

    x: Float[Tensor, " R"]
    y: Float[Tensor, "R T"]
    style: str
    name: str
    width: float = 2.6


@dataclass(frozen=True)
class Ends(Mark):
    """Names of curves right of the axes, at the heights at which they end, pushed apart.

    Attributes:
      heights: of each.
      words, styles: of each.
      apart: the least distance, in parts of the axes' height.
    """

    heights: Sequence[Number]
    words: Sequence[Words]
    styles: Sequence[str]
    apart: float = 0.14


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
    words: Words = Words("")
    style: str = "ink"
    align: str = "center"
    bold: bool = False
    size: float = 10.5
    right: float = 0
    down: float = 0
    each: Bool[Tensor, " things"] | None = None


# ---- arithmetic ----


def middle(values: Float[Tensor, "*axes T"]) -> Float[Tensor, "*axes"]:
    """Computes the median over the trials that have not diverged; NaN where none is left."""
    finite = values.isfinite()
    count = finite.sum(-1, keepdim=True)
    order = torch.where(finite, values, torch.inf).sort(-1).values
    low, high = (
        order.gather(-1, ((count + upper).clamp(min=0) // 2).clamp(max=values.shape[-1] - 1)) for upper in (-1, 0)
    )
    return torch.where(count > 0, (low + high) / 2, torch.nan).squeeze(-1)


def first_true(which: Bool[Tensor, " things"]) -> Tensor:
    """Returns the number of the first thing that is true, counted from 1."""
    return which.to(torch.float64).argmax() + 1


def parts_of(mark: Any) -> Iterable[tuple[str, Any]]:
    """Yields the attributes of a mark, or of words, by name."""
    return _fields(mark).items()


def _fields(one: Any) -> dict[str, Any]:
    return {field.name: getattr(one, field.name) for field in fields(one)}
