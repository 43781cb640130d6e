"""The map of the course as a picture: which notebook comes after which."""

from __future__ import annotations

from collections.abc import Sequence

from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch

from moe_lab import theme
from moe_lab.registry import NOTEBOOKS, Notebook

_WIDTH, _HEIGHT, _STEP, _ROW = 220, 58, 290, 78


def course_map(notebooks: Sequence[Notebook] = NOTEBOOKS) -> Figure:
    """Draws a box for each notebook, with its minutes, and an arrow to it from the last notebook that it needs."""
    places = _places(notebooks)
    right, rows = max(x for x, _ in places.values()), 1 + max(y for _, y in places.values())
    figure = theme.figure(width=40 + right * _STEP + _WIDTH, height=40 + rows * _ROW)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(-20, 20 + right * _STEP + _WIDTH), ylim=(20 + rows * _ROW, -20))
    page.axis("off")
    for notebook in notebooks:
        left, top = places[notebook.number][0] * _STEP, places[notebook.number][1] * _ROW
        shape = FancyBboxPatch((left, top), _WIDTH, _HEIGHT, boxstyle="round,pad=0,rounding_size=8")
        shape.set(facecolor="white", edgecolor=theme.INK, linewidth=1.2)
        page.add_patch(shape)
        page.text(
            left + 14, top + 23, f"{notebook.number}  {notebook.title}", color=theme.INK, fontsize=11, va="center"
        )
        page.text(left + 14, top + 42, f"{notebook.minutes} minutes", color=theme.MUTED, fontsize=9, va="center")
        if notebook.after:
            x, y = places[notebook.after[-1]]
            start, middle = (x * _STEP + _WIDTH, y * _ROW + _HEIGHT / 2), left - (_STEP - _WIDTH) / 2
            end = (left - 3, top + _HEIGHT / 2)
            page.plot(
                [start[0], middle, middle, end[0] - 6], [start[1], start[1], end[1], end[1]], color=theme.INK, lw=1.2
            )
            page.plot(end[0] - 4, end[1], marker=">", color=theme.INK, markersize=6)
    return figure


def _places(notebooks: Sequence[Notebook]) -> dict[str, tuple[int, int]]:
    """Column and row by number: right of the notebook that it follows, in its row while that is free."""
    places: dict[str, tuple[int, int]] = {}
    for notebook in notebooks:
        column, row = 0, 0
        if notebook.after:
            column, row = places[notebook.after[-1]][0] + 1, places[notebook.after[-1]][1]
        while (column, row) in places.values():
            row += 1
        places[notebook.number] = column, row
    return places
