"""The picture of a mixture of experts shows what the router of the library does."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.patches import Rectangle

from moe_lab.drawing.mixture_picture import mixture_diagram


@pytest.mark.parametrize("kept", [1, 2, 3])
def test_each_expert_gets_its_highest_bars_and_gates_that_sum_to_one(kept: int) -> None:
    page = mixture_diagram(patches_per_expert=kept).axes[0]
    words = [text.get_text() for text in page.texts]
    gates = [float(word.removeprefix("× ")) for word in words if word.startswith("×")]
    assert np.reshape(gates, (2, kept)).sum(1) == pytest.approx([1, 1], abs=0.01 * kept)
    assert len(page.images) == 8 + 2 * kept
    lanes: dict[int, list[tuple[float, tuple[float, ...]]]] = {}
    for bar in page.patches:
        if isinstance(bar, Rectangle) and bar.get_facecolor()[3]:
            lanes.setdefault(round(bar.get_y() + bar.get_height()), []).append((bar.get_height(), bar.get_facecolor()))
    assert [len(lane) for lane in lanes.values()] == [8, 8]
    for lane in lanes.values():
        colours = [colour for _, colour in sorted(lane, reverse=True)]
        assert len(set(colours[:kept])) == len(set(colours[kept:])) == 1 and colours[0] != colours[-1]


def test_a_sample_has_no_more_patches_than_it_has() -> None:
    with pytest.raises(ValueError, match=r"from 1 to the 8 patches shown: got patches_per_expert=9"):
        mixture_diagram(patches_per_expert=9)
