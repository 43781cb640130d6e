"""Ranges of numbers in rules: pairs of ends, and ranges that follow from the published number.

`near(0.5, 0.1)` is a pair. `plus_minus(0.1)` is the same around whatever number the paper has, and a function of one
number, such as `share_from`, is without an argument the range that begins at the published number.
"""

from __future__ import annotations

import math
from collections.abc import Callable

Range = tuple[float, float]
Ends = Range | Callable[[float], Range]
"""A range, or how it follows from the published number."""
ROUNDING = 1e-9


def at_least(low: float) -> Range:
    return low, math.inf


def at_most(high: float) -> Range:
    return -math.inf, high


def near(number: float, tolerance: float) -> Range:
    return number - tolerance, number + tolerance


def share_from(low: float) -> Range:
    """Returns the range of a share or a cosine that is at least `low`; its other end is 1, up to rounding."""
    return low, 1.0 + ROUNDING


def up_to(high: float) -> Range:
    """Returns the range of an error, a distance or another number that is never negative."""
    return 0.0, high


def half_to_double(number: float, without: float = 0.0) -> Range:
    """Returns the range in which an effect has the published sign and from half to twice the published size.

    Args:
      number: as published.
      without: the number if there were no effect, such as 1 for a share of another model's cost.
    """
    effect = number - without
    ends = without + effect / 2, without + 2 * effect
    return min(ends), max(ends)


def plus_minus(tolerance: float = 0.0, *, relative: float = 0.0) -> Callable[[float], Range]:
    """Returns the range around the published number, within a tolerance or a part of the number."""
    return lambda number: near(number, tolerance or relative * number)


def factor_of_two(without: float = 0.0) -> Callable[[float], Range]:
    """Returns the range from half to twice the published effect; `without` is the number if there were no effect."""
    return lambda number: half_to_double(number, without)


def nearer(number: float, other: float) -> float:
    """Returns the limit beyond which a measured number is nearer to a published one than to another."""
    return (number + other) / 2
