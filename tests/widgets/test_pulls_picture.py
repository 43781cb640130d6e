"""The picture of pulls: arrows are what `router_pulls` returns, and words say what they cannot."""

from __future__ import annotations

import numpy as np
import pytest
import xarray as xr
from matplotlib.figure import Figure
from matplotlib.patches import Polygon

from moe_lab.drawing import theme
from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.patch_routing.pulls import PATTERNS, router_pulls
from moe_lab_widgets import pulls

WORDS = (
    *("patches of o₁", "patches of o₂", "d₁: distractors of o₁", "d₂: distractors of o₂"),
    *("other patches", "all together: −∂L/∂w"),
)
TASK = PatternTask(patches=7, dimension=8, pattern_sets=12, distractors=3, noise=0.1, delta_d=0.3)
MODEL = JointMoE(neurons=12, experts=3, patches_per_expert=4, batch_size=10, learning_rate=0.7)


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    return router_pulls(MODEL, TASK, samples=10, steps=3, trial=2, seed=3)


def drawn(data: xr.Dataset, step: int) -> Figure:
    """The Axes of all experts, as `play` furnishes and draws them."""
    page, prepared = theme.figure(1100, 480), pulls.prepared(data)
    wide = 1100 / len(prepared.experts)
    for column in range(len(prepared.experts)):
        boxes = [(wide * column + 58, top, wide - 111, height) for top, height in ((78, 240), (348, 76))]
        axes = [theme.axes(page, *box) for box in boxes]
        pulls.furnish(axes, prepared, column)
        pulls.draw(axes, prepared, column, step)
    return page


def arrows(data: xr.Dataset, step: int) -> dict[tuple[int, str], Polygon]:
    """The arrows that are drawn of a step, by expert and label."""
    page = drawn(data, step)
    planes = page.axes[::2]
    return {
        (column, str(one.get_label())): one
        for column, plane in enumerate(planes)
        for one in plane.patches
        if isinstance(one, Polygon) and str(one.get_label()).startswith("pull of ")
    }


def words_below(data: xr.Dataset, step: int) -> list[str]:
    """What stands below each circle."""
    planes = drawn(data, step).axes[::2]
    return [plane.texts[-1].get_text() for plane in planes]


class TestPicture:
    def test_arrows_are_the_pulls_and_their_sum_on_one_scale(self, found: xr.Dataset) -> None:
        pull = found["pull"].sel(step=2).values  # (expert, pattern, along)
        whole = np.concatenate([pull, pull.sum(1, keepdims=True)], axis=1)
        longest = np.hypot(*np.moveaxis(whole, -1, 0)).max()
        labels = [f"pull of {words}" for words in WORDS]
        shown = arrows(found, 2)
        for expert, kind in np.ndindex(3, 6):
            along, arrow = whole[expert, kind] / longest, shown.pop((expert, labels[kind]), None)
            assert (arrow is not None) == (np.hypot(*along) >= 0.03)
            if arrow is not None:
                corners = arrow.get_xy()
                np.testing.assert_allclose(corners[3], along, atol=1e-12)
                np.testing.assert_allclose((corners[0] + corners[6]) / 2, 0, atol=1e-12)
        assert not shown
        assert f"radius: a pull of {longest:.2g}" in words_below(found, 2)

    def test_an_expert_without_an_arrow_says_why(self, found: xr.Dataset) -> None:
        weak = found.copy(deep=True)
        weak["pull"].loc[{"expert": 2}] *= 1e-4
        weak["patches"].loc[{"expert": 2, "pattern": ["o1", "o2"]}] = 0.06
        short = "no arrow: pulls under 3 % of the radius"
        assert words_below(weak, 2)[1] == f"{short},\nfor it keeps o₁ or o₂ in 12 % of samples"
        weak["patches"].loc[{"expert": 2, "pattern": "o1"}] = 0.9
        assert words_below(weak, 2)[1] == short

    def test_the_sentence_says_whether_other_patches_cancel_the_hardest_pull(self, found: xr.Dataset) -> None:
        data = found.copy(deep=True)
        data["pull"][:] = 0.0
        data["pull"].loc[{"expert": 1, "pattern": "o1", "along": "o1"}] = 0.05
        ends = {-0.049: ", nearly cancelled by the other patches (0.049).", -0.02: ", partly cancelled by the other "
                "patches (0.02).", 0.02: "."}  # fmt: skip
        for other, end in ends.items():
            data["pull"].loc[{"expert": 1, "pattern": "other patches", "along": "o1"}] = other
            assert pulls.caption(data, 1).endswith(f"Strongest pull: o₁ on expert 1 (0.05){end}")

    def test_the_sentence_names_the_hardest_pull(self, found: xr.Dataset) -> None:
        now = found["pull"].sel(step=1)
        sizes = {(s, p): np.hypot(*now.sel(expert=s, pattern=p).values) for s in (1, 2, 3) for p in PATTERNS}
        expert, pattern = max(sizes, key=lambda key: sizes[key])
        words = f"{pattern.replace('o1', 'o₁').replace('o2', 'o₂')} on expert {expert} ({max(sizes.values()):.2g}"
        assert words in pulls.caption(found, 1) and pulls.caption(found, 1).startswith("Step 1, ")

    def test_nothing_pulls_where_one_patch_is_kept(self) -> None:
        data = router_pulls(MODEL.replace(patches_per_expert=1), TASK, samples=10, steps=1)
        assert pulls.caption(data, 1).endswith("samples right: nothing pulls at any router.")
        assert not arrows(data, 1) and set(words_below(data, 1)) == {"no pull at any router"}

    def test_other_data_are_refused(self, found: xr.Dataset) -> None:
        five = found.isel(expert=[0, 1, 2, 0, 1])
        with pytest.raises(ValueError, match=r"at most 4 experts, such as data.sel\(expert=\[1, 2\]\): got experts=5"):
            pulls.prepared(five)
        with pytest.raises(ValueError, match="data must be what router_pulls returns"):
            pulls.prepared(found[["router"]])
