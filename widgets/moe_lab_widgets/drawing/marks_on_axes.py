"""Draws marks (`moe_lab.drawing.marks`) on the Axes of a panel, and makes panels of functions that return marks."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Sequence
from functools import singledispatch
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray
from torch import Tensor

from moe_lab.core.errors import InputError
from moe_lab.drawing import map_marks, marks, match_marks, patch_marks, plane_marks, theme
from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import Words, say, written
from moe_lab_widgets.drawing import boxes, cell_tables, images, maps, matches, on_axes, planes, strips, swarms, tiles
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.panel import Panel, PanelMarks
from moe_lab_widgets.drawing.styles import INKS, LEVELS, SIDES, SIGNS, STYLES
from moe_lab_widgets.drawing.trials import trials_and_median

Furniture = Callable[[MarkValues], Iterable[Sequence[Mark]]]
"""Returns the marks of each of a panel's Axes that depend on the values of the knobs alone."""
Drawing = Callable[[MarkRecord], Iterable[Sequence[Mark]]]
"""Returns the marks of each of a panel's Axes that show a record."""

FEW = 4
"""Experts up to which numbers stand above their bars."""
ROOMY = (20, 14)
"""The width and height in pixels from which on a cell has room for a number."""


def mark_panel(
    title: str, draw: Drawing, furniture: Furniture, note: Callable[[MarkValues], Words] | str = "", **place: Any
) -> Panel:
    """Returns a panel of functions that return marks, for each of its Axes.

    Args:
      place: the panel's other attributes.
    """
    return Panel(
        title,
        lambda axes, now: draw_marks(axes, draw(MarkRecord(now))),
        lambda axes, values: draw_marks(axes, furniture(MarkValues(values))),
        note if isinstance(note, str) else lambda values: written(note(MarkValues(values))),
        marks=PanelMarks(furniture, draw, note),
        **place,
    )


def sentence(caption: Callable[[MarkRecord], Words]) -> Callable[[Any], str]:
    """Returns a Lab's caption of a function that returns words."""
    said: Any = lambda now: written(caption(MarkRecord(now)))  # noqa: E731 (it gets an attribute)
    said.words = caption
    return said  # type: ignore[no-any-return]


def draw_marks(axes: Axes | list[Axes], lists: Iterable[Sequence[Mark]]) -> None:
    """Draws the marks of each of some Axes."""
    for ax, some in zip(axes if isinstance(axes, list) else [axes], lists, strict=True):
        for mark in some:
            draw_mark(mark, ax)


@singledispatch
def draw_mark(mark: Mark, ax: Axes) -> None:
    """Draws one mark.

    Raises:
      ValueError: it is none of `moe_lab.drawing.marks`.
    """
    raise InputError(f"a panel must be made of marks of moe_lab.drawing.marks: got {type(mark).__name__}")


def _array(values: Tensor | Sequence[Any]) -> NDArray[np.float64]:
    if isinstance(values, Tensor):
        return values.detach().numpy()  # type: ignore[no-any-return]
    return np.array([float(value) for value in values])


def _curve(one: marks.Curves | marks.Lines) -> tuple[NDArray[np.float64], NDArray[np.float64]]:
    """Returns the records that there are."""
    x = _array(one.x)
    known = np.isfinite(x)
    return x[known], _array(one.y)[known]


# ---- furniture ----


@draw_mark.register
def _(one: marks.Scales, ax: Axes) -> None:
    ax.set(xlim=tuple(map(float, one.x)), ylim=tuple(map(float, one.y)))
    for axis, ticks, named in ((ax.xaxis, one.x_ticks, one.x_words), (ax.yaxis, one.y_ticks, one.y_words)):
        places = _array(ticks)
        known = np.isfinite(places)
        places = places[known].tolist()
        if axis.axis_name in one.log:
            ax.set(**{f"{axis.axis_name}scale": "log"})
            axis.set_minor_locator(NullLocator())
        words = (
            [one for one, there in zip(named, known, strict=True) if there] if named else [f"{one:g}" for one in places]
        )
        axis.set_ticks(places, words if axis.axis_name in one.log + one.bare else None)
        if axis.axis_name in one.percent:
            on_axes.percents(axis)
        if axis.axis_name in one.bare:
            axis.set_tick_params(length=0)
            on_axes.reads(ax, **{axis.axis_name: None})
    if one.last_y:
        places = ax.get_yticks()
        ax.set_yticks(places, [*(f"{place:g}" for place in places[:-1]), one.last_y])
        ax.tick_params(axis="y", length=0)
    on_axes.reads(ax, x=one.x_reads, y=one.y_reads)
    if one.x_name:
        usual = -2 if len(one.x_ticks) < 3 else None
        ax.set_xlabel(one.x_name, **_ink(one.x_style), labelpad=usual if one.x_pad is None else one.x_pad)
    if one.y_name:
        ax.set_ylabel(one.y_name, **_ink(one.y_style), labelpad=0)


def _ink(style: str) -> dict[str, Any]:
    return {} if style == "ink" else {"color": INKS[style]}


@draw_mark.register
def _(one: marks.Table, ax: Axes) -> None:
    cell_tables.furnish(one, ax)


@draw_mark.register
def _(one: marks.Level, ax: Axes) -> None:
    looks = {"color": INKS.get(one.style, theme.MUTED), "linewidth": 1.2, "zorder": 1, **LEVELS.get(one.style, {})}
    at, words = float(one.at), written(one.words)
    if np.isnan(at):
        return
    if not words:
        (ax.axvline if one.upright else ax.axhline)(at, **looks)
        return
    maps.bound(ax, at, words)


@draw_mark.register
def _(one: map_marks.ShareTable, ax: Axes) -> None:
    rows = [str(one.first + row) for row in range(round(float(one.rows)))]
    cells = [one.cell.format(row, column) for row in rows for column in one.columns]
    maps.share_map(ax, rows, list(one.columns), cells, one.across, one.up, one.first)
    if np.isfinite(one.key):
        maps.share_key(ax, one.key)


@draw_mark.register
def _(one: patch_marks.TileTable, ax: Axes) -> None:
    experts, patches = (round(float(count)) for count in one.shape)
    tiles.furnish(ax, patches, experts, written(one.title), INKS[one.style])


@draw_mark.register
def _(one: patch_marks.PlaceTable, ax: Axes) -> None:
    experts, patches = (round(float(count)) for count in one.shape)
    boxes.furnish(ax, patches, experts, written(one.title), INKS[one.style])


@draw_mark.register
def _(one: match_marks.MatchTable, ax: Axes) -> None:
    matches.furnish(ax, round(float(one.k)), one.note, one.under)


@draw_mark.register
def _(one: match_marks.Matches, ax: Axes) -> None:
    words = [written(one.head), written(one.progress)]
    parts = _array(one.cosines), _array(one.gates), _array(one.found) > 0
    matches.draw(ax, *parts, one.least, words, INKS[one.style])


@draw_mark.register
def _(one: plane_marks.PlaneAxes, ax: Axes) -> None:
    planes.furnish(ax, one.x_name, one.y_name, one.name)


@draw_mark.register
def _(one: plane_marks.Relief, ax: Axes) -> None:
    planes.relief(ax, _array(one.values))


@draw_mark.register
def _(one: plane_marks.Trail, ax: Axes) -> None:
    planes.trail(ax, _array(one.x), _array(one.y), one.name)


@draw_mark.register
def _(one: marks.Outline, ax: Axes) -> None:
    x, y = _array(one.x), _array(one.y)
    if one.filled:
        ax.fill(x, y, color=theme.CLASSES_TINT[SIDES[one.style]], linewidth=0, zorder=1)
    else:
        looks: dict[str, Any] = {"colors": INKS[one.style], "linewidths": 1, "zorder": 2, "label": one.name}
        ax.add_collection(LineCollection([np.column_stack((x, y))], **looks), autolim=False)


@draw_mark.register
def _(one: marks.Key, ax: Axes) -> None:
    on_axes.ramp_key(ax, float(one.most), one.unit)


@draw_mark.register
def _(one: marks.Title, ax: Axes) -> None:
    low, high = ax.get_xlim()[0], ax.get_ylim()[1]
    looks: dict[str, Any] = {"ha": "left", "size": theme.SMALL_SIZE, "bold": True}
    on_axes.write(ax, low, high, [written(one.words)], right=-one.left, down=-19, **looks)


@draw_mark.register
def _(one: marks.Note, ax: Axes) -> None:
    on_axes.note(ax, one.right, one.down, written(one.words), INKS[one.style], under=one.under)


# ---- a record ----


@draw_mark.register
def _(one: marks.Curves, ax: Axes) -> None:
    style, looks = STYLES[one.style]
    firm = 0 if one.firm else None
    trials_and_median(ax, *_curve(one), style, one.name, firm, linewidth=one.width, **looks)


@draw_mark.register
def _(one: marks.Ends, ax: Axes) -> None:
    heights = _array(one.heights).tolist()
    words = map(written, one.words)
    labels = list(zip(heights, words, [INKS[style] for style in one.styles], strict=True))
    on_axes.ends(ax, labels, apart=one.apart, size=one.size)


@draw_mark.register
def _(one: marks.Lines, ax: Axes) -> None:
    x, y = _curve(one)
    if not len(x):
        return
    things = range(y.shape[1])
    lines = LineCollection(
        [np.column_stack((x, y[:, thing])) for thing in things],
        colors=[theme.expert(thing).colour for thing in things],
        linestyles=["-" if thing % 8 < 4 else (0, (4, 1.5)) for thing in things],
        linewidths=1.7,
        zorder=3,
        label=one.name,
    )
    ax.add_collection(lines, autolim=False)
    if not np.isfinite(y[-1]).all():
        return
    near: dict[int, list[int]] = {}
    for thing in np.argsort(-y[-1], kind="stable").tolist():
        if y[-1, thing] >= one.least:
            near.setdefault(round(y[-1, thing] / one.apart), []).append(thing + 1)
    words = [" ".join(map(str, sorted(group)[: one.most])) + " …" * (len(group) > one.most) for group in near.values()]
    looks: dict[str, Any] = {"ha": "left", "size": theme.SMALL_SIZE, "bold": True, "right": 6}
    on_axes.write(ax, [float(x[-1])] * len(words), [one.apart * place for place in near], words, **looks)


@draw_mark.register
def _(one: marks.Ways, ax: Axes) -> None:
    way = np.stack((_array(one.x), _array(one.y)), axis=2)  # (record, expert, 2)
    way = way[np.isfinite(way).all((1, 2))]
    if not len(way):
        return
    if len(way) > float(one.latest):
        way = way[-round(float(one.latest)) :]
    style: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markevery": [-1], "linewidth": float(one.width)}
    for s in range(way.shape[1]):
        style |= {"color": theme.expert(s).colour, "label": one.of_way.format(s + 1)}
        on_axes.line(ax, *way[:, s].T, zorder=4, **style)
    places = theme.push_apart(way[-1], float(one.apart), rounds=20)
    on_axes.heads(ax, places[:, 0], places[:, 1], float(one.size), edge=1.2, label=one.name)


@draw_mark.register
def _(one: marks.Heads, ax: Axes) -> None:
    on_axes.heads(ax, range(round(float(one.count))), float(one.y), float(one.size), down=one.down)


@draw_mark.register
def _(one: marks.Points, ax: Axes) -> None:
    x, y = _array(one.x), _array(one.y)
    count = round(min(float(one.most), len(x)))
    known = np.isfinite(x[:count]) & np.isfinite(y[:count])
    looks: dict[str, Any] = {"linestyle": "none", "color": INKS[one.style], "label": one.name, "clip_on": False}
    if known.any():
        on_axes.line(ax, x[:count][known], y[:count][known], **looks | dict(SIGNS[one.shape]))


@draw_mark.register
def _(one: marks.Bars, ax: Axes) -> None:
    heights, strong = _array(one.heights), _array(one.strong) > 0
    experts, parts = heights.shape
    sides = [SIDES[style] for style in one.styles]
    colours = np.where(strong, [theme.CLASSES[s] for s in sides], [theme.CLASSES_PALE[s] for s in sides])
    places = np.arange(experts)[:, None] + 0.36 * (np.arange(parts) - (parts - 1) / 2)
    names = [name.format(expert + 1) for expert in range(experts) for name in one.names]
    shown = np.maximum(heights, one.least).ravel()
    on_axes.bars(ax, places.ravel(), shown, 0.34, colours.ravel().tolist(), names=names)


@draw_mark.register
def _(one: patch_marks.Tiles, ax: Axes) -> None:
    ink = None if one.ink is None else _array(one.ink)
    kept = _array(one.kept) > 0
    roles, sides = (_array(part).astype(int) for part in (one.roles, one.sides))
    tiles.draw(ax, kept, one.side, tiles.Faces(tuple(roles), tuple(sides), ink, float(one.grain)))


@draw_mark.register
def _(one: patch_marks.Places, ax: Axes) -> None:
    refused, lost = (_array(part) > 0 for part in (one.refused, one.lost))
    looks = _array(one.roles).astype(int), _array(one.sides).astype(int)
    boxes.draw(ax, one.side, _array(one.weights), refused, lost, looks)


@draw_mark.register
def _(one: marks.Stacks, ax: Axes) -> None:
    full, hollow = _array(one.full), _array(one.hollow)
    things, above = np.arange(len(full)), np.minimum(full + hollow, ax.get_ylim()[1])
    names = [[name.format(thing + 1) for thing in things] for name in one.names]
    colours = [theme.expert(thing).colour for thing in range(len(full))]
    on_axes.bars(ax, things, above - full, 0.7, theme.REFERENCE, begin=full, hollow=True, names=names[1])
    on_axes.bars(ax, things, full, 0.7, colours, names=names[0])
    if len(things) <= FEW:
        counts = [f"{count:.1f}" for count in full + hollow]
        on_axes.write(ax, things, above, counts, theme.MUTED, size=theme.SMALL_SIZE, down=-9)


@draw_mark.register
def _(one: map_marks.Shares, ax: Axes) -> None:
    count, trials = _array(one.ended), round(float(one.trials))
    running = {(row, column): f"{count[row, column]:.0f}/{trials}" for row, column in np.argwhere(_array(one.running))}
    maps.shares(ax, _array(one.share), count / trials, running, _array(one.before), _array(one.enough), one.border)


@draw_mark.register
def _(one: map_marks.Track, ax: Axes) -> None:
    sure = _array(one.sure).astype(bool)
    maps.track(ax, _array(one.x), sure, one.edge, INKS[one.style], (one.name, one.unsure, one.beyond))


@draw_mark.register
def _(one: map_marks.Reaches, ax: Axes) -> None:
    maps.reaches(ax, _array(one.low), _array(one.middle), _array(one.high), (one.name, one.apart))


@draw_mark.register
def _(one: map_marks.Lying, ax: Axes) -> None:
    maps.lying(ax, _array(one.values), one.first, [INKS[style] for style in one.styles], one.names)


@draw_mark.register
def _(one: marks.Cells, ax: Axes) -> None:
    shades, numbers = _array(one.shades), _array(one.numbers)
    wide, high = np.abs(np.subtract(*on_axes.pixels(ax, [1, 0], [1, 0])))
    least = float(one.least) if wide >= ROOMY[0] and high >= ROOMY[1] else np.inf
    words = [
        "" if value < least else written(say(one.forms[place % len(one.forms)], value))
        for row in numbers.tolist()
        for place, value in enumerate(row)
    ]
    on_axes.cells(ax, words, shades, size=one.size)


@draw_mark.register
def _(one: marks.Swarm, ax: Axes) -> None:
    swarms.draw(ax, one, STYLES[one.style][0])


@draw_mark.register
def _(one: marks.Writing, ax: Axes) -> None:
    y = float(one.y)
    if one.each is None:
        looks: dict[str, Any] = {"ha": one.align, "size": one.size, "bold": one.bold}
        on_axes.write(
            ax, float(one.x), y, [written(one.words)], INKS[one.style], right=one.right, down=one.down, **looks
        )
        return
    each = _array(one.each) > 0
    shades = np.where(each, INKS[one.style], INKS["other"])
    places = np.arange(len(each))
    on_axes.write(ax, places, y, cell_tables.names_of("{}", len(each)), shades, size=one.size, bold=each, down=one.down)


for _kind, _drawn in [*strips.DRAWN.items(), *images.DRAWN.items()]:
    draw_mark.register(_kind)(_drawn)
