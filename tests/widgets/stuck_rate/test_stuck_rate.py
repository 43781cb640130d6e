"""The stuck-rate Lab: its maps and bars are the record's numbers, its words and stories name what was computed."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D

from moe_lab.core.grid import Table
from moe_lab.recovery.gridlock.stuck import verdict_words
from moe_lab.recovery.gridlock.verdicts import VERDICTS
from moe_lab_widgets import StuckRateLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.on_axes import box_of
from moe_lab_widgets.drawing.share_map import ShareMap
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import stuck_rate as of
from moe_lab_widgets.labs.stuck_rate_record import most_experts
from tests.helpers.maps import map_of
from tests.widgets.cases import STUCK
from tests.widgets.labs import Make, done, fixtures, move

make, ended = fixtures(STUCK)
KNOWN = {knob.name: knob.default for knob in of.KNOBS} | {"seed": 0}


def stuck_by_experts(record: Record) -> np.ndarray:
    return of.stuck_by_experts(MarkRecord(record)).numpy()


def content(lab: StuckRateLab, panel: int, kind: type) -> list[Any]:
    """What a panel draws of the record."""
    return [one for one in lab.picture.placed[panel].content if isinstance(one, kind)]


def test_the_picture_shows_the_record(make: Make) -> None:
    lab: StuckRateLab = done(make())
    last: Table = lab.record.of()
    assert last.finished and lab.record.ended
    for number in range(2):
        (cells,) = content(lab, number, ShareMap)
        np.testing.assert_array_equal(
            cells.share, (verdict_words(last["regressor_fit"], last["stuck"]) == "found")[number].mean(-1)
        )
        assert cells.running == {}
    for bars, shares in zip(content(lab, 2, Sheet), stuck_by_experts(lab.record), strict=True):
        left, right = (np.array([edge[side] for edge in bars.edges]) for side in (0, 2))
        np.testing.assert_allclose((right - left) / box_of(lab.picture.placed[2].axes[0])[2], shares, atol=1e-9)
    place, middle = next(
        (place, record)
        for place, record in enumerate(lab.records)
        if (record["active"] & ~record["done"].all(-1)).any() and record["done"].any()
    )
    lab.scrub(place)
    lab.wait(10)
    ((method, row, column),) = np.argwhere(middle["active"]).tolist()
    (cells,) = content(lab, method, ShareMap)
    assert cells.running == {(row, column): f"0/{middle.of().trials}"}
    assert f"k = {middle['k'][row]}, n = {middle['samples'][column]}" in lab.caption(middle)


def test_a_pinned_map_s_stuck_shares_stay_as_grey_marks(make: Make) -> None:
    lab: StuckRateLab = done(make())
    before = stuck_by_experts(lab.record)
    lab.pin()
    move(lab, "noise", 0.4)
    done(lab)
    assert [line.get_xdata().tolist() for line in content(lab, 2, Line2D)] == before.tolist()
    done(lab, dimension=2)
    assert [line.get_xdata().tolist() for line in content(lab, 2, Line2D)] == before[:, :1].tolist(), "k = 2 alone"
    lab.unpin()
    lab.wait(10)
    assert not content(lab, 2, Line2D)


def test_rows_above_d_are_left_out() -> None:
    assert of.experts_of({**KNOWN, "dimension": 4}) == (2, 3, 4)
    assert of.experts_of({**KNOWN, "dimension": 12}) == of.EXPERTS


def _record(found: Any, stuck: Any) -> Table:
    """A map of ten starts a cell with these numbers of found and of stuck ones, (method, k, n); NaN if not run."""
    found, stuck = np.asarray(found, dtype=float), np.asarray(stuck, dtype=float)
    start = np.arange(10)
    fit = np.where(start < found[..., None], 1.0, 0.5)
    held = ((start >= found[..., None]) & (start < (found + stuck)[..., None])).astype(float)
    values = {name: fit for name in VERDICTS} | {"stuck": held}
    axes = {"algorithm": ("joint-em", of.SPECTRAL), "k": (2, 3), "samples": (100, 200)}
    unknown = np.isnan(found)[..., None]
    return map_of(axes, **{name: np.where(unknown, np.nan, value) for name, value in values.items()})


def read(record: Table) -> Record:
    return Record({ONLY: (record,)}, KNOWN, (ONLY,))


def said(record: Table) -> str:
    return StuckRateLab.declaration.caption(read(record))


def most(record: Table) -> list[float]:
    return most_experts(MarkRecord(read(record))).tolist()


def test_what_the_words_say_by_hand() -> None:
    hole = np.nan
    record = _record([[[5, 9], [0, 8]], [[10, 10], [9, 9]]], [[[5, 1], [10, 2]], [[0, 0], [1, 1]]])
    assert most(record) == [2, 3]
    np.testing.assert_allclose(stuck_by_experts(read(record)), [[0.3, 0.6], [0.0, 0.1]])
    assert said(record) == (
        "With n = 200 at least 90 % of the starts find all regressors up to k = 2 from random starts, and up to k = 3 "
        "from the spectral start. On the whole map 45 % of the random starts and 5 % of the spectral starts are stuck."
    )
    half = _record([[[5, hole], [hole, hole]], [[hole] * 2] * 2], [[[5, hole], [hole, hole]], [[hole] * 2] * 2])
    np.testing.assert_allclose(stuck_by_experts(read(half)), [[0.5, hole], [hole, hole]])
    assert np.isnan(most(half)).all()
    assert said(half) == "1 of 8 cells are done. So far 50 % of the random starts are stuck."
    nothing = _record([[[hole] * 2] * 2] * 2, [[[hole] * 2] * 2] * 2)
    assert said(nothing) == "Nothing has run yet. The maps have 8 cells of 10 starts each."
