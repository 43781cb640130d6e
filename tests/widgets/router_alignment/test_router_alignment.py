"""RouterAlignmentLab driven as a student drives it: every knob, wrong values, both kinds of patches, its picture."""

from __future__ import annotations

import re
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from moe_lab.config import ConfigError
from moe_lab_widgets import RouterAlignmentLab
from moe_lab_widgets.drawing.words import median, percent
from moe_lab_widgets.router_alignment.panels.outcome import SMALLEST_BAR
from moe_lab_widgets.router_alignment.settings import (
    DIGITS,
    KNOBS,
    OWN_DEFAULTS,
    SYNTHETIC,
    total_steps,
)
from tests.widgets.labs import ended, making, move, pixels

SMALL = {"trials": 2, "steps": 20, "samples": 40}
Make = Callable[..., RouterAlignmentLab]

ONLY_SYNTHETIC = [knob.name for knob in KNOBS if knob.enabled_when is not None]


@pytest.fixture
def make() -> Iterator[Make]:
    with making(RouterAlignmentLab, SMALL) as make:
        yield make


def done(lab: RouterAlignmentLab) -> RouterAlignmentLab:
    """Waits for the end of the run."""
    return ended(lab, 60)


# ---- knobs ----

MOVES = {
    **{"steps": 40, "patches_per_expert": 2, "experts": 5, "patches": 20, "samples": 60, "noise": 0.8, "neurons": 80},
    **{"trials": 3, "seed": 3, "distractors": 2, "gap": 0.5, "delta_d": 0.3, "delta_r": 0.7},
}


@pytest.mark.parametrize("source", [DIGITS, SYNTHETIC])
def test_every_knob_reaches_the_run_and_the_picture(make: Make, source: str) -> None:
    lab = done(make(source=source))
    for name, value in MOVES.items():
        if source == DIGITS and name in ONLY_SYNTHETIC:
            continue  # its slider is greyed out, as another test checks
        before = pixels(lab)
        move(lab, name, value)
        done(lab)
        assert lab.values[name] == value
        call = lab.record.joint.origin["call"]
        assert {"steps": "epochs=20"}.get(name, f"{name}={value}") in call, call
        joint = lab.record.joint
        values = lab.values
        assert joint["alignment"].shape == (values["trials"], values["experts"], 2)
        assert joint["example_kept"].shape[-1] == values["patches"]
        assert (joint["example_kept"].sum(-1) == values["patches_per_expert"]).all()
        assert not np.array_equal(pixels(lab), before), f"the picture did not change with {name}"


def test_a_moved_slider_starts_again_at_step_0_with_the_latest_values(make: Make) -> None:
    lab = make()
    for value in (0.1, 0.5, 0.9):
        move(lab, "noise", value)
    done(lab)
    assert lab.records[0].step == 0
    assert "noise=0.9" in lab.record.joint.origin["call"]


def test_changing_the_patches_brings_their_own_defaults_and_offers_their_own_knobs(make: Make) -> None:
    lab = RouterAlignmentLab(trials=2, playing=False)
    try:
        assert {name: lab.values[name] for name in OWN_DEFAULTS[DIGITS]} == OWN_DEFAULTS[DIGITS]
        assert all(lab.controls.knobs[name].disabled for name in ONLY_SYNTHETIC)
        move(lab, "samples", 300)
        move(lab, "source", SYNTHETIC)
        lab.wait(20)
        assert lab.values["patches_per_expert"] == 6 and lab.values["steps"] == 200
        assert lab.values["samples"] == 300, "what the student has set stays"
        assert not any(lab.controls.knobs[name].disabled for name in ONLY_SYNTHETIC)
        assert "PatternTask" in lab.record.joint.origin["call"]
        move(lab, "source", DIGITS)
        lab.wait(20)
        assert lab.values["patches_per_expert"] == 4
        assert "DigitTask" in lab.record.joint.origin["call"]
    finally:
        lab.close()


@pytest.mark.parametrize("experts", [1, 3, 8])
def test_few_and_many_experts_and_every_l(make: Make, experts: int) -> None:
    lab = make(experts=experts, neurons=840, patches=8, steps=2)
    for kept in (1, *range(2 + experts % 2, 8, 2), 8):
        move(lab, "patches_per_expert", kept)
        done(lab)
        assert (lab.record.joint["example_kept"][0].sum(-1) == kept).all()
        assert np.isfinite(lab.record.joint["expert_coverage"]).all()
        if kept == 8:  # every expert receives everything
            assert (lab.record.joint["coverage"] == 1).all()


def test_fifty_random_moves_leave_a_lab_that_works(make: Make) -> None:
    draw = np.random.default_rng(7)
    lab = make()
    for _ in range(50):
        name = draw.choice([knob.name for knob in KNOBS])
        widget = lab.controls.knobs[name]
        options = widget.options if hasattr(widget, "options") else None
        if options is not None:
            widget.value = draw.choice(options)
        else:
            widget.value = widget.min + widget.step * draw.integers(
                0, round((widget.max - widget.min) / widget.step) + 1
            )
        if draw.random() < 0.2:
            time.sleep(0.05)
    lab.set(source=DIGITS, patches=16, patches_per_expert=4, experts=4, neurons=40, noise=0.0, **SMALL)
    done(lab)
    assert lab.error is None and lab.controls.message.value == ""
    assert lab.records[-1].ended


# ---- wrong values ----


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"patches_per_expert": 10, "patches": 8}, "patches_per_expert (l) must be at most patches (n): got l=10, n=8"),
        (
            {"experts": 3},
            "neurons (m) must be divisible by experts (k), so that all experts have the same size: got m=40, k=3",
        ),
        ({"source": SYNTHETIC, "patches_per_expert": 4, "gap": 1.2, "delta_r": 0.3}, "gap must be at most 2 delta_r"),
        ({"source": SYNTHETIC, "patches_per_expert": 4, "delta_d": 0.9}, "gap must be at most 0.402 at this delta_d"),
        (
            {"samples": 41},
            "samples (N) must be a positive multiple of classes (2), so that classes are balanced: got N=41",
        ),
        ({"samples": 10}, "batch_size (B) must be at most samples (N): got B=20, N=10"),
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


def test_a_value_that_no_slider_has_is_refused_when_the_lab_is_made() -> None:
    with pytest.raises(ValueError, match="RouterAlignmentLab has no knob 'expert'"):
        RouterAlignmentLab(expert=3)


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"source": "faces"}, "source must be one of 'digits', 'synthetic': got source='faces'"),
        ({"noise": "loud"}, "noise must be a finite number: got noise='loud'"),
        ({"noise": float("nan")}, "noise must be a finite number: got noise=nan"),
        ({"samples": 100.5}, "samples (N) must be a whole number: got samples=100.5"),
    ],
)
def test_a_value_that_no_widget_can_hold_is_refused_in_words(values: dict[str, object], sentence: str) -> None:
    with pytest.raises(ValueError, match=re.escape(sentence)):
        RouterAlignmentLab(**values)


# ---- what it shows ----


@pytest.mark.parametrize(
    "values", [{}, {"source": SYNTHETIC, "delta_d": 0.5, "gap": 0.6}, {"source": SYNTHETIC, "delta_d": -0.7}]
)
def test_every_router_lies_inside_the_ellipse_that_is_drawn(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    overlap = lab.picture.overlap
    x, y = np.array([record.joint["alignment"][0] for record in lab.records])[..., :2].reshape(-1, 2).T
    assert (x**2 + y**2 - 2 * overlap * x * y <= 1 - overlap**2 + 1e-5).all()


def test_the_trails_marks_and_curves_are_the_records(make: Make) -> None:
    lab = done(make())
    picture, record = lab.picture, lab.record
    for expert, trail in enumerate(picture.plane.trails):
        paths = np.array([one.joint["alignment"][0, expert] for one in lab.records])
        np.testing.assert_allclose(np.array(trail.get_data()).T, paths)
    steps, middle = picture.outcome.thick["joint"].get_data()
    assert steps[-1] == pytest.approx(record.step / record.total)
    assert middle[-1] == pytest.approx(np.median(record.joint["test_accuracy"]))
    bars = picture.outcome.bars.get_paths()
    heights = np.array([path.vertices[:, 1].max() for path in bars]).reshape(-1, 2)
    np.testing.assert_allclose(heights, np.maximum(record.joint["expert_coverage"][0], SMALLEST_BAR))


def test_ticks_and_crosses_say_who_receives_o(make: Make) -> None:
    lab = done(make(experts=8))
    picture, joint = lab.picture, lab.record.joint
    for side in range(2):
        place = int(np.flatnonzero(joint["example_roles"][0, side] == 0)[0])
        received = joint["example_kept"][0, side, :, place].astype(bool)
        assert len(picture.patches.ticks[side].get_xdata()) == received.sum()
        assert len(picture.patches.crosses[side].get_xdata()) == (~received).sum()


def test_captions_tell_start_run_end_and_failure(make: Make) -> None:
    lab = done(make(steps=100, samples=100, trials=8))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("Step 0: routers are random; o₁ reaches some expert in ")
    assert "point" in captions[-1] and "accuracy" in captions[-1] and "CNN" in captions[-1]
    lab.set(patches_per_expert=1)
    done(lab)
    assert lab.record.moved == 0, "with l = 1 the gate is the softmax of one value"
    assert "the routers have not moved at all" in lab.caption(lab.record)
    assert "reaches an expert in only" in lab.caption(lab.record)
    assert "aria-live" in lab.controls.caption.value and "not moved" in lab.controls.caption.value


def test_a_model_that_has_ended_stays_while_the_other_goes_on(make: Make) -> None:
    lab = done(make(source=SYNTHETIC, steps=400, samples=100))
    records = lab.records
    ends = [next(i for i, r in enumerate(records) if getattr(r, name).finished.all()) for name in ("joint", "cnn")]
    assert ends[0] < ends[1] == len(records) - 1
    assert all(r.joint is records[ends[0]].joint for r in records[ends[0] :])
    assert records[-1].ended and not records[-2].ended


def test_the_same_seed_gives_the_same_records_and_copied_code_the_same_numbers(
    make: Make, capsys: pytest.CaptureFixture[str]
) -> None:
    for values in ({}, {"source": SYNTHETIC, "gap": 0.6, "experts": 2, "seed": 4}):
        lab = done(make(**values))
        names: dict[str, Any] = {}
        exec(lab.code(lab.values), names)
        for model, ours in (("pmoe", lab.record.joint), ("cnn", lab.record.cnn)):
            theirs = names[model]
            for name in ours.values:
                np.testing.assert_array_equal(theirs[name], ours[name])
        assert "pMoE" in capsys.readouterr().out


def test_every_story_runs_and_says_what_to_see(make: Make) -> None:
    names = [story.name for story in RouterAlignmentLab.stories]
    assert len(names) == len(set(names)) >= 7
    lab = make()
    for story in RouterAlignmentLab.stories:
        lab.controls.story.value = story.name
        lab.pause()
        assert lab.wait(30)
        assert lab.error is None
        assert {name: lab.values[name] for name in story.values} == dict(story.values)
        assert story.what_to_see[:20] in lab.controls.see.value
        lab.play()


# ---- around it ----


def test_scrubbing_shows_an_earlier_record_as_it_was(make: Make) -> None:
    lab = done(make())
    first, last = lab.records[3], lab.records[-1]
    lab.scrub(3)
    lab.wait(10)
    assert lab.record is first
    assert len(lab.picture.plane.trails[0].get_xdata()) == 4
    lab.scrub(None)
    lab.wait(10)
    assert lab.record is last


def test_pinned_curves_stay_until_they_are_taken_away(make: Make) -> None:
    lab = done(make())
    plain = pixels(lab)
    lab.pin()
    lab.wait(10)
    pinned = pixels(lab)
    assert not np.array_equal(pinned, plain)
    move(lab, "noise", 1.0)
    done(lab)
    assert len(lab.picture.outcome.shown_pins) == 3
    move(lab, "noise", 0.0)
    done(lab)
    lab.unpin()
    lab.wait(10)
    np.testing.assert_array_equal(pixels(lab), plain)


@pytest.mark.parametrize("suffix", ["nc", "json"])
def test_saved_data_hold_both_models_and_say_how_to_make_them(make: Make, tmp_path: Path, suffix: str) -> None:
    lab = done(make(source=SYNTHETIC, steps=200, samples=100))
    path = lab.save_data(tmp_path / f"run.{suffix}")
    assert path.stat().st_size > 1000
    if suffix == "nc":
        with xr.open_dataset(path) as data:
            assert list(data["model"].values) == ["joint", "cnn"]
            kept = data["test_accuracy"].sel(model="cnn").dropna("step").isel(step=-1)
            np.testing.assert_allclose(kept, lab.record.cnn["test_accuracy"])


def test_a_projector_gets_a_larger_picture_with_whole_tiles(make: Make, tmp_path: Path) -> None:
    lab = done(make(projector=True))
    assert pixels(lab).shape[:2] == (672, 1650)
    saved = np.asarray(Image.open(lab.save_picture(tmp_path / "picture.png")))
    assert saved.shape[:2] == (720, 1650)


def test_headless_it_trains_inside_the_cell_and_errors_reach_it(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    lab = RouterAlignmentLab(**SMALL)
    try:
        assert lab.finished and lab.records[-1].ended
        with pytest.raises(ConfigError, match=r"got l=16, n=4"):
            lab.set(patches=4, patches_per_expert=16)
        lab.set(patches=16)
        assert lab.finished and lab.error is None
    finally:
        lab.close()


def test_divergence_is_said_and_leaves_the_picture_finite(make: Make) -> None:
    lab = done(make())
    record = lab.record
    record.joint.diverged[1] = True
    record.joint.values["test_accuracy"][1] = np.nan
    assert "The pMoE's loss became infinite in trial 2" in lab.trouble(record)
    lab.picture.draw(record)
    assert np.isfinite(lab.picture.outcome.thick["joint"].get_ydata()).all()


def test_medians_and_percents_of_nothing_are_not_numbers() -> None:
    np.testing.assert_array_equal(median(np.array([[0.5, np.nan, 1.0], [np.nan] * 3])), [0.75, np.nan])
    assert percent(float("nan")) == "–" and percent(0.996) == "100 %"


def test_total_steps_are_whole_passes() -> None:
    assert total_steps({"samples": 100, "steps": 100}) == 100
    assert total_steps({"samples": 140, "steps": 100}) == 105
    assert total_steps({"samples": 1000, "steps": 20}) == 50


def test_closing_leaves_no_thread_and_no_widget() -> None:
    before = set(threading.enumerate())
    lab = RouterAlignmentLab(**SMALL)
    assert set(threading.enumerate()) > before
    lab.close()
    assert set(threading.enumerate()) <= before
    assert lab.picture.image.comm is None


def test_a_run_that_does_not_wait_is_drawn_more_rarely(make: Make) -> None:
    lab = make()
    assert lab._runner.frames == RouterAlignmentLab.fast_frames
    lab.controls.speed.value = "easy to follow"
    assert lab._runner.frames == RouterAlignmentLab.frames and lab._runner.pace > 0
