"""The map of the course as a picture: a band for each theme, and an arrow from A to B where A comes before B."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from dataclasses import dataclass
from typing import Any, NamedTuple

from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch
from matplotlib.textpath import TextPath

from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style
from moe_lab.registry import NOTEBOOKS, THEMES, Notebook

# Pixels.
_HIGH, _ROW = 40, 46
"""The height of a box, and the distance of rows."""
_GAP, _LANE, _PORT = 60, 14, 9
"""Between columns; between arrows that come down side by side; between the points at which arrows enter a box."""
_LABEL, _EDGE, _PAD = 126, 12, 8
"""The width of a theme's name; the margin of the page; the margin within a band, in a box, and between bands."""
_TITLE_SIZE = 11


class Place(NamedTuple):
    """Where a notebook stands: a column, counted in its theme, and a row, counted from the top of the map."""

    column: int
    row: int


@dataclass(frozen=True)
class Arrow:
    """From a notebook to one that needs it.

    Attributes:
      before, after: their numbers.
      corners: of its line, (x, y) in pixels from the top left.
    """

    before: str
    after: str
    corners: tuple[tuple[float, float], ...]


def direct_needs(notebooks: Sequence[Notebook]) -> dict[str, tuple[str, ...]]:
    """Returns what each notebook needs, by number, without what another of its needs needs already."""
    needs = {notebook.number: notebook.after for notebook in notebooks}

    def every(number: str) -> set[str]:
        return {earlier for one in needs[number] for earlier in ({one} | every(one))}

    return {
        number: tuple(one for one in after if not any(one in every(other) for other in after))
        for number, after in needs.items()
    }


class Layout:
    """Where the boxes, bands and arrows of a map stand.

    A notebook stands right of those of its theme that it needs, in the first row that is free as far as arrows run to
    it. An arrow within a theme turns between two columns; one from another theme comes down at the left of the boxes.
    Arrows from one notebook share a line; arrows from two never do.

    Attributes:
      places: by number.
      bands: (theme, first row, number of rows).
      arrows: one for each of `direct_needs`.
      wide: the width of a box, in which every title fits.
      width, height: of the page.
    """

    def __init__(self, notebooks: Sequence[Notebook]) -> None:
        self._theme = {notebook.number: notebook.theme for notebook in notebooks}
        self._needs = direct_needs(notebooks)
        pairs = [(one, number) for number, after in self._needs.items() for one in after]
        self._lanes = list(dict.fromkeys(one for one, number in pairs if self._crosses(one, number)))
        self.wide = 2 * _PAD + max(_length(_title(notebook)) for notebook in notebooks)
        self.places: dict[str, Place] = {}
        self.bands: list[tuple[str, int, int]] = []
        self._taken: set[Place] = set()
        rows = 0
        for name in THEMES:
            members = [notebook.number for notebook in notebooks if notebook.theme == name]
            for number in members:
                self.places[number] = self._place(number, rows)
            if members:
                self.bands.append((name, rows, 1 + max(self.places[number].row for number in members) - rows))
                rows += self.bands[-1][2]
        self.width = self._left(1 + max(place.column for place in self.places.values())) - _GAP + _PAD + _EDGE
        self.height = self._top(rows - 1) + _HIGH + _PAD + _EDGE
        self.arrows = tuple(Arrow(one, number, tuple(self._corners(one, number))) for one, number in pairs)

    def box(self, number: str) -> tuple[float, float, float, float]:
        """Returns left, top, width and height of a notebook's box."""
        place = self.places[number]
        return self._left(place.column), self._top(place.row), self.wide, _HIGH

    def band(self, first: int, rows: int) -> tuple[float, float, float, float]:
        """Returns left, top, width and height of a band."""
        top = self._top(first) - _PAD
        return _EDGE, top, self.width - 2 * _EDGE, self._top(first + rows - 1) + _HIGH + _PAD - top

    def _crosses(self, before: str, number: str) -> bool:
        """Whether an arrow leads from one theme to another."""
        return self._theme[before] != self._theme[number]

    def _place(self, number: str, first: int) -> Place:
        """Finds a free place, and takes it together with what arrows to it run across."""
        inside = [self.places[one] for one in self._needs[number] if not self._crosses(one, number)]
        column = 1 + max((place.column for place in inside), default=-1)
        start = 0 if len(inside) < len(self._needs[number]) else 1 + min((place.column for place in inside), default=-1)
        row = max((place.row for place in inside), default=first)
        while self._taken & (across := {Place(other, row) for other in range(start, column + 1)}):
            row += 1
        self._taken |= across
        return Place(column, row)

    def _left(self, column: int) -> float:
        return _EDGE + _PAD + _LABEL + _LANE * (1 + len(self._lanes)) + column * (self.wide + _GAP)

    def _top(self, row: int) -> float:
        band = sum(first <= row for _, first, _ in self.bands) - 1
        return _EDGE + _PAD + row * _ROW + 2 * _PAD * band

    def _corners(self, before: str, number: str) -> Iterator[tuple[float, float]]:
        left, top, wide, high = self.box(before)
        end, level, *_ = self.box(number)
        needs = self._needs[number]
        level += high / 2 + _PORT * (needs.index(before) - (len(needs) - 1) / 2)
        if self._crosses(before, number):
            lane = self._lanes.index(before)
            turn = self._left(0) - _LANE * (1.5 + lane)
            below = top + high + (_ROW - high) * (1 + lane) / (1 + len(self._lanes))
            yield from ((left + wide / 2, top + high), (left + wide / 2, below), (turn, below))
        else:
            beside = self._beside(before)
            turn = left + wide + (_GAP - _PAD) * (1 + beside.index(before)) / (1 + len(beside))
            yield from ((left + wide, top + high / 2), (turn, top + high / 2))
        yield from ((turn, level), (end, level))

    def _beside(self, before: str) -> list[str]:
        """The notebooks of one theme and column from which arrows lead on within the theme."""
        column, name = self.places[before].column, self._theme[before]
        inside = {one for number, after in self._needs.items() for one in after if not self._crosses(one, number)}
        return [
            one
            for one in self.places
            if one in inside and (self.places[one].column, self._theme[one]) == (column, name)
        ]


@in_fixed_style
def course_map(notebooks: Sequence[Notebook] = NOTEBOOKS) -> Figure:
    """Draws a band for each theme, a box for each notebook, and an arrow to it from each that it directly needs."""
    layout = Layout(notebooks)
    figure = theme.figure(width=round(layout.width), height=round(layout.height))
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, layout.width), ylim=(layout.height, 0))
    page.axis("off")
    for name, first, rows in layout.bands:
        left, top, wide, high = layout.band(first, rows)
        _rectangle(page, (left, top, wide, high), facecolor=theme.BACKGROUND, alpha=0.5, gid=name)
        words = name.replace(" and ", "\nand ")
        page.text(left + _PAD, top + high / 2, words, color=theme.INK, fontsize=_TITLE_SIZE, va="center", gid=name)
    for arrow in layout.arrows:
        *line, (end, level) = arrow.corners
        page.plot(*zip(*line, (end - 6, level), strict=True), color=theme.INK, lw=1.2)
        page.plot(end - 4, level, marker=">", color=theme.INK, markersize=6)
    for notebook in notebooks:
        left, top, wide, high = layout.box(notebook.number)
        look: dict[str, Any] = {"facecolor": "white", "edgecolor": theme.INK, "linewidth": 1.2}
        _rectangle(page, (left, top, wide, high), **look, gid=notebook.number)
        written: dict[str, Any] = {"x": left + _PAD, "va": "center", "gid": notebook.number}
        page.text(y=top + 15, s=_title(notebook), color=theme.INK, fontsize=_TITLE_SIZE, **written)
        minutes = f"{notebook.minutes} minutes"
        page.text(y=top + 31, s=minutes, color=theme.MUTED, fontsize=theme.SMALL_SIZE, **written)
    return figure


def _rectangle(page: Axes, box: tuple[float, float, float, float], **look: Any) -> None:
    left, top, wide, high = box
    shape = FancyBboxPatch((left, top), wide, high, boxstyle="round,pad=0,rounding_size=7", **{"linewidth": 0, **look})
    page.add_patch(shape)


def _title(notebook: Notebook) -> str:
    return f"{notebook.number}  {notebook.title}"


def _length(words: str) -> float:
    """The pixels that words take as a title."""
    return float(TextPath((0, 0), words, size=_TITLE_SIZE).get_extents().x1) * theme.BASE_DPI / 72
