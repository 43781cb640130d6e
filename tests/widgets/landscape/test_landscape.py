"""The rules of the landscape Lab's settings, and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np

from moe_lab_widgets.labs.landscape import KNOBS, runs
from tests.widgets.cases import LANDSCAPE
from tests.widgets.labs import Make, done, drawn_as, fixtures, move, shown

make, _ = fixtures(LANDSCAPE)
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def stars(lab: Any, method: str) -> int:
    """How many true solutions are marked."""
    return sum(len(mark.get_xdata()) for mark in drawn_as(lab, 0, f"{method}: a true solution"))


def test_a_delta_for_which_nothing_is_least_is_said_and_no_solution_is_marked(make: Make) -> None:
    lab = done(make(ridge=4.0, steps=20))
    assert "δ must be less than 4 λ p" in lab.controls.message.value
    assert "got δ=4, λ=1 (in 2 of 2 trials). Lower δ or raise λ." in lab.controls.message.value
    assert (stars(lab, "L₄"), stars(lab, "ℓ₂")) == (0, 2)
    move(lab, "ridge", 1.0)
    done(lab)
    assert lab.controls.message.value == "" and stars(lab, "L₄") == 4
    move(lab, "penalty", 0.0)
    done(lab)
    assert "share p, or L₄ is unbounded below: got λ=0, μ=0.01 (in 2 of 2 trials)" in lab.controls.message.value
    assert stars(lab, "L₄") == 0


def test_more_experts_with_the_other_defaults_are_shown_and_four_are_told_what_is_wrong(make: Make) -> None:
    """An expert of four has a share of a fourth and less: 4 lambda p is about 1, the default delta."""
    lab = make(**DEFAULTS, playing=False)
    for experts, warned in ((3, False), (4, True)):
        lab.set(experts=experts)
        shown(lab)
        assert ("Lower δ or raise λ" in lab.controls.message.value) == warned
        assert stars(lab, "L₄") == (0 if warned else 2)
        (path,) = drawn_as(lab, 0, "ℓ₂: the path so far")
        assert len(path.get_xdata()) == 1 and lab.error is None
    lab.set(penalty=2.0)
    assert shown(lab).controls.message.value == ""


def test_both_losses_start_alike_and_see_the_same_batches(make: Make) -> None:
    l4, l2 = runs({**DEFAULTS, "batch": 96}).values()
    assert l4.replace(model=l2.model) == l2 and l2.batch == 96
    first = done(make()).records[1]
    np.testing.assert_array_equal(first.of("L4")["rows"], first.of("l2")["rows"])
