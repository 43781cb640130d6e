"""The rules of the gridlock Lab's settings, and its messages."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moe_lab_widgets.gridlock.settings import (
    KNOBS,
    PRINTED,
    SLOWEST_PIECE,
    code,
    error_limits,
    power_stride,
    record_every,
    runs,
    seconds_of_step,
)

from tests.widgets.cases import GRIDLOCK
from tests.widgets.labs import Make, done, fixtures, move, shown

make, _ = fixtures(GRIDLOCK)
SMALL = GRIDLOCK.small
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


def test_printed_coefficients_reach_the_run_and_are_refused_where_there_are_none(make: Make) -> None:
    lab = shown(make(activation="relu", third=PRINTED, playing=False))
    assert "Spectral(printed=True," in lab.record.spectral.origin["call"] and "printed=True" in lab.code(lab.values)
    lab.set(third="P3(y)")
    assert "printed" not in shown(lab).record.spectral.origin["call"]
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
    assert record_every(highest) == 1
    assert record_every(DEFAULTS) == 2 and 2 * seconds_of_step(DEFAULTS) <= SLOWEST_PIECE
    assert record_every({**DEFAULTS, **SMALL, "iterations": 320}) == 4, "about 80 records"
    assert record_every({**DEFAULTS, **SMALL, "iterations": 240}) == 2, "what is stuck is compared over 20 iterations"
    assert [power_stride({"experts": k}) for k in (2, 4, 8)] == [1, 1, 2]


def test_infinite_numbers_are_said_and_leave_the_picture_finite(make: Make) -> None:
    lab = done(make(trials=3))
    record = lab.record
    for part in (*record.second, record.spectral):
        part.diverged[[0, 2]] = True
        for value in part.values.values():
            value[[0, 2]] = np.nan
    said = lab.trouble(record)
    assert "Joint EM ran into infinite numbers in trials 1, 3." in said
    assert "The EM after the power iterations ran" in said
    lab.picture.show(record)
    assert np.isfinite(lab.picture.errors.thick["joint"].get_ydata()).all()
    assert record.falling("joint")[[0, 2]].sum() == 0 and not record.stuck("joint")[[0, 2]].any()
    assert "nan" not in lab.caption(record)
    for part in (*record.second, record.spectral):
        for value in part.values.values():
            value[:] = np.nan
    lab.picture.show(record)
    assert "joint EM 0 of 3 (–)" in lab.caption(record)


def test_both_methods_see_the_same_samples() -> None:
    spectral, joint = runs(DEFAULTS)
    changed = {"model": joint.model, "record_every": joint.record_every}
    assert spectral.replace(**changed) == joint


def test_code_names_what_differs_from_the_library_s_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert "task = MixtureTask(experts=8, dimension=16, regressors='orthonormal')" in lines
    assert "settings = dict(samples=6000, trials=3, seed=0)" in lines
    run = "collect(train(Spectral(power_iterations=10, joint_iterations=40), task, **settings)),"
    assert f'    "spectral + EM": {run}' in lines
    assert '    "joint EM": collect(train(JointEM(iterations=160), task, **settings)),' in lines


@pytest.mark.parametrize("values", [{}, {"experts": 2, "dimension": 10, "samples": 2000}, {"samples": 2000}])
def test_the_error_s_axis_has_room_for_a_random_start_and_for_the_best(make: Make, values: dict[str, Any]) -> None:
    low, high = error_limits({**DEFAULTS, **values})
    lab = done(make(**{**DEFAULTS, **values, "iterations": 1, "trials": 1}))
    best, start = lab.record.best, lab.records[-1].errors("joint")[1][0]
    assert best is not None and low < best.min() / 1.5 and start.max() * 1.2 < high
    assert low > best.min() / 12, "and not much more room than that"
