"""The phase-transition Lab: both kinds of patches, what the records hold, and the picture of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.grid import Table
from moe_lab.drawing import theme
from moe_lab.drawing.map_marks import enough_from, quantile
from moe_lab_widgets import PhaseTransitionLab
from moe_lab_widgets.drawing.maps import steps
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import box_of
from moe_lab_widgets.drawing.share_map import GHOST, ShareMap
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import phase_transition as of
from moe_lab_widgets.labs.phase_transition import pinned_name
from moe_lab_widgets.labs.phase_transition_record import complete, coverage_at, samples_needed, share
from tests.helpers.maps import map_of
from tests.widgets.cases import PHASE
from tests.widgets.labs import Make, done, fixtures, move, pixels

make, ended = fixtures(PHASE)


def labelled(lab: PhaseTransitionLab, panel: int, label: str) -> list[Any]:
    """What a panel draws whose label begins so."""
    return [one for one in lab.picture.placed[panel].content if str(one.get_label()).startswith(label)]


def cells_of(lab: PhaseTransitionLab) -> ShareMap:
    (cells,) = (one for one in lab.picture.placed[0].content if isinstance(one, ShareMap))
    return cells


def check(lab: PhaseTransitionLab) -> None:
    """After a finished run: records, picture, texts and code belong to the values that the widgets show."""
    values, last = lab.values, lab.records[-1].of()
    for name, widget in lab.controls.knobs.items():
        expected = values[name]
        assert widget.value == (pytest.approx(expected) if isinstance(expected, float) else expected), name
    kept, samples = of.grid_of(values)
    assert last.grid == {"patches_per_expert": list(kept), "samples": list(samples)} and last.finished
    assert last["done"].shape == (len(kept), len(samples), values["trials"]) and last["done"].all()
    assert np.isfinite(last["test_accuracy"]).all() and np.isfinite(last["coverage"]).all()
    assert lab.record is lab.records[-1]
    for placed in lab.picture.placed:
        assert [label.get_text() for label in placed.axes[0].get_yticklabels()] == [str(one) for one in kept]
    cells = cells_of(lab)
    np.testing.assert_array_equal(cells.share, last["success"].mean(-1))
    assert cells.running == {} and (cells.filled == 1).all()
    star = values["distractors"] + 1 if values["source"] == of.SYNTHETIC else None
    lines = labelled(lab, 0, "l* =")
    assert [line.get_segments()[0][0][1] for line in lines] == ([] if star is None else [star - 0.5])
    assert lab.caption(lab.record) in lab.screen.caption.value.replace("&lt;", "<").replace("&#x27;", "'")
    assert f"{last['done'].size} of {last['done'].size} trainings" in lab.controls.status.value
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
    assert (before["coverage"] != lab.records[-1]["coverage"]).any()
    assert "joint training (k = 2)" in _words(lab)
    move(lab, "training", of.SEPARATE)
    done(lab)
    check(lab)
    assert lab.controls.knobs["experts"].disabled and "separate training (one expert per class)" in _words(lab)
    assert "k = " not in _words(lab), "the greyed-out k of the slider is another one"


def _words(lab: PhaseTransitionLab) -> str:
    """All words in the picture."""
    texts = [text.get_text() for text in lab.picture.figure.findobj(lambda one: hasattr(one, "get_text"))]
    drawn = [one for placed in lab.picture.placed for one in placed.content if isinstance(one, Sheet)]
    return " | ".join([*texts, *(words for sheet in drawn for words in sheet.words)])


def test_digits_have_no_l_star_and_grey_out_what_they_lack(make: Make) -> None:
    lab = done(make())
    assert "l* = 3" in _words(lab)
    move(lab, "source", of.DIGITS)
    done(lab)
    check(lab)
    assert "l* =" not in _words(lab) and "l*" not in lab.caption(lab.record)


def test_rows_above_n_are_left_out(make: Make) -> None:
    lab = done(make(patches=4))
    assert lab.records[-1]["patches_per_expert"].tolist() == [1, 2, 3, 4]
    move(lab, "patches", 32)
    done(lab)
    assert lab.records[-1]["patches_per_expert"].tolist() == list(of.PER_EXPERT)
    check(lab)


# ---- the recorded run ----


def test_scrubbing_shows_the_map_as_it_was(ended: PhaseTransitionLab) -> None:
    lab = ended
    middle = len(lab.records) // 2
    lab.scrub(middle)
    lab.wait(10)
    record = lab.records[middle]
    assert lab.record is record and not record.ended
    np.testing.assert_array_equal(cells_of(lab).share, share(MarkRecord(record)).numpy())
    assert len(cells_of(lab).running) == record["active"].sum() > 0
    assert lab.caption(record) in lab.screen.caption.value
    lab.scrub(None)
    lab.wait(10)
    check(lab)


def test_a_pinned_curve_stays_while_sliders_move(make: Make) -> None:
    lab = done(make(distractors=0))
    before = pixels(lab)
    needed = samples_needed(MarkRecord(lab.records[-1])).numpy()
    lab.pin()
    lab.wait(10)
    assert (pixels(lab) != before).any() and "grey: pinned" in _words(lab)
    move(lab, "noise", 0.6)
    done(lab)
    check(lab)
    assert "grey: noise = 0.3" in _words(lab)
    pinned = labelled(lab, 1, "pinned: samples needed")
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


def record(shares: Any, samples: tuple[int, ...] = (40, 100, 200), counts: Any = None) -> Table:
    """A map of 10 trainings a cell with these shares of successes; NaN where none has run."""
    shares = np.asarray(shares, dtype=float)
    counts = np.where(np.isnan(shares), 0, 10 if counts is None else counts)
    done = np.arange(10) < counts[..., None]
    right = np.arange(10) < np.nan_to_num(shares * counts).round()[..., None]
    accuracy = np.where(done, np.where(right, 1.0, 0.5), np.nan)
    cover = np.where(done, 0.25 * np.arange(1, len(shares) + 1)[:, None, None], np.nan)
    axes = {"patches_per_expert": range(1, len(shares) + 1), "samples": samples}
    return map_of(axes, success=np.where(done, right, np.nan), test_accuracy=accuracy, coverage=cover)


def read(one: Table, l_star: int | None = None, before: Record | None = None) -> Record:
    """A record of a Lab whose data have this l*."""
    source = of.DIGITS if l_star is None else of.SYNTHETIC
    values = {"source": source, "distractors": (l_star or 1) - 1, "trials": one.trials, "training": of.SEPARATE}
    return Record({ONLY: (one,)}, values, (ONLY,), before=before)


def needed_of(shares: Any) -> tuple[Any, Any]:
    now = MarkRecord(read(record(shares)))
    return samples_needed(now).numpy(), complete(now).all(-1).numpy()


def test_samples_needed_by_hand() -> None:
    hole = np.nan
    needed, sure = needed_of([[0.0, 0.9, 1.0], [0.9, 0.8, 0.9], [1.0, 1.0, 1.0], [0.0, 0.9, 0.8], [0.2, hole, hole]])
    np.testing.assert_array_equal(needed, [100, 200, 40, np.inf, np.nan])
    np.testing.assert_array_equal(sure, [True, True, True, True, False])


def test_samples_needed_while_the_map_fills() -> None:
    hole = np.nan
    needed, sure = needed_of([[0.5, 1.0, hole], [hole, hole, hole], [1.0, hole, hole], [0.5, 0.5, hole]])
    np.testing.assert_array_equal(needed, [100, np.nan, 40, np.nan])
    assert not sure.any()


def test_coverage_is_read_where_all_l_have_run() -> None:
    hole = np.nan
    count, levels = coverage_at(MarkRecord(read(record([[1.0, 0.0, hole], [1.0, 1.0, 1.0]]))))
    assert count == 100
    np.testing.assert_allclose(torch.stack(levels, 1).numpy(), [[0.25] * 3, [0.5] * 3])
    assert coverage_at(MarkRecord(read(record([[hole, hole, hole], [1.0, 1.0, 1.0]]))))[0].isnan()


def test_quantiles_are_numpys() -> None:
    random = np.random.default_rng(0)
    values = np.where(random.random((60, 7)) < 0.4, np.nan, random.random((60, 7)))
    values[0] = np.nan
    for level in (0.1, 0.5, 0.9, 1.0):
        expected = [np.nanquantile(row, level) if np.isfinite(row).any() else np.nan for row in values]
        np.testing.assert_allclose(quantile(torch.as_tensor(values), level), expected, rtol=0, atol=1e-15)


@pytest.mark.parametrize(
    "share",
    [
        [[0, 1, 1], [0, 0, 0], [1, 1, 1]],
        [[1, 1, 1], [0, 0, 1], [0, 1, 1]],
        [[0, 0, 0], [0, 0, 1], [1, 1, 1]],
    ],
)
def test_the_90_percent_line_never_lies_on_a_row_boundary(share: Any) -> None:
    x, y = (
        np.array(part) for part in steps(enough_from(torch.tensor(share, dtype=torch.float64)).numpy(), 3, 468, 296, 0)
    )
    level = np.flatnonzero((np.diff(y) == 0) & (np.diff(x) != 0))
    assert len(level) > 0
    assert (np.abs(y[level] - np.floor(y[level]) - 0.5) > 0.05).all(), "it would hide the l* line"


# ---- captions ----


def said(one: Table, l_star: int | None = None) -> str:
    return PhaseTransitionLab.declaration.caption(read(one, l_star))


def test_what_captions_say_by_hand() -> None:
    hole = np.nan
    full = record([[0.0, 0.9, 1.0], [0.0, 0.0, 0.8], [1.0, 1.0, 1.0], [0.2, 1.0, 1.0]])
    assert said(full, l_star=3) == (
        "40 samples are enough at l = 3 (l* = 3); l = 4 needs 100. Below l* = 3 coverage is at most 50 %, but one "
        "right expert is enough for l = 1."
    )
    assert (
        said(full) == "40 samples are enough at l = 3; l = 4 needs 100. Coverage is 25 % at l = 1 and 100 % at l = 4."
    )
    never = said(record([[0.0] * 3] * 2), l_star=1)
    assert never == "No l succeeds in 90 % of its trainings with up to 200 samples (l* = 1)."
    part = record([[1.0, hole], [1.0, hole]], (40, 100))
    assert (
        said(part, l_star=1) == "A first look: 5 trainings in each cell. So far 40 samples are enough at l = 1 and 2."
    )
    cells = record([[1.0, 1.0], [0.0, 0.0]], (40, 100), [[10, 10], [10, 6]])
    cells.running = [{"patches_per_expert": 2, "samples": 100}]
    assert said(cells, l_star=1) == (
        "3 of 4 cells are done, now l = 2 with N = 100. So far 40 samples are enough at l = 1."
    )
    assert said(record([[hole] * 2], (40, 60))) == "Nothing has run yet. The map has 2 cells of 10 trainings each."


# ---- cells ----


def test_cells_are_hatched_coloured_framed() -> None:
    share, filled = np.array([[np.nan, 1.0], [0.5, 0.0]]), np.array([[0, 1], [0.25, 1]])
    cells = ShareMap((0, 0, 120, 80), share, filled, {(1, 1): "3/20"})
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


def test_the_map_before_is_pale_until_this_one_is_complete() -> None:
    share, filled = np.array([[0.5, np.nan]]), np.array([[1.0, 0.0]])
    cells = ShareMap((0, 0, 120, 80), share, filled, {}, np.array([[0.2, 1.0]]))
    shown = cells.composed(1.0, 300, 200)[0]
    assert (shown[:, 60:] == theme.faded(theme.ramp(1.0), GHOST)).all(-1).mean() > 0.9
    assert not (shown[:, :60] == theme.faded(theme.ramp(0.2), GHOST)).all(-1).any()


def test_what_a_short_run_has_not_reached_is_that_of_the_run_before_it() -> None:
    def moment(shares: list[float], before: Record | None, rows: int = 1) -> Record:
        return read(record([shares] * rows, (40, 100)), before=before)

    def before(now: Record) -> Any:
        return MarkRecord(now).pale(share, "samples").numpy()

    hole = np.nan
    whole = moment([0.2, 1.0], None)
    short = moment([0.5, hole], whole)
    np.testing.assert_array_equal(before(moment([hole, hole], short)), [[0.5, 1.0]])
    assert np.isnan(before(whole)).all()
    assert np.isnan(before(moment([hole, hole], short, rows=2))).all(), "another grid"
    other = moment([0.5, hole], moment([0.0, 1.0], None, rows=2))
    np.testing.assert_array_equal(before(moment([hole, hole], other)), [[0.5, hole]])


def test_a_lab_keeps_the_last_whole_map_under_runs_that_were_cut_short(make: Make) -> None:
    lab = done(make())
    whole = lab.record["success"].mean(-1)
    lab.pause()
    for noise in (0.4, 0.5):
        move(lab, "noise", noise)
        lab.wait(10)
        assert not lab.record.ended
    np.testing.assert_array_equal(cells_of(lab).before, whole)
    assert lab.record.before.before.before is None, "the runs between are forgotten"
    assert len(lab.record.before.shots[ONLY]) == 1
    lab.play()
    done(lab)
    check(lab)


def test_the_90_percent_line_is_dashed_until_nothing_can_move_it(ended: PhaseTransitionLab) -> None:
    dashes = []
    for place in (len(ended.records) // 2, -1):
        ended.picture.update(ended.records[place])
        (line,) = labelled(ended, 0, "from here on")
        dashes.append(line.get_linestyle())
    assert dashes == ["--", "-"]


def test_numbers_fit_their_cells_in_small_print(ended: PhaseTransitionLab) -> None:
    cells = ShareMap(box_of(ended.picture.placed[0].axes[0]), np.ones((8, 8)), np.zeros((8, 8)), {})
    inks, places = cells.words_at(1.0)
    assert all(9 <= len(ink) <= 12 for ink in inks) and set(cells.words) == {"100"}
    painted = cells.boxes_at(1.0)[-64:]
    wide = np.array([ink.shape[1] for ink in inks])
    assert (places[:, 0] > painted[:, 0]).all() and (places[:, 0] + wide < painted[:, 0] + painted[:, 2]).all()
