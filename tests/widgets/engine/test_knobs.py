"""What a knob declares about others: the engine greys it out, moves it along and holds it back."""

from __future__ import annotations

import html
import re
import time
from collections.abc import Iterator, Mapping
from types import SimpleNamespace
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

import moe_lab_widgets
from moe_lab.core.config import require
from moe_lab.core.errors import InputError
from moe_lab_widgets import Lab, LabKnob, Story, offer
from moe_lab_widgets.engine import board
from tests.widgets.engine.tiny import PARTS, Blobs, TinyLab, tiny
from tests.widgets.labs import tooltip

LABS = [getattr(moe_lab_widgets, name) for name in dir(moe_lab_widgets) if name.endswith("Lab") and name != "Lab"]
STEPS = {"easy": 20, "hard": 40}


KNOBS = (
    LabKnob(name="kind", meaning="kind", default="easy", choices=("easy", "hard")),
    offer(Blobs, "samples"),
    offer(
        Blobs,
        "gap",
        default=2.0,
        enabled_when=lambda values: values["kind"] == "easy",
        effect="More of it is easier.",
        applies="only to the easy kind",
    ),
    offer(Blobs, "learning_rate"),
    offer(Blobs, "epochs", default=20, follows=lambda values: STEPS[values["kind"]]),
    LabKnob(name="shown", meaning="on show", default=1, slider=(1, 4, 1), at_most="most", view_only=True),
    LabKnob(name="most", meaning="most", default=4, slider=(1, 4, 1)),
    *PARTS["knobs"][-2:],
)


def check(values: Mapping[str, Any]) -> None:
    require(values["samples"] % values["epochs"] == 0, "epochs must divide samples", epochs=values["epochs"])
    require(values["gap"] <= 3, "gap must be at most 3", gap=values["gap"])


def check_view(values: Mapping[str, Any]) -> None:
    require(values["shown"] >= 1, "shown must be at least 1", shown=values["shown"])


RuledLab = tiny(
    name="RuledLab",
    knobs=KNOBS,
    stories=(Story("Hard", {"kind": "hard"}, "Other knobs take their defaults."),),
    check=check,
    check_view=check_view,
)


@pytest.fixture
def lab() -> Iterator[Lab]:
    made = RuledLab(playing=False)
    yield made
    made.close()


def test_a_knob_without_effect_is_greyed_out(lab: Lab) -> None:
    assert not lab.controls.knobs["gap"].disabled
    lab.controls.knobs["kind"].value = "hard"
    assert lab.controls.knobs["gap"].disabled
    greyed, _, tip = tooltip(lab.controls.knobs["gap"]).partition(". ")
    assert greyed == "Greyed out: it applies only to the easy kind" and "(g), from" in tip and "easier" in tip
    lab.set(kind="easy")
    assert not lab.controls.knobs["gap"].disabled
    assert tooltip(lab.controls.knobs["gap"]) == tip


def test_values_that_do_not_fit_are_refused_before_anything_is_made() -> None:
    for values, sentence in (
        ({"epochs": 30}, "epochs must divide samples: got epochs=30"),
        ({"gap": 3.5}, "gap must be at most 3: got gap=3.5"),
        ({"samples": 60, "kind": "hard"}, "epochs must divide samples: got epochs=40"),
        ({"shown": 0}, "shown must be at least 1: got shown=0"),
    ):
        with pytest.raises(InputError, match=re.escape(sentence)):
            RuledLab(playing=False, **values)


def test_a_knob_at_its_default_follows_the_user_and_another_stays(lab: Lab) -> None:
    lab.controls.knobs["kind"].value = "hard"
    assert lab.values["epochs"] == lab.controls.knobs["epochs"].value == 40
    lab.controls.knobs["epochs"].value = 10
    lab.controls.knobs["kind"].value = "easy"
    assert lab.values["epochs"] == 10
    lab.set(epochs=20, kind="hard")
    assert lab.values["epochs"] == 20, "set moves what it names"


def test_initial_values_left_out_follow_those_that_are_given() -> None:
    for values, epochs in (({"kind": "hard"}, 40), ({"kind": "hard", "epochs": 10}, 10)):
        made = RuledLab(playing=False, **values)
        assert made.values["epochs"] == epochs
        made.close()


def test_a_knob_is_held_back_by_another(lab: Lab) -> None:
    lab.controls.knobs["shown"].value = 3
    lab.controls.knobs["most"].value = 2
    assert lab.values["shown"] == lab.controls.knobs["shown"].value == 2
    lab.controls.knobs["shown"].value = 4
    assert lab.values["shown"] == 2
    lab.set(most=1)
    assert lab.values["shown"] == 1 and lab.controls.knobs["shown"].disabled


def test_a_slider_goes_to_the_nearest_value_that_fits_and_says_why(lab: Lab, monkeypatch: pytest.MonkeyPatch) -> None:
    """Divisors of 80 samples on the slider of epochs (10, 20, ... 200) are 10, 20, 40 and 80."""
    epochs, late = lab.controls.knobs["epochs"], [0.0]
    clock = SimpleNamespace(**{**vars(time), "monotonic": lambda: time.monotonic() + late[0]})
    monkeypatch.setattr(board, "time", clock)

    def moved(*values: int) -> int:
        for value in values:
            epochs.value = value
        assert lab.values["epochs"] == epochs.value
        return int(epochs.value)

    def later(*values: int) -> int:
        late[0] += 60
        return moved(*values)

    assert [later(30), later(50), later(90), later(70)] == [40, 80, 80, 40], "arrow keys pass what does not fit"
    assert "epochs is now 40: epochs must divide samples: got epochs=70" in html.unescape(lab.controls.see.value)
    assert later(20) == 20 and lab.controls.see.value == ""
    assert [moved(30), moved(40), moved(50), moved(60), moved(60), moved(70)] == [40, 40, 80, 80, 80, 80], "a drag up"
    assert [moved(60), moved(50), moved(30)] == [40, 40, 20], "and down again"
    gap = lab.controls.knobs["gap"]
    gap.value = 3.7
    assert gap.value == lab.values["gap"] == 3.0 and lab.wait(30) and lab.error is None


def test_what_code_sets_is_refused_and_a_slider_leads_out(lab: Lab) -> None:
    lab.set(epochs=30)
    assert lab.values["epochs"] == 30, "set does what it says"
    lab.controls.knobs["gap"].value = 1.0
    assert (lab.values["gap"], lab.values["epochs"]) == (1.0, 30), "no value of this slider fits, none is changed"
    lab.controls.knobs["epochs"].value = 50
    assert lab.values["epochs"] == 80


@given(st.lists(st.one_of(st.integers(0, 500), st.floats(0, 10).map(lambda value: round(value, 4))), min_size=1))
@settings(deadline=None, max_examples=30)
def test_a_slider_can_stand_wherever_code_puts_it(values: list[float]) -> None:
    """Elsewhere a page would round it to a step, and send that back as if the user had moved it."""
    lab = RuledLab(playing=False)
    for value in values:
        lab.set(gap=value, epochs=int(value) + 1)
        for name, at in (("gap", value), ("epochs", int(value) + 1)):
            widget = lab.controls.knobs[name]
            assert widget.value == at == lab.values[name] and widget.min <= at <= widget.max
            steps = (at - widget.min) / widget.step
            assert steps == pytest.approx(round(steps), abs=1e-4)
        shown = format(float(value), lab.controls.knobs["gap"].readout_format)
        assert float(shown) == value, "the number beside it is not rounded"
    lab.set(gap=2.0, epochs=20)
    for name, step in (("gap", 0.1), ("epochs", 10)):
        steps = step / lab.controls.knobs[name].step
        assert steps == pytest.approx(round(steps)), "the declared steps stay among the finer ones"
    lab.close()


@pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.__name__)
def test_rules_name_knobs_and_agree_with_the_defaults(kind: type[Lab]) -> None:
    defaults = {knob.name: knob.default for knob in kind.knobs}
    for knob in kind.knobs:
        assert knob.at_most is None or knob.at_most in defaults
        assert knob.follows is None or knob.follows(defaults) == knob.default
        assert knob.enabled_when is None or isinstance(knob.enabled_when(defaults), bool)


def test_pins_come_and_go_while_frames_are_drawn() -> None:
    made = TinyLab(epochs=60, delay=1.0)
    made.controls.speed.value = "as fast as it trains"
    try:
        while not made.finished:
            made.pin()
            made.unpin()
            time.sleep(0.005)  # without it the run hardly gets the lock, and takes a minute
        assert made.wait(60) and made.error is None
    finally:
        made.close()
