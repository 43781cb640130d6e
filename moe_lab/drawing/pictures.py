"""The pictures of a room's Datasets: for each table or figure a page with heads, panels and a caption."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, TypeVar, cast

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.origins import figure_of
from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style

Draw = TypeVar("Draw", bound=Callable[..., None])
Head = tuple[float, str, str]
"""Pixels from the left, a title and a note."""
Box = tuple[float, float, float, float]
"""Pixels from the left and from the top, width and height."""


@dataclass(frozen=True)
class Kind:
    """How the Dataset of a table or figure is shown; the attributes are described at `Pictures.of`."""

    draw: Callable[..., None]
    finding: Callable[[xr.Dataset], str]
    describe: Callable[[xr.Dataset], str]
    heads: Callable[[xr.Dataset], Sequence[Head]]
    boxes: Callable[[xr.Dataset], Sequence[Box]] | None
    height: Callable[[xr.Dataset], int]

    @in_fixed_style
    def onto(self, page: Figure, data: xr.Dataset) -> None:
        """Draws a Dataset on an empty page."""
        heads = list(self.heads(data))
        if len(heads) == 1 and not self.lost(data):  # the finding is the title, and the caption goes on from there
            ((left, title, note),), words = heads, self.describe(data)
            heads = [(left, self.finding(data), f"{title}; {note}" if note else title)]
        else:
            words = self.caption(data)
        for number, (left, title, note) in enumerate(heads, 1):
            theme.header(page, left, number, title, note)
        if self.boxes is None:
            self.draw(data, page)
        else:
            axes = [theme.axes(page, *box) for box in self.boxes(data)]
            self.draw(data, axes if len(axes) > 1 else axes[0])
        theme.caption(page, words)

    def caption(self, data: xr.Dataset) -> str:
        """Says what a Dataset shows and describes it, or says that nothing is left of it."""
        if self.lost(data):
            return "Every trial has diverged, so that there is nothing to see."
        return f"{self.finding(data)}. {self.describe(data)}"

    @staticmethod
    def lost(data: xr.Dataset) -> bool:
        """Whether every trial has diverged."""
        measured = [one for one in data.data_vars.values() if "trial" in one.dims and one.dtype.kind == "f"]
        return bool(measured) and all(bool(one.isnull().all()) for one in measured)


class Pictures:
    """The pictures of a room's Datasets. `caption` and `picture` raise a ValueError for the Dataset of another paper.

    Args:
      papers: their keys.

    Attributes:
      kinds: by table or figure.
    """

    def __init__(self, *papers: str) -> None:
        self.papers = papers
        self.kinds: dict[str, Kind] = {}

    def of(
        self,
        *places: str,
        finding: Callable[[xr.Dataset], str],
        caption: Callable[[xr.Dataset], str],
        heads: Callable[[xr.Dataset], Sequence[Head]],
        boxes: Callable[[xr.Dataset], Sequence[Box]] | None,
        height: int | Callable[[xr.Dataset], int] = 480,
    ) -> Callable[[Draw], Draw]:
        """Makes a function that draws a Dataset onto one Axes or several the picture of tables or figures.

        Args:
          places: the tables and figures.
          finding: says what a Dataset shows in one plain sentence, without its full stop; the title of a page with one
            head, and elsewhere the beginning of its caption.
          caption: describes it in a sentence or two with numbers, for screen readers and print; follows the finding.
          heads: of the page, numbered from 1.
          boxes: where its Axes are; None where the function draws onto the page itself.
          height: of the page in pixels; its width is 1100.
        """

        def declared(draw: Draw) -> Draw:
            draw = cast(Draw, in_fixed_style(draw))
            tall = height if callable(height) else lambda data: height
            kind = Kind(draw, finding, caption, heads, boxes, tall)
            self.kinds.update(dict.fromkeys(places, kind))
            return draw

        return declared

    def including(self, other: Pictures) -> Pictures:
        """Takes in the pictures that another module of the room declares; returns itself."""
        self.kinds.update(other.kinds)
        return self

    def kind_of(self, data: xr.Dataset) -> Kind:
        """Returns how a Dataset is shown."""
        return self.kinds[figure_of(data, self.papers, self.kinds)]

    @checked
    def caption(self, data: xr.Dataset) -> str:
        """Says what a Dataset shows, and describes its picture in a sentence or two with numbers."""
        return self.kind_of(data).caption(data)

    @checked
    def picture(self, data: xr.Dataset, scale: float = 1.0) -> Figure:
        """Draws a Dataset on a page of its own, with heads above and its caption below.

        A scale of 1 has 100 dots per inch; 1.5 suits a projector. `repr(figure)` says what it shows.
        """
        kind = self.kind_of(data)
        page = theme.figure(1100, kind.height(data), scale)
        kind.onto(page, data)
        page.finding = "" if kind.lost(data) else f"{kind.finding(data)}."
        return page


def side_by_side(count: int, left: float, right: float, top: float, height: float, gap: float) -> list[Box]:
    """Boxes of one width between two edges."""
    width = (right - left - gap * (count - 1)) / count
    return [(left + number * (width + gap), top, width, height) for number in range(count)]


def panels_of(axes: Any, count: int) -> list[Axes]:
    """Returns one Axes or an array of them as a list.

    Raises:
      ValueError: there are more or fewer than `count`.
    """
    listed = list(np.atleast_1d(np.asarray(axes, dtype=object)).ravel())
    require(len(listed) == count, f"axes must be {count} Axes", got=len(listed))
    return listed
