"""Draws figures 3 and 7 of pruning2024: routers after training, and what a router and its expert have learned."""

from __future__ import annotations

import json
from typing import Any, Literal

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from moe_lab.core.words import counted
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of
from moe_lab.drawing.published import without_frame
from moe_lab.drawing.style import in_fixed_style
from moe_lab.pruning import findings

PICTURES = Pictures("pruning2024")
GROUPS = ("+", "-")
TOP, TALL = 88.0, 292.0
"""Where panels begin, and their height, in pixels."""


def settings_of(data: xr.Dataset) -> dict[str, Any]:
    """The settings of a Dataset's run."""
    return dict(json.loads(data.attrs["config"])[0])


def _large_routers(data: xr.Dataset) -> str:
    trial, trials = int(data["shown_trial"]), counted(data.sizes["trial"])
    number, group = _shown(data, "large")
    own = "o1" if group == "+" else "o2"
    router = data["router_component"].sel(expert=number)
    others = float(router.drop_sel(pattern=own).max())
    neurons = data["neuron_component"].sel(pattern=own)
    many = [int((neurons.sel(expert=_shown(data, role)[0]) > 1).sum()) for role in ("large", "small")]
    return (
        f"Trial {trial}: {int(data['large'].sel(trial=trial).sum())} of {data.sizes['expert']} routers are large. That "
        f"of expert {number} has {signed(float(router.sel(pattern=own)))} along {_pattern_of(group)}, at most "
        f"{signed(others)} along any other pattern; neurons above 1 along {_pattern_of(group)}: {many[0]} of "
        f"{data.sizes['neuron']} there, {many[1]} in expert {_shown(data, 'small')[0]}. "
        f"In {int(data['violated'].sum())} of {trials} a class has no large router."
    )


def _pattern_of(group: str) -> str:
    """The pattern that the experts of a group are for."""
    return "o₁" if group == "+" else "o₂"


def signed(value: float) -> str:
    """A number with one decimal; 0.0 has no sign."""
    return f"{value + 0.0 if abs(value) >= 0.05 else 0.0:.1f}".replace("-", "−")


def _shown(data: xr.Dataset, role: str) -> tuple[int, str]:
    """Number and group of the expert that figure 3 or 7 shows as "large" or "small"."""
    number = int(data["shown"].sel(role=role))
    return number, str(data["group"].sel(expert=number).item())


def darkest(data: xr.Dataset) -> tuple[float, float]:
    """The largest component of a router and of a neuron in the trial that is shown, of all experts."""
    return float(data["router_component"].max()), float(data["neuron_component"].max())


def _router_heads(data: xr.Dataset) -> list[Head]:
    trial, seed = int(data["shown_trial"]), int(data.attrs["seed"])
    router, neurons = map(signed, darkest(data))
    notes = [
        f"components along the patterns\ndarkest: {router} (router), {neurons} (neurons)",
        "the same, on the same scale",
    ]
    made: list[Head] = [(12, "A few routers grow large", f"trial {trial} of seed {seed}, from tiny random weights")]
    for left, role, note in zip((514, 822), ("large", "small"), notes, strict=True):
        expert, _ = _shown(data, role)
        size = role if role == "small" or data["large"].sel(trial=trial, expert=expert) else "largest"
        made.append((left, f"Expert {expert}: {size} router", note))
    return made


def _router_boxes(_: xr.Dataset) -> list[Box]:
    maps = [[(left, TOP, 250.0, 34.0), (left, TOP + 44, 250.0, TALL - 44)] for left in (566.0, 834.0)]
    return [(62, TOP, 420, TALL), *maps[0], *maps[1]]


@PICTURES.of(
    "figure 3",
    "figure 7",
    finding=findings.large_routers,
    caption=_large_routers,
    heads=_router_heads,
    boxes=_router_boxes,
)
def routers(data: xr.Dataset, axes: Any) -> None:
    """Figures 3 and 7: norms of all routers, then components of an expert with a large and of one with a small router.

    Args:
      data: what `figures.figure3` or `figure7` returned.
      axes: five Axes: norms; router and neurons of the large one; router and neurons of the small one.
    """
    panels = panels_of(axes, 5)
    router_norms(data, panels[0])
    picked = [_shown(data, role)[0] for role in ("large", "small")]
    largest = darkest(data)
    for number, expert in enumerate(picked):
        one = data.sel(expert=expert)
        group = str(one["group"].item())
        above, below = panels[1 + 2 * number : 3 + 2 * number]
        for panel in (above, below):
            theme.plain(panel)
        along = one["router_component"].values
        _components(above, along[None], largest[0])
        _components(below, one["neuron_component"].transpose("neuron", "pattern").values, largest[1])
        for place, value in zip(above.get_xticks(), along[:2], strict=False):
            note: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.SMALL_SIZE, "gid": "component"}
            above.text(place, 0.5, signed(value), color=theme.ink_on(value / (largest[0] or 1)), zorder=3, **note)
        above.set_yticks([0.5], ["router"] if number == 0 else [""])
        count = data.sizes["neuron"]
        below.set_yticks([count / 2], [f"{count}\nneurons"] if number == 0 else [""])
        below.set_xticks(below.get_xticks(), ["o₁", "o₂", f"the {data.sizes['pattern'] - 2} irrelevant patterns"])
        for label, colour in zip(below.get_xticklabels(), (*theme.CLASSES, theme.MUTED), strict=True):
            label.set(color=colour, weight="normal" if colour == theme.MUTED else "bold")
        own = one["neuron_component"].sel(pattern="o1" if group == "+" else "o2")
        below.set_xlabel(f"{int((own > 1).sum())} of {count} above 1 along {_pattern_of(group)}")


@in_fixed_style
def router_norms(data: xr.Dataset, axes: Axes) -> None:
    """Figure 3a: the norm of every router after training, in the trial that is shown."""
    theme.plain(axes)
    norms = data["router_norm"].sel(trial=int(data["shown_trial"]))
    experts = data["expert"].values
    marked = data["shown"].values
    top = settings_of(data)["model"]["top"]
    level = 1.5 * np.log(top)
    high = 1.16 * max(level, float(norms.max()))
    axes.set_ylim(0, high)
    axes.set_xlim(0.2, len(experts) + 0.8)
    for sign in GROUPS:
        mine = norms.sel(expert=data["group"] == sign)
        colour = theme.CLASSES[GROUPS.index(sign)]
        axes.bar(mine["expert"], mine, width=0.72, color=colour, zorder=2)
        for expert, value in zip(mine["expert"].values, mine.values, strict=True):
            if value > level:
                style: dict[str, Any] = {"ha": "center", "va": "top", "size": theme.SMALL_SIZE, "weight": "bold"}
                axes.text(expert, value - 0.015 * high, f"{value:.1f}", color="white", rotation=90, gid="norm", **style)
        words = f"vote {theme.CLASS_SIGNS[sign == '-']}"
        head: dict[str, Any] = {"ha": "center", "va": "top", "size": theme.TEXT_SIZE, "weight": "bold"}
        axes.text(float(mine["expert"].mean()), high, words, color=colour, **head)
    axes.axvline(len(experts) / 2 + 0.5, color=theme.RULE, linewidth=1, zorder=0)
    threshold(axes, level, f"1.5 log l = {level:.2f}", 0.01, "left")
    every = 1 if len(experts) <= 20 else 5
    some = [int(expert) for expert in experts if expert in marked or (int(expert) % every == 0)]
    axes.set_xticks(some, [str(expert) for expert in some])
    for label, expert in zip(axes.get_xticklabels(), some, strict=True):
        weight, colour = ("bold", theme.INK) if expert in marked else ("normal", theme.REFERENCE)
        label.set(weight=weight, color=colour)
    axes.tick_params(axis="x", length=0, pad=2)
    axes.set_xlabel("expert (bold: shown at the right)")
    axes.set_ylabel("norm of the router after training")


def _components(axes: Axes, values: np.ndarray, largest: float) -> None:
    """Rows of components as a map: columns o1 and o2 wide, then the irrelevant patterns, one narrow column each.

    As in the paper, darker is larger; what is negative is as pale as 0.

    Args:
      values: (rows, patterns), o1 and o2 first.
      largest: what is darkest.
    """
    wide, gap = 36, 6
    shades = theme.ramp(np.clip(values / (largest or 1.0), 0, 1))
    empty = np.broadcast_to(theme.rgba(theme.PAPER), (len(values), gap, 4))
    thin = max(1, round(198 / max(values.shape[1] - 2, 1)))
    parts = [shades[:, :1].repeat(wide, 1), shades[:, 1:2].repeat(wide, 1), empty, shades[:, 2:].repeat(thin, 1)]
    image = np.concatenate(parts, axis=1)
    rows, across = image.shape[:2]
    axes.imshow(image, extent=(0, across, rows, 0), aspect="auto", interpolation="nearest", zorder=1)
    axes.set_xlim(0, across)
    axes.set_ylim(rows, 0)
    without_frame(axes)
    frame: dict[str, Any] = {"fill": False, "edgecolor": theme.RULE, "linewidth": 0.8, "zorder": 2}
    for left, right in ((0, wide), (wide, 2 * wide), (2 * wide + gap, across)):
        axes.add_patch(Rectangle((left, 0), right - left, rows, clip_on=False, **frame))
    axes.set_xticks([wide / 2, 1.5 * wide, (2 * wide + gap + across) / 2], ["", "", ""])


def threshold(axes: Axes, level: float, words: str, x: float = 0.99, ha: Literal["left", "right"] = "right") -> None:
    """A dashed line of theory, with its name above it."""
    axes.axhline(level, color=theme.INK, linewidth=1.4, linestyle=(0, (6, 2.5)), zorder=1, gid="threshold")
    ground = {"facecolor": theme.PAPER, "alpha": 0.85, "linewidth": 0, "pad": 0.6}
    axes.annotate(
        words,
        (x, level),
        xycoords=axes.get_yaxis_transform(),
        xytext=(0, 3.5),
        textcoords="offset points",
        ha=ha,
        va="bottom",
        color=theme.INK,
        size=theme.SMALL_SIZE,
        bbox=ground,
        zorder=5,
    )
