"""The picture of a routing table says what the table says."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from moe_lab.drawing import theme
from moe_lab.drawing.routing_plots import gate_table


@pytest.fixture
def axes():
    return theme.axes(theme.figure(400, 300), 10, 10, 380, 280)


def texts(axes):
    return [text.get_text() for text in axes.texts]


def test_cells_and_margins_count_what_is_routed(axes):
    gate_table(axes, [[0.75, 0.25, 0, 0], [0, 1, 0, 0]], "expert-choice")
    framed = [box for box in axes.patches if isinstance(box, Rectangle) and box.get_linewidth() == 2]
    assert len(axes.patches) == 8 and len(framed) == 3
    assert {"0.75", "0.25", "1.00", "2 patches", "1 patch", "to 1", "to 2"} <= set(texts(axes))
    assert texts(axes).count("× dropped") == 2
    assert axes.get_title(loc="left") == "expert-choice"


def test_a_gate_above_one_is_drawn(axes):
    gate_table(axes, [[2.08, 1.04]])
    assert "2.08" in texts(axes)


@pytest.mark.parametrize("gates", [[0.5, 0.5], np.zeros((0, 3)), [[np.nan, 1.0]]])
def test_what_is_not_a_table_is_refused(axes, gates):
    with pytest.raises(ValueError, match="gates must"):
        gate_table(axes, gates)
