"""Names of lines: each once, beside its own line where it differs from the others, and none on another."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.axes import Axes
from matplotlib.backends.backend_agg import FigureCanvasAgg
from matplotlib.text import Text

from moe_lab.drawing import theme
from moe_lab.drawing.line_names import Line, name_lines

X = np.linspace(0, 0.9, 10)
STEADY = Line(X, np.ones(10), "steady", theme.INK)


def falling(start: float, name: str) -> Line:
    """A line at 1 that falls to .5 within a tenth after `start`."""
    return Line(X, np.interp(X, [start, start + 0.1], [1, 0.5]), name, theme.REFERENCE)


def named(*lines: Line) -> tuple[Axes, dict[str, Text]]:
    """The Axes on which lines are drawn, and their names."""
    page = theme.figure()
    axes = theme.axes(page, 60, 80, 212, 292, xlim=(-0.02, 0.93), ylim=(0.4, 1.02))
    for line in lines:
        axes.plot(line.x, line.y)
    texts = {text.get_text().strip(): text for text in name_lines(axes, lines)}
    FigureCanvasAgg(page).draw()
    return axes, texts


def distance(axes: Axes, text: Text, line: Line) -> float:
    """How far the middle of a name is from a line, in pixels."""
    fine = np.linspace(line.x[0], line.x[-1], 5000)
    points = axes.transData.transform(np.column_stack((fine, np.interp(fine, line.x, line.y))))
    box = text.get_window_extent()
    middle = np.array([(box.x0 + box.x1) / 2, (box.y0 + box.y1) / 2])
    return float(np.hypot(*(points - middle).T).min())


def test_lines_that_end_together_are_named_where_they_fall() -> None:
    lines = [falling(0.1, "first"), falling(0.2, "second"), falling(0.4, "third"), falling(0.6, "last")]
    axes, texts = named(*lines, STEADY)
    assert sorted(texts) == ["first", "last", "second", "steady", "third"]
    for line in lines:
        near = {other.name: distance(axes, texts[line.name], other) for other in lines}
        assert min(near, key=near.__getitem__) == line.name and near[line.name] < 15, near
    heights = [
        axes.transData.inverted().transform(text.get_window_extent().get_points())[:, 1] for text in texts.values()
    ]
    assert all(low > 0.5 for (low, _), name in zip(heights, texts, strict=True) if name != "steady")


def test_names_of_equal_lines_do_not_cover_each_other() -> None:
    _, texts = named(falling(0.3, "one"), falling(0.3, "other"), falling(0.3, "third"))
    boxes = [text.get_window_extent() for text in texts.values()]
    assert not any(a.overlaps(b) for i, a in enumerate(boxes) for b in boxes[:i])


def test_a_line_that_stays_is_named_at_its_end() -> None:
    slow = Line(X, 1 - 0.1 * X, "slow", theme.REFERENCE)
    axes, texts = named(STEADY, slow)
    right = axes.get_window_extent().x1
    assert all(text.get_window_extent().x0 > right and text.get_rotation() == 0 for text in texts.values())


@pytest.mark.parametrize("values", [np.full(10, np.nan), np.r_[1.0, 0.5, np.full(8, np.nan)]])
def test_lines_with_values_that_are_not_finite_can_be_named(values: np.ndarray) -> None:
    _, texts = named(STEADY, Line(X, values, "lost", theme.REFERENCE))
    assert set(texts) == ({"steady"} if np.isnan(values).all() else {"steady", "lost"})
