"""What the routing-choices Lab's stories say of seed 0, and that its boxes are what the experts keep."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot, final
from moe_lab.drawing import theme
from moe_lab.patch_routing import train_batch
from moe_lab.patch_routing.batch import samples_of
from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.drawing.sheet import integer
from moe_lab_widgets.drawing.words import middle
from moe_lab_widgets.labs import routing_choices as of
from moe_lab_widgets.labs.routing_choices_stories import STORIES
from tests.helpers.effort import THOROUGH
from tests.widgets.cases import ROUTING_CHOICES
from tests.widgets.labs import Make, done, fixtures, making

make, ended = fixtures(ROUTING_CHOICES)
DEFAULTS = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
ALWAYS = ("One patch an expert, experts choose", "Nobody chooses (soft MoE)")
NUMBERS = {
    "A gate that cannot learn": {"lost": 0.29, "test_accuracy": 0.72},
    "Ask all eight": {"dropped": 0.88, "test_accuracy": 0.76},
    "One patch an expert, experts choose": {"lost": 0.72, "test_accuracy": 1.0},
    "Nobody chooses (soft MoE)": {"signal_share": 0.16, "test_accuracy": 1.0},
}


def outcome(**values: Any) -> Snapshot:
    """The chosen model at the end of a run with these values."""
    return final(train_batch([of.runs({**DEFAULTS, **values})[of.STUDY]]))


@pytest.mark.parametrize("story", STORIES, ids=lambda story: story.name)
def test_a_story_says_what_is_measured(story: Any) -> None:
    said = {round(int(number) / 100, 2) for number in re.findall(r"(\d+) %", story.what_to_see)}
    wanted = NUMBERS[story.name]
    assert {value for name, value in wanted.items() if (name, value) != ("signal_kept", 1.0)} <= said
    if not THOROUGH and story.name not in ALWAYS:
        pytest.skip("takes a second each: MOE_LAB_THOROUGH=1")
    last = outcome(**story.values)
    for name, value in wanted.items():
        assert middle(last[name]) == pytest.approx(value, abs=0.03), name  # float32 paths part between machines


def test_full_boxes_are_what_experts_keep_and_black_ones_what_is_lost(make: Make) -> None:
    lab = done(make())
    record, content = lab.record, lab.picture.placed[0].content
    kept, asked = (record[f"example_{name}"][0].astype(bool) for name in ("kept", "asked"))  # (class, expert, patch)
    boxes = [one for one in content if hasattr(one, "parts") and one.parts[-1].endswith("lost")]
    fills = np.array([one.fills for one in boxes]).reshape(2, kept.shape[1] + 1, kept.shape[2])
    for expert in range(kept.shape[1]):
        np.testing.assert_array_equal(fills[:, expert] == integer(theme.expert(expert).colour), kept[:, expert])
    np.testing.assert_array_equal(fills[:, -1] == integer(theme.INK), ~kept.any(1))
    refused = [one for one in content if one.get_label() == "a patch without a place at this expert"]
    assert sum(len(one.get_xdata()) for one in refused) == int((asked & ~kept).sum()) > 0


def test_all_routings_train_on_the_same_samples_which_other_sliders_keep(monkeypatch: pytest.MonkeyPatch) -> None:
    sampled = []

    def noted(runs: Any) -> Any:
        sampled.append(runs[0].samples)
        return samples_of(runs)

    monkeypatch.setattr(of, "samples_of", noted)
    with making(ROUTING_CHOICES) as make:
        lab = done(make())
        done(lab, routing="soft")
        assert sampled == [40]
        done(lab, samples=60)
        assert sampled == [40, 60]


@pytest.mark.parametrize(("patches", "experts", "factor"), [(16, 8, 1.0), (20, 2, 1.1), (9, 4, 0.01), (8, 2, 3.0)])
def test_a_picture_has_as_many_places_as_the_model(patches: int, experts: int, factor: float) -> None:
    values = DEFAULTS | {"patches": patches, "experts": experts, "capacity_factor": factor}
    model = of.runs(values)[of.STUDY].model
    assert float(of.places_of(MarkValues(values))) == model.places(patches)  # 1.1 * 20 / 2 is more than 11 in floats
