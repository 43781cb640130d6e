"""Marks of experts that are pruned: `Strip` and its furniture, `Series`, `Span`, `Gauges`.

Shapes: k experts, the first half of which vote +; P points.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import NOTHING, Number, Words


@dataclass(frozen=True)
class StripTable(Mark):
    """Furniture for `Strip`: where the changes of the routers are drawn, and the scores below them.

    Attributes:
      experts: how many.
      most: where the axis of the changes ends.
      bound: the change that is drawn as a dashed line.
      name: of the change.
    """

    experts: Number
    most: Number
    bound: Number
    name: str


@dataclass(frozen=True)
class Strip(Mark):
    """Experts side by side: a bar for the change of each one's router, its number, its pattern, and its score.

    Experts that go are thin and grey.

    Attributes:
      change: (k,) as the axis has it.
      scores: (k,) lengths from 0 to 1; NaN where there are none.
      stays: (k,) whether the expert stays.
      pruned: 1 once experts have been chosen.
      carries: (k,) whether it carries the pattern of the class for which it votes.
      lost: (k,) whether it goes although no other carries that pattern.
      notable: the change from which on its number is written, where there is room.
    """

    change: Float[Tensor, " k"]
    scores: Float[Tensor, " k"]
    stays: Bool[Tensor, " k"]
    pruned: Number
    carries: Bool[Tensor, " k"]
    lost: Bool[Tensor, " k"]
    notable: float


@dataclass(frozen=True)
class Series(Mark):
    """A line through points (P,), with a mark at each.

    Attributes:
      style: the style of its colour.
      name: for the pointer.
      words: the rest of the name, which may change with the record.
      shape: of the marks: "dot", "cross", "square", or "" for none.
      dash: "", "dashed" or "dotted".
      width: of the line, in points.
      pinned: whether a pin keeps it.
    """

    x: Float[Tensor, " P"]
    y: Float[Tensor, " P"]
    style: str
    name: str = ""
    words: Words = NOTHING
    shape: str = ""
    dash: str = ""
    width: float = 1.5
    pinned: bool = False


@dataclass(frozen=True)
class Span(Mark):
    """A wide, pale line upwards at a place along x, from the lowest to the highest of some values.

    Attributes:
      aside: how far it is moved to the right, in pixels.
      name: for the pointer.
    """

    x: Number
    low: Number
    high: Number
    style: str
    name: str
    aside: float = 0


@dataclass(frozen=True)
class Gauges(Mark):
    """Shares as rows of blocks, each of which stands for 5 %, with the share above and a note below.

    Attributes:
      titles: of each.
      shares: of each, NaN where unknown.
      words: the shares as they are written.
      notes: on each.
    """

    titles: Sequence[str]
    shares: Sequence[Number]
    words: Sequence[Words]
    notes: Sequence[Words]
