"""Axes of shares, written in percent, and where they begin; logarithmic axes with plain numbers."""

from __future__ import annotations

import numpy as np
from matplotlib.axes import Axes
from matplotlib.axis import Axis
from matplotlib.ticker import FuncFormatter, MaxNLocator, NullLocator, PercentFormatter
from numpy.typing import ArrayLike


def percents(axis: Axis, decimals: int | None = 0) -> None:
    """Writes the ticks of an axis from 0 to 1 as percents; `decimals` None for as many as are needed."""
    axis.set_major_formatter(PercentFormatter(1, decimals=decimals, symbol=" %"))


def share_axis(
    axes: Axes, low: float, top: float | None = None, *, ticks: int | ArrayLike = 6, vertical: bool = True
) -> None:
    """Makes one of the axes that of shares.

    Args:
      low: where it begins.
      top: where it ends; a little above 1 when None.
      ticks: the most intervals between two ticks, which stand at round numbers; or the places of the ticks.
    """
    limits, axis = (axes.set_ylim, axes.yaxis) if vertical else (axes.set_xlim, axes.xaxis)
    limits(low, 1 + 0.02 * (1 - low) if top is None else top)
    if isinstance(ticks, int):
        axis.set_major_locator(MaxNLocator(ticks, steps=[1, 2, 5, 10]))
    else:
        axis.set_ticks(ticks)
    percents(axis)


def floor(values: ArrayLike, step: float = 0.05, *, least: float = 0.0, most: float = 0.9, below: float = 0.0) -> float:
    """Returns where an axis of shares begins: at a multiple of `step` that no finite value lies below.

    Args:
      least, most: its limits.
      below: the share of the values that may lie below.

    Returns:
      The place; 0 if no value is finite.
    """
    numbers = np.asarray(values, dtype=float)
    finite = numbers[np.isfinite(numbers)]
    if not finite.size:
        return 0.0
    return float(np.clip(np.floor(np.quantile(finite, below) / step + 1e-9) * step, least, most))


def decades(values: np.ndarray) -> tuple[float, float]:
    """Limits of a logarithmic axis that hold all values."""
    finite = values[np.isfinite(values) & (values > 0)]
    if not finite.size:
        return 0.1, 10.0
    return 0.8 * float(finite.min()), 1.25 * float(finite.max())


def plain_numbers(axes: Axes) -> None:
    """Sets ticks at 1, 2 and 5 of each decade (more on short axes), written as plain numbers."""
    low, high = axes.get_ylim()
    few = high / low < 10
    bases = (1, 1.5, 2, 3, 4, 5, 6, 8) if few else (1, 2, 5)
    marks = [base * 10.0**power for power in range(-4, 4) for base in bases if low <= base * 10.0**power <= high]
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(marks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
