"""A style of matplotlib that changes all it can, and would fail where it were followed: LaTeX is not there."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import matplotlib
from cycler import cycler

OTHERWISE: dict[str, Any] = {
    "text.usetex": True,
    "text.color": "red",
    "text.antialiased": False,
    "text.parse_math": False,
    "font.family": ["monospace"],
    "font.size": 31,
    "font.weight": "bold",
    "mathtext.fontset": "stix",
    "axes.facecolor": "black",
    "axes.edgecolor": "lime",
    "axes.labelcolor": "red",
    "axes.linewidth": 7,
    "axes.grid": True,
    "axes.axisbelow": False,
    "axes.labelsize": 30,
    "axes.titlelocation": "right",
    "axes.titlesize": 40,
    "axes.spines.top": False,
    "axes.unicode_minus": False,
    "axes.xmargin": 0.4,
    "axes.prop_cycle": cycler(color=["red"], linestyle=[":"]),
    "axes.autolimit_mode": "round_numbers",
    "axes.formatter.use_locale": True,
    "axes.formatter.limits": (0, 1),
    "figure.dpi": 33,
    "figure.facecolor": "black",
    "figure.figsize": (2, 2),
    "figure.autolayout": True,
    "figure.subplot.left": 0.4,
    "savefig.dpi": 33,
    "savefig.format": "svg",
    "savefig.facecolor": "black",
    "savefig.transparent": True,
    "savefig.bbox": "tight",
    "savefig.pad_inches": 2,
    "lines.linewidth": 9,
    "lines.linestyle": "--",
    "lines.marker": "x",
    "lines.markersize": 30,
    "lines.antialiased": False,
    "lines.scale_dashes": False,
    "lines.dashed_pattern": (1, 9),
    "lines.dotted_pattern": (9, 9),
    "lines.solid_capstyle": "round",
    "markers.fillstyle": "none",
    "patch.linewidth": 9,
    "patch.facecolor": "red",
    "patch.force_edgecolor": True,
    "patch.antialiased": False,
    "scatter.marker": "s",
    "scatter.edgecolors": "red",
    "errorbar.capsize": 20,
    "hatch.linewidth": 9,
    "image.cmap": "gray",
    "image.origin": "lower",
    "image.interpolation": "bilinear",
    "image.aspect": "equal",
    "legend.facecolor": "black",
    "legend.fontsize": 30,
    "path.sketch": (5, 100, 2),
    "path.simplify": False,
    "path.snap": False,
    "xtick.color": "red",
    "xtick.direction": "in",
    "xtick.labelsize": 30,
    "xtick.major.size": 20,
    "xtick.minor.visible": True,
    "xtick.top": True,
    "ytick.labelsize": 30,
    "ytick.minor.visible": True,
    "ytick.right": True,
    "ytick.labelleft": False,
}


@contextmanager
def users_style() -> Iterator[None]:
    """Has the settings of a user whose style has little in common with ours, and checks that they stay."""
    with matplotlib.rc_context(OTHERWISE):
        before = dict.copy(matplotlib.rcParams)
        yield
        assert dict.copy(matplotlib.rcParams) == before, "the user's settings have changed"
