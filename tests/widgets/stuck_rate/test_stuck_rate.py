"""The stuck-rate Lab: its maps and bars are the record's numbers, its words and stories name what was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
from moe_lab_widgets.stuck_rate import settings as of
from moe_lab_widgets.stuck_rate.record import most_experts, share_of, stuck_by_experts

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import VERDICTS
from moe_lab.recovery.gridlock.stuck_live import StuckRecord
from moe_lab_widgets import StuckRateLab
from tests.widgets.cases import STUCK
from tests.widgets.labs import Make, done, fixtures, move

make, ended = fixtures(STUCK)
KNOWN = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}


def test_the_picture_shows_the_record(make: Make) -> None:
    lab: StuckRateLab = done(make())
    last, picture = lab.record, lab.picture
    assert last.done.all() and picture.record is last
    for number, one in enumerate(picture.maps):
        np.testing.assert_array_equal(one.points.share, last.share("found")[number])
        assert one.points.running == {}
    for bars, shares in zip(picture.stuck.bars, stuck_by_experts(last), strict=True):
        assert [path.vertices[1, 0] for path in bars.get_paths()] == shares.tolist()
    place, middle = next(
        (place, record) for place, record in enumerate(lab.records) if record.running and record.done.any()
    )
    lab.scrub(place)
    lab.wait(10)
    method, k, n = middle.running
    shown = lab.picture.maps[middle.methods.index(method)].points.running
    assert shown == {(middle.experts.index(k), middle.samples.index(n)): "…"}
    assert f"k = {k}, n = {n}" in lab.caption(middle)


def test_a_pinned_map_s_stuck_shares_stay_as_grey_marks(make: Make) -> None:
    lab: StuckRateLab = done(make())
    before = stuck_by_experts(lab.record)
    lab.pin()
    move(lab, "noise", 0.4)
    done(lab)
    marks = [line.get_xdata().tolist() for line in lab.picture.stuck.axes.lines if line.get_color() == theme.REFERENCE]
    assert marks == before.tolist()
    lab.unpin()
    assert not lab.picture.stuck.axes.lines


def test_rows_above_d_are_left_out() -> None:
    assert of.grid_of({**KNOWN, "dimension": 4})[0] == (2, 3, 4)
    assert of.grid_of({**KNOWN, "dimension": 12})[0] == of.EXPERTS


def _record(found: Any, stuck: Any) -> StuckRecord:
    """A map of ten starts a cell with these numbers of found and of stuck ones, (method, k, n); NaN if not run."""
    found, stuck = np.asarray(found, dtype=float), np.asarray(stuck, dtype=float)
    start = np.arange(10)
    fit = np.where(start < found[..., None], 1.0, 0.5)
    held = ((start >= found[..., None]) & (start < (found + stuck)[..., None])).astype(float)
    values = {name: fit for name in VERDICTS} | {"stuck": held}
    return StuckRecord(("joint-em", of.SPECTRAL), (2, 3), (100, 200), np.isfinite(found), values)


def test_what_the_words_say_by_hand() -> None:
    hole = np.nan
    record = _record([[[5, 9], [0, 8]], [[10, 10], [9, 9]]], [[[5, 1], [10, 1]], [[0, 0], [1, 0]]])
    assert most_experts(record) == [2, 3]
    np.testing.assert_allclose(stuck_by_experts(record), [[0.3, 0.55], [0.0, 0.05]])
    assert share_of(record, "stuck") == pytest.approx([17 / 40, 1 / 40])
    assert share_of(record, "still moving") == pytest.approx([1 / 40, 1 / 40])
    half = _record([[[5, hole], [hole, hole]], [[hole] * 2] * 2], [[[5, hole], [hole, hole]], [[hole] * 2] * 2])
    np.testing.assert_allclose(stuck_by_experts(half), [[0.5, hole], [hole, hole]])
    assert most_experts(half) == [None, None] and share_of(half, "stuck")[0] == 0.5
