"""The rules of the landscape Lab's settings, and its messages."""

from __future__ import annotations

import numpy as np

from moe_lab_widgets.landscape.settings import KNOBS, SLOWEST_PIECE, record_every, seconds_of_step
from tests.widgets.cases import LANDSCAPE
from tests.widgets.labs import Make, done, fixtures, move, shown

make, _ = fixtures(LANDSCAPE)
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def test_a_record_takes_little_even_where_a_step_is_dear() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    assert record_every(highest) <= 3
    assert record_every(DEFAULTS) * seconds_of_step(DEFAULTS) <= SLOWEST_PIECE


def test_a_delta_for_which_nothing_is_least_is_said_and_no_solution_is_marked(make: Make) -> None:
    lab = done(make(ridge=4.0, steps=20))
    assert "δ must be less than 4 λ p" in lab.controls.message.value
    assert "got δ=4, λ=1 (in 2 of 2 trials). Lower δ or raise λ." in lab.controls.message.value
    assert len(lab.picture.maps.true["L4"].get_xdata()) == 0 and len(lab.picture.maps.true["l2"].get_xdata()) == 2
    move(lab, "ridge", 1.0)
    done(lab)
    assert lab.controls.message.value == "" and len(lab.picture.maps.true["L4"].get_xdata()) == 4


def test_more_experts_with_the_other_defaults_are_shown_and_four_are_told_what_is_wrong(make: Make) -> None:
    """An expert of four has a share of a fourth and less: 4 lambda p is about 1, the default delta."""
    lab = make(**DEFAULTS, playing=False)
    for experts, warned in ((3, False), (4, True)):
        lab.set(experts=experts)
        shown(lab)
        lab.step()
        shown(lab)
        assert ("Lower δ or raise λ" in lab.controls.message.value) == warned
        assert len(lab.picture.maps.true["L4"].get_xdata()) == (0 if warned else 2)
        assert len(lab.picture.maps.path["l2"].get_xdata()) == 1 and lab.error is None
    lab.set(penalty=2.0)
    assert shown(lab).controls.message.value == ""


def test_infinite_numbers_are_said_and_leave_the_picture_finite(make: Make) -> None:
    lab = done(make(trials=3))
    record = lab.record
    for part in record.first[3:]:
        part.diverged[[0, 2]] = True
        for value in part.values.values():
            value[[0, 2]] = np.nan
    assert "L₄ became infinite in trials 1, 3: try a smaller learning rate." in lab.trouble(record)
    lab.picture.show(record)
    assert len(lab.picture.maps.path["L4"].get_xdata()) == 3
    assert np.isfinite(lab.picture.errors.thick["L4"].get_ydata()).all()
    assert not record.verdicts("L4")[0][[0, 2]].any() and "nan" not in lab.caption(record)


def test_both_losses_start_alike_and_see_the_same_batches(make: Make) -> None:
    lab = done(make())
    l4, l2 = lab.record.runs
    assert l4.replace(model=l2.model) == l2
    first = lab.records[1]
    np.testing.assert_array_equal(first.shots("L4")[0]["rows"], first.shots("l2")[0]["rows"])
