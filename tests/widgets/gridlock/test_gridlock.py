"""The rules of the gridlock Lab's settings, and its messages."""

from __future__ import annotations

from functools import partial
from typing import Any

import pytest

from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.engine.knobs import PATIENT, RARELY
from moe_lab_widgets.labs import gridlock_record as at
from moe_lab_widgets.labs.gridlock import (
    KNOBS,
    error_limits,
)
from moe_lab_widgets.labs.gridlock_stories import PRINTED
from tests.widgets.cases import GRIDLOCK
from tests.widgets.labs import Make, done, fixtures, move, shown

make, _ = fixtures(GRIDLOCK)
SMALL = GRIDLOCK.small
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def test_printed_coefficients_reach_the_run_and_are_refused_where_there_are_none(make: Make) -> None:
    lab = shown(make(activation="relu", third=PRINTED, playing=False))
    assert "Spectral(printed=True," in lab.record.of().origin["call"] and "printed=True" in lab.code(lab.values)
    lab.set(third="P3(y)")
    assert "printed" not in shown(lab).record.of().origin["call"]
    move(lab, "activation", "tanh")
    shown(lab)
    move(lab, "third", PRINTED)
    with pytest.raises(ValueError, match="g must be identity or relu or sigmoid: got g='tanh'"):
        lab.wait(20)
    assert "only where the paper prints it" in lab.controls.message.value
    move(lab, "activation", "sigmoid")
    assert shown(lab).controls.message.value == ""


def test_a_record_takes_little_even_where_em_is_dear() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    every = partial(at.every, name=at.JOINT)
    assert every(highest) == 1
    assert every(DEFAULTS) == 2 and 2 * at.seconds(DEFAULTS) <= at.SLOWEST_PIECE
    assert every({**DEFAULTS, **SMALL, "iterations": 320}) == 4, "about 80 records"
    assert every({**DEFAULTS, **SMALL, "iterations": 240}) == 2, "what is stuck is compared over 20 iterations"
    rarely = every({**DEFAULTS, RARELY: True})
    assert rarely >= 4 and rarely * at.seconds(DEFAULTS) <= PATIENT * at.SLOWEST_PIECE


def test_code_names_what_differs_from_the_library_s_defaults(make: Make) -> None:
    lab = make(playing=False)
    lines = lab.code({**DEFAULTS, "samples": 4000}).splitlines()
    assert "task = MixtureTask(experts=8, dimension=16, regressors='orthonormal')" in lines
    assert "settings = dict(trials=3, record_every=2, samples=4000)" in lines
    assert "joint = collect(train(JointEM(iterations=160), task, **settings))" in lines
    assert "best = collect(train(JointEM(iterations=12, start='truth'), task, **settings))" in lines


@pytest.mark.parametrize("values", [{}, {"experts": 2, "dimension": 10, "samples": 2000}, {"samples": 2000}])
def test_the_error_s_axis_has_room_for_a_random_start_and_for_the_best(make: Make, values: dict[str, Any]) -> None:
    low, high = error_limits(MarkValues({**DEFAULTS, **values}))
    now = MarkRecord(done(make(**{**DEFAULTS, **values, "iterations": 1, "trials": 1})).record)
    best, start = now.last("error", at.BEST), at.em_errors(now, "joint")[1][0]
    assert low < best.min() / 1.5 and start.max() * 1.2 < high
    assert low > best.min() / 12, "and not much more room than that"
