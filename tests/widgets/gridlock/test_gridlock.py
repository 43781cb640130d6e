"""GridlockLab driven as a student drives it: every knob, wrong values, its words, its code and its data."""

from __future__ import annotations

import re
import time
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.config import ConfigError
from moe_lab.recovery.tensor import RankError
from moe_lab_widgets import GridlockLab
from moe_lab_widgets.gridlock import settings
from moe_lab_widgets.gridlock.settings import (
    GATE_ITERATIONS,
    KNOBS,
    LIVE,
    PRINTED,
    SLOWEST_PIECE,
    code,
    error_limits,
    power_stride,
    record_every,
    runs,
    seconds_of_step,
)
from tests.widgets.gridlock.small import AFTER, POWER, SMALL, Make, done, make, move, pixels, shown
from tests.widgets.labs import check_that_closing_leaves_nothing

__all__ = ["make"]
DEFAULTS = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}
EM = GATE_ITERATIONS + AFTER


# ---- knobs ----

MOVES: dict[str, tuple[Any, str]] = {
    "samples": (700, "samples=700"), "noise": (0.3, "noise=0.3"), "dimension": (7, "dimension=7"),
    "experts": (4, "experts=4"), "first_share": (0.3, "first_share=0.3"),
    "gating": ("orthogonal", "gating='orthogonal'"), "iterations": (28, "JointEM(iterations=28)"),
    "trials": (1, "trials=1"), "seed": (3, "seed=3"), "third": ("y", "third='y'"),
    "activation": ("leaky-relu", "activation='leaky-relu'"),
    "regressors": ("random", "MixtureTask(experts=4, dimension=7, noise=0.3, activation='leaky-relu'"),
}  # fmt: skip


def test_every_knob_reaches_both_runs_and_the_picture(make: Make) -> None:
    lab = done(make())
    for name, (value, words) in MOVES.items():
        before = pixels(lab)
        move(lab, name, value)
        done(lab)
        assert lab.values[name] == value
        record, values = lab.record, lab.values
        only = {"third": "joint", "iterations": "spectral"}
        for method in ("spectral", "joint"):
            reaches = only.get(name) != method
            assert (words in record.of(method).origin["call"]) == reaches, name
            assert record.of(method)["cosines"].shape == (values["trials"], values["experts"], values["experts"])
        assert record.joint.step == values["iterations"]
        assert record.spectral.step == values["experts"] * POWER + EM
        assert not np.array_equal(pixels(lab), before), f"the picture did not change with {name}"
    assert set(MOVES) | {"shown"} == {knob.name for knob in KNOBS} | {"seed"}


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


def test_the_trial_on_show_changes_the_picture_and_not_the_run(make: Make) -> None:
    lab = done(make(trials=3))
    records, first = lab.records, pixels(lab)
    move(lab, "shown", 3)
    shown(lab)
    assert lab.values["shown"] == 3
    third = pixels(lab)
    assert not np.array_equal(third, first)
    assert all(new is old for new, old in zip(lab.records, records, strict=True)), "nothing ran again"
    drawn = float(lab.picture.matrices.sides["joint"].ends[0])
    assert drawn == pytest.approx(lab.record.joint["cosines"][2, 0, 0], abs=0.011)
    lab.set(shown=1)
    shown(lab)
    np.testing.assert_array_equal(pixels(lab), first)
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
    lab.set(trials=4, shown=4)
    shown(lab)
    assert (slider.value, slider.disabled, lab.values["shown"]) == (4, False, 4)


def test_no_label_is_too_wide_for_three_sliders_in_a_row() -> None:
    assert max(len(knob.label) for knob in KNOBS) <= 27
    assert len({knob.symbol for knob in KNOBS}) == len(KNOBS)


def test_a_moved_slider_starts_again_with_the_latest_values(make: Make) -> None:
    lab = make()
    for value in (0.3, 0.5, 0.7):
        move(lab, "noise", value)
    done(lab)
    assert lab.records[0].spectral.step == 0
    assert "noise=0.7" in lab.record.spectral.origin["call"]


def test_both_ends_of_every_slider_begin(make: Make) -> None:
    """A start, a power iteration and the first of joint EM: the rest of a run is the same for all values."""
    lab = make(trials=1, playing=False)
    for knob in KNOBS:
        for end in knob.slider[:2] if knob.slider else ():
            room = {"dimension": 16, "samples": 4000} if knob.name == "experts" else {}
            lab.set(**{**SMALL, "trials": 1, **room, knob.name: end})
            shown(lab)
            lab.step()
            shown(lab)
            assert lab.error is None and lab.controls.message.value == "", knob.name
            assert len(lab.records) == 2 and np.isfinite(lab.record.joint["error"]).all()


def test_a_record_takes_little_even_where_em_is_dear() -> None:
    highest = {**DEFAULTS, **{knob.name: knob.slider[1] for knob in KNOBS if knob.slider}}
    assert record_every(highest) == 1
    assert record_every(DEFAULTS) == 2 and 2 * seconds_of_step(DEFAULTS) <= SLOWEST_PIECE
    assert record_every({**DEFAULTS, **SMALL, "iterations": 320}) == 4, "about 80 records"
    assert record_every({**DEFAULTS, **SMALL, "iterations": 240}) == 2, "what is stuck is compared over 20 iterations"
    assert [power_stride({"experts": k}) for k in (2, 4, 8)] == [1, 1, 2]


def test_the_default_is_set_in_one_place() -> None:
    assert {name: DEFAULTS[name] for name in LIVE} == LIVE


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
    assert lab.records[-1].ended


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "error", "sentence"),
    [
        ({"dimension": 4, "experts": 6}, ConfigError, "dimension (d) must be at least experts (k)"),
        (
            {"dimension": 6, "experts": 6, "gating": "orthogonal"},
            ConfigError,
            "dimension (d) must be greater than experts (k), so that gates can be orthogonal to all regressors: got",
        ),
        ({"samples": 10}, ConfigError, "samples (n) must be at least dimension (d) times experts (k)"),
        ({"experts": 8, "dimension": 8, "samples": 500}, RankError, "T2 must have k=8 positive eigenvalues: got -"),
    ],
)
def test_a_wrong_combination_is_said_in_a_sentence_and_the_last_good_picture_stays(
    make: Make, values: dict[str, Any], error: type[Exception], sentence: str
) -> None:
    lab = shown(make(samples=1500, playing=False))
    good, record = lab.picture.image.value, lab.record
    before = {name: lab.values[name] for name in values}
    lab.set(**values)
    with pytest.raises(error):
        lab.wait(20)
    assert sentence in lab.controls.message.value
    assert lab.record is record
    assert error is RankError or lab.picture.image.value == good
    lab.set(**before)
    shown(lab)
    assert lab.controls.message.value == "" and lab.error is None


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"expert": 3}, "GridlockLab has no knob 'expert'"),
        ({"activation": "swish"}, "activation (g) must be one of 'identity', 'relu', 'leaky-relu', 'sigmoid', 'tanh'"),
        ({"first_share": 2}, "first_share (p) must be one of 'none', 0.1, 0.3, 0.5: got first_share=2"),
        ({"noise": float("nan")}, "noise (σ) must be a finite number: got noise=nan"),
        ({"experts": 2.5}, "experts (k) must be a whole number: got experts=2.5"),
    ],
)
def test_a_value_that_no_widget_can_hold_is_refused_in_words(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        GridlockLab(**values)


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
    lab.picture.draw(record)
    assert np.isfinite(lab.picture.errors.thick["joint"].get_ydata()).all()
    assert record.falling("joint")[[0, 2]].sum() == 0 and not record.stuck("joint")[[0, 2]].any()
    assert "nan" not in lab.caption(record)
    for part in (*record.second, record.spectral):
        for value in part.values.values():
            value[:] = np.nan
    lab.picture.draw(record)
    assert "joint EM 0 of 3 (–)" in lab.caption(record)


# ---- code, data, and the rest around it ----


@pytest.mark.parametrize("values", [{"activation": "relu", "first_share": 0.3, "third": PRINTED, "seed": 4}])
def test_copied_code_gives_the_lab_s_numbers(
    make: Make, capsys: pytest.CaptureFixture[str], values: dict[str, Any]
) -> None:
    lab = done(make(**values))
    names: dict[str, Any] = {}
    exec(lab.code(lab.values), names)
    for method in ("spectral", "joint"):
        ours = lab.record.of(method)
        for name in ours.values:
            np.testing.assert_array_equal(names[method][name], ours[name])
    assert "joint EM error [" in capsys.readouterr().out


def test_both_methods_see_the_same_samples() -> None:
    spectral, joint = runs(DEFAULTS)
    changed = {"model": joint.model, "record_every": joint.record_every}
    assert spectral.replace(**changed) == joint


def test_code_names_what_differs_from_the_library_s_defaults() -> None:
    lines = code(DEFAULTS).splitlines()
    assert "task = MixtureTask(experts=8, dimension=16, regressors='orthonormal')" in lines
    assert "settings = dict(samples=6000, trials=3, seed=0, device='cpu')" in lines
    assert "spectral = final(train(Spectral(power_iterations=10, joint_iterations=40), task, **settings))" in lines
    assert "joint = final(train(JointEM(iterations=160), task, **settings))" in lines


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_saved_data_hold_both_methods_and_say_how_to_make_them(make: Make, tmp_path: Path, suffix: str) -> None:
    lab = done(make())
    path = lab.save_data(tmp_path / f"run.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "nc":
        with xr.open_dataset(path) as data:
            assert list(data["model"].values) == ["spectral", "joint"]
            spectral = data["error"].sel(model="spectral").dropna("step", how="all")
            assert spectral["step"].values.tolist() == list(range(3 * POWER + EM + 1)), "every iteration"
            np.testing.assert_allclose(spectral.isel(step=-1), lab.record.spectral["error"])
            joint = data["error"].sel(model="joint", step=24)
            np.testing.assert_allclose(joint, lab.record.joint["error"])
            assert data.attrs["call_joint"] == lab.record.joint.origin["call"]


def test_headless_it_runs_inside_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setattr(GridlockLab, "budget", 300.0)
    monkeypatch.setattr(GridlockLab, "frames", 1.0)
    monkeypatch.setattr(settings, "EVERYTHING_ITERATIONS", AFTER)
    lab = GridlockLab(**{**SMALL, "samples": 200})
    try:
        assert lab.finished and lab.records[-1].ended
        with pytest.raises(ConfigError, match=r"got d=4, k=5"):
            lab.set(dimension=4, experts=5)
        lab.set(dimension=6, experts=2)
        assert lab.finished and lab.error is None
        lab.set(shown=4)
        assert lab.values["shown"] == 2 and lab.picture.wanted == 1
    finally:
        lab.close()


def test_closing_leaves_no_thread_and_no_widget() -> None:
    check_that_closing_leaves_nothing(GridlockLab, SMALL)


def test_a_run_that_does_not_wait_is_drawn_more_rarely(make: Make) -> None:
    lab = make()
    assert lab._runner.frames == GridlockLab.fast_frames
    lab.controls.speed.value = "easy to follow"
    assert lab._runner.frames == GridlockLab.frames <= 15 and lab._runner.pace > 0


@pytest.mark.parametrize("values", [{}, {"experts": 2, "dimension": 10, "samples": 2000}, {"samples": 2000}])
def test_the_error_s_axis_has_room_for_a_random_start_and_for_the_best(make: Make, values: dict[str, Any]) -> None:
    low, high = error_limits({**DEFAULTS, **values})
    lab = done(make(**{**DEFAULTS, **values, "iterations": 1, "trials": 1}))
    best, start = lab.record.best(), lab.records[-1].errors("joint")[1][0]
    assert best is not None and low < best.min() / 1.5 and start.max() * 1.2 < high
    assert low > best.min() / 12, "and not much more room than that"
