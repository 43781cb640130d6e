"""Draws the Datasets of `figures`: one function per figure, onto an Axes or an array of them.

A small mark is a trial, a thick bar or line the median of the trials, an open star a published value. Cubic experts are
in ink, linear ones in grey. `picture` draws any of them on a page of its own, with heads and a caption.
"""

from __future__ import annotations

import json
import re
from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.colors import to_rgba

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Kind, Pictures, measured, panels_of, star, title, trials
from moe_lab.specialization import captions, layout, plot_helpers
from moe_lab.specialization.published import published

_PRODUCTS = {
    "expert_feature": "experts, label signals: largest |⟨w, v⟩|",
    "expert_center": "experts, centers: largest |⟨w, c⟩|",
    "router_feature": "routers, label signals: ⟨θ, v⟩",
    "router_center": "routers, centers: ⟨θ, c⟩",
}


def table3(data: xr.Dataset, axes: Any) -> None:
    """Tables 1 and 3: test accuracy and dispatch entropy, measured beside published, on two Axes."""
    _compare(data, axes, "table 3")


def load_balancing(data: xr.Dataset, axes: Any) -> None:
    """Table 9: linear experts with the load-balancing loss against cubic ones without; two Axes as in `table3`."""
    _compare(data, axes, "table 9")


def dispatch_table(data: xr.Dataset, axes: Axes) -> None:
    """Tables 4 to 6: training samples per expert, by cluster, in total, and in total in the first step.

    The Dataset may also be `published("table 4")`, 5 or 6.
    """
    final, initial = data["final_dispatch"].transpose("cluster", "expert").values, data["initial_dispatch"]
    first = (initial.sum("cluster") if "cluster" in initial.dims else initial).values[None]
    clusters, experts = final.shape
    theme.plain(axes)
    axes.set_xlim(0, experts)
    axes.set_ylim(-2.6, clusters)
    plot_helpers.cells(axes, clusters, final)
    plot_helpers.cells(axes, -0.3, final.sum(0, keepdims=True))
    plot_helpers.cells(axes, -1.6, first)
    rows = [clusters - 0.5 - row for row in range(clusters)]
    words = [f"cluster {label}" for label in data["cluster"].values]
    axes.set_yticks([*rows, -0.8, -2.1], [*words, "all clusters", "all, in the first step"])
    axes.set_xticks(np.arange(experts) + 0.5, [str(label) for label in data["expert"].values])
    for label, load in zip(axes.get_xticklabels(), final.sum(0) / final.sum(), strict=True):
        idle = load < 0.01
        label.set(
            color=theme.REFERENCE if idle else theme.INK, weight="normal" if idle else "bold", size=theme.TEXT_SIZE
        )
    axes.set_xlabel("expert (grey number: idle, under 1 % of the samples)")
    axes.tick_params(length=0)
    for spine in axes.spines.values():
        spine.set_visible(False)


def single_experts(data: xr.Dataset, axes: Any) -> None:
    """Tables 7 and 8: one expert for all clusters, with each activation; one Axes per setting.

    The star is what the paper publishes for the setting; it is left out where alpha and gamma are not the table's.
    """
    panels = panels_of(axes, data.sizes["setting"])
    rows = -np.arange(data.sizes["activation"], dtype=float)
    for number, (setting, panel) in enumerate(zip(data["setting"].values, panels, strict=True)):
        theme.plain(panel)
        plot_helpers.percent(panel, 0.4, vertical=False)
        panel.set_ylim(rows[-1] - 0.6, 0.6)
        panel.set_yticks(rows, [str(name) if number == 0 else "" for name in data["activation"].values])
        panel.tick_params(axis="y", length=0)
        title(panel, f"setting {setting}")
        theirs = published("table 7" if setting == 3 else "table 8")["test_accuracy"].sel(setting=setting)
        for row, name in zip(rows, data["activation"].values, strict=True):
            style = plot_helpers.style_of(f"single-{name}")
            values = data["test_accuracy"].sel(setting=setting, activation=name).values
            measured(panel, row - 0.12, values, style, vertical=False)
            if _ranges_as_published(data, int(setting)) and f"single-{name}" in theirs["model"]:
                paper = float(theirs.sel(model=f"single-{name}"))
                star(panel, row + 0.2, paper, float("nan"), style.colour, vertical=False)
        bound = float(data["optimum"].sel(setting=setting))
        if np.isfinite(bound):
            panel.axvline(bound, color=theme.FAILURE, linewidth=1.4, linestyle=(0, (5, 3)), zorder=1)
            note: dict[str, Any] = {"color": theme.FAILURE, "size": theme.SMALL_SIZE, "ha": "center", "va": "bottom"}
            panel.text(bound, 0.62, f"{100 * bound:.1f} %, theorem 4.1", **note)
        panel.set_xlabel("test accuracy")


def entropy_through_time(data: xr.Dataset, axes: Any) -> None:
    """Figure 3: the dispatch entropy through training, thin lines for trials, thick medians; one Axes per setting."""
    clusters = clusters_of(data)
    for setting, panel in zip(data["setting"].values, panels_of(axes, data.sizes["setting"]), strict=True):
        theme.plain(panel)
        plot_helpers.entropy_axis(panel, clusters)
        panel.set_xlim(0, int(data["step"].max()))
        title(panel, f"setting {setting}")
        panel.set_xlabel("training step")
        ends = []
        for name in map(str, data["model"].values):
            style = plot_helpers.style_of(name)
            end = trials(panel, data["dispatch_entropy"].sel(setting=setting, model=name), "step", style)
            ends.append((end, name.removeprefix("moe-"), style.colour))
        theme.end_labels(panel, ends)
    panels_of(axes, data.sizes["setting"])[0].set_ylabel("dispatch entropy, nats")


def inner_products(data: xr.Dataset, axes: Any, trial: int = 0) -> None:
    """Figures 4 and 5: what each expert and each router has learned, in one trial; 2 x 2 Axes, experts on top.

    One line for each expert and signal, in the expert's colour; thick the largest of each expert, with its name
    ("3: v₂" is expert 3 and label signal v₂) where it counts. Signals and centers share a scale.
    """
    panels = panels_of(axes, 4)
    for number, (panel, (name, words)) in enumerate(zip(panels, _PRODUCTS.items(), strict=True)):
        values = data[name].isel(trial=trial).transpose("step", "expert", "cluster").values
        steps = data["step"].values
        theme.plain(panel)
        panel.set_xlim(0, int(steps[-1]))
        title(panel, words)
        high = _largest(data, number // 2)
        panel.set_ylim(-1.05 * high if number >= 2 else 0, 1.05 * high)
        signal, ends = "vc"[number % 2], []
        for expert in range(values.shape[1]):
            style = theme.expert(expert)
            panel.plot(steps, values[:, expert], color=style.colour, linewidth=0.8, alpha=0.6, zorder=2, gid="others")
            final = np.nan_to_num(values[-1, expert], nan=-np.inf)
            best = int(final.argmax())
            line = values[:, expert, best]
            panel.plot(steps, line, color=style.colour, linewidth=2.4, zorder=3, gid="largest")
            panel.plot(
                steps[-1:], line[-1:], color=style.colour, marker=style.marker, markersize=6, zorder=4, clip_on=False
            )
            if final[best] > 0.25 * high:
                ends.append((float(line[-1]), f" {expert + 1}: {signal}{_low(best + 1)}", _readable(style.colour)))
        theme.end_labels(panel, ends, 13)
        if number >= 2:
            panel.set_xlabel("training step")


def tsne(data: xr.Dataset, axes: Any) -> None:
    """Figure 1: samples on a plane, the expert of each, and the regions of the predictions; one Axes per model.

    Colour and shape denote the expert, filled marks class +, open marks class −, a cross a wrong prediction. The ground
    is blue where the prediction is + and orange where it is −.
    """
    tints = {1: to_rgba(theme.CLASSES_TINT[0]), -1: to_rgba(theme.CLASSES_TINT[1])}
    x, y = data["xy"].sel(axis="x").values, data["xy"].sel(axis="y").values
    side = data["x"].values
    edge = (side[1] - side[0]) / 2
    limits = (float(side[0] - edge), float(side[-1] + edge))
    for name, panel in zip(data["model"].values, panels_of(axes, data.sizes["model"]), strict=True):
        shown = data.sel(model=name)
        region = shown["region"].transpose("y", "x").values
        image = np.where((region > 0)[..., None], tints[1], tints[-1])
        panel.imshow(image, origin="lower", extent=(*limits, *limits), interpolation="nearest", zorder=0, aspect="auto")
        panel.contour(side, side, region, levels=[0], colors=[theme.MUTED], linewidths=0.7, zorder=1)
        for expert in np.unique(shown["expert"].values):
            style = theme.expert(int(expert) - 1)
            for label in (1, -1):
                here = (shown["expert"].values == expert) & (shown["label"].values == label)
                face = style.colour if label > 0 else "none"
                mark: dict[str, Any] = {"marker": style.marker, "s": 15, "linewidths": 0.8, "edgecolors": style.colour}
                panel.scatter(x[here], y[here], facecolors=face, **mark, zorder=2, gid=f"expert {expert}, {label}")
        wrong = shown["answer"].values != shown["label"].values
        panel.scatter(x[wrong], y[wrong], marker="x", s=34, linewidths=1.3, color=theme.INK, zorder=3, gid="wrong")
        for place, expert in enumerate(np.unique(data["expert"].values)):
            for artist in theme.expert_head(panel, int(expert) - 1):
                artist.set_transform(panel.transAxes)
                artist.set_data([0.035 + 0.045 * place], [0.95])
        panel.set(xlim=limits, ylim=limits, xticks=[], yticks=[], facecolor=theme.PAPER)
        for spine in panel.spines.values():
            spine.set(color=theme.RULE)


def clusters_of(data: xr.Dataset) -> int:
    """K of a figure's task."""
    return int(json.loads(data.attrs["config"])[0]["task"]["clusters"])


def _compare(data: xr.Dataset, axes: Any, place: str) -> None:
    """Accuracy and entropy of some models in some settings, each beside what the table publishes of it."""
    left, right = panels_of(axes, 2)
    theirs = published(place)
    names, settings = [str(name) for name in data["model"].values], data["setting"].values
    shown_too = theirs["test_accuracy"].reindex(setting=settings, model=names).values.ravel()
    everything = np.concatenate([data["test_accuracy"].values.ravel(), shown_too])
    plot_helpers.percent(theme.plain(left), plot_helpers.floor(everything))
    plot_helpers.entropy_axis(theme.plain(right), clusters_of(data), words=False)
    left.set_ylabel("test accuracy")
    right.set_ylabel("dispatch entropy, nats")
    for panel, measure in ((left, "test_accuracy"), (right, "dispatch_entropy")):
        shown = [name for name in names if data[measure].sel(model=name).notnull().any()]
        panel.set_xlim(-0.55, len(settings) - 0.45)
        panel.set_xticks(
            range(len(settings)),
            [f"setting {setting}" if len(settings) < 4 or panel is left else f"{setting}" for setting in settings],
        )
        panel.tick_params(axis="x", length=0)
        for border in range(1, len(settings)):
            panel.axvline(border - 0.5, color=theme.RULE, linewidth=0.8, zorder=0)
        ends = []
        for number, name in enumerate(shown):
            style, end = plot_helpers.style_of(name), float("nan")
            aside = 0.84 * ((number + 0.5) / len(shown) - 0.5)
            for place_of, setting in enumerate(settings):
                x = place_of + aside
                end = measured(panel, x - 0.03, data[measure].sel(setting=setting, model=name).values, style)
                if measure in theirs and name in theirs["model"] and setting in theirs["setting"]:
                    here = theirs.sel(setting=setting, model=name)
                    star(panel, x + 0.09, float(here[measure]), float(here[f"{measure}_std"]), style.colour)
            ends.append((end, plot_helpers.name_of(name), style.colour))
        theme.end_labels(panel, ends)


def _largest(data: xr.Dataset, row: int) -> float:
    """The largest product of the experts (row 0) or the routers (row 1): both panels of a row have one scale."""
    both = [float(np.abs(data[name]).max()) for name in list(_PRODUCTS)[2 * row : 2 * row + 2]]
    largest = float(np.nanmax(both)) if np.isfinite(both).any() else 0.0
    return largest or 1.0


def _ranges_as_published(data: xr.Dataset, setting: int) -> bool:
    """Whether alpha and gamma are those of tables 7, (1, 2) in setting 3, and 8, as in settings 1 and 2."""
    given = re.findall(r"\bfeature(?:_noise)?=\(([^)]*)\)", str(data.attrs.get("call", "")))
    ranges = [tuple(float(end) for end in one.split(",")) for one in given]
    return ranges == [(1.0, 2.0)] * 2 if setting == 3 else not ranges


def _readable(colour: str) -> str:
    """The yellow and the teal are too pale for text."""
    return theme.INK if colour in (theme.EXPERTS[0].colour, theme.EXPERTS[2].colour) else colour


def _low(number: int) -> str:
    return "".join("₀₁₂₃₄₅₆₇₈₉"[int(digit)] for digit in str(number))


_COMPARED = Kind(captions.compared, table3, layout.table3)
_DISPATCH = Kind(captions.dispatch_table, dispatch_table, layout.dispatch_table)
_SINGLE = Kind(captions.single_experts, single_experts, layout.single_experts)
_PRODUCT = Kind(captions.inner_products, inner_products, layout.inner_products, height=640)
PICTURES = Pictures(
    "chen2022",
    {
        "table 1": _COMPARED,
        "table 3": _COMPARED,
        "table 4": _DISPATCH,
        "table 6": _DISPATCH,
        "table 7": _SINGLE,
        "table 8": _SINGLE,
        "tables 7 and 8": _SINGLE,
        "table 9": Kind(captions.compared, load_balancing, layout.load_balancing),
        "figure 1": Kind(captions.tsne, tsne, layout.tsne),
        "figure 3": Kind(captions.entropy_through_time, entropy_through_time, layout.entropy_through_time),
        "figure 4": _PRODUCT,
        "figure 5": _PRODUCT,
        "figures 4 and 5, another activation": _PRODUCT,
    },
)
caption, picture = PICTURES.caption, PICTURES.picture
