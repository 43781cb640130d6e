"""Intervals by hand, and verdicts that are unsteady, or not comparable, and lean to one side."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import xarray as xr
from scipy import stats

from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule
from moe_lab_papers.ranges import at_least, share_from, up_to
from moe_lab_papers.spread import Interval, interval, judge

CALL = Measurement(name="chen2022/squares", function="measure_runs:squares", quick={}, full={}, seconds=(1, 1))


def claim(rule: Rule, read: Read = lambda data: data["value"], **more: Any) -> Claim:
    return Claim(
        id="chen2022/squares/two",
        where="table 0",
        statement="what the rule says",
        published=Published(relation="so"),
        measurement=CALL,
        read=read,
        rule=rule,
        **more,
    )


def of(*values: float) -> xr.Dataset:
    return xr.Dataset({"value": ("trial", np.array(values, dtype=float))})


def test_the_interval_of_a_mean_is_students() -> None:
    values = (1.0, 2.0, 4.0, 5.0)
    found = interval(claim(Rule(in_kind=(0, 9))), of(*values))
    expected = stats.t.interval(0.95, 3, np.mean(values), stats.sem(values))
    assert found is not None and found.trials == 4
    assert (found.low, found.high) == pytest.approx(expected)


def test_many_trials_are_left_out_in_groups() -> None:
    values = np.random.default_rng(0).standard_normal(400)
    found = interval(claim(Rule(in_kind=(-1, 1))), of(*values))
    low, high = stats.norm.interval(0.95, values.mean(), stats.sem(values))
    assert found is not None and found.high - found.low == pytest.approx(high - low, rel=0.5)


def test_the_interval_of_a_share_is_wilsons() -> None:
    """By hand, 8 of 8: 8 / (8 + 1.96^2) to 1."""
    found = interval(claim(Rule(in_kind=share_from(0.5))), of(*[1.0] * 8))
    assert found is not None and (found.low, found.high) == pytest.approx((8 / (8 + 1.959964**2), 1))


def test_the_interval_of_a_median_is_that_of_the_order_statistics() -> None:
    """Of six, the lowest and the highest: 1 - 2 / 64 of the medians are between."""
    found = interval(claim(Rule(in_kind=(0, 9), of="median")), of(6, 1, 2, 3, 4, 5))
    assert found is not None and (found.low, found.high) == (1, 6)
    fewer = interval(claim(Rule(in_kind=(0, 9), of="median")), of(1, 2, 3))
    assert fewer is not None and fewer.high - 2 == pytest.approx(math.sqrt(math.pi / 2) * 4.302653 / math.sqrt(3))


@pytest.mark.parametrize(("of_what", "sign"), [("highest", 1), ("lowest", -1)])
def test_the_interval_of_an_extreme_has_that_of_most_further_runs(of_what: str, sign: int) -> None:
    random, inside = np.random.default_rng(1), 0
    for _ in range(200):
        first, second = random.standard_normal((2, 12))
        found = interval(claim(Rule(in_kind=(-9, 9), of=of_what)), of(*first))
        assert found is not None
        inside += found.low <= sign * (sign * second).max() <= found.high
    assert inside > 180


def test_the_interval_of_a_slope_is_the_jackknifes() -> None:
    """A number that is read of all trials together: the ratio of two means, whose error is known for large n."""
    random = np.random.default_rng(2)
    above, below = 2 + 0.1 * random.standard_normal(100), 1 + 0.1 * random.standard_normal(100)
    data = xr.Dataset({"above": ("trial", above), "below": ("trial", below)})
    ratio = claim(Rule(in_kind=(0, 9)), lambda data: float(data["above"].mean() / data["below"].mean()))
    found = interval(ratio, data)
    error = math.sqrt((0.1 / 1) ** 2 + (2 * 0.1 / 1) ** 2) / 10
    assert found is not None and found.trials == 100
    assert (found.high - found.low) / 2 == pytest.approx(2.09 * error, rel=0.35)


@pytest.mark.parametrize(
    "data", [of(1.0), xr.Dataset({"value": 1.0}), of(1.0, math.nan)], ids=["one", "none", "diverged"]
)
def test_a_single_number_has_no_interval(data: xr.Dataset) -> None:
    assert interval(claim(Rule(in_kind=(0, 2))), data) is None
    assert judge(claim(Rule(in_kind=(0, 2))), data).verdict in ("in kind", "differs")


def test_a_single_trial_that_is_read_has_no_interval() -> None:
    data = of(1.0, 2.0).assign_coords(trial=[0, 1])
    shown = claim(Rule(in_kind=(0, 9)), lambda data: data["value"].sel(trial=1))
    assert interval(shown, data) is None


def test_a_verdict_is_unsteady_where_the_interval_crosses_a_bound() -> None:
    rule = Rule(agrees=(0.9, 1.1), in_kind=(0.5, 2.0))
    assert judge(claim(rule), of(0.99, 1.0, 1.01)).verdict == "agrees"
    found = judge(claim(rule), of(0.7, 1.0, 1.3))
    assert (found.verdict, found.leaning) == ("unsteady", "agrees")
    assert judge(claim(rule), of(0.6, 0.8, 0.7)).verdict == "unsteady"  # it may be below .5, and above .9
    assert judge(claim(rule), of(2.9, 3.0, 3.1)).verdict == "differs"


def test_a_bound_within_another_range_is_none() -> None:
    """Where what agrees and what agrees in kind share an end, or one lies in the other, the verdict does not turn."""
    rule = Rule(agrees=(0.0, 3.0), in_kind=(1.0, 2.0))
    assert judge(claim(rule), of(0.9, 1.0, 1.1)).verdict == "agrees"


def test_it_says_how_many_trials_would_settle_it() -> None:
    """The first number of trials at which Student's half-width is less than the distance from the bound, .5."""
    found = judge(claim(Rule(in_kind=at_least(0.5))), of(0, 1, 1, 2))
    spread = np.std([0, 1, 1, 2], ddof=1)
    wide = [count for count in range(5, 99) if stats.t.ppf(0.975, count - 1) * spread / math.sqrt(count) > 0.5]
    assert found.verdict == "unsteady" and found.settled_by == wide[-1] + 1
    at_the_bound = judge(claim(Rule(in_kind=at_least(1))), of(0, 1, 1, 2))
    assert at_the_bound.verdict == "unsteady" and at_the_bound.settled_by is None


def test_the_end_of_all_numbers_is_no_bound() -> None:
    """A share ends at 1 and an error at 0; a trial beyond makes them bounds again."""
    assert judge(claim(Rule(agrees=share_from(0.5))), of(0.98, 0.99, 1.0)).verdict == "agrees"
    assert judge(claim(Rule(agrees=up_to(0.5))), of(0.0, 0.01, 0.02)).verdict == "agrees"
    assert judge(claim(Rule(agrees=up_to(0.5))), of(-0.01, 0.01, 0.02)).verdict == "unsteady"


def test_what_is_not_comparable_neither_agrees_nor_differs() -> None:
    other = claim(Rule(in_kind=(0, 2)), not_comparable="digits in place of photographs")
    assert judge(other, of(1.0, 1.0)).verdict == judge(other, of(9.0, 9.1)).verdict == "not comparable"
    assert [judge(other, of(number, number)).leaning for number in (1.0, 9.0)] == ["in kind", "differs"]


def test_what_follows_is_never_unsteady() -> None:
    assert judge(claim(Rule(agrees=(0.9, 1.1), follows=True)), of(0.5, 1.5)).verdict == "follows"


def test_an_interval_is_rounded_to_two_digits_of_its_width() -> None:
    found = Interval(0.08184, 0.10987, 8)
    assert found.words == "0.082 to 0.110" and found.rounded(0.09586) == "0.096"
    assert Interval(1184.0, 1523.0, 8).words == "1180 to 1520"
    assert Interval(1.0, 1.0, 8).words == "1 to 1"
    assert Interval(4.0246e-8, 2.631e-7, 8).words == "4.025e-08 to 2.631e-07"
