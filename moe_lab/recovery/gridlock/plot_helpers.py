"""Plotting helpers: styles and names of methods, and logarithmic axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter, NullLocator

from moe_lab.drawing import theme

STYLES = {
    "spectral+em": theme.Style(theme.INK, "o", "-"),
    "spectral": theme.Style(theme.INK, "^", ":"),
    "spectral-gradient": theme.Style(theme.REFERENCE, "v", "--"),
    "moments": theme.Style(theme.INK, "v", "--"),
    "centred-moments": theme.Style(theme.INK, "D", "-."),
    "gates-em": theme.Style(theme.REFERENCE, "s", "--"),
    "orth-als": theme.Style(theme.REFERENCE, "v", "--"),
    "joint-em": theme.Style(theme.REFERENCE, "s", "--"),
    "joint-em-gradient": theme.Style(theme.REFERENCE, "X", "-."),
    "joint-em+bias": theme.Style(theme.REFERENCE, "D", "--"),
    "spectral-scaled": theme.Style(theme.INK, "v", "-"),
    "variance": theme.Style(theme.REFERENCE, "P", ":"),
    "ridge": theme.Style(theme.REFERENCE, "*", ":"),
}
"""Ink for what starts from moments, grey for what it is compared with; shapes and dashes tell the rest."""
NAMES = {
    "spectral+em": "spectral + EM",
    "spectral": "spectral",
    "spectral-gradient": "gradient EM",
    "moments": "moments",
    "centred-moments": "centred moments",
    "gates-em": "EM",
    "orth-als": "Orth-ALS",
    "joint-em": "joint EM",
    "joint-em-gradient": "joint EM (gradient)",
    "joint-em+bias": "joint EM (bias)",
    "spectral-scaled": "spectral (lengths fitted)",
    "variance": "variance of the target",
    "ridge": "ridge regression",
}


def style_of(method: str) -> theme.Style:
    """Returns the colour, marker and line of a method."""
    return STYLES.get(method, theme.Style(theme.REFERENCE, "s", "--"))


def name_of(method: str) -> str:
    """Returns a short name of a method."""
    return NAMES.get(method, method)


def words_of(point: dict[str, Any], between: str = "\n") -> str:
    """ "k = 8, n = 6000" """
    symbols = {"k": "k = {}", "samples": "n = {:,}", "activation": "{}", "noise": "σ = {}"}
    words = {"relu": "ReLU", "leaky-relu": "leaky ReLU"}
    return between.join(symbols[name].format(words.get(value, value)) for name, value in point.items())


def decades(values: np.ndarray) -> tuple[float, float]:
    """Limits of a logarithmic axis that hold all values."""
    finite = values[np.isfinite(values) & (values > 0)]
    if not finite.size:
        return 0.1, 10.0
    return 0.8 * float(finite.min()), 1.25 * float(finite.max())


def plain_numbers(axes: Axes) -> None:
    """Ticks at 1, 2 and 5 of each decade (and at more on short axes), written as plain numbers."""
    low, high = axes.get_ylim()
    few = high / low < 10
    bases = (1, 1.5, 2, 3, 4, 5, 6, 8) if few else (1, 2, 5)
    marks = [base * 10.0**power for power in range(-4, 4) for base in bases if low <= base * 10.0**power <= high]
    axes.yaxis.set_minor_locator(NullLocator())
    axes.set_yticks(marks)
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
