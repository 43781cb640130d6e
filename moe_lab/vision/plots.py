"""Draws the Datasets of `figures`, and images of a Snapshot.

Nothing here trains. A small mark is a trial, a thick line or bar the median of the trials, an open star a published
value. The model under study is in ink, what it is compared with in grey.
`picture` draws a Dataset of `figures` on a page of its own, with heads and a caption.
"""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from moe_lab.core.config import require
from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Head, Pictures, panels_of
from moe_lab.drawing.published import measured, star, trials
from moe_lab.drawing.scales import percents
from moe_lab.drawing.style import in_fixed_style
from moe_lab.vision import findings
from moe_lab.vision.rotation.live import Sorted

PICTURES = Pictures("pmoe2023", "chen2022")
caption, picture = PICTURES.caption, PICTURES.picture

NAMES = {
    "learned": "WRN-pMoE",
    "none": "no gates",
    "random": "random patches",
    "soft": "all patches, soft gates",
    "conv": "no experts",
}
"""The models of `figures.sample_complexity` in words."""
_STYLES = {
    "learned": theme.MODEL,
    "none": theme.OTHER,
    "conv": theme.Style(theme.REFERENCE, "^", ":"),
    "random": theme.Style(theme.REFERENCE, "x", "-."),
    "soft": theme.Style(theme.MUTED, "D", "-"),
}


def _medians(data: xr.Dataset) -> str:
    trials = data.sizes["trial"]
    return "one trial" if trials == 1 else f"medians of {trials} trials"


# --- pmoe2023 --------------------------------------------------------------------------------------------------------


def _accuracies(data: xr.Dataset) -> str:
    last = data.isel(samples=-1)
    parts = [
        f"{NAMES[str(name)]} {100 * float(last['test_accuracy'].sel(model=name).median()):.0f} %"
        for name in data["model"].values
    ]
    sentence = f"With {int(last['samples'])} samples: {', '.join(parts)} ({_medians(data)})."
    if "learned" in data["model"].values:
        share = float(last["kept_in_object"].sel(model="learned").median())
        sentence += f" Of the kept patches {100 * share:.0f} % lie in the object, by chance"
        sentence += f" {100 * float(last['chance'].mean()):.0f} %."
    return sentence


def _two_heads(_: xr.Dataset) -> list[Head]:
    return [(14, "Test accuracy", "thin: a trial, thick: the median"), (604, "Kept patches in the object", "")]


@PICTURES.of(
    "figure 16 in kind",
    "figure 16 in kind, digits in quadrants",
    finding=partial(findings.most_accurate, names=NAMES),
    caption=_accuracies,
    heads=_two_heads,
    boxes=lambda _: [(74, 78, 340, 310), (664, 78, 300, 310)],
)
def sample_complexity(data: xr.Dataset, axes: Any) -> None:
    """Accuracy, and the share of kept patches that lie in the object, against the number of samples; two Axes."""
    accuracy, shares = panels_of(axes, 2)
    for panel, name in ((accuracy, "test_accuracy"), (shares, "kept_in_object")):
        ends = []
        for model in data["model"].values:
            curves = data[name].sel(model=model)
            if np.isfinite(curves).any() and not (name == "kept_in_object" and model in ("none", "soft")):
                style = _STYLES[str(model)]
                ends.append((trials(panel, curves, "samples", style), NAMES[str(model)], style.colour))
        panel.set_xlabel("training samples N")
        percents(panel.yaxis, None)
        if name == "kept_in_object":
            chance = float(data["chance"].mean())
            panel.axhline(chance, color=theme.REFERENCE, linestyle="--", linewidth=1, gid="chance")
            ends.append((chance, "chance", theme.MUTED))
        theme.end_labels(panel, ends)


def _counted(data: xr.Dataset) -> str:
    first = data.isel(samples=0)
    wrn = float(first["training_flops"].sel(model="WRN"))
    share = float((first["training_flops"].sel(model="WRN-pMoE") / wrn).item())
    printed = float(first["published_flops"].sel(model="WRN"))
    return (
        f"50 epochs of WRN on {int(first['samples']):,} samples cost {wrn:.1e} FLOPs, less than the printed "
        f"{printed:.0e}; WRN-pMoE costs {100 * share:.0f} % of that, as it multiplies unkept patches by zero."
    )


@PICTURES.of(
    "table 2",
    finding=findings.cheaper,
    caption=_counted,
    heads=lambda _: [(14, "Cost of training", "lines: counted, 50 epochs; stars: published")],
    boxes=lambda _: [(94, 78, 820, 290)],
)
def compute(data: xr.Dataset, axes: Axes) -> None:
    """Table 2: FLOPs of training, counted for 50 epochs (lines) and published (stars), against samples; one Axes."""
    samples, ends = data["samples"].values, []
    for model, style in (("WRN-pMoE", theme.MODEL), ("WRN", theme.OTHER)):
        counted = data["training_flops"].sel(model=model).values
        axes.plot(samples, counted, color=style.colour, linestyle=style.line, marker=style.marker, gid="counted")
        ends.append((float(counted[-1]), model, style.colour))
        for place, value in zip(samples, data["published_flops"].sel(model=model).values, strict=True):
            star(axes, place, value, np.nan, style.colour)
    skipping = data["training_flops_skipping"].sel(model="WRN-pMoE").values
    axes.plot(samples, skipping, color=theme.INK, linestyle=":", gid="skipping")
    ends.append((float(skipping[-1]), "unkept left out", theme.INK))
    axes.set_ylim(0, None)
    axes.set_xlabel("training samples N")
    axes.set_ylabel("FLOPs of training")
    theme.end_labels(axes, ends)


@in_fixed_style
def framed(image: np.ndarray, box: np.ndarray, axes: Axes) -> None:
    """An image (channel, height, width) whose object is framed; one Axes.

    Args:
      box: top, left, height and width of the object, in pixels.
    """
    axes.imshow(_colours(image), interpolation="nearest")
    _frame(axes, box, theme.FAILURE)


def _colours(image: np.ndarray) -> np.ndarray:
    """Returns an image as (height, width, 3); one without colours is dark on light."""
    shown = np.asarray(image).transpose(1, 2, 0)
    return np.clip(shown if shown.shape[2] == 3 else 1 - np.repeat(shown, 3, 2), 0, 1)


def _frame(axes: Axes, box: np.ndarray, colour: str) -> None:
    top, left, height, width = (float(side) for side in box)
    frame = Rectangle((left - 0.5, top - 0.5), width, height, fill=False, gid="object")
    frame.set(edgecolor=colour, linewidth=2)
    axes.add_patch(frame)
    axes.set_axis_off()


@in_fixed_style
def kept_patches(snapshot: Snapshot, axes: Axes, trial: int = 0, example: int = 0, expert: int = 0) -> None:
    """A test image whose object is framed and of which all but the patches that an expert keeps are faded; one Axes.

    Raises:
      ValueError: the model of the Snapshot keeps no patches.
    """
    rule = "the Snapshot must be of a PatchWRN, measured on test samples"
    require("example_kept" in snapshot.values, rule, measured=sorted(snapshot.values))
    shown = _colours(snapshot["example_images"][trial, example])
    kept = snapshot["example_kept"][trial, example, expert]
    cells = round(len(kept) ** 0.5)
    mask = np.kron(kept.reshape(cells, cells), np.ones((len(shown) // cells,) * 2))
    axes.imshow(np.where(mask[..., None] > 0, shown, 0.75 + 0.2 * shown), interpolation="nearest")
    _frame(axes, snapshot["example_boxes"][trial, example], theme.expert(expert).colour)


# --- chen2022 --------------------------------------------------------------------------------------------------------


def _control_medians(data: xr.Dataset) -> str:
    medians = data["test_accuracy"].median("trial")
    parts = [f"{name} {100 * float(medians.sel(model=name)):.1f} %" for name in data["model"].values]
    return f"Test accuracy, {_medians(data)}: {', '.join(parts)}."


@PICTURES.of(
    "table 2 in kind",
    "table 2 in kind, digits",
    finding=partial(findings.most_accurate, names=NAMES),
    caption=_control_medians,
    heads=lambda _: [(14, "Test accuracy on turned images", "small: a trial, bar: the median")],
    boxes=lambda _: [(94, 78, 820, 290)],
)
def controls(data: xr.Dataset, axes: Axes) -> None:
    """Test accuracy of a mixture and of its controls, a column each; one Axes."""
    names = [str(name) for name in data["model"].values]
    for place, name in enumerate(names):
        style = theme.MODEL if name == "mixture" else theme.OTHER
        measured(axes, place, data["test_accuracy"].sel(model=name).values, style, reach=0.3)
    parameters = data["parameters"].values
    labels = [f"{name}\n{count:,}" for name, count in zip(names, parameters, strict=True)]
    axes.set_xticks(range(len(names)), labels)
    axes.set_xlim(-0.6, len(names) - 0.4)
    percents(axes.yaxis, 1)
    axes.set_xlabel("model, and its parameters")


@in_fixed_style
def sorting(moment: Sorted, axes: Axes, across: int = 6) -> None:
    """Test images in the bins of the experts that they are sent to at one step; one Axes.

    What is answered wrongly has a cross.

    Args:
      across: images in a row of a bin.
    """
    experts = moment.snapshot["expert_load"].shape[1]
    side, wide = moment.images.shape[-1] + 1, moment.images.shape[-1] * across + across + 3
    high = side * -(-len(moment.expert) // across)
    for expert in range(experts):
        for place, example in enumerate(np.flatnonzero(moment.expert == expert)):
            left, top = expert * wide + side * (place % across), side * (place // across)
            ink = np.clip(moment.images[example, 0], 0, 1)
            edges = (left, left + side - 1, top + side - 1, top)
            axes.imshow(1 - ink, cmap="gray", vmin=0, vmax=1, extent=edges, interpolation="nearest", gid="image")
            if not moment.right[example]:
                axes.plot(left + side / 2, top + side / 2, "x", color=theme.CLASSES[1], markersize=7, gid="wrong")
        name = f"expert {expert + 1}: {100 * float(np.mean(moment.expert == expert)):.0f} %"
        axes.text(expert * wide, -side / 3, name, color=theme.MUTED, size=theme.SMALL_SIZE)
    axes.set(xlim=(-1, experts * wide - 2), ylim=(high, -side), aspect="equal")
    axes.set_title(f"step {moment.step}: {100 * float(np.mean(moment.right)):.0f} % right", loc="left")
    axes.set_axis_off()
