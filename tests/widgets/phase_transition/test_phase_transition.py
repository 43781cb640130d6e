"""The phase-transition Lab: both kinds of patches, what the records hold, and the picture of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets import PhaseTransitionLab
from moe_lab_widgets.drawing.share_map import GHOST, ShareMap
from moe_lab_widgets.phase_transition import settings as of
from moe_lab_widgets.phase_transition.panels.needed import pinned_name
from moe_lab_widgets.phase_transition.panels.success import MAP
from moe_lab_widgets.phase_transition.picture import PhasePicture
from moe_lab_widgets.phase_transition.record import coverage_at, samples_needed
from tests.widgets.cases import PHASE
from tests.widgets.labs import Make, done, fixtures, move, pixels

make, ended = fixtures(PHASE)


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
    np.testing.assert_array_equal(picture.success.map.points.share, last.share)
    assert picture.success.map.points.running == {} and (picture.success.map.points.filled == 1).all()
    dashes = [
        line for line in picture.success.axes.lines if line.get_linestyle() == "--" and len(line.get_xdata()) == 2
    ]
    assert [line.get_ydata()[0] for line in dashes] == ([] if setting.l_star is None else [setting.l_star - 1.5])
    assert lab.caption(last) in lab.screen.caption.value.replace("&lt;", "<").replace("&#x27;", "'")
    assert f"{last.done.size} of {last.done.size} trainings" in lab.controls.status.value
    assert "finished" in lab.controls.status.value and lab.controls.message.value == ""
    assert of.task_of(values).code() in lab.code(values) and f"seed={values['seed']}" in lab.code(values)
    assert len(np.unique(pixels(lab).astype(int) @ [65536, 256, 1])) > 50, "the picture is empty"


# ---- knobs ----


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


def test_rows_above_n_are_left_out(make: Make) -> None:
    lab = done(make(patches=4))
    assert lab.records[-1].patches_per_expert == (1, 2, 3, 4)
    move(lab, "patches", 32)
    done(lab)
    assert lab.records[-1].patches_per_expert == of.KEPT
    check(lab)


# ---- the recorded run ----


def test_scrubbing_shows_the_map_as_it_was(ended: PhaseTransitionLab) -> None:
    lab = ended
    middle = len(lab.records) // 2
    lab.scrub(middle)
    lab.wait(10)
    record = lab.records[middle]
    assert lab.record is record is lab.picture.record and not record.done.all()
    np.testing.assert_array_equal(lab.picture.success.map.points.share, record.share)
    assert len(lab.picture.success.map.points.running) == len(record.running) > 0
    assert lab.caption(record) in lab.screen.caption.value
    lab.scrub(None)
    lab.wait(10)
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


def test_the_90_percent_line_never_lies_on_a_row_boundary(ended: PhaseTransitionLab) -> None:
    picture = ended.picture
    for shares in (
        [[0, 1, 1], [0, 0, 0], [1, 1, 1]],
        [[1, 1, 1], [0, 0, 1], [0, 1, 1]],
        [[0, 0, 0], [0, 0, 1], [1, 1, 1]],
    ):
        shown = record(shares)
        picture.success.map.update_steps(shown.share)
        x, y = (np.asarray(part, dtype=float) for part in picture.success.map.steps[-1].get_data())
        level = np.flatnonzero((np.diff(y) == 0) & (np.diff(x) != 0))
        assert len(level) > 0
        assert (np.abs(y[level] - np.floor(y[level]) - 0.5) > 0.05).all(), "it would hide the l* line"


# ---- cells ----


def test_cells_are_hatched_coloured_framed() -> None:
    cells = ShareMap(0, 0, 120, 80)
    cells.set_points(np.array([[np.nan, 1.0], [0.5, 0.0]]), np.array([[0, 1], [0.25, 1]]), {(1, 1): "3/20"})
    for scale in (1.0, 1.5):
        shown, *_ = cells.composed(scale, 300, 200)
        assert shown.shape == (round(80 * scale), round(120 * scale), 4)
        low, high = shown[len(shown) // 2 :], shown[: len(shown) // 2]
        left, right = slice(0, shown.shape[1] // 2), slice(shown.shape[1] // 2, None)
        assert not (low[:, left] == theme.ramp(1.0)).all(-1).any()
        assert (low[:, right] == theme.ramp(1.0)).all(-1).mean() > 0.6
        assert 0.1 < (high[:, left] == theme.ramp(0.5)).all(-1).mean() < 0.6, "a quarter of its trainings: smaller"
        assert (high[:, right] == theme.rgba("white")).all(-1).mean() > 0.4
        assert (high[:, right] == theme.rgba(theme.INK)).all(-1).mean() > 0.1


def test_the_map_before_stays_pale_under_the_next_one_until_that_is_complete() -> None:
    cells, nothing = ShareMap(0, 0, 120, 80), np.full((1, 2), np.nan)
    cells.set_points(np.array([[0.2, 1.0]]), np.ones((1, 2)), {})
    for known in (0.0, 0.5):  # twice: what a short run has not reached is that of the run before it
        cells.keep(True)
        cells.set_points(nothing, np.zeros((1, 2)), {})
        pale = theme.faded(theme.ramp(1.0), GHOST)
        assert (cells.composed(1.0, 300, 200)[0][:, 60:] == pale).all(-1).mean() > 0.9
        cells.set_points(np.array([[known, np.nan]]), np.array([[1.0, 0.0]]), {})
        shown = cells.composed(1.0, 300, 200)[0]
        assert (shown[:, 60:] == pale).all(-1).mean() > 0.9
        assert not (shown[:, :60] == theme.faded(theme.ramp(0.2), GHOST)).all(-1).any()
    cells.keep(False)
    cells.set_points(nothing, np.zeros((1, 2)), {})
    assert not (cells.composed(1.0, 300, 200)[0] == pale).all(-1).any(), "another grid"


def test_the_90_percent_line_is_dashed_until_nothing_can_move_it(ended: PhaseTransitionLab) -> None:
    picture, line = ended.picture, ended.picture.success.map.steps[-1]
    for record_, style in ((ended.records[len(ended.records) // 2], "--"), (ended.records[-1], "-")):
        picture.update(record_)
        assert line.get_linestyle() == style


def test_numbers_fit_their_cells_in_small_print() -> None:
    cells = ShareMap(*MAP)
    cells.set_points(np.ones((8, 8)), np.zeros((8, 8)), {})
    inks, places = cells.words_at(1.0)
    assert all(9 <= len(ink) <= 12 for ink in inks) and set(cells.words) == {"100"}
    painted = cells.boxes_at(1.0)[-64:]
    wide = np.array([ink.shape[1] for ink in inks])
    assert (places[:, 0] > painted[:, 0]).all() and (places[:, 0] + wide < painted[:, 0] + painted[:, 2]).all()
