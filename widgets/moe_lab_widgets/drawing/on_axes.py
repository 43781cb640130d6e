"""What Labs draw often, as plain functions on Axes, each for a fraction of the time of matplotlib's own artists.

Functions that furnish: `table`, `note`, `heads`, `percents`, `ramp_key`. Functions that draw a record: `cells`,
`write`, `ends`, `bars`, `image`, `paint`, `signs`, `heads`, `line`, `spans`; each makes artists for one frame. Places
are in data; lengths and shifts are pixels at 100 dpi.
"""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.lines import Line2D
from matplotlib.transforms import ScaledTranslation
from numpy.typing import ArrayLike, NDArray

from moe_lab.drawing import theme
from moe_lab.drawing.scales import percents as percents
from moe_lab_widgets.drawing.ink import glyph
from moe_lab_widgets.drawing.sheet import Painter, Sheet, Strip, integer
from moe_lab_widgets.drawing.tables import fills, key

Box = tuple[float, float, float, float]


def box_of(ax: Axes) -> Box:
    """Returns left, top, width and height of Axes in pixels from the top left of the figure."""
    box, figure = ax.get_position(), ax.get_figure(root=True)
    assert figure is not None
    wide, high = figure.get_size_inches() * theme.BASE_DPI
    return float(box.x0 * wide), float((1 - box.y1) * high), float(box.width * wide), float(box.height * high)


def pixels(ax: Axes, x: ArrayLike, y: ArrayLike) -> NDArray[np.float64]:
    """Returns places (n, 2) of data in pixels from the top left of the figure, the same at any scale."""
    scale = ax.figure.dpi / theme.BASE_DPI
    at = ax.transData.transform(np.column_stack(np.broadcast_arrays(np.atleast_1d(x), np.atleast_1d(y)))) / scale
    return np.column_stack((at[:, 0], ax.figure.bbox.height / scale - at[:, 1])).round(6)


# ---- furniture ----


def table(ax: Axes, rows: Sequence[str], columns: Sequence[str], widest: float = 90, highest: float = 60) -> None:
    """Furnishes Axes for `cells`, with names at the left and no other furniture.

    Args:
      rows, columns: names; a pointer over a cell shows both.
      widest, highest: of a cell; a table of few cells does not fill the Axes.
    """
    _, _, width, height = box_of(ax)
    ax.set(
        xlim=(-0.5, max(len(columns), width / widest) - 0.5),
        ylim=(max(len(rows), height / highest) - 0.5, -0.5),
    )
    ax.set_yticks(range(len(rows)), rows)
    ax.set_xticks([])
    ax.tick_params(length=0)
    ax.spines[:].set_visible(False)
    name_cells(ax, [", ".join(filter(None, (row, column))) for row in rows for column in columns])


def name_cells(ax: Axes, names: Sequence[str]) -> None:
    """Names the cells of Axes for the pointer, row by row."""
    ax.names_of_cells = list(names)  # type: ignore[attr-defined]


def reads(ax: Axes, x: str | None = "", y: str | None = "") -> None:
    """Names the axes that have ticks for the pointer, where their names differ from their labels.

    None leaves an axis out, as where ticks are names of rows, whose places mean nothing.
    """
    for axis, words in (("x", x), ("y", y)):
        if words != "":
            setattr(ax, f"reads_{axis}", words)


def note(ax: Axes, x: float, y: float, words: str, colour: str = theme.MUTED, *, under: bool = False) -> None:
    """Furnishes Axes with small print, pixels right of and below their upper left (or `under`, lower left) corner."""
    ax.annotate(
        words,
        (0, 0 if under else 1),
        (x * 0.72, -y * 0.72),
        xycoords="axes fraction",
        textcoords="offset points",
        color=colour,
        size=theme.SMALL_SIZE,
        va="center",
        annotation_clip=False,
    )


def ramp_key(ax: Axes, most: float, unit: str = "") -> None:
    """Furnishes Axes with the key of the ramp from 0 to `most`, above their right end."""
    left, top, width, _ = box_of(ax)
    right = left + width
    sheet = key(right - 150 - (14 if unit else 0), top - 23, 5, 17, 30, most)
    if unit:
        sheet.write(right, top - 14, unit, "right", colour=theme.MUTED)
    ax.add_artist(sheet)


def heads(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    size: float,
    *,
    right: float = 0,
    down: float = 0,
    edge: float = 0,
    label: str = "",
) -> None:
    """Puts the marks and numbers of experts 1, 2, ... at places in data, moved by pixels.

    Args:
      size: of the marks, in points.
      edge: points of a white edge around them.
      label: what a pointer shows, with {} for the number.
    """
    moved = ax.transData + ScaledTranslation(right / theme.BASE_DPI, -down / theme.BASE_DPI, ax.figure.dpi_scale_trans)
    for number, (across, up) in enumerate(zip(*map(np.atleast_1d, np.broadcast_arrays(x, y)), strict=True)):
        head(ax, number, across, up, size, edge=edge, label=label.format(number + 1), transform=moved)


def head(ax: Axes, expert: int, x: ArrayLike, y: ArrayLike, size: float, edge: float = 0, **common: Any) -> None:
    """Puts the mark and the number of one expert, counted from 0, at one or several places in data."""
    style, common = theme.expert(expert), {"linestyle": "none", "clip_on": False, **common}
    looks: dict[str, Any] = {"color": style.colour, "markeredgecolor": "white", "markeredgewidth": edge}
    line(ax, x, y, marker=style.marker, markersize=size, zorder=6, **looks, **common)
    looks = {"color": style.on, "markeredgewidth": 0}
    line(ax, x, y, marker=glyph(str(expert + 1)), markersize=0.55 * size, zorder=7, **looks, **common)


# ---- a record ----


def cells(
    ax: Axes,
    words: Iterable[str],
    shades: NDArray[np.float64] | None = None,
    *,
    shape: tuple[int, int] | None = None,
    size: float = theme.TEXT_SIZE,
    bold: bool = False,
    names: Sequence[str] = (),
    at: tuple[float, float] = (0, 0),
    framed: Iterable[int] = (),
) -> Artist:
    """Draws a table of cells with a word in each, on Axes furnished by `table`.

    Args:
      words: row by row; "" for none.
      shades: (rows, columns) 0 to 1, NaN as 0; without them cells are transparent and words are dark.
      shape: (rows, columns) where there are no shades.
      size: points; smaller in small cells.
      names: of the cells, for the pointer; those of the table where there are none.
      at: column and row of the first cell.
      framed: numbers of cells with an outline.
    """
    rows, columns = shades.shape if shades is not None else shape or (1, 1)
    across, down = at
    (left, top), (right, bottom) = pixels(ax, [across - 0.5, across + columns - 0.5], [down - 0.5, down + rows - 0.5])
    wide, high = (right - left) / columns, (bottom - top) / rows
    count = rows * columns
    faces, inks = ([0] * count, [integer(theme.INK)] * count) if shades is None else fills(shades)
    sheet = Sheet()
    sheet.add(
        [
            (left + c * wide, top + r * high, left + (c + 1) * wide, top + (r + 1) * high, 0, 0, -1, -1)
            for r in range(rows)
            for c in range(columns)
        ],
        faces,
    )
    size = size if min(wide, 1.6 * high) >= 34 else min(size, theme.SMALL_SIZE)
    sheet.texts = [(word, size, bold, False) for word in words]
    sheet.spots = [(0.0, 0.0, 0.5, cell) for cell in range(count)]
    sheet.inks = inks
    for cell in framed:
        left, top, right, bottom, *_ = sheet.edges[cell]
        sheet.frame(left, top, right, bottom, theme.INK, gap=1)
    return _named(ax, sheet, names or getattr(ax, "names_of_cells", ()))


def write(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    words: Sequence[str],
    colours: str | Sequence[str] | NDArray[Any] = theme.INK,
    *,
    ha: str = "center",
    size: float = theme.TEXT_SIZE,
    bold: bool | Sequence[bool] | NDArray[np.bool_] = False,
    right: ArrayLike = 0,
    down: ArrayLike = 0,
) -> Artist:
    """Writes words at places in data, moved by pixels; colours, moves and `bold` are one for all, or one for each."""
    sheet = Sheet(zorder=4)
    shades = [colours] * len(words) if isinstance(colours, str) else colours
    heavy = [bold] * len(words) if isinstance(bold, bool) else bold
    x, y, right, down = np.broadcast_arrays(x, y, right, down)
    places = pixels(ax, x, y) + np.column_stack((right.ravel(), down.ravel()))
    for (at, high), word, colour, one in zip(places, words, shades, heavy, strict=True):
        sheet.write(at, high, word, ha, size=size, colour=str(colour), bold=bool(one))
    return ax.add_artist(sheet)


def ends(
    ax: Axes, labels: Sequence[tuple[float, str, str]], apart: float = 0.14, size: float = theme.TEXT_SIZE
) -> Artist:
    """Names curves right of the Axes, at the heights at which they end, pushed apart.

    Args:
      labels: (y, words, colour) of each; words may have several lines.
      apart: the least distance, in parts of the Axes' height.
      size: of the words, in points.
    """
    scale = ax.yaxis.get_transform()
    low, high = scale.transform(np.array(ax.get_ylim()))
    heights = (scale.transform(np.array([at for at, _, _ in labels], dtype=float)) - low) / (high - low)
    heights = np.where(np.isfinite(heights), np.clip(heights, 0, 1), np.nan)
    known = heights[np.isfinite(heights)]
    heights = np.where(np.isfinite(heights), heights, known[0] if len(known) else 0.5)
    sheet = Sheet(zorder=4)
    left, top, width, height = box_of(ax)
    for place, (_, words, colour) in zip(theme.spread(heights.tolist(), apart, 0.1, 0.95), labels, strict=True):
        sheet.lines(left + width + 8, top + (1 - place) * height, *words.split("\n"), size=size, colour=colour)
    return ax.add_artist(sheet)


def bars(
    ax: Axes,
    places: ArrayLike,
    lengths: ArrayLike,
    width: ArrayLike,
    colours: str | Sequence[str] | NDArray[Any] = theme.INK,
    *,
    begin: ArrayLike = 0.0,
    across: bool = False,
    hollow: bool = False,
    names: Sequence[str] = (),
) -> Artist:
    """Draws bars: upright ones at x = places, or `across`, lying ones at y = places.

    Args:
      lengths: of each bar, from `begin` on; NaN for none.
      width: in data, one for all, or one for each.
      colours: one for all, or one for each.
      hollow: whether they are outlines.
      names: of each bar, for the pointer.
    """
    given = np.broadcast_arrays(places, lengths, begin, width)
    at, long, start, wide = (np.array(one, dtype=float) for one in given)
    shades = [colours] * len(at) if isinstance(colours, str) else list(map(str, colours))
    fills = [integer(theme.PAPER if hollow else one) for one in shades]
    shown = np.isfinite(long) & (long != 0)
    sides, tips = (at - wide / 2, at + wide / 2), (start, np.where(shown, start + long, start))
    first, last = (pixels(ax, *(pair[::-1] if across else pair)) for pair in zip(sides, tips, strict=True))
    edges = np.concatenate([np.minimum(first, last), np.maximum(first, last), np.zeros((len(at), 4))], axis=1)
    edges[~shown] = 0
    sheet = Sheet(zorder=2.5)
    sheet.add(list(map(tuple, edges.tolist())), np.where(shown, fills, 0).tolist())
    for bar in np.flatnonzero(shown).tolist() if hollow else ():
        left, top, right, bottom = edges[bar, :4].tolist()
        sheet.frame(left, top, right, bottom, shades[bar])
        names = [*names, *[names[bar]] * 4] if names else names
    return _named(ax, sheet, names)


def image(
    ax: Axes,
    x: float,
    y: float,
    shown: NDArray[np.uint8],
    *,
    name: str,
    rows: Sequence[str],
    columns: Sequence[str],
) -> Artist:
    """Puts pixels of the screen (height, width, 4) with their upper left corner at a place in data.

    Args:
      name: what a pointer shows, followed by the names of the row and the column of the pixels that it is in.
    """
    left, top = pixels(ax, x, y)[0]
    strip = Strip(left, top, shown)
    strip.table = name, tuple(rows), tuple(columns)  # type: ignore[attr-defined]
    return ax.add_artist(strip)


def paint(
    ax: Axes, x: ArrayLike, y: ArrayLike, size: tuple[float, float], painter: Painter, given: Sequence[Any]
) -> Artist:
    """Puts painted images with the middle of their upper edges at places in data.

    Args:
      size: width and height of each, in pixels.
      painter: returns the pixels (height, width, 4) of an image, called with one of `given` and with width, height and
        the scale of the picture.
    """
    sheet = Sheet(zorder=2.9)
    for (middle, top), one in zip(pixels(ax, x, y), given, strict=True):
        sheet.image(middle - size[0] / 2, top, middle + size[0] / 2, top + size[1], painter, one)
    return _named(ax, sheet, getattr(ax, "names_of_cells", ()))


def signs(
    ax: Axes,
    x: ArrayLike,
    y: ArrayLike,
    words: Sequence[str],
    sizes: Sequence[float],
    colours: Sequence[str],
    names: Sequence[str],
) -> Artist:
    """Puts signs or short words at places in data, centred.

    Args:
      sizes: of the letters, in points.
      names: what a pointer shows.
    """
    sheet = Sheet(zorder=4)
    for (at, high), word, size, colour in zip(pixels(ax, x, y), words, sizes, colours, strict=True):
        half = 0.4 * max(len(word), 2) * size
        box = sheet.add([(at - half, high - size, at + half, high + size, 0, 0, 0, 0)])
        sheet.label(box, word, size=size, colour=colour, bold=True)
    return _named(ax, sheet, names)


def line(ax: Axes, x: ArrayLike, y: ArrayLike, **style: Any) -> Line2D:
    """Draws a line or marks as `ax.plot` does, in a third of the time: without units, cycles, or a part in limits."""
    made = Line2D(np.atleast_1d(x), np.atleast_1d(y), **{"transform": ax.transData, **style})
    if made.get_clip_on():
        return ax.add_artist(made)  # type: ignore[return-value]
    figure = ax.get_figure(root=True)  # where it needs no clip path: that takes longer than to draw it
    assert figure is not None
    made.axes = ax
    figure.add_artist(made)
    return made


def spans(ax: Axes, rows: ArrayLike, begin: ArrayLike, end: ArrayLike, **style: Any) -> Artist:
    """Draws lying lines at heights `rows`, as `ax.hlines` does in three times the time; style of a LineCollection."""
    at, low, high = np.broadcast_arrays(np.atleast_1d(rows), begin, end)
    lines = np.stack((np.column_stack((low, at)), np.column_stack((high, at))), axis=1)
    return ax.add_collection(LineCollection(list(lines), **style), autolim=False)


def _named(ax: Axes, sheet: Sheet, names: Sequence[str]) -> Artist:
    if names:
        sheet.parts = list(names)  # type: ignore[attr-defined]
    return ax.add_artist(sheet)
