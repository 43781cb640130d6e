"""What a knob declares about others: the engine greys it out, moves it along and holds it back."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

import moe_lab_widgets
from moe_lab_widgets import Lab, LabKnob, Story, offer
from tests.widgets.engine.tiny import Blobs, TinyLab

LABS = [getattr(moe_lab_widgets, name) for name in dir(moe_lab_widgets) if name.endswith("Lab") and name != "Lab"]
STEPS = {"easy": 20, "hard": 40}


class RuledLab(TinyLab):
    knobs = (
        LabKnob(name="kind", meaning="kind", default="easy", choices=("easy", "hard")),
        offer(Blobs, "samples"),
        offer(Blobs, "gap", default=2.0, enabled_when=lambda values: values["kind"] == "easy"),
        offer(Blobs, "learning_rate"),
        offer(Blobs, "epochs", default=20, follows=lambda values: STEPS[values["kind"]]),
        LabKnob(name="shown", meaning="on show", default=1, slider=(1, 4, 1), at_most="most", view_only=True),
        LabKnob(name="most", meaning="most", default=4, slider=(1, 4, 1)),
        *TinyLab.knobs[-2:],
    )
    stories = (Story("Hard", {"kind": "hard"}, "Other knobs take their defaults."),)


@pytest.fixture
def lab() -> Iterator[RuledLab]:
    made = RuledLab(playing=False)
    yield made
    made.close()


def test_a_knob_without_effect_is_greyed_out(lab: RuledLab) -> None:
    assert not lab.controls.knobs["gap"].disabled
    lab.controls.knobs["kind"].value = "hard"
    assert lab.controls.knobs["gap"].disabled
    lab.set(kind="easy")
    assert not lab.controls.knobs["gap"].disabled


def test_a_knob_at_its_default_follows_the_user_and_another_stays(lab: RuledLab) -> None:
    lab.controls.knobs["kind"].value = "hard"
    assert lab.values["epochs"] == lab.controls.knobs["epochs"].value == 40
    lab.controls.knobs["epochs"].value = 30
    lab.controls.knobs["kind"].value = "easy"
    assert lab.values["epochs"] == 30
    lab.set(epochs=20, kind="hard")
    assert lab.values["epochs"] == 20, "set moves what it names"


def test_initial_values_left_out_follow_those_that_are_given() -> None:
    for given, epochs in (({"kind": "hard"}, 40), ({"kind": "hard", "epochs": 10}, 10)):
        made = RuledLab(playing=False, **given)
        assert made.values["epochs"] == epochs
        made.close()


def test_a_knob_is_held_back_by_another(lab: RuledLab) -> None:
    lab.controls.knobs["shown"].value = 3
    lab.controls.knobs["most"].value = 2
    assert lab.values["shown"] == lab.controls.knobs["shown"].value == 2
    lab.controls.knobs["shown"].value = 4
    assert lab.values["shown"] == 2
    lab.set(most=1)
    assert lab.values["shown"] == 1 and lab.controls.knobs["shown"].disabled


@pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.__name__)
def test_rules_name_knobs_and_agree_with_the_defaults(kind: type[Lab]) -> None:
    defaults = {knob.name: knob.default for knob in kind.knobs}
    for knob in kind.knobs:
        assert knob.at_most is None or knob.at_most in defaults
        assert knob.follows is None or knob.follows(defaults) == knob.default
        assert knob.enabled_when is None or isinstance(knob.enabled_when(defaults), bool)


def test_pins_come_and_go_while_frames_are_drawn() -> None:
    made = TinyLab(epochs=200, delay=1.0)
    made.controls.speed.value = "as fast as it trains"
    try:
        while not made.finished:
            made.pin()
            made.unpin()
        assert made.wait(60) and made.error is None
    finally:
        made.close()
