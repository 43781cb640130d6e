"""The picture that `play` moves: for each expert the plane of o1 and o2 with an arrow for each pattern, and all steps.

An arrow is the part of -dL/dw_s that is due to the patches of a pattern, along o1 and o2, as `router_pulls` of
`moe_lab.patch_routing.pulls` returns it. All arrows of a step have one scale, in which the longest is as long as the
circles' radius; the words below a circle say how much that is, or why there are no arrows, and the curves below have
the lengths at every step. The mark is the router, at its cosines with o1 and o2. `furnish` draws what stays from step
to step, `draw` one step.
"""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Polygon
from numpy.typing import NDArray

from moe_lab.core.config import require
from moe_lab.drawing import theme
from moe_lab.patch_routing.pulls import OTHER, PATTERNS

MOST_EXPERTS = 4
MARGINS, HEIGHTS, GAP = (58, 53, 78, 24), (240, 76), 30
"""Pixels around and between the two Axes of an expert: left, right, top and bottom; and their heights."""
NOTE = "In each step, the longest arrow of all\nexperts reaches the circle."
_PER_UNIT = 92
"""Pixels of the circles' radius."""
_NAMED, _SEEN = 0.17, 0.03
"""Arrows shorter than the first have no name, as those along o1 and o2, which lie on the axes; arrows shorter than the
second are not drawn."""
_RARELY = 0.2
"""Share of the samples whose o an expert keeps, below which that is why hardly anything pulls at it."""
_PARTLY, _NEARLY = 0.1, 0.9
"""Parts of the strongest pull from which on the other patches cancel it partly, or nearly."""
_SCALES = 1000
"""How many times the longest pull is as long as the least that the curves show."""
# Face, edge, width of the shaft, line of the curve, name at the tip, words of the key.
_LOOKS = (
    (theme.CLASSES[0], "white", 0.1, "-", "o₁", "patches of o₁"),
    (theme.CLASSES[1], "white", 0.1, "--", "o₂", "patches of o₂"),
    (theme.CLASSES_PALE[0], theme.CLASSES[0], 0.075, (0, (1, 1)), "d₁", "d₁: distractors of o₁"),
    (theme.CLASSES_PALE[1], theme.CLASSES[1], 0.075, (0, (1, 2)), "d₂", "d₂: distractors of o₂"),
    (theme.BACKGROUND, theme.MUTED, 0.085, "-.", "other", "other patches"),
    (theme.INK, theme.INK, 0.025, "", "", "all together: −∂L/∂w"),
)
_KEY = ((), (0, 1), (2, 3), (4, 5))
"""What stands above each of four circles; the first one has the note."""


@dataclass(frozen=True)
class Pulls:
    """What `router_pulls` returns, as it is drawn; made by `prepared`.

    Attributes:
      steps, experts: their numbers.
      arrows: (step, expert, pattern, 2), and the sum of all patterns after them; 1 is the longest of a step.
      radius: (step,) how long the longest one is.
      sizes: (step, expert, pattern), lengths that are not scaled.
      places: (step, expert, 2), the cosines of routers with o1 and o2.
      kept: (step, expert), the share of the samples whose o an expert keeps.
    """

    steps: list[int]
    experts: list[int]
    arrows: NDArray[np.float64]
    radius: NDArray[np.float64]
    sizes: NDArray[np.float64]
    places: NDArray[np.float64]
    kept: NDArray[np.float64]


def prepared(data: xr.Dataset) -> Pulls:
    """Returns what `router_pulls` has returned as it is drawn.

    Raises:
      ValueError: data is something else, or has more than four experts.
    """
    check(data)
    together = data["pull"].sum("pattern").expand_dims(pattern=["all"])
    pulls = xr.concat([data["pull"], together], "pattern").transpose("step", "expert", "pattern", "along").values
    radius = np.hypot(*np.moveaxis(pulls, -1, 0)).max((1, 2))
    return Pulls(
        steps=data["step"].values.tolist(),
        experts=data["expert"].values.tolist(),
        arrows=pulls / np.where(radius, radius, 1)[:, None, None, None],
        radius=radius,
        sizes=lengths(data).values,
        places=(data["router"] / data["router_size"]).transpose("step", "expert", "along").values,
        kept=data["patches"].sel(pattern=list(PATTERNS[:2])).sum("pattern").transpose("step", "expert").values,
    )


# ---- what stays ----


def furnish(axes: Sequence[Axes], pulls: Pulls, column: int) -> None:
    """Draws what stays from step to step, of one expert.

    Args:
      axes: of the plane, and of the lengths below it.
      column: of the expert among those that are drawn.
    """
    _furnish_plane(axes[0])
    _furnish_lengths(axes[1], pulls, column)
    shown = range(column, MOST_EXPERTS if column == len(pulls.experts) - 1 else column + 1)
    for place, kinds in enumerate(_KEY[one] for one in shown):
        _write_key(axes[0], place, kinds)


def _furnish_plane(ax: Axes) -> None:
    """Draws the circle with its two axes, centred; it may be wider than its Axes."""
    box, (wide, high) = ax.get_position(), ax.figure.get_size_inches() * theme.BASE_DPI  # type: ignore[union-attr]
    across, up = box.width * wide / _PER_UNIT / 2, box.height * high / _PER_UNIT / 2
    ax.set(xlim=(-across, across), ylim=(-up, up), xticks=(), yticks=())
    ax.spines[:].set_visible(False)
    turn = np.linspace(0, 2 * np.pi, 160)
    circle: dict[str, Any] = {"facecolor": "white", "edgecolor": theme.REFERENCE, "linewidth": 1, "zorder": 1}
    ax.fill(np.cos(turn), np.sin(turn), clip_on=False, **circle)
    for ends in (((-1.3, 1.3), (0, 0)), ((0, 0), (-1, 1.3))):
        ax.plot(*ends, color=theme.RULE, linewidth=0.8, zorder=1.5, clip_on=False)
    for side, (x, y, ha) in enumerate(((1.1, -0.2, "left"), (-0.1, 1.2, "right"))):
        star: dict[str, Any] = {"color": theme.CLASSES[side], "zorder": 2.5}
        ax.plot(*((1, 0), (0, 1))[side], "*", markersize=15, markeredgecolor="white", clip_on=False, **star)
        ax.text(x, y, theme.CLASS_NAMES[side], size=theme.TITLE_SIZE, weight="bold", ha=ha, va="center", **star)


def _furnish_lengths(ax: Axes, pulls: Pulls, column: int) -> None:
    high, steps = float(pulls.sizes.max()) or 1.0, pulls.steps
    low, sizes = high / _SCALES, pulls.sizes[:, column]
    ax.set(yscale="log", xlim=(0, steps[-1] or 1), ylim=(low, 1.4 * high), xticks=(0, steps[-1]))
    ax.minorticks_off()
    for kind, (face, *_, line, _, words) in enumerate(_LOOKS[:-1]):
        colour = _ink(kind) if face == theme.BACKGROUND else face
        ax.plot(steps, np.maximum(sizes[:, kind], low), color=colour, linestyle=line, linewidth=2, label=words)
    theme.end_labels(ax, [(max(sizes[-1, kind], low), _LOOKS[kind][4], _ink(kind)) for kind in range(5)])
    ax.set_xlabel("SGD step", labelpad=-9, color=theme.MUTED, size=theme.SMALL_SIZE)
    note: dict[str, Any] = {"xycoords": "axes fraction", "textcoords": "offset points"}
    ax.annotate("length of each pull", (0, 1), (0, 6), color=theme.MUTED, size=theme.SMALL_SIZE, **note)


def _write_key(ax: Axes, place: int, kinds: Sequence[int]) -> None:
    """Explains arrows above a circle; where there are fewer circles, several columns stand above the last one."""
    left, top = ax.get_xlim()[0] - 46 / _PER_UNIT, ax.get_ylim()[1] + 24 / _PER_UNIT
    for row, kind in enumerate(kinds):
        face, edge, width, _, _, words = _LOOKS[kind]
        start = np.array([left + 174 * place / _PER_UNIT, top - 20 * row / _PER_UNIT])
        shape = outline(np.array([0.4, 0.0]), width) + start
        ax.add_patch(Polygon(shape, facecolor=face, edgecolor=edge, linewidth=1, clip_on=False))
        style: dict[str, Any] = {"color": theme.INK, "size": theme.SMALL_SIZE, "va": "center_baseline"}
        ax.text(start[0] + 0.48, start[1], words, **style)


# ---- a step ----


def draw(axes: Sequence[Axes], pulls: Pulls, column: int, step: int) -> None:
    """Draws a step of one expert on Axes that `furnish` has prepared."""
    at, number = pulls.steps.index(step), pulls.experts[column]
    plane, way = axes[0], pulls.places[: at + 1, column]
    style: dict[str, Any] = {"linewidth": 2, "zorder": 3, "clip_on": False}
    plane.plot(*way.T, color=theme.expert(number - 1).colour, label=f"the way of expert {number}'s router", **style)
    for part, order in zip(theme.expert_head(plane, number - 1), (3.5, 3.6), strict=True):
        part.set_data(way[-1:, 0], way[-1:, 1])
        part.set(clip_on=False, zorder=order, label=f"the router of expert {number}")
    arrows = pulls.arrows[at, column]
    for kind, along in enumerate(arrows):
        _draw_arrow(plane, kind, along)
    small: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "linespacing": 1.2}
    plane.text(0, -1.04, _below(pulls, at, column), ha="center", va="top", **small)
    axes[1].axvline(step, color=theme.INK, linewidth=1.5, zorder=3, label="this step")


def _draw_arrow(ax: Axes, kind: int, along: NDArray[np.float64]) -> None:
    face, edge, width, _, name, words = _LOOKS[kind]
    length = float(np.hypot(*along))
    if length < _SEEN:
        return
    order = 4 + (0.5 if kind < 2 else 0.6 if not name else 0)
    looks: dict[str, Any] = {"facecolor": face, "edgecolor": edge, "linewidth": 1, "zorder": order}
    ax.add_artist(Polygon(outline(along, width), label=f"pull of {words}", clip_on=False, **looks))
    if kind >= 2 and name and length >= _NAMED:
        centred: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 5, "weight": "bold"}
        x, y = (along * (1 + 0.16 / length)).tolist()
        ax.text(x, y, name, color=_ink(kind), size=theme.TEXT_SIZE, **centred)


def _below(pulls: Pulls, at: int, column: int) -> str:
    """Returns how long arrows are, or why an expert has none."""
    if not pulls.radius[at]:
        return "no pull at any router"
    if np.hypot(*pulls.arrows[at, column].T).max() >= _SEEN:
        return f"radius: a pull of {pulls.radius[at]:.2g}"
    short = f"no arrow: pulls under {100 * _SEEN:.0f} % of the radius"
    kept = float(pulls.kept[at, column])
    if kept >= _RARELY:
        return short
    return f"{short},\nfor it keeps o₁ or o₂ in {100 * kept:.0f} % of samples"


def _ink(kind: int) -> str:
    """The colour of words for a pattern, which can be read on paper."""
    face, edge, *_ = _LOOKS[kind]
    return face if edge == "white" else edge


def check(data: xr.Dataset) -> None:
    """Raises a ValueError unless the Dataset is of `router_pulls` and has at most four experts."""
    require({"pull", "router", "router_size"} <= set(data), "data must be what router_pulls returns", data=list(data))
    rule = f"data must have at most {MOST_EXPERTS} experts, such as data.sel(expert=[1, 2])"
    require(data.sizes["expert"] <= MOST_EXPERTS, rule, experts=data.sizes["expert"])


def lengths(data: xr.Dataset) -> xr.DataArray:
    """Returns the lengths of the arrows, (step, expert, pattern): of the pulls' part along o1 and o2."""
    square: xr.DataArray = (data["pull"] ** 2).sum("along").transpose("step", "expert", "pattern")
    return square**0.5


def outline(along: NDArray[np.float64], width: float) -> NDArray[np.float64]:
    """An arrow from (0, 0), (7, 2), with a shaft of this width and a head that is at most half of it."""
    length = float(np.hypot(*along))
    across = np.array([-along[1], along[0]]) / length
    head = min(0.22, length / 2)
    neck, half, wide = 1 - head / length, min(width / 2, head * 0.3), head * 0.45
    corners = ((0, half), (neck, half), (neck, wide), (1, 0), (neck, -wide), (neck, -half), (0, -half))
    return np.array([part * along + aside * across for part, aside in corners])


def caption(data: xr.Dataset, step: int) -> str:
    """Says which patches pull hardest at a step, and whether the other patches pull the router the other way."""
    now = lengths(data).sel(step=step)
    right = f"Step {step}, {100 * float(data['train_accuracy'].sel(step=step)):.0f} % of the training samples right"
    if not float(now.max()):
        return f"{right}: nothing pulls at any router."
    expert, pattern = np.unravel_index(int(now.values.argmax()), now.shape)
    pulls = data["pull"].sel(step=step).isel(expert=int(expert)).transpose("pattern", "along").values
    longest, other = float(now.max()), pulls[OTHER]
    who = PATTERNS[pattern].replace("o1", "o₁").replace("o2", "o₂")
    words = f"{right}. Strongest pull: {who} on expert {int(now['expert'][expert])} ({longest:.2g})"
    against = -float(pulls[pattern] @ other) / longest**2
    if pattern == OTHER or against < _PARTLY:
        return f"{words}."
    how = "nearly" if against >= _NEARLY else "partly"
    return f"{words}, {how} cancelled by the other patches ({np.hypot(*other):.2g})."
