"""Rows of results: what they record, and the reasons that they give."""

from __future__ import annotations

from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab_papers.claim import Claim, Rule
from moe_lab_papers.exchange import result_part
from moe_lab_papers.ranges import near
from moe_lab_papers.runner import Done, Order, Piece
from moe_lab_papers.verdicts import Row, judged, tally
from tests.papers.conftest import claim, squares

ORDER = Order("quick", 0, "cpu", Path("unused"))


def row_of(one: Claim, *values: float, samples: int = 100) -> Row:
    """The row of a claim about squares whose trials have these values."""
    piece = Piece(one.measurement.name, "measure_runs:squares", {"samples": samples}, 1.0)
    data = xr.Dataset({"square": (("number", "trial"), np.array([values]))}, {"number": [2]})
    done = Done(piece, data.assign_attrs(measured_on="CPU"), 1.0)
    (row,) = judged([one], {one.measurement.name: [done]}, ORDER)
    return row


def of(rule: Rule, **changes: Any) -> Claim:
    call = squares(quick={"samples": 100}, full={"samples": 1600}, split=None)
    return claim("chen2022/squares/two", call, rule, **changes)


def test_an_unsteady_verdict_leans_and_says_what_would_settle_it() -> None:
    row = row_of(of(Rule(agrees=near(4, 0.5)), reason="two is small"), 3.0, 4.0, 5.0, 4.4, samples=1600)
    part = result_part(row)
    assert (part.verdict, part.leaning) == ("unsteady", "agrees")
    assert (part.interval.low, part.interval.high) == (row.interval.low, row.interval.high)
    assert row.interval.low < 3.5 < row.interval.high and part.settled_by > 4
    assert f"about {part.settled_by} trials would settle it, of which it has 4" in row.reason
    assert row.reason.startswith("It leans to 'agrees': ") and row.reason.endswith(" Two is small.")
    assert "95 %: " in row.measured and tally([row]) == "1 unsteady"


def test_a_verdict_that_is_not_comparable_says_what_it_shows() -> None:
    row = row_of(of(Rule(agrees=near(4, 0.5)), not_comparable="numbers in place of photographs"), 4.0, 4.1)
    assert (row.verdict, row.leaning) == ("not comparable", "agrees")
    assert row.reason == "Numbers in place of photographs." and row.values.size == 2


def test_fewer_samples_are_told_also_where_a_claim_agrees() -> None:
    agreeing = of(Rule(agrees=near(4, 0.5)), reason="two is small")
    assert row_of(agreeing, 4.0, 4.01).reason == "Measured from 100 samples, where the full budget has 1,600."
    assert row_of(agreeing, 4.0, 4.01, samples=1600).reason == ""
    assert row_of(agreeing, 9.0, 9.01).reason.startswith("Two is small. Measured from 100 samples")


@pytest.mark.parametrize(("unit", "highest"), [("", 0.39), ("nats", 0.0)])
def test_nothing_in_all_trials_may_be_a_share_but_no_entropy(unit: str, highest: float) -> None:
    interval = row_of(of(Rule(agrees=(0.0, 0.1)), unit=unit), *[0.0] * 6).interval
    assert interval is not None and interval.low == 0 and interval.high == pytest.approx(highest, abs=0.005)


def test_what_has_no_trials_has_no_interval() -> None:
    one = replace(of(Rule(agrees=near(4, 0.5))), read=lambda data: data["square"].sel(number=2).isel(trial=0).item())
    row = row_of(one, 4.0)
    assert row.interval is None and result_part(row).interval is None and row.verdict == "agrees"


def test_what_was_measured_is_the_number_that_the_rule_judges() -> None:
    values = (1.0, 4.0, 4.2, 4.1, 4.3, 4.0, 4.1, 4.2)
    mean, median = (
        row_of(of(Rule(agrees=near(4, 2))), *values),
        row_of(of(Rule(agrees=near(4, 2), of="median")), *values),
    )
    assert mean.measured.startswith("3.7 ± 1") and median.measured.startswith("median 4.1 (95 %: ")
    assert row_of(of(Rule(agrees=near(4, 2), of="lowest")), *values).measured.startswith("lowest 1")
    assert row_of(of(Rule(agrees=near(4, 2))), np.nan).measured == "not finite"
