"""How methods are named and drawn in the pictures of gridlock2019, and the points that a figure compares."""

from __future__ import annotations

import itertools
from collections.abc import Sequence
from typing import Any

import xarray as xr

from moe_lab.drawing import theme

_STYLES = {
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
_NAMES = {
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
_WITHIN = ("algorithm", "iteration", "trial", "gate_algorithm", "gate_iteration")


def style_of(method: str) -> theme.Style:
    """Returns the colour, marker and line of a method."""
    return _STYLES.get(method, theme.Style(theme.REFERENCE, "s", "--"))


def name_of(method: str) -> str:
    """Returns a short name of a method."""
    return _NAMES.get(method, method)


def words_of(point: dict[str, Any], between: str = "\n") -> str:
    """Returns a grid point in words, such as "k = 8, n = 6000"."""
    symbols = {"k": "k = {}", "samples": "n = {:,}", "activation": "{}", "noise": "σ = {}"}
    words = {"relu": "ReLU", "leaky-relu": "leaky ReLU"}
    return between.join(symbols[name].format(words.get(value, value)) for name, value in point.items())


def points_across(data: xr.Dataset, axes: Sequence[str] | None = None) -> list[dict[str, Any]]:
    """Returns the points of all axes that are not within a panel, the last changing fastest."""
    names = [str(name) for name in data["error"].dims if name not in _WITHIN] if axes is None else list(axes)
    values = [[value.item() for value in data[name].values] for name in names]
    return [dict(zip(names, one, strict=True)) for one in itertools.product(*values)]


def marks(data: xr.Dataset) -> str:
    """Returns what marks and bars are, for the note of a panel."""
    return f"mark: one of {data.sizes['trial']} trials, bar: their median"
