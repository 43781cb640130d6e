"""Draws what pulls the routers: for each expert the plane of o1 and o2 with an arrow for each pattern, and all steps.

An arrow is the part of -dL/dw_s that is due to the patches of a pattern, along o1 and o2. All arrows of a step have one
scale, in which the longest is as long as the circle's radius; the curves below have their lengths at every step. The
mark is the router, at its cosines with o1 and o2.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.artist import Artist
from matplotlib.figure import Figure
from matplotlib.patches import Polygon
from matplotlib.text import Text
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.config import require
from moe_lab.patch_routing.pulls import PATTERNS

MOST_EXPERTS = 4
SPANS = tuple((275 * number, 275 * (number + 1)) for number in range(MOST_EXPERTS))
"""Left and right of the experts' panels, in pixels."""
_LIMITS = (-1.3, 1.3)
_NAMED, _SEEN = 0.17, 0.03
"""Arrows shorter than the first have no name, as those along o1 and o2, which lie on the axes; arrows shorter than the
second are not drawn."""
_SCALES = 1000
"""How many times the longest pull is as long as the least that the curves show."""
# Face, edge, width of the shaft, line of the curve, name at the tip, words of the legend.
_LOOKS = (
    (theme.CLASSES[0], "white", 0.1, "-", "o₁", "patches of o₁"),
    (theme.CLASSES[1], "white", 0.1, "--", "o₂", "patches of o₂"),
    (theme.CLASSES_PALE[0], theme.CLASSES[0], 0.075, (0, (1, 1)), "d₁", "d₁: distractors of o₁"),
    (theme.CLASSES_PALE[1], theme.CLASSES[1], 0.075, (0, (1, 2)), "d₂", "d₂: distractors of o₂"),
    (theme.BACKGROUND, theme.MUTED, 0.085, "-.", "other", "other patches"),
    (theme.INK, theme.INK, 0.025, "", "", "all together: −∂L/∂w"),
)
_LEGEND = ((0, 1), (2, 3), (4, 5))  # in the second, third and fourth column


class PullsDrawing:
    """The picture of one step, which can show another.

    Args:
      figure: an empty page of 1100 x 480 pixels.
      data: what `router_pulls` returns, with at most four experts.

    Attributes:
      artists: those that change from step to step.

    Raises:
      ValueError: data is something else, or has more experts.
    """

    def __init__(self, figure: Figure, data: xr.Dataset) -> None:
        check(data)
        together = data["pull"].sum("pattern").expand_dims(pattern=["all"])
        pulls = xr.concat([data["pull"], together], "pattern").transpose("step", "expert", "pattern", "along")
        self._steps, self._pulls = data["step"].values.tolist(), pulls.values
        self._places = (data["router"] / data["router_size"]).transpose("step", "expert", "along").values
        sizes = lengths(data).values
        note = "longest arrow = radius of the circle;\nmark: cos(w, o₁) and cos(w, o₂)"
        theme.header(figure, 8, 1, "What pulls each router", note)
        _legend(figure)
        self._longest = np.hypot(*np.moveaxis(pulls.values, -1, 0)).max((1, 2))
        self._panels = [
            _Panel(figure, column, int(number), data["step"].values, sizes[:, column], float(sizes.max()))
            for column, number in enumerate(data["expert"].values)
        ]
        self.artists: list[Artist] = [artist for panel in self._panels for artist in panel.artists]

    def show(self, step: int) -> None:
        """Moves the artists to a step of the Dataset."""
        at = self._steps.index(step)
        arrows = self._pulls[at] / (self._longest[at] or 1)
        for number, panel in enumerate(self._panels):
            panel.show(step, self._places[: at + 1, number], arrows[number])


class _Panel:
    """The plane of o1 and o2 with one router and its pulls, and the lengths of these pulls at every step."""

    def __init__(
        self, figure: Figure, column: int, number: int, steps: NDArray[Any], sizes: NDArray[Any], longest: float
    ) -> None:
        left = SPANS[column][0]
        axes = theme.axes(figure, left + 20, 78, 240, 240, xlim=_LIMITS, ylim=_LIMITS)
        axes.set_axis_off()
        figure.text(*theme.spot(figure, left + 20, 96), f"expert {number}", color=theme.INK, size=theme.TITLE_SIZE)
        turn = np.linspace(0, 2 * np.pi, 160)
        axes.fill(np.cos(turn), np.sin(turn), facecolor="white", edgecolor=theme.REFERENCE, linewidth=1, zorder=1)
        for draw in (axes.axhline, axes.axvline):
            draw(0, color=theme.RULE, linewidth=0.8, zorder=1.5)
        for side, (x, y, ha, va) in enumerate(((1.1, -0.2, "left", "center"), (-0.1, 1.2, "right", "center"))):
            star: dict[str, Any] = {"color": theme.CLASSES[side], "zorder": 2.5}
            axes.plot(*((1, 0), (0, 1))[side], "*", markersize=15, markeredgecolor="white", **star)
            axes.text(x, y, theme.CLASS_NAMES[side], size=theme.TITLE_SIZE, weight="bold", ha=ha, va=va, **star)
        (self._trail,) = axes.plot([], [], color=theme.expert(number - 1).colour, linewidth=2, zorder=3)
        self._head = theme.expert_head(axes, number - 1)
        for part, order in zip(self._head, (3.5, 3.6), strict=True):
            part.set(clip_on=False, zorder=order)
        self._arrows, self._names = list[Polygon](), list[Text]()
        for kind, (face, edge, _, _, name, _) in enumerate(_LOOKS):
            order = 4 + (0.5 if kind < 2 else 0.6 if not name else 0)
            arrow = Polygon(np.zeros((3, 2)), facecolor=face, edgecolor=edge, linewidth=1, zorder=order)
            axes.add_patch(arrow)
            words: dict[str, Any] = {"ha": "center", "va": "center_baseline", "zorder": 5, "weight": "bold"}
            self._arrows.append(arrow)
            name = name if kind >= 2 else ""
            self._names.append(axes.text(0, 0, name, color=_ink(kind), size=theme.TEXT_SIZE, **words))
        self._now = self._curves(figure, left, steps, sizes, longest)
        self.artists = [self._trail, *self._head, *self._arrows, *self._names, self._now]

    def _curves(self, figure: Figure, left: float, steps: NDArray[Any], sizes: NDArray[Any], longest: float) -> Any:
        """Draws the lengths, (steps, patterns), and returns the line at the step on show."""
        high = longest or 1.0
        low = high / _SCALES
        axes = theme.axes(
            figure, left + 58, 348, 164, 76, yscale="log", xlim=(0, steps[-1] or 1), ylim=(low, 1.4 * high)
        )
        for kind, (face, *_, line, _, _) in enumerate(_LOOKS[:-1]):
            colour = _ink(kind) if face == theme.BACKGROUND else face
            axes.plot(steps, np.maximum(sizes[:, kind], low), color=colour, linestyle=line, linewidth=2)
        theme.end_labels(axes, [(max(sizes[-1, kind], low), _LOOKS[kind][4], _ink(kind)) for kind in range(5)])
        axes.minorticks_off()
        axes.set_xticks([0, steps[-1]])
        note: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "va": "center_baseline"}
        figure.text(*theme.spot(figure, left + 58, 336), "length of each pull", **note)
        figure.text(*theme.spot(figure, left + 140, 435), "SGD step", ha="center", **note)
        return axes.axvline(0, color=theme.INK, linewidth=1.5, zorder=3)

    def show(self, step: int, way: NDArray[np.float64], arrows: NDArray[np.float64]) -> None:
        """Draws the router's way so far, (steps, 2), and the arrows, (patterns and their sum, 2)."""
        self._trail.set_data(way[:, 0], way[:, 1])
        for part in self._head:
            part.set_data(way[-1:, 0], way[-1:, 1])
        self._now.set_xdata([step, step])
        for arrow, name, along, look in zip(self._arrows, self._names, arrows, _LOOKS, strict=True):
            length = float(np.hypot(*along))
            arrow.set_visible(length >= _SEEN)
            name.set_visible(length >= _NAMED)
            if length >= _SEEN:
                arrow.set_xy(outline(along, look[2], 0.22))
                name.set_position(tuple(along * (1 + 0.16 / length)))


def _ink(kind: int) -> str:
    """The colour of words for a pattern, which can be read on paper."""
    face, edge, *_ = _LOOKS[kind]
    return face if edge == "white" else edge


def _legend(figure: Figure) -> None:
    for (left, _), kinds in zip(SPANS[1:], _LEGEND, strict=True):
        axes = theme.axes(figure, left + 20, 10, 250, 56, xlim=(0, 250), ylim=(56, 0))
        axes.set_axis_off()
        for line, kind in enumerate(kinds):
            face, edge, width, _, _, words = _LOOKS[kind]
            shape = outline(np.array([40.0, 0.0]), 92 * width, 20) + np.array([2.0, 16 + 24 * line])
            axes.add_patch(Polygon(shape, facecolor=face, edgecolor=edge, linewidth=1))
            axes.text(50, 16 + 24 * line, words, color=theme.INK, size=theme.TEXT_SIZE, va="center_baseline")


def check(data: xr.Dataset) -> None:
    """Raises a ValueError unless the Dataset is of `router_pulls` and has at most four experts."""
    require({"pull", "router", "router_size"} <= set(data), "data must be what router_pulls returns", data=list(data))
    rule = f"data must have at most {MOST_EXPERTS} experts, such as data.sel(expert=[1, 2])"
    require(data.sizes["expert"] <= MOST_EXPERTS, rule, experts=data.sizes["expert"])


def lengths(data: xr.Dataset) -> xr.DataArray:
    """The lengths of the arrows, (step, expert, pattern): of the pulls' part along o1 and o2."""
    square: xr.DataArray = (data["pull"] ** 2).sum("along").transpose("step", "expert", "pattern")
    return square**0.5


def outline(along: NDArray[np.float64], width: float, head: float) -> NDArray[np.float64]:
    """An arrow from (0, 0), (7, 2): its shaft's width and its head's length, which is at most half of the arrow."""
    length = float(np.hypot(*along))
    across = np.array([-along[1], along[0]]) / length
    head = min(head, length / 2)
    neck, half, wide = 1 - head / length, min(width / 2, head * 0.3), head * 0.45
    corners = ((0, half), (neck, half), (neck, wide), (1, 0), (neck, -wide), (neck, -half), (0, -half))
    return np.array([part * along + aside * across for part, aside in corners])


def caption(data: xr.Dataset, step: int) -> str:
    """Says which patches pull hardest at a step, and how hard the other patches pull at the same router."""
    now = lengths(data).sel(step=step)
    right = f"Step {step}, {100 * float(data['train_accuracy'].sel(step=step)):.0f} % of the training samples right"
    if not float(now.max()):
        return f"{right}: nothing pulls at any router."
    expert, pattern = np.unravel_index(int(now.values.argmax()), now.shape)
    name = PATTERNS[pattern].replace("o1", "o₁").replace("o2", "o₂")
    longest, other = float(now.max()), float(now[expert, -1])
    words = f"{right}. Strongest pull: {name} on expert {int(now['expert'][expert])} ({longest:.2g}"
    return f"{words}; other patches there {other:.2g})." if pattern != len(PATTERNS) - 1 else f"{words})."


def picture(data: xr.Dataset, step: int | None = None, scale: float = 1.0) -> Figure:
    """Draws one step of what `router_pulls` returns on a page of its own, by default the last.

    A scale of 1 has 100 dots per inch; 1.5 suits a projector.

    Raises:
      ValueError: data is something else, has more than four experts, or has no such step.
    """
    page = theme.figure(1100, 480, scale)
    drawing, steps = PullsDrawing(page, data), data["step"].values.tolist()
    shown = steps[-1] if step is None else step
    require(shown in steps, "step must be one of the recorded ones", step=step)
    drawing.show(shown)
    theme.caption(page, caption(data, shown))
    return page
