"""SpecializationLab driven as a student drives it: every knob, wrong values, its words, its code and its data."""

from __future__ import annotations

import re
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.config import ConfigError
from moe_lab_widgets import SpecializationLab
from moe_lab_widgets.specialization.settings import (
    KNOBS,
    SLOWEST_RECORD,
    code,
    lowest_accuracy,
    record_every,
    runs,
)
from tests.widgets.labs import check_that_closing_leaves_nothing, making, move, pixels
from tests.widgets.specialization.small import SMALL, Make, done, make

__all__ = ["make"]
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}


# ---- knobs ----


@pytest.fixture(scope="module")
def moved() -> Iterator[SpecializationLab]:
    """One Lab whose knobs are moved one after the other."""
    with making(SpecializationLab, SMALL) as make:
        yield done(make())


@pytest.mark.parametrize(
    ("name", "value", "words"),
    [
        ("experts", 3, "experts=3"), ("clusters", 5, "clusters=5"), ("noise", 2.25, "noise=2.25"),
        ("activation", "tanh", "activation='tanh'"), ("router_learning_rate", 4.5, "router_learning_rate=4.5"),
        ("router_noise", 0.4, "router_noise=0.4"), ("samples", 600, "samples=600"),
        ("load_balancing", 0.02, "load_balancing=0.02"), ("gamma", 3.25, "feature_noise=(0.5, 3.25)"),
        ("filters", 5, "filters=5"), ("learning_rate", 0.03, "learning_rate=0.03"), ("steps", 60, "steps=60"),
        ("patches", 6, "patches=6"), ("dimension", 30, "dimension=30"), ("trials", 4, "trials=4"),
        ("seed", 3, "seed=3"),
    ],
)  # fmt: skip
def test_every_knob_reaches_both_runs_and_the_picture(
    moved: SpecializationLab, name: str, value: Any, words: str
) -> None:
    lab, before = moved, pixels(moved)
    move(lab, name, value)
    done(lab)
    assert lab.values[name] == value
    record, values = lab.record, lab.values
    assert words in record.study.origin["call"]
    if name != "activation":
        assert words in record.reference.origin["call"]
    for part in (record.study, record.reference):
        assert part["dispatch"].shape == (values["trials"], values["clusters"], values["experts"])
        assert part.step == values["steps"]
    assert not np.array_equal(pixels(lab), before), "the picture did not change"


def test_every_knob_of_the_lab_is_moved_by_that_test() -> None:
    moved = test_every_knob_reaches_both_runs_and_the_picture.pytestmark[0].args[1]
    assert {name for name, _, _ in moved} == {knob.name for knob in KNOBS} | {"seed"}


def test_no_label_is_too_wide_for_three_sliders_in_a_row() -> None:
    assert max(len(knob.label) for knob in KNOBS) <= 27
    assert len({knob.symbol for knob in KNOBS}) == len(KNOBS)


def test_a_moved_slider_starts_again_at_step_0_with_the_latest_values(make: Make) -> None:
    lab = make()
    for value in (0.5, 2.0, 3.5):
        move(lab, "noise", value)
    done(lab)
    assert lab.records[0].step == 0
    assert "noise=3.5" in lab.record.study.origin["call"]


def test_both_ends_of_every_slider_run(make: Make) -> None:
    lab = make()
    for knob in (knob for knob in KNOBS if knob.slider):
        for end in knob.slider[:2]:
            done(_with(lab, **{**DEFAULTS, **SMALL, "samples": 100, knob.name: end}))
            assert lab.error is None and lab.controls.message.value == "" and lab.values[knob.name] == end
            assert np.isfinite(lab.record.study["test_accuracy"]).all(), knob.name
            assert np.isfinite(lab.record.reference["dispatch_entropy"]).all(), knob.name


def test_all_sliders_at_their_highest_give_a_record_that_is_soon_there() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    assert record_every(highest) >= 1
    assert record_every(DEFAULTS) == DEFAULTS["steps"] // 80 == 5
    assert record_every({**DEFAULTS, "samples": 6000, "trials": 10}) < 5, f"no record takes over {SLOWEST_RECORD} s"


def test_sliders_that_change_nothing_are_greyed_out(make: Make) -> None:
    lab = done(make())
    router = ("router_learning_rate", "router_noise", "load_balancing")
    assert not any(widget.disabled for widget in lab.controls.knobs.values())
    shown = {}
    move(lab, "experts", 1)
    assert all(lab.controls.knobs[name].disabled for name in router)
    for rate in (10.0, 2.0):
        move(lab, "router_learning_rate", rate)
        shown[rate] = done(lab).record.study["test_accuracy"]
    np.testing.assert_array_equal(shown[10.0], shown[2.0])  # they change nothing indeed
    lab.set(experts=4, patches=3)
    assert not any(lab.controls.knobs[name].disabled for name in router)
    assert lab.controls.knobs["noise"].disabled
    quiet, loud = (done(_with(lab, noise=noise)).record.study["test_accuracy"] for noise in (0.0, 4.0))
    np.testing.assert_array_equal(quiet, loud)
    move(lab, "patches", 4)
    assert not lab.controls.knobs["noise"].disabled


def _with(lab: SpecializationLab, **values: Any) -> SpecializationLab:
    lab.set(**values)
    return lab


def test_fifty_random_moves_leave_a_lab_that_works(make: Make) -> None:
    draw = np.random.default_rng(11)
    lab = make()
    for _ in range(50):
        widget = lab.controls.knobs[draw.choice([knob.name for knob in KNOBS])]
        if hasattr(widget, "options"):
            widget.value = draw.choice(widget.options)
        else:
            places = round((widget.max - widget.min) / widget.step)
            widget.value = min(widget.min + widget.step * draw.integers(0, places + 1), widget.max)
        if draw.random() < 0.2:
            time.sleep(0.05)
    lab.set(**{**DEFAULTS, **SMALL})
    done(lab)
    assert lab.error is None and lab.controls.message.value == ""
    assert lab.records[-1].ended


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"clusters": 8, "dimension": 14}, "dimension (d) must be at least 2 clusters (K), so that all signals can be"),
        ({"activation": "relu", "filters": 7}, "filters (J) must be even, because half of the relu filters count"),
        ({"experts": 0}, "experts (M) must be at least 1: got M=0"),
        ({"gamma": 0.25}, "feature_noise (gamma) must be a range (low, high)"),
    ],
)
def test_a_wrong_combination_is_said_in_a_sentence_and_the_last_good_picture_stays(
    make: Make, values: dict[str, Any], sentence: str
) -> None:
    lab = done(make())
    good, shown = lab.picture.image.value, lab.record
    before = {name: lab.values[name] for name in values}
    lab.set(**values)
    with pytest.raises(ConfigError):
        lab.wait(20)
    assert sentence in lab.controls.message.value
    assert lab.picture.image.value == good and lab.record is shown
    lab.set(**before)
    done(lab)
    assert lab.controls.message.value == "" and lab.error is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"expert": 3}, "SpecializationLab has no knob 'expert'"),
        ({"activation": "swish"}, "activation (σ) must be one of 'cubic', 'linear', 'relu', 'celu', 'gelu', 'tanh'"),
        ({"noise": float("nan")}, "noise (σ_p) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (M) must be a whole number: got experts=2.5"),
    ],
)
def test_a_value_that_no_widget_can_hold_is_refused_in_words(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        SpecializationLab(**values)


def test_divergence_is_said_and_leaves_the_picture_finite(make: Make) -> None:
    lab = done(make(trials=3))
    for part in (lab.record.study, lab.record.reference):
        part.diverged[[0, 2]] = True
        for value in part.values.values():
            value[[0, 2]] = np.nan
    said = lab.trouble(lab.record)
    assert "The loss of the cubic experts became infinite in trials 1, 3: try smaller steps." in said
    assert "linear experts" in said
    lab.picture.draw(lab.record)
    assert np.isfinite(lab.picture.entropy.thick["study"].get_ydata()).all()
    assert "–" not in lab.caption(lab.record)
    lab.record.study.values["test_accuracy"][:] = np.nan
    lab.record.study.values["dispatch_entropy"][:] = np.nan
    lab.picture.draw(lab.record)
    assert "median entropy – (cubic)" in lab.caption(lab.record)


# ---- code, data, and the rest around it ----


@pytest.mark.parametrize(
    "values",
    [{}, {"gamma": 3.0, "noise": 2.0, "experts": 2, "seed": 4}, {"activation": "linear"}, {"activation": "gelu"}],
)
def test_copied_code_gives_the_lab_s_numbers(
    make: Make, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    lab = done(make(**values))
    names: dict[str, Any] = {}
    exec(lab.code(lab.values), names)
    study, reference = lab.record.activations
    assert study == values.get("activation", "cubic") and reference == ("cubic" if study == "linear" else "linear")
    for model, ours in ((study, lab.record.study), (reference, lab.record.reference)):
        for name in ours.values:
            np.testing.assert_array_equal(names[model][name], ours[name])
    assert f"{study:6} [" in capsys.readouterr().out


def test_both_models_train_on_the_same_samples() -> None:
    study, reference = runs(DEFAULTS)
    assert study.replace(model=reference.model) == reference
    assert study.model.replace(activation="linear") == reference.model
    for split in ("train", "test"):
        drawn = [run.task.sample(20, trials=[0, 1], seed=run.seed, split=split).patches() for run in (study, reference)]
        np.testing.assert_array_equal(*drawn)


def test_code_is_short_where_values_are_the_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert "task = ClusterTask()" in lines
    assert "cubic = final(train(SwitchMoE(filters=8, initial_scale=0.0008), task, **settings))" in lines


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_saved_data_hold_both_models_and_say_how_to_make_them(make: Make, tmp_path: Path, suffix: str) -> None:
    lab = done(make())
    path = lab.save_data(tmp_path / f"run.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "nc":
        with xr.open_dataset(path) as data:
            assert list(data["model"].values) == ["cubic", "linear"]
            assert len(data["step"]) == len(lab.records) - 1, "the first record has no reference"
            np.testing.assert_allclose(
                data["dispatch"].sel(model="linear").isel(step=-1), lab.record.reference["dispatch"]
            )
            assert data.attrs["call_linear"] == lab.record.reference.origin["call"]
            assert data.attrs["call_cubic"] == lab.record.study.origin["call"]


def test_headless_it_trains_inside_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    lab = SpecializationLab(**SMALL)
    try:
        assert lab.finished and lab.records[-1].ended
        with pytest.raises(ConfigError, match=r"got d=6, K=4"):
            lab.set(dimension=6)
        lab.set(dimension=20)
        assert lab.finished and lab.error is None
    finally:
        lab.close()


def test_closing_leaves_no_thread_and_no_widget() -> None:
    check_that_closing_leaves_nothing(SpecializationLab, SMALL)


def test_a_run_that_does_not_wait_is_drawn_more_rarely(make: Make) -> None:
    lab = make()
    assert lab._runner.frames == SpecializationLab.fast_frames
    lab.controls.speed.value = "easy to follow"
    assert lab._runner.frames == SpecializationLab.frames <= 15 and lab._runner.pace > 0


@pytest.mark.parametrize(
    "values",
    [{"experts": 3}, {"router_learning_rate": 0.0}, {"noise": 3.0}, {"gamma": 3.0}, {"samples": 400}],
)
def test_the_accuracy_axis_has_room_where_experts_cannot_specialise(values: dict[str, Any]) -> None:
    assert lowest_accuracy(DEFAULTS) == 0.9
    assert lowest_accuracy({**DEFAULTS, **values}) == 0.5
