"""Writes lines that only moved since matplotlib drew them: the rest is known, and drawing costs ten times as much."""

from __future__ import annotations

from typing import Any, NamedTuple, Protocol

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from numpy.typing import NDArray

MOST = 128
"""Points of a line from which matplotlib simplifies it."""


class Pen(Protocol):
    """What a Tape writes."""

    def polyline(self, style: int, places: NDArray[np.float64]) -> bool: ...
    def marks(self, style: int, shape: int, where: NDArray[np.float64]) -> None: ...
    def take(self) -> bytes: ...


class Drawn(NamedTuple):
    """An operation that matplotlib's drawing led to.

    Attributes:
      style: its number.
      shape: the number of the marker's shape; None for a line.
      matrix: from data to pixels.
    """

    style: int
    shape: int | None
    matrix: NDArray[np.float64]


class Moved:
    """See the module's text. What was learned holds until the background changes."""

    def __init__(self) -> None:
        self._known: dict[int, tuple[Artist, Any, list[Drawn]]] = {}

    def forget(self) -> None:
        """Lets go of all artists."""
        self._known.clear()

    def learn(self, artist: Artist, drawn: list[Drawn]) -> None:
        """Keeps what the drawing of an artist led to, where its next drawing can do without matplotlib."""
        self._known.pop(id(artist), None)
        if not artist.get_transform().is_affine:
            return
        if type(artist) is Line2D:
            parts = [one.shape is None for one in drawn]
            wanted = [True] * (artist.get_linestyle() != "None") + [False] * (artist.get_marker() not in (None, "None"))
            if parts == wanted and artist.get_drawstyle() == "default" and artist.get_markevery() in (None, [-1]):
                self._known[id(artist)] = artist, _look(artist), drawn
        elif type(artist) is LineCollection:
            paths = artist.get_paths()
            if drawn and len(drawn) == len(paths):
                self._known[id(artist)] = artist, _look_of_all(artist), drawn

    def write(self, artist: Artist, tape: Pen) -> bool:
        """Writes an artist where it looks as it did, and returns whether it could."""
        known = self._known.get(id(artist))
        if known is None:
            return False
        _, look, drawn = known
        if isinstance(artist, Line2D):
            return _look(artist) == look and self._line(artist, drawn, tape)
        assert isinstance(artist, LineCollection)
        return _look_of_all(artist) == look and self._lines(artist, drawn, tape)

    @staticmethod
    def _line(line: Line2D, drawn: list[Drawn], tape: Pen) -> bool:
        points = _points(line)
        for style, shape, matrix in drawn:
            places = points @ matrix[:2, :2].T + matrix[:2, 2]
            if shape is None:
                if not tape.polyline(style, places):
                    tape.take()
                    return False
            else:
                tape.marks(style, shape, places[-1:] if line.get_markevery() else places)
        return True

    @staticmethod
    def _lines(collection: LineCollection, drawn: list[Drawn], tape: Pen) -> bool:
        lines, alike = (
            [np.asarray(path.vertices) for path in collection.get_paths()],
            len({one.style for one in drawn}) == 1,
        )
        if len(lines) != len(drawn) and not alike:
            return False
        if not lines:
            return True
        matrix, ends = drawn[0].matrix, np.cumsum([len(line) for line in lines])
        places = np.concatenate(lines) @ matrix[:2, :2].T + matrix[:2, 2]  # all at once: lines are many and short
        for number, part in enumerate(np.split(places, ends[:-1])):
            if not tape.polyline(drawn[0 if alike else number].style, part):
                tape.take()
                return False
        return True


def _points(line: Line2D) -> NDArray[np.float64]:
    """Returns the points (n, 2) of a line, without the caches that matplotlib fills when it is asked for them."""
    x, y = line.get_data(orig=True)
    if not (type(x) is type(y) is np.ndarray and x.dtype == y.dtype == float and x.shape == y.shape == (len(x),)):
        return np.asarray(line.get_xydata(), dtype=float)
    return np.stack([x, y], axis=1)


def _look(line: Line2D) -> tuple[Any, ...]:
    return (
        line.get_color(),
        line.get_linewidth(),
        line.get_linestyle(),
        line.get_marker(),
        line.get_markersize(),
        line.get_markerfacecolor(),
        line.get_markeredgecolor(),
        line.get_alpha(),
    )


def _look_of_all(collection: LineCollection) -> tuple[Any, ...]:
    widths, colours = np.asarray(collection.get_linewidth()), np.asarray(collection.get_color())
    return widths.tobytes(), colours.tobytes(), collection.get_alpha()
