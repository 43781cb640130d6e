"""LandscapeLab driven as a student drives it: every knob, wrong values, its words, its code and its data."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.config import ConfigError
from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.landscape import settings
from moe_lab_widgets.landscape.record import METHODS
from moe_lab_widgets.landscape.settings import KNOBS, SLOWEST_PIECE, record_every, seconds_of_step
from tests.widgets.labs import check_that_closing_leaves_nothing
from tests.widgets.landscape.small import FEW, SMALL, Make, done, make, move, pixels, shown

__all__ = ["make"]
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


# ---- knobs ----

MOVES: tuple[tuple[str, Any, str, tuple[str, ...]], ...] = (
    ("mu", 0.05, "mu=0.05", ("L4",)), ("penalty", 2.0, "penalty=2.0", ("L4",)), ("ridge", 0.5, "ridge=0.5", ("L4",)),
    ("rate", 0.03, "rate=0.03", ("L4",)), ("l2_rate", 0.2, "rate=0.2", ("l2",)),
    ("batch", 128, "batch=128", METHODS), ("steps", 200, "steps=200", METHODS), ("noise", 0.3, "noise=0.3", METHODS),
    ("dimension", 6, "dimension=6", METHODS), ("experts", 3, "experts=3", METHODS), ("trials", 3, "trials=3", METHODS),
    ("seed", 3, "seed=3", METHODS), ("gating", "random", "gating=", METHODS),
)  # fmt: skip
"""Knob, value, what the call then says, and the descents that it belongs to."""


def test_every_knob_reaches_its_descents_and_the_picture(make: Make) -> None:
    lab = done(make())
    for name, value, words, which in MOVES:
        before, calls = pixels(lab), {method: lab.record.of(method).origin["call"] for method in METHODS}
        move(lab, name, value)
        done(lab)
        assert lab.values[name] == value
        for method in METHODS:
            call = lab.record.of(method).origin["call"]
            assert (call != calls[method]) == (method in which), name
            if name != "gating":  # the default is the one that is named
                assert (words in call) == (method in which), name
        assert lab.record.step == lab.values["steps"]
        assert not np.array_equal(pixels(lab), before), f"the picture did not change with {name}"
    assert {name for name, *_ in MOVES} | {knob.name for knob in KNOBS if knob.view_only} == {
        knob.name for knob in KNOBS
    } | {"seed"}


@pytest.mark.parametrize(("name", "first", "other"), [("shown", 1, 2), ("sharpness", 1.0, 20.0)])
def test_what_is_only_shown_changes_the_picture_and_not_the_run(make: Make, name: str, first: Any, other: Any) -> None:
    lab = done(make())
    records, before = lab.records, pixels(lab)
    move(lab, name, other)
    shown(lab)
    assert lab.values[name] == other
    assert not np.array_equal(pixels(lab), before)
    assert all(new is old for new, old in zip(lab.records, records, strict=True)), "nothing ran again"
    lab.set(**{name: first})
    shown(lab)
    np.testing.assert_array_equal(pixels(lab), before)
    assert lab.records[-1] is records[-1]


def test_there_are_as_many_trials_to_show_as_run(make: Make) -> None:
    lab = shown(make(trials=3, shown=3, playing=False))
    slider = lab.controls.knobs["shown"]
    assert (slider.value, slider.disabled, lab.picture.wanted) == (3, False, 2)
    move(lab, "trials", 2)
    shown(lab)
    assert (slider.value, lab.values["shown"], lab.picture.wanted) == (2, 2, 1)
    run = lab.records[0]
    move(lab, "shown", slider.max)  # as the End key does
    shown(lab)
    assert (slider.value, lab.values["shown"], lab.picture.wanted) == (2, 2, 1) and lab.records[0] is run
    move(lab, "trials", 1)
    shown(lab)
    assert slider.disabled and (slider.value, lab.picture.wanted) == (1, 0)


def test_no_label_is_too_wide_for_three_sliders_in_a_row() -> None:
    assert max(len(knob.label) for knob in KNOBS) <= 27
    symbols = [knob.symbol for knob in KNOBS if knob.symbol]
    assert len(set(symbols)) == len(symbols)


def test_both_ends_of_every_slider_begin_or_say_why_not(make: Make) -> None:
    """The first record of both descents: the rest of a run is the same for all values."""
    lab = make(trials=1, playing=False)
    for knob in KNOBS:
        for place, end in enumerate(knob.slider[:2] if knob.slider else ()):
            room = {"penalty": 4.0} if knob.name in ("experts", "mu") else {}
            lab.set(**{**DEFAULTS, **SMALL, "trials": 1, **room, knob.name: end})
            if (knob.name, place) == ("penalty", 0):
                with pytest.raises(ValueError, match="lambda p must be greater than mu"):
                    lab.wait(60)
                continue
            shown(lab)
            lab.step()
            shown(lab)
            assert lab.error is None and len(lab.records) == 2, knob.name
            assert np.isfinite(lab.record.of("l2")["regressor_error"]).all()
            assert (lab.controls.message.value != "") == ((knob.name, place) == ("ridge", 1)), knob.name


def test_a_record_takes_little_even_where_a_step_is_dear() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    assert record_every(highest) <= 3
    assert record_every(DEFAULTS) * seconds_of_step(DEFAULTS) <= SLOWEST_PIECE


def test_fifty_random_moves_leave_a_lab_that_works(make: Make) -> None:
    draw = np.random.default_rng(11)
    lab = make()
    for _ in range(50):
        widget = lab.controls.knobs[draw.choice([knob.name for knob in KNOBS])]
        if hasattr(widget, "options"):
            widget.value = widget.options[draw.integers(len(widget.options))]
        else:
            places = round((widget.max - widget.min) / widget.step)
            widget.value = min(widget.min + widget.step * draw.integers(0, places + 1), widget.max)
        if draw.random() < 0.2:
            time.sleep(0.05)
    lab.set(**{**DEFAULTS, **SMALL})
    done(lab)
    assert lab.error is None and lab.controls.message.value == ""


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "error", "sentence"),
    [
        ({"dimension": 4, "experts": 4, "penalty": 4.0}, ConfigError, "dimension (d) must be greater than experts (k)"),
        ({"penalty": 0.0}, ValueError, "lambda p must be greater than mu for every expert's share p, or L4 falls"),
    ],
)
def test_a_wrong_combination_is_said_in_a_sentence_and_the_last_good_picture_stays(
    make: Make, values: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    lab = shown(make(playing=False))
    good, record = lab.picture.image.value, lab.record
    before = {name: lab.values[name] for name in values}
    lab.set(**values)
    with pytest.raises(error):
        lab.wait(20)
    assert sentence.replace("'", "&#x27;") in lab.controls.message.value
    assert lab.record is record and lab.picture.image.value == good
    lab.set(**before)
    shown(lab)
    assert lab.controls.message.value == "" and lab.error is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"expert": 3}, "LandscapeLab has no knob 'expert'"),
        ({"sharpness": 3.0}, "sharpness (β) must be one of 1.0, 2.0, 5.0"),
        ({"noise": float("nan")}, "noise (σ) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (k) must be a whole number: got experts=2.5"),
    ],
)
def test_a_value_that_no_widget_can_hold_is_refused_in_words(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        LandscapeLab(**values)


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
        assert len(lab.picture.maps.true["L4"].get_xdata()) == (0 if warned else 4)
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
    lab.picture.draw(record)
    assert len(lab.picture.maps.path["L4"].get_xdata()) == 3
    assert np.isfinite(lab.picture.errors.thick["L4"].get_ydata()).all()
    assert not record.verdicts("L4")[0][[0, 2]].any() and "nan" not in lab.caption(record)


# ---- code, data, and the rest around it ----


@pytest.mark.parametrize("values", [{"gating": "random", "ridge": 0.5, "l2_rate": 0.2, "seed": 4}])
def test_copied_code_gives_the_lab_s_numbers(
    make: Make, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    lab = done(make(**values))
    names: dict[str, Any] = {}
    exec(lab.code(lab.values), names)
    for method, name in zip(METHODS, ("l4", "l2"), strict=True):
        steps, errors = lab.record.errors(method)
        np.testing.assert_array_equal(names[name]["step"].values, steps)
        np.testing.assert_array_equal(names[name]["regressor_error"].values, errors)
    printed = capsys.readouterr().out
    assert "L4 regressor error [" in printed and "median gap 0." in printed


def test_both_losses_start_alike_and_see_the_same_batches(make: Make) -> None:
    lab = done(make())
    l4, l2 = lab.record.runs
    assert l4.replace(model=l2.model) == l2
    first = lab.records[1]
    np.testing.assert_array_equal(first.shots("L4")[0]["rows"], first.shots("l2")[0]["rows"])


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_saved_data_hold_both_descents_and_say_how_to_make_them(make: Make, tmp_path: Path, suffix: str) -> None:
    lab = done(make())
    path = lab.save_data(tmp_path / f"run.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "nc":
        with xr.open_dataset(path) as data:
            assert list(data["model"].values) == list(METHODS)
            for method in METHODS:
                last = data["regressor_error"].sel(model=method, step=100)
                np.testing.assert_allclose(last, lab.record.of(method)["regressor_error"])
                assert data.attrs[f"call_{method}"] == lab.record.of(method).origin["call"]


def test_headless_it_runs_inside_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setattr(LandscapeLab, "budget", 300.0)
    monkeypatch.setattr(LandscapeLab, "frames", 1.0)
    monkeypatch.setattr(settings, "RECORDS", FEW)
    lab = LandscapeLab(**SMALL)
    try:
        assert lab.finished and lab.record.ended("L4") and lab.record.ended("l2")
        with pytest.raises(ConfigError, match=r"got d=4, k=4"):
            lab.set(dimension=4, experts=4)
        lab.set(dimension=6, experts=2)
        assert lab.finished and lab.error is None
        lab.set(shown=8)
        assert lab.values["shown"] == 2 and lab.picture.wanted == 1
    finally:
        lab.close()


def test_closing_leaves_no_thread_and_no_widget() -> None:
    check_that_closing_leaves_nothing(LandscapeLab, SMALL)
