"""What the pictures of all papers share: a page with heads, panels and a caption, and marks for trials."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.figure import Figure

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.core.origins import figure_of
from moe_lab.drawing import theme


@dataclass(frozen=True)
class Kind:
    """How the Dataset of a table or figure is shown.

    Attributes:
      caption: describes the Dataset in a sentence or two.
      draw: draws the Dataset onto what `lay_out` returns.
      lay_out: puts heads and empty Axes for the Dataset on a page.
      height: of the page in pixels, or a function of the Dataset that returns it.
    """

    caption: Callable[[xr.Dataset], str]
    draw: Callable[[xr.Dataset, Any], None]
    lay_out: Callable[[xr.Dataset, Figure], Any]
    height: int | Callable[[xr.Dataset], int] = 480


@dataclass(frozen=True)
class Pictures:
    """The pictures of a paper's Datasets. All methods raise a ValueError for the Dataset of another paper."""

    paper: str  # its key
    kinds: Mapping[str, Kind]  # by table or figure

    def kind_of(self, data: xr.Dataset) -> Kind:
        return self.kinds[figure_of(data, self.paper, self.kinds)]

    @checked
    def caption(self, data: xr.Dataset) -> str:
        """Describes the picture of a Dataset in a sentence or two with numbers."""
        return self.kind_of(data).caption(data)

    @checked
    def picture(self, data: xr.Dataset, scale: float = 1.0) -> Figure:
        """Draws a Dataset on a page of its own, with heads above and its caption below.

        A scale of 1 has 100 dots per inch; 1.5 suits a projector.
        """
        kind = self.kind_of(data)
        page = theme.figure(1100, kind.height if isinstance(kind.height, int) else kind.height(data), scale)
        kind.draw(data, kind.lay_out(data, page))
        theme.caption(page, kind.caption(data))
        return page


def heads(page: Figure, *each: tuple[float, str, str]) -> None:
    """Numbered heads: (pixels from the left, title, note) of each."""
    for number, (left, title, note) in enumerate(each, 1):
        theme.header(page, left, number, title, note)


def row(page: Figure, count: int, left: float, right: float, top: float, height: float, gap: float) -> list[Axes]:
    """Axes side by side, all of one width, between two edges; in pixels."""
    width = (right - left - gap * (count - 1)) / count
    return [theme.axes(page, left + number * (width + gap), top, width, height) for number in range(count)]


def panels_of(axes: Any, count: int) -> list[Axes]:
    """One Axes or an array of them as a list.

    Raises:
      ValueError: there are more or fewer than `count`.
    """
    listed = list(np.atleast_1d(np.asarray(axes, dtype=object)).ravel())
    require(len(listed) == count, f"axes must be {count} Axes", got=len(listed))
    return listed


def title(axes: Axes, words: str) -> None:
    """A small bold title at the left."""
    axes.set_title(words, loc="left", size=theme.TEXT_SIZE, color=theme.INK, weight="bold")


def measured(
    axes: Axes, x: float, values: np.ndarray, style: theme.Style, vertical: bool = True, reach: float = 0.1
) -> float:
    """Draws a small mark for each trial and a thick bar at their median.

    Args:
      x: the place of the column, or of the row if not vertical.
      reach: half the length of the bar.

    Returns:
      The median; NaN if no value is finite.
    """
    finite = np.sort(values[np.isfinite(values)])
    if not len(finite):
        return float("nan")
    aside = x + 0.05 * np.resize([-1, 1, 0], len(finite)) * (len(finite) > 1)
    across, up = (aside, finite) if vertical else (finite, aside)
    face = style.colour if style.marker in "os" else theme.PAPER
    mark: dict[str, Any] = {"marker": style.marker, "linestyle": "none", "markersize": 5, "markerfacecolor": face}
    axes.plot(across, up, **mark, markeredgecolor=style.colour, alpha=0.6, zorder=3, gid="trials")
    middle = float(np.median(finite))
    bar = ([x - reach, x + reach], [middle, middle])
    (line,) = axes.plot(*(bar if vertical else bar[::-1]), color=style.colour, linewidth=3.2, zorder=4, gid="median")
    line.set_solid_capstyle("butt")
    return middle


def star(axes: Axes, x: float, value: float, spread: float, colour: str = theme.INK, vertical: bool = True) -> None:
    """Draws a published value as an open star, with its standard deviation unless that is NaN."""
    if not np.isfinite(value):
        return
    if np.isfinite(spread):
        bar = ([x, x], [value - spread, value + spread])
        axes.plot(*(bar if vertical else bar[::-1]), color=colour, linewidth=1.3, zorder=4, gid="spread")
    edge: dict[str, Any] = {"markerfacecolor": theme.PAPER, "markeredgecolor": colour, "markeredgewidth": 1.3}
    where = ([x], [value]) if vertical else ([value], [x])
    axes.plot(*where, marker="*", markersize=12, linestyle="none", zorder=5, gid="paper", **edge)


def trials(axes: Axes, curves: xr.DataArray, along: str, style: theme.Style) -> float:
    """Draws a thin line for each trial and a thick median; returns the last finite median, NaN if there is none."""
    across = curves.transpose(along, "trial")
    steps, median = across[along].values, across.median("trial").values
    line: dict[str, Any] = {"color": style.colour, "linestyle": style.line}
    axes.plot(steps, across.values, **line, linewidth=0.8, alpha=0.55, zorder=2, gid="trials")
    axes.plot(steps, median, **line, linewidth=2.8, zorder=3, gid="median")
    known = median[np.isfinite(median)]
    return float(known[-1]) if len(known) else float("nan")
