"""How sure a verdict is: the 95 % interval of the number that a rule judges, and what the rule says within it.

Intervals are over independent trials. A verdict is unsteady where the interval holds numbers of another verdict.
"""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import cache
from typing import Any

import numpy as np
import xarray as xr
from scipy import stats

from moe_lab_papers.claim import Claim, Rule, Verdict
from moe_lab_papers.ranges import ROUNDING

TRIALS = ("trial", "repeat")
"""Dimensions of a Dataset along which its numbers are independent."""
_LARGEST = (1.0, 1.0 + ROUNDING, math.log(4) + ROUNDING)
"""Ends of a range at which the numbers end: of shares and cosines, and of entropies of four clusters."""
_GROUPS = 20
"""Parts left out one by one where there are more trials than that."""
_LEFT, _RIGHT = 0.025, 0.975


@dataclass(frozen=True)
class Interval:
    """The 95 % interval of a judged number, and the number of independent trials behind it."""

    low: float
    high: float
    trials: int

    @property
    def words(self) -> str:
        return f"{self.rounded(self.low)} to {self.rounded(self.high)}"

    def rounded(self, number: float) -> str:
        """Returns a number in words, rounded to two digits of the interval's width."""
        width = self.high - self.low
        if not 1e-4 <= width < math.inf:
            return f"{number:.4g}"
        places = 1 - math.floor(math.log10(width))
        return f"{round(number, places):.{max(places, 0)}f}"


@dataclass(frozen=True)
class Judgement:
    """A verdict and how sure it is.

    Attributes:
      verdict: "not comparable" where the claim says so, "unsteady" where the interval crosses a bound of the rule, and
        else the rule's.
      leaning: the rule's verdict on the number itself.
      interval: of the number; None where nothing is random, or a single trial was read.
      settled_by: about how many trials would make an unsteady verdict steady, if their spread and mean stay; None
        where the verdict is steady, or no number of trials would.
    """

    verdict: Verdict
    leaning: Verdict
    interval: Interval | None = None
    settled_by: int | None = None


def judge(claim: Claim, data: xr.Dataset) -> Judgement:
    """Judges a claim by the Dataset of its measurement."""
    return judgement(claim, claim.values(data), None if claim.rule.follows else interval(claim, data))


def judgement(claim: Claim, values: np.ndarray, found: Interval | None) -> Judgement:
    """Judges a claim by its measured values, (trial,), and the 95 % interval of the number that its rule judges."""
    leaning, rule = claim.rule.leaning(values), claim.rule
    number = rule.number(values)
    if claim.not_comparable:
        return Judgement("not comparable", leaning, found)
    if found is None:
        return Judgement(leaning, leaning)
    bounds = _turns(rule, values)
    crossed = [bound for bound in bounds if found.low < bound < found.high]
    if not crossed:
        return Judgement(leaning, leaning, found)
    settled = None if rule.of in ("lowest", "highest") else _settled_by(number, found, crossed)
    return Judgement("unsteady", leaning, found, settled)


def interval(claim: Claim, data: xr.Dataset) -> Interval | None:
    """Returns the 95 % interval of the number that a claim's rule judges; None where there are no trials to compare.

    A share of trials has Wilson's interval. So has an accuracy or error that is exactly 0 or 1 in every trial: a few
    trials do not show that none fails. A median has that of the order statistics where six or more trials allow one,
    else the mean's, 1.25 times as wide. The interval of a lowest or highest trial is that of the lowest or highest of
    as many further ones, if they are normal. Everything else has Student's, with the standard error of the jackknife:
    what the number becomes where a trial is left out, so that it also holds for slopes, ratios of means and other
    numbers that are no means. (For a mean it is the usual one.)
    """
    dimension = next((name for name in TRIALS if data.sizes.get(name, 0) > 1), None)
    if dimension is None:
        return None
    number = claim.rule.number(claim.values(data))
    by_trial = _by_trial(claim.read(data), dimension, data.sizes[dimension])
    if by_trial is None:
        found = _jackknife(claim, data, dimension)
    elif len(by_trial) < 2:
        return None
    elif claim.rule.of in ("lowest", "highest"):
        found = _of_extreme(by_trial, claim.rule.of)
    elif claim.rule.of == "median":
        found = _of_median(by_trial)
    elif claim.unit != "nats" and np.isin(by_trial, (0.0, 1.0)).all():  # an entropy of 0 is no share
        found = _wilson(by_trial)
    else:
        found = _jackknife(claim, data, dimension)
    if found is None or not np.isfinite([number, *found]).all():
        return None
    trials = data.sizes[dimension] if by_trial is None else len(by_trial)
    low, high = _possible(claim.rule, claim.values(data))
    return Interval(max(min(found[0], number), low), min(max(found[1], number), high), trials)


def _by_trial(read: Any, dimension: str, count: int) -> np.ndarray | None:
    """Returns what is read of each trial, (trial, others); None where it has no axis of trials."""
    if isinstance(read, xr.DataArray) and dimension in read.dims:
        values = read.transpose(dimension, ...).values
    elif isinstance(read, np.ndarray) and read.ndim and read.shape[-1] == count:
        values = np.moveaxis(read, -1, 0)
    else:
        return None
    return np.asarray(values, dtype=float).reshape(len(values), -1)


def _jackknife(claim: Claim, data: xr.Dataset, dimension: str) -> tuple[float, float] | None:
    """Student's interval, from the numbers without each trial, or without each of `_GROUPS` parts of the trials."""
    count = data.sizes[dimension]
    parts = np.array_split(np.arange(count), min(count, _GROUPS))
    try:
        without = [
            claim.rule.number(claim.values(data.isel({dimension: np.setdiff1d(np.arange(count), part)})))
            for part in parts
        ]
    except KeyError:  # a single trial is read, the one that a figure shows, and it is left out
        return None
    number, groups = claim.rule.number(claim.values(data)), len(parts)
    error = math.sqrt((groups - 1) / groups * float(np.square(np.array(without) - np.mean(without)).sum()))
    wide = float(stats.t.ppf(_RIGHT, groups - 1)) * error
    return number - wide, number + wide


def _wilson(values: np.ndarray) -> tuple[float, float]:
    """The interval of a share of successes; (trial, others) are means over others of independent trials."""
    found = stats.binomtest(round(float(values.mean(1).sum())), len(values)).proportion_ci(method="wilson")
    return float(found.low), float(found.high)


def _of_median(values: np.ndarray) -> tuple[float, float]:
    middle = np.sort(np.median(values, axis=1))
    count = len(middle)
    below = int(stats.binom.ppf(_LEFT, count, 0.5))  # of the trials on either side with a probability of .025 at most
    if stats.binom.cdf(below, count, 0.5) > _LEFT:
        below -= 1
    if below >= 0:
        return float(middle[below]), float(middle[count - 1 - below])
    wide = math.sqrt(math.pi / 2) * float(stats.t.ppf(_RIGHT, count - 1) * stats.sem(middle))
    return float(np.median(middle)) - wide, float(np.median(middle)) + wide


def _of_extreme(values: np.ndarray, of: str) -> tuple[float, float]:
    """Where the highest (lowest) of as many further trials is, if trials are normal."""
    sign = 1.0 if of == "highest" else -1.0
    ends = sign * (values.max(1) if of == "highest" else values.min(1))
    low, high = (float(ends.mean() + at * ends.std(ddof=1)) for at in _further_extreme(len(ends)))
    return (low, high) if of == "highest" else (-high, -low)


@cache
def _further_extreme(count: int) -> tuple[float, float]:
    """Returns how many standard deviations above the mean of normal trials the highest of as many others is, at the
    quantiles of 2.5 and 97.5 %, from 4,000 draws of both."""
    first, others = np.random.default_rng(0).standard_normal((2, 4000, count))
    away = (others.max(1) - first.mean(1)) / first.std(1, ddof=1)
    low, high = np.quantile(away, (_LEFT, _RIGHT))
    return float(low), float(high)


def _turns(rule: Rule, values: np.ndarray) -> list[float]:
    """Returns the bounds at which the verdict turns, but for those where the numbers end."""
    ends = [end for bounds in (rule.agrees, rule.in_kind) if bounds is not None for end in bounds if math.isfinite(end)]
    natural = _possible(rule, values)
    return [
        end
        for end in ends
        if end not in natural
        and rule.of_number(math.nextafter(end, math.inf)) != rule.of_number(math.nextafter(end, -math.inf))
    ]


def _possible(rule: Rule, values: np.ndarray) -> tuple[float, float]:
    """Returns where the numbers end, as far as a rule shows: infinities where it does not.

    Shares end at 1, and errors at 0: a range from 0 to a number, or up to 1, ends there because there is nothing
    beyond, unless some trial is beyond.
    """
    closed = [bounds for bounds in (rule.agrees, rule.in_kind) if bounds is not None and math.isfinite(bounds[1])]
    from_zero = any(low == 0 for low, _ in closed) and values.min() >= 0
    largest = [high for _, high in closed if high in _LARGEST and values.max() <= high]
    return 0.0 if from_zero else -math.inf, min(largest, default=math.inf)


def _settled_by(number: float, found: Interval, crossed: list[float]) -> int | None:
    """Returns about how many trials leave every crossed bound outside, rounded up to two digits."""
    widths = {bound: found.high - number if bound > number else number - found.low for bound in crossed}
    needed = min(abs(bound - number) / width for bound, width in widths.items())
    factors = _widths(_TRIALS) / _widths(np.array([found.trials]))
    enough = _TRIALS[(factors <= needed) & (found.trials < _TRIALS)]
    if not enough.size:
        return None
    digits = 10 ** max(math.floor(math.log10(enough[0])) - 1, 0)
    return math.ceil(enough[0] / digits) * digits


_TRIALS = np.unique(np.ceil(np.geomspace(2, 100_000, 2000))).astype(int)
"""Numbers of trials that may settle a verdict; if none does, the number is at the bound."""


def _widths(trials: np.ndarray) -> np.ndarray:
    """Returns how wide Student's intervals are for numbers of trials, in standard deviations."""
    return np.asarray(stats.t.ppf(_RIGHT, np.minimum(trials, _GROUPS) - 1) / np.sqrt(trials))
