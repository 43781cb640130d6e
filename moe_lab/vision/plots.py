"""Draws the Datasets of `figures`, `figures_pruning` and `PruningTable.data`, and images of a Snapshot.

Nothing here trains. A small mark is a trial, a thick line or bar the median of the trials, an open star a published
value. The model under study, and the chosen criterion of pruning, is in ink, what it is compared with in grey.
`picture` draws a Dataset of `figures` on a page of its own, with heads and a caption.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle

from moe_lab.core.config import require
from moe_lab.core.training import Snapshot
from moe_lab.drawing import theme
from moe_lab.drawing.marks import band, measured, star, trials
from moe_lab.drawing.pictures import Head, Pictures, panels_of
from moe_lab.drawing.scales import percents
from moe_lab.vision.figures_pruning import PUBLISHED_SAVINGS
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
_LINES: dict[str, tuple[str, Any]] = {
    "router-norm-change": ("o", "-"),
    "random": ("x", (0, (1, 1.6))),
    "importance-score": ("s", (0, (5, 2))),
    "router-magnitude": ("^", (0, (3, 1.5, 1, 1.5))),
    "neuron-magnitude": ("D", (0, (9, 2.5))),
    "neuron-magnitude-change": ("v", (0, (2.5, 1.5))),
    "router-difference-norm": ("P", (0, (6, 1.2, 1, 1.2, 1, 1.2))),
    "token-count": ("<", (0, (1, 3))),
}
_WORDS = {"parameters": "parameters", "operations": "FLOPs", "milliseconds": "time"}
_MODES = {"silent": (theme.INK, ""), "rerouted": (theme.BACKGROUND, "///")}


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


def kept_patches(snapshot: Snapshot, axes: Axes, trial: int = 0, example: int = 0, expert: int = 0) -> None:
    """A test image whose object is framed and of which all but the patches that an expert keeps are faded; one Axes.

    Raises:
      ValueError: the model of the Snapshot keeps no patches.
    """
    rule = "the Snapshot must be of a PatchWRN, measured on test samples"
    require("example_kept" in snapshot.values, rule, measured=sorted(snapshot.values))
    image = snapshot["example_images"][trial, example].transpose(1, 2, 0)
    kept = snapshot["example_kept"][trial, example, expert]
    cells = round(len(kept) ** 0.5)
    mask = np.kron(kept.reshape(cells, cells), np.ones((len(image) // cells,) * 2))
    shown = np.clip(image if image.shape[2] == 3 else 1 - np.repeat(image, 3, 2), 0, 1)
    axes.imshow(np.where(mask[..., None] > 0, shown, 0.75 + 0.2 * shown), interpolation="nearest")
    top, left, height, width = snapshot["example_boxes"][trial, example]
    frame = Rectangle((left - 0.5, top - 0.5), width, height, fill=False, gid="object")
    frame.set(edgecolor=theme.expert(expert).colour, linewidth=2)
    axes.add_patch(frame)
    axes.set_axis_off()


# --- chen2022 --------------------------------------------------------------------------------------------------------


def _control_medians(data: xr.Dataset) -> str:
    medians = data["test_accuracy"].median("trial")
    parts = [f"{name} {100 * float(medians.sel(model=name)):.1f} %" for name in data["model"].values]
    return f"Test accuracy, {_medians(data)}: {', '.join(parts)}."


@PICTURES.of(
    "table 2 in kind",
    "table 2 in kind, digits",
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


# --- pruning2024 -----------------------------------------------------------------------------------------------------


def pruning_curve(data: xr.Dataset, axes: Axes, mode: str = "silent", chosen: str = "router-norm-change") -> None:
    """Accuracy against the experts pruned, a line for each criterion: the median of the trials, and all of random's.

    Args:
      data: what `figures_pruning.deep_pruning` returned, or the data of a `PruningTable`.
      mode: "silent" or "rerouted".
      chosen: the criterion in ink.
    """
    theme.plain(axes)
    values = data["accuracy"].sel(mode=mode)
    values = values if "trial" in values.dims else values.expand_dims("trial")
    counts = values["pruned"].values
    if "random" in values["criterion"]:
        band(axes, values.sel(criterion="random"), "pruned", "range of random")
    for name in map(str, values["criterion"].values):
        mine = name == chosen
        marker, dashes = _LINES.get(name, ("*", ":"))
        line: dict[str, Any] = {"linestyle": "-" if mine else dashes if dashes != "-" else "--", "marker": marker}
        line |= {"color": theme.INK if mine else theme.REFERENCE, "linewidth": 3 if mine else 1.5}
        line |= {"markersize": 7 if mine else 5, "zorder": 4 if mine else 3, "label": name}
        axes.plot(counts, values.sel(criterion=name).median("trial"), gid=name, **line)
    axes.set_xlabel("experts pruned from each mixture")
    axes.set_ylabel(f"test accuracy, {mode}")
    percents(axes.yaxis)
    axes.legend(frameon=False, fontsize=theme.SMALL_SIZE, loc="lower left")


def costs(data: xr.Dataset, axes: Axes, kept: int | None = None) -> None:
    """What a pruned model still costs, as shares of the whole one, a bar for each mode; stars are published.

    Args:
      data: what `figures_pruning.costs` returned.
      kept: experts kept in each mixture; the fewest when None.
    """
    theme.plain(axes)
    whole = int(data["kept"].max())
    kept = int(data["kept"].min()) if kept is None else kept
    modes = [str(mode) for mode in data["mode"].values]
    for place, quantity in enumerate(_WORDS):
        values = data[quantity].median("repeat") if "repeat" in data[quantity].dims else data[quantity]
        shares = (values.sel(kept=kept) / values.sel(kept=whole)).values
        for number, (mode, share) in enumerate(zip(modes, shares, strict=True)):
            colour, hatch = _MODES[mode]
            x = place + 0.36 * (number - (len(modes) - 1) / 2)
            bar: dict[str, Any] = {"color": colour, "hatch": hatch, "edgecolor": theme.INK, "width": 0.32}
            axes.bar(x, share, label=mode if place == 0 else None, gid=f"{quantity} {mode}", **bar)
            axes.annotate(f"{100 * share:.0f} %", (x, share), (0, 2), textcoords="offset points", ha="center",
                          size=theme.SMALL_SIZE, color=theme.INK)  # fmt: skip
        if (whole, kept) == (8, 2):
            star: dict[str, Any] = {"marker": "*", "markersize": 13, "markerfacecolor": "none", "linestyle": "none"}
            label = "published for V-MoE B/16" if place == 0 else None
            axes.plot(place, 1 - PUBLISHED_SAVINGS[quantity], color=theme.MUTED, label=label, gid="published", **star)
    axes.axhline(1, color=theme.RULE, linewidth=1, zorder=0)
    axes.set_xticks(np.arange(len(_WORDS)), list(_WORDS.values()))
    axes.set_ylim(0, 1.35)
    axes.set_ylabel(f"share of the whole model, {kept} of {whole} experts kept")
    percents(axes.yaxis)
    axes.legend(frameon=False, fontsize=theme.SMALL_SIZE, loc="upper left", ncols=3)


def expert_scores(data: xr.Dataset, axes: Axes, block: int, criterion: str = "router-norm-change") -> None:
    """The score of each expert of a block; the last to be pruned is rank 1, written above its bar.

    Args:
      data: the data of a `PruningTable`.
      block: which mixture.
      criterion: whose score.
    """
    theme.plain(axes)
    one = data.sel(block=block, criterion=criterion)
    for expert in data["expert"].values.tolist():
        score, style = float(one["score"].sel(expert=expert)), theme.expert(expert)
        axes.bar(expert, score, color=style.colour, width=0.7, gid=f"expert {expert + 1}")
        words = f"{int(one['rank'].sel(expert=expert)) + 1}"
        side = -11 if score < 0 else 2
        axes.annotate(words, (expert, score), (0, side), textcoords="offset points", ha="center",
                      size=theme.SMALL_SIZE, color=theme.INK)  # fmt: skip
    axes.axhline(0, color=theme.RULE, linewidth=1)
    axes.set_xticks(data["expert"].values, [f"{expert + 1}" for expert in data["expert"].values])
    axes.set_xlabel("expert")
    axes.set_ylabel(f"{criterion}, block {block}")
