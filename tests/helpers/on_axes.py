"""What a picture shows, read off its Axes: lines by what they stand for, stars, words."""

from __future__ import annotations

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.figure import Figure

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Kind, Pictures


def rendered(page: Figure) -> np.ndarray:
    """Really draws, as a figure without pyplot has no renderer of its own: (height, width, 4) pixels."""
    canvas = FigureCanvasAgg(page)
    canvas.draw()
    return np.asarray(canvas.buffer_rgba()).copy()


def drawn(how: Pictures | Kind, data: xr.Dataset) -> list[Axes]:
    """The Axes on which a Dataset was drawn, without a page around them."""
    kind, page = how.kind_of(data) if isinstance(how, Pictures) else how, theme.figure()
    if kind.boxes is None:
        kind.draw(data, page)
    else:
        axes = [page.add_subplot(1, 9, number + 1) for number in range(len(kind.boxes(data)))]
        kind.draw(data, axes if len(axes) > 1 else axes[0])
    rendered(page)
    return page.axes


def lines(axes: Axes, gid: str) -> list[np.ndarray]:
    """(x, y) of the lines that stand for something."""
    found = [line for line in axes.get_lines() if line.get_gid() == gid]
    return [np.array([line.get_xdata(), line.get_ydata()], dtype=float) for line in found]


def stars(axes: Axes) -> list[tuple[float, float]]:
    """Where published values are marked."""
    found = [line for line in axes.get_lines() if line.get_marker() == "*"]
    return [(float(line.get_xdata()[0]), float(line.get_ydata()[0])) for line in found]


def words(axes: Axes, gid: str | None = None) -> list[str]:
    """The texts on the Axes."""
    return [text.get_text().strip() for text in axes.texts if gid is None or text.get_gid() == gid]
