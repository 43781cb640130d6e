"""PhaseTransitionLab driven as a student drives it: every knob, wrong values, both kinds of patches, its picture."""

from __future__ import annotations

import contextlib
import io
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr
from PIL import Image

from moe_lab import theme
from moe_lab.config import ConfigError
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets import PhaseTransitionLab
from moe_lab_widgets.phase_transition import settings as of
from moe_lab_widgets.phase_transition.panels.needed import pinned_name
from moe_lab_widgets.phase_transition.panels.success import MAP
from moe_lab_widgets.phase_transition.panels.success_map import SuccessMap, word
from moe_lab_widgets.phase_transition.picture import PhasePicture
from moe_lab_widgets.phase_transition.record import coverage_at, samples_needed

SMALL = {"trials": 5, "patches": 5}
Make = Callable[..., PhaseTransitionLab]


@pytest.fixture(autouse=True)
def _few_samples(monkeypatch: pytest.MonkeyPatch) -> None:
    """Two columns instead of eight: a map in a fraction of a second."""
    for key in of.SAMPLES:
        monkeypatch.setitem(of.SAMPLES, key, (20, 60))  # type: ignore[arg-type]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[PhaseTransitionLab] = []

    def make(**values: Any) -> PhaseTransitionLab:
        made.append(PhaseTransitionLab(**{**SMALL, **values}))
        return made[-1]

    yield make
    for lab in made:
        lab.close()


def done(lab: PhaseTransitionLab) -> PhaseTransitionLab:
    assert lab.wait(90), "the map was not full within 90 seconds"
    assert lab.finished
    return lab


def pixels(lab: PhaseTransitionLab) -> np.ndarray:
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: PhaseTransitionLab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value


def check(lab: PhaseTransitionLab) -> None:
    """After a finished run: records, picture, texts and code belong to the values that the widgets show."""
    values, last = lab.values, lab.records[-1]
    for name, widget in lab.controls.knobs.items():
        expected = values[name]
        assert widget.value == (pytest.approx(expected) if isinstance(expected, float) else expected), name
    kept, samples = of.grid_of(values)
    assert (last.patches_per_expert, last.samples) == (kept, samples)
    assert last.done.shape == (len(kept), len(samples), values["trials"]) and last.done.all()
    assert np.isfinite(last.test_accuracy).all() and np.isfinite(last.coverage).all()
    picture: PhasePicture = lab.picture
    assert lab.record is last is picture.record
    setting = of.setting_of(values)
    assert picture.setting == setting
    for axes in (picture.success.axes, picture.needed.axes, picture.coverage.axes):
        assert [label.get_text() for label in axes.get_yticklabels()] == [str(one) for one in kept]
    np.testing.assert_array_equal(picture.success.points.share, last.share)
    assert picture.success.points.running == {} and (picture.success.points.filled == 1).all()
    dashes = [
        line for line in picture.success.axes.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 2
    ]
    assert [line.get_ydata()[0] for line in dashes] == ([] if setting.l_star is None else [setting.l_star - 1.5])
    assert lab.caption(last) in lab.controls.caption.value.replace("&lt;", "<").replace("&#x27;", "'")
    assert f"{last.done.size} of {last.done.size} trainings" in lab.controls.status.value
    assert "ended" in lab.controls.status.value and lab.controls.message.value == ""
    assert of.task_of(values).code() in lab.code(values) and f"seed={values['seed']}" in lab.code(values)
    assert len(np.unique(pixels(lab).astype(int) @ [65536, 256, 1])) > 50, "the picture is empty"


# ---- knobs ----

MOVES = [
    ("patches", 4),
    ("patches", 9),
    ("gap", 0.4),
    ("delta_d", -0.4),
    ("delta_r", 0.8),
    ("noise", 0.5),
    ("seed", 4),
    ("distractors", 1),
    ("trials", 10),
    ("patches", 5),
    ("training", of.JOINT),
    ("experts", 2),
    ("source", of.DIGITS),
]


def test_every_knob_starts_the_map_again_with_its_value(make: Make) -> None:
    lab = done(make())
    for name, value in MOVES:
        before, picture = lab.records[-1], pixels(lab)
        move(lab, name, value)
        done(lab)
        assert lab.values[name] == value
        check(lab)
        after = lab.records[-1]
        different = before.done.shape != after.done.shape or (before.test_accuracy != after.test_accuracy).any()
        assert after is not before and different, f"{name} should matter"
        assert (pixels(lab) != picture).any(), name


def test_k_matters_for_joint_training_only(make: Make) -> None:
    lab = done(make(training=of.JOINT))
    assert not lab.controls.knobs["experts"].disabled
    before = lab.records[-1]
    move(lab, "experts", 2)
    done(lab)
    check(lab)
    assert (before.coverage != lab.records[-1].coverage).any()
    assert "joint training (k = 2)" in _words(lab)
    move(lab, "training", of.SEPARATE)
    done(lab)
    check(lab)
    assert lab.controls.knobs["experts"].disabled and "separate training (k = 2)" in _words(lab)


def _words(lab: PhaseTransitionLab) -> str:
    return " | ".join(text.get_text() for text in lab.picture.figure.findobj(lambda one: hasattr(one, "get_text")))


def test_digits_have_no_l_star_and_grey_out_what_they_lack(make: Make) -> None:
    lab = done(make())
    assert "l* = 3" in _words(lab)
    move(lab, "source", of.DIGITS)
    done(lab)
    check(lab)
    assert "l* =" not in _words(lab) and "l*" not in lab.caption(lab.record)
    assert lab.values["noise"] == lab.controls.knobs["noise"].value == 0, "noise moves along from its usual place"
    assert all(lab.controls.knobs[name].disabled for name in ("distractors", "gap", "delta_d", "delta_r"))
    move(lab, "source", of.SYNTHETIC)
    done(lab)
    assert lab.values["noise"] == of.NOISE[of.SYNTHETIC]
    assert not any(lab.controls.knobs[name].disabled for name in ("distractors", "gap", "delta_d", "delta_r"))
    move(lab, "noise", 0.7)
    move(lab, "source", of.DIGITS)
    done(lab)
    assert lab.values["noise"] == 0.7, "noise that was moved stays"


def test_rows_above_n_are_left_out(make: Make) -> None:
    lab = done(make(patches=4))
    assert lab.records[-1].patches_per_expert == (1, 2, 3, 4)
    move(lab, "patches", 32)
    done(lab)
    assert lab.records[-1].patches_per_expert == of.KEPT
    check(lab)


def test_random_moves_of_all_knobs(make: Make) -> None:
    lab = make()
    random = np.random.default_rng(1)
    for _ in range(40):
        name = [*lab.controls.knobs, "seed"][random.integers(len(lab.controls.knobs) + 1)]
        widget: Any = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
        if hasattr(widget, "options"):
            widget.value = widget.options[random.integers(len(widget.options))]
        else:
            step = getattr(widget, "step", 1)
            places = min(round((widget.max - widget.min) / step), 20)
            widget.value = widget.min + step * int(random.integers(places + 1))
        time.sleep(float(random.choice([0, 0.01, 0.1])))
    assert len([one for one in threading.enumerate() if one.name == "moe-lab run" and one is lab._runner._thread]) == 1
    lab.set(**{knob.name: knob.default for knob in of.KNOBS}, seed=1)
    lab.set(**SMALL)
    done(lab)
    check(lab)


# ---- wrong values ----


@pytest.mark.parametrize(
    ("start", "wrong", "sentence"),
    [
        ({}, {"delta_r": 0.5}, "gap must be at most 2 delta_r"),
        ({}, {"delta_d": 0.5}, "gap must be at most 0.9 at this delta_d"),
        ({"patches": 4}, {"distractors": 4}, "distractors must be at most patches (n) - 1"),
        ({"training": of.JOINT}, {"source": of.SYNTHETIC, "delta_r": 0.1}, "gap must be at most 2 delta_r"),
    ],
)
def test_a_wrong_value_is_said_and_the_last_picture_stays(
    make: Make, start: dict[str, Any], wrong: dict[str, Any], sentence: str
) -> None:
    lab = done(make(**start))
    before, good = pixels(lab), {name: lab.values[name] for name in wrong}
    for name, value in wrong.items():
        move(lab, name, value)
    with pytest.raises(ConfigError) as caught:
        lab.wait(30)
    assert sentence in str(caught.value) and str(caught.value) in lab.controls.message.value
    assert (pixels(lab) == before).all()
    lab.set(**good)
    done(lab)
    check(lab)


# ---- the recorded run ----


def test_scrubbing_shows_the_map_as_it_was(make: Make) -> None:
    lab = done(make())
    middle = len(lab.records) // 2
    lab.scrub(middle)
    lab.wait(10)
    record = lab.records[middle]
    assert lab.record is record is lab.picture.record and not record.done.all()
    np.testing.assert_array_equal(lab.picture.success.points.share, record.share)
    assert len(lab.picture.success.points.running) == len(record.running) > 0
    assert lab.caption(record) in lab.controls.caption.value
    lab.scrub(None)
    lab.wait(10)
    check(lab)


def test_pause_and_step_fill_the_map_record_by_record(make: Make) -> None:
    lab = make(playing=False)
    lab.wait(10)
    assert len(lab.records) == 1 and "Nothing has run yet: 10 cells, 5 trainings each." in lab.controls.caption.value
    for count in range(2, 6):
        lab.step()
        lab.wait(10)
        assert len(lab.records) == count
    lab.play()
    done(lab)
    check(lab)


def test_a_pinned_curve_stays_while_sliders_move(make: Make) -> None:
    lab = done(make(distractors=0))
    before = pixels(lab)
    needed, _ = samples_needed(lab.records[-1])
    lab.pin()
    lab.wait(10)
    assert (pixels(lab) != before).any() and "grey: pinned" in _words(lab)
    move(lab, "noise", 0.6)
    done(lab)
    check(lab)
    assert "grey: noise = 0.3" in _words(lab)
    pinned = [line for line in lab.picture.needed.axes.lines if line.get_color() == theme.REFERENCE]
    assert pinned, "the earlier curve is still there"
    np.testing.assert_array_equal(pinned[0].get_xdata()[np.isfinite(needed)], needed[np.isfinite(needed)])
    move(lab, "noise", 0.3)
    done(lab)
    lab.unpin()
    lab.wait(10)
    assert (pixels(lab) == before).all() and "grey:" not in _words(lab)


def test_a_pinned_curve_is_named_by_what_differs() -> None:
    now = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}
    assert pinned_name(now, now) == "pinned"
    assert pinned_name({**now, "patches": 32}, now) == "n = 32"
    assert pinned_name({**now, "distractors": 4}, now) == "l* = 5"
    assert pinned_name({**now, "delta_d": 0.6}, now) == "δ_d = 0.6"
    assert pinned_name({**now, "source": of.DIGITS}, now) == of.DIGITS
    assert pinned_name({**now, "seed": 3}, now) == "seed = 3"
    assert pinned_name({**now, "seed": 3, "patches": 8}, now) == "pinned"


def test_copied_code_runs_and_gives_the_same_numbers(make: Make) -> None:
    for values in ({}, {"training": of.JOINT, "source": of.DIGITS, "trials": 6, "seed": 2}):
        lab = done(make(**values))
        shown: dict[str, Any] = {}
        with contextlib.redirect_stdout(io.StringIO()) as said:
            exec(lab.code(lab.values), shown)
        last = lab.records[-1].dataset()
        for name in ("success", "test_accuracy", "coverage"):
            np.testing.assert_array_equal(shown["result"][name], last[name])
        assert "patches_per_expert" in said.getvalue()


def test_saved_data_and_picture(make: Make, tmp_path: Path) -> None:
    lab = done(make())
    with xr.open_dataset(lab.save_data(tmp_path / "map.nc")) as saved:
        np.testing.assert_array_equal(saved["test_accuracy"], lab.records[-1].test_accuracy)
        assert saved.attrs["l_star"] == 3 and saved.attrs["seed"] == 0 and "PatternTask" in saved.attrs["config"]
    with Image.open(lab.save_picture(tmp_path / "map")) as picture:
        assert picture.size == (1100, 480)


def test_headless_runs_to_the_end_inside_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    lab = PhaseTransitionLab(**SMALL)
    try:
        check(lab)
        with pytest.raises(ConfigError, match="gap must be at most 2 delta_r"):
            move(lab, "delta_r", 0.2)
    finally:
        lab.close()


def test_closing_leaves_no_thread(make: Make) -> None:
    lab = make()
    thread = lab._runner._thread
    lab.close()
    assert thread is not None and not thread.is_alive()


# ---- stories ----


def test_stories_are_named_and_their_values_can_run() -> None:
    names = {knob.name for knob in of.KNOBS}
    assert len(PhaseTransitionLab.stories) >= 6
    for story in PhaseTransitionLab.stories:
        assert set(story.values) <= names and story.what_to_see.endswith(".")
        values = {**{knob.name: knob.default for knob in of.KNOBS}, "seed": 0, **story.values}
        of.records_of(values)  # checks every cell, and runs none


# ---- what the picture reads ----


def record(shares: Any, samples: tuple[int, ...] = (40, 100, 200), counts: Any = None) -> PhaseRecord:
    """A map of 10 trainings a cell with these shares of successes; NaN where none has run."""
    shares = np.asarray(shares, dtype=float)
    counts = np.where(np.isnan(shares), 0, 10 if counts is None else counts)
    done = np.arange(10) < counts[..., None]
    right = np.arange(10) < np.nan_to_num(shares * counts).round()[..., None]
    accuracy = np.where(done, np.where(right, 1.0, 0.5), np.nan)
    cover = np.where(done, 0.25 * np.arange(1, len(shares) + 1)[:, None, None], np.nan)
    return PhaseRecord(tuple(range(1, len(shares) + 1)), samples, done, accuracy, cover)


def test_samples_needed_by_hand() -> None:
    hole = np.nan
    needed, sure = samples_needed(
        record([[0.0, 0.9, 1.0], [0.9, 0.8, 0.9], [1.0, 1.0, 1.0], [0.0, 0.9, 0.8], [0.2, hole, hole]])
    )
    np.testing.assert_array_equal(needed, [100, 200, 40, np.inf, np.nan])
    np.testing.assert_array_equal(sure, [True, True, True, True, False])


def test_samples_needed_while_the_map_fills() -> None:
    hole = np.nan
    needed, sure = samples_needed(record([[0.5, 1.0, hole], [hole, hole, hole], [1.0, hole, hole], [0.5, 0.5, hole]]))
    np.testing.assert_array_equal(needed, [100, np.nan, 40, np.nan])
    assert not sure.any()


def test_coverage_is_read_where_all_l_have_run() -> None:
    hole = np.nan
    count, levels = coverage_at(record([[1.0, 0.0, hole], [1.0, 1.0, 1.0]]))
    assert count == 100
    np.testing.assert_allclose(levels, [[0.25] * 3, [0.5] * 3])
    assert coverage_at(record([[hole, hole, hole], [1.0, 1.0, 1.0]]))[0] is None


def test_the_90_percent_line_never_lies_on_a_row_boundary(make: Make) -> None:
    picture = done(make()).picture
    for shares in (
        [[0, 1, 1], [0, 0, 0], [1, 1, 1]],
        [[1, 1, 1], [0, 0, 1], [0, 1, 1]],
        [[0, 0, 0], [0, 0, 1], [1, 1, 1]],
    ):
        shown = record(shares)
        picture.success.update_steps(shown, samples_needed(shown)[0])
        x, y = (np.asarray(part, dtype=float) for part in picture.success.steps[-1].get_data())
        level = np.flatnonzero((np.diff(y) == 0) & (np.diff(x) != 0))
        assert len(level) > 0
        assert (np.abs(y[level] - np.floor(y[level]) - 0.5) > 0.05).all(), "it would hide the l* line"


# ---- cells ----


def test_cells_are_hatched_coloured_framed() -> None:
    cells = SuccessMap(0, 0, 120, 80)
    cells.set_points(np.array([[np.nan, 1.0], [0.5, 0.0]]), np.array([[0, 1], [0.25, 1]]), {(1, 1): "3/20"})
    for scale in (1.0, 1.5):
        shown = cells.pixels(scale)
        assert shown.shape == (round(80 * scale), round(120 * scale), 4)
        low, high = shown[len(shown) // 2 :], shown[: len(shown) // 2]
        left, right = slice(0, shown.shape[1] // 2), slice(shown.shape[1] // 2, None)
        assert not (low[:, left] == theme.ramp(1.0)).all(-1).any()
        assert (low[:, right] == theme.ramp(1.0)).all(-1).mean() > 0.6
        assert 0.1 < (high[:, left] == theme.ramp(0.5)).all(-1).mean() < 0.6, "a quarter of its trainings: smaller"
        assert (high[:, right] == theme.rgba("white")).all(-1).mean() > 0.4
        assert (high[:, right] == theme.rgba(theme.INK)).all(-1).mean() > 0.1


def test_words_are_as_large_as_the_small_print() -> None:
    assert 9 <= len(word("100", 100)) <= 12 and word("100", 150).shape[1] > 1.3 * word("100", 100).shape[1]
    assert word("100", 100).shape[1] < MAP[2] / 8


def test_an_earlier_moment_draws_as_it_did(make: Make) -> None:
    lab = done(make())
    picture = lab.picture
    early, late = lab.records[len(lab.records) // 3], lab.records[-1]
    picture.draw(early)
    first = pixels(lab)
    picture.draw(late)
    picture.draw(early)
    assert (pixels(lab) == first).all()
