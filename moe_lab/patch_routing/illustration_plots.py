"""Draws figures 1 to 3 of pmoe2023: the samples, the patches that experts keep, and how they become the output."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from moe_lab.core.words import series
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Head, Pictures, panels_of
from moe_lab.patch_routing import findings

PICTURES = Pictures("pmoe2023")
_WIDEST = 5.0
"""Points, the line of a gate of 1."""


def _keepers(data: xr.Dataset) -> str:
    """Says which experts keep the deciding patch, with which gates, and what the model answers."""
    words = []
    for number, name in enumerate(theme.CLASS_NAMES[: data.sizes["class"]]):
        own = data.isel({"class": number})
        gates = own["gate"].isel(patch=int(own["signal"]))
        kept = [f"{int(gate['expert'])} ({float(gate):.0%})" for gate in gates if gate > 0]
        keepers = f"expert{'s' if len(kept) > 1 else ''} {series(kept)}" if kept else "no expert"
        words.append(f"{name} is kept by {keepers}, f = {float(own['output']):.2g}")
    return f"{'; '.join(words)}. In brackets: its gate."


def _illustration_heads(data: xr.Dataset) -> list[Head]:
    per_expert = int((data["gate"][0, 0] > 0).sum())
    return [
        (8, "The samples (figure 3)", f"{data.sizes['patch']} patches; outlined: o₁ or o₂"),
        (360, "What experts keep (figure 1)", f"marks: experts, each with {per_expert} patches"),
        (690, "How that becomes f (figure 2)", "lines: gates, then output weights; dashed: below 0"),
    ]


@PICTURES.of(
    "figures 1 to 3",
    finding=findings.kept,
    caption=_keepers,
    heads=_illustration_heads,
    boxes=lambda _: [(30, 90, 160, 160), (30, 274, 160, 160), (372, 90, 280, 280), (690, 80, 400, 360)],
)
def illustrations(data: xr.Dataset, axes: Any) -> None:
    """Figures 1 to 3 on four Axes: a sample of each class, what experts keep of the first, and the network."""
    *samples, marked, network = panels_of(axes, 4)
    for number, one in enumerate(samples):
        own = data.isel({"class": number})
        _grid(one, own, number)
        words = f"{theme.CLASS_NAMES[number]}\ny = {theme.CLASS_SIGNS[number]}1\nf = {float(own['output']):.2g}"
        place: dict[str, Any] = {"transform": one.transAxes, "va": "center", "size": theme.TEXT_SIZE}
        one.text(1.06, 0.5, words, color=theme.CLASSES[number], weight="bold", **place)
    first = data.isel({"class": 0})
    across = _grid(marked, first, 0)
    for expert, gates in enumerate(first["gate"].values):
        for patch in np.flatnonzero(gates):
            aside = (expert + 0.5) / len(first["gate"]) - 0.5
            _mark(marked, expert, patch % across + 0.8 * aside, patch // across + 0.32, 12)
    _network(network, first)


def _grid(axes: Axes, own: xr.Dataset, number: int) -> int:
    """Draws the patches of a sample in a square; returns how many there are in a row."""
    images, signal = own["image"].values, int(own["signal"])
    across = int(np.ceil(np.sqrt(len(images))))
    axes.set(xlim=(-0.52, across - 0.48), ylim=(across - 0.48, -0.52))
    axes.set_axis_off()
    for patch, image in enumerate(images):
        x, y = patch % across, patch // across
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, extent=(x - 0.46, x + 0.46, y + 0.46, y - 0.46), zorder=1)
    corner = (signal % across - 0.48, signal // across - 0.48)
    axes.add_patch(Rectangle(corner, 0.96, 0.96, fill=False, edgecolor=theme.CLASSES[number], linewidth=3, zorder=3))
    axes.set(xlim=(-0.52, across - 0.48), ylim=(across - 0.48, -0.52))
    return across


def _network(axes: Axes, own: xr.Dataset) -> None:
    """Patches, experts with their neurons, and the output, from left to right."""
    gates, images = own["gate"].values, own["image"].values
    axes.set(xlim=(0, 400), ylim=(360, 0))
    axes.set_axis_off()
    rows = np.linspace(14, 346, len(images))
    half = min(12.0, 0.46 * 332 / max(1, len(images) - 1))
    shown = np.asarray((gates > 0).any(axis=0))
    for patch, (row, image) in enumerate(zip(rows, images, strict=True)):
        extent = (24 - half, 24 + half, row + half, row - half)
        axes.imshow(image, cmap="gray_r", vmin=0, vmax=1, alpha=1.0 if shown[patch] else 0.3, extent=extent, zorder=2)
    edge: dict[str, Any] = {"fill": False, "edgecolor": theme.CLASSES[0], "linewidth": 2.5, "zorder": 3}
    axes.add_patch(Rectangle((24 - half, rows[int(own["signal"])] - half), 2 * half, 2 * half, **edge))
    places = np.linspace(360 / len(gates) / 2, 360 - 360 / len(gates) / 2, len(gates))
    for expert, (place, row) in enumerate(zip(places, gates, strict=True)):
        style = theme.expert(expert)
        for one in np.flatnonzero(row):
            width = max(0.6, _WIDEST * row[one])
            axes.plot([24 + half, 150], [rows[one], place], color=style.colour, linewidth=width, zorder=1, gid="gate")
        _mark(axes, expert, 160, place, 17)
        _neurons(axes, own, expert, place)
    axes.text(326, 180, f"f = {float(own['output']):.2g}", size=theme.TITLE_SIZE, weight="bold", va="center")
    axes.set(xlim=(0, 400), ylim=(360, 0))


def _neurons(axes: Axes, own: xr.Dataset, expert: int, place: float) -> None:
    """An expert's neurons as discs, as dark as their share of the largest |a_r| times what they pass on is."""
    member = np.flatnonzero(own["expert_of"].values == expert + 1)
    passed = np.abs(_passed(own))
    for row, neuron in zip(place + 26 * (np.arange(len(member)) - (len(member) - 1) / 2), member, strict=True):
        share, weight = passed[neuron] / max(passed.max(), 1e-12), float(own["output_weight"][neuron])
        axes.plot([170, 235], [place, row], color=theme.RULE, linewidth=1.2, zorder=1)
        line = "-" if weight >= 0 else (0, (4, 2))
        axes.plot([235, 320], [row, 180], color=theme.INK, linewidth=0.6 + 2.4 * share, linestyle=line, zorder=1)
        disc: dict[str, Any] = {"markeredgecolor": theme.INK, "markeredgewidth": 1, "linestyle": "none", "zorder": 2}
        face = tuple(theme.ramp(share) / 255)
        axes.plot([235], [row], "o", markersize=13, markerfacecolor=face, gid="neuron", **disc)


def _passed(own: xr.Dataset) -> np.ndarray:
    """(neuron,) each neuron's part of l f: a_r times the sum of its gated values."""
    gates = own["gate"].values[own["expert_of"].values - 1]
    return np.asarray(own["output_weight"].values * (gates * own["hidden"].values).sum(-1))


def _mark(axes: Axes, expert: int, x: float, y: float, size: float) -> None:
    for part in theme.expert_head(axes, expert, size):
        part.set_data([x], [y])
