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

from moe_lab.core.words import counted, percent, series, span
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of, side_by_side
from moe_lab.drawing.published import cells, measured, star, title, trials, without_frame
from moe_lab.drawing.scales import floor, share_axis
from moe_lab.specialization import findings
from moe_lab.specialization.published import published

PICTURES = Pictures("chen2022")
caption, picture = PICTURES.caption, PICTURES.picture

_PRODUCTS = {
    "expert_feature": "experts, label signals: largest |⟨w, v⟩|",
    "expert_center": "experts, centers: largest |⟨w, c⟩|",
    "router_feature": "routers, label signals: ⟨θ, v⟩",
    "router_center": "routers, centers: ⟨θ, c⟩",
}


def style_of(model: str) -> theme.Style:
    """Ink for cubic experts, the model under study; grey for all others. Single experts have triangles."""
    kind, activation = (*model.split("-"), "")[:2]
    base, single = (theme.MODEL, "^") if activation == "cubic" else (theme.OTHER, "v")
    return base if kind == "moe" else theme.Style(base.colour, single, base.line)


def _signal(number: int) -> theme.Style:
    """The style of a signal or center, counted from 0. No colour is an expert's, which the map of figure 1 has."""
    return theme.OWN[number % len(theme.OWN)]


def name_of(model: str) -> str:
    """A model in words: "moe-cubic" is "cubic mixture", "single-linear-512" is "single linear (512)"."""
    kind, activation, filters = (*model.split("-"), "", "")[:3]
    words = f"{activation} mixture" if kind == "moe" else f"single {activation}"
    return f"{words} ({filters})" if filters else words


def clusters_of(data: xr.Dataset) -> int:
    """K of a figure's task."""
    return int(_settings(data)["task"]["clusters"])


def _settings(data: xr.Dataset) -> dict[str, Any]:
    return dict(json.loads(data.attrs["config"])[0])


def _marks(data: xr.Dataset) -> str:
    place = data.attrs["paper"].replace("chen2022", "the paper")
    return f"small mark: one of {data.sizes['trial']} trials, bar: their median, star: {place}"


def _entropy(value: xr.DataArray) -> str:
    return f"{abs(float(value)):.2f}"  # an entropy of 0 may come as -0.0


def entropy_axis(axes: Axes, clusters: int, words: bool = True) -> None:
    """An axis of dispatch entropy with both its ends marked: 0 and log K."""
    top = float(np.log(clusters))
    axes.set_ylim(-0.09 * top, 1.09 * top)
    axes.set_yticks([0, 0.5, 1, top], ["0", "0.5", "1", f"log {clusters}"])
    for level in (0, top):
        axes.axhline(level, color=theme.RULE, linewidth=1, zorder=0)
    note: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE, "transform": axes.get_yaxis_transform()}
    if words:
        axes.text(0.99, top, "no specialisation", ha="right", va="bottom", **note)
        axes.text(0.99, -0.01 * top, "every expert serves one cluster", ha="right", va="top", **note)


def _compared(data: xr.Dataset) -> str:
    """Median accuracies and entropies of each model over all the settings shown."""
    parts = []
    for name in map(str, data["model"].values):
        accuracy = span(100 * data["test_accuracy"].sel(model=name).median("trial"), "{:.1f}", " %")
        entropy = data["dispatch_entropy"].sel(model=name).median("trial")
        known = f", entropy {span(entropy, '{:.2f}')}" if entropy.notnull().any() else ""
        parts.append(f"{name_of(name)} {accuracy}{known}")
    return f"Medians of {counted(data.sizes['trial'])}: {'; '.join(parts)}."


def _two_heads(data: xr.Dataset, words: str = "Test accuracy") -> list[Head]:
    return [(14, words, _marks(data)), (644, "Dispatch entropy", "0: every expert serves one cluster")]


def _two_boxes(_: xr.Dataset) -> list[Box]:
    return [(74, 78, 420, 310), (704, 78, 250, 310)]


@PICTURES.of("table 1", "table 3", finding=findings.divided, caption=_compared, heads=_two_heads, boxes=_two_boxes)
def table3(data: xr.Dataset, axes: Any) -> None:
    """Tables 1 and 3: test accuracy and dispatch entropy, measured beside published, on two Axes."""
    _compare(data, axes, "table 3")


@PICTURES.of(
    "table 9",
    finding=findings.balanced,
    caption=_compared,
    heads=lambda data: _two_heads(data, "Does load balancing help linear experts?"),
    boxes=_two_boxes,
)
def load_balancing(data: xr.Dataset, axes: Any) -> None:
    """Table 9: linear experts with the load-balancing loss against cubic ones without; two Axes as in `table3`."""
    _compare(data, axes, "table 9")


def _compare(data: xr.Dataset, axes: Any, place: str) -> None:
    left, right = panels_of(axes, 2)
    theirs = published(place)
    settings = data["setting"].values
    names = [str(name) for name in data["model"].values]
    shown_too = theirs["test_accuracy"].reindex(setting=settings, model=names).values.ravel()
    share_axis(theme.plain(left), floor(np.concatenate([data["test_accuracy"].values.ravel(), shown_too])))
    entropy_axis(theme.plain(right), clusters_of(data), words=False)
    left.set_ylabel("test accuracy")
    right.set_ylabel("dispatch entropy, nats")
    for panel, measure in ((left, "test_accuracy"), (right, "dispatch_entropy")):
        shown = [name for name in names if data[measure].sel(model=name).notnull().any()]
        panel.set_xlim(-0.55, len(settings) - 0.45)
        word = "setting " if len(settings) < 4 or panel is left else ""
        panel.set_xticks(range(len(settings)), [f"{word}{setting}" for setting in settings])
        panel.tick_params(axis="x", length=0)
        for border in range(1, len(settings)):
            panel.axvline(border - 0.5, color=theme.RULE, linewidth=0.8, zorder=0)
        ends = []
        for number, name in enumerate(shown):
            style, end = style_of(name), float("nan")
            aside = 0.84 * ((number + 0.5) / len(shown) - 0.5)
            for x, setting in enumerate(settings):
                values = data[measure].sel(setting=setting, model=name).values
                end = measured(panel, x + aside - 0.03, values, style)
                if measure in theirs and name in theirs["model"] and setting in theirs["setting"]:
                    here = theirs.sel(setting=setting, model=name)
                    star(panel, x + aside + 0.09, float(here[measure]), float(here[f"{measure}_std"]), style.colour)
            ends.append((end, name_of(name), style.colour))
        theme.end_labels(panel, ends)


def _dispatch_heads(data: xr.Dataset) -> list[Head]:
    note = "training samples that each gets, after training and (last row) in the first step"
    return [(100, "Who gets which cluster", f"{_settings(data)['model']['activation']} experts: {note}")]


@PICTURES.of(
    "table 4",
    "table 6",
    finding=findings.dispatched,
    caption=findings.dispatched_in_numbers,
    heads=_dispatch_heads,
    boxes=lambda _: [(160, 78, 860, 310)],
)
def dispatch_table(data: xr.Dataset, axes: Axes) -> None:
    """Tables 4 to 6: training samples per expert, by cluster, in total, and in total in the first step.

    The Dataset may also be `published("table 4")`, 5 or 6.
    """
    final, initial = data["final_dispatch"].transpose("cluster", "expert").values, data["initial_dispatch"]
    first = (initial.sum("cluster") if "cluster" in initial.dims else initial).values[None]
    clusters, experts = final.shape
    theme.plain(axes)
    axes.set(xlim=(0, experts), ylim=(-2.6, clusters))
    for top, counts in ((clusters, final), (-0.3, final.sum(0, keepdims=True)), (-1.6, first)):
        cells(axes, top, counts)
    words = [f"cluster {label}" for label in data["cluster"].values]
    rows = [clusters - 0.5 - row for row in range(clusters)]
    axes.set_yticks([*rows, -0.8, -2.1], [*words, "all clusters", "all, in the first step"])
    axes.set_xticks(np.arange(experts) + 0.5, [str(label) for label in data["expert"].values])
    for label, load in zip(axes.get_xticklabels(), final.sum(0) / final.sum(), strict=True):
        colour, weight = (theme.REFERENCE, "normal") if load < 0.01 else (theme.INK, "bold")
        label.set(color=colour, weight=weight, size=theme.TEXT_SIZE)
    axes.set_xlabel("expert (grey number: idle, under 1 % of the samples)")
    without_frame(axes)


def _singles(data: xr.Dataset) -> str:
    medians, trials = data["test_accuracy"].median("trial"), counted(data.sizes["trial"])
    each = {setting: span(100 * medians.sel(setting=setting), "{:.1f}", " %") for setting in data["setting"].values}
    parts = series(f"setting {setting} {reached}" for setting, reached in each.items())
    bounded = data["optimum"].notnull().any()
    bound = f"; no single expert can pass {percent(data['optimum'].max())} where α and γ are alike" if bounded else ""
    return f"Medians of {trials}: {parts}; the best training reached {percent(data['test_accuracy'].max())}{bound}."


@PICTURES.of(
    "table 7",
    "table 8",
    "tables 7 and 8",
    finding=findings.single,
    caption=_singles,
    heads=lambda data: [(16, "One expert for all clusters", _marks(data))],
    boxes=lambda data: side_by_side(data.sizes["setting"], 76, 1076, 104, 272, gap=46),
)
def single_experts(data: xr.Dataset, axes: Any) -> None:
    """Tables 7 and 8: one expert for all clusters, with each activation; one Axes per setting.

    The star is what the paper publishes for the setting; it is left out where alpha and gamma are not the table's.
    """
    panels = panels_of(axes, data.sizes["setting"])
    names = [str(name) for name in data["activation"].values]
    rows = -np.arange(len(names), dtype=float)
    for number, (setting, panel) in enumerate(zip(data["setting"].values, panels, strict=True)):
        share_axis(theme.plain(panel), 0.4, vertical=False)
        panel.set_ylim(rows[-1] - 0.6, 0.6)
        panel.set_yticks(rows, ["" if number else name for name in names])
        panel.tick_params(axis="y", length=0)
        panel.set_xlabel("test accuracy")
        title(panel, f"setting {setting}")
        here = data.sel(setting=setting)
        theirs = published("table 7" if setting == 3 else "table 8")["test_accuracy"].sel(setting=setting)
        for row, name in zip(rows, names, strict=True):
            style = style_of(f"single-{name}")
            measured(panel, row - 0.12, here["test_accuracy"].sel(activation=name).values, style, vertical=False)
            if _ranges_as_published(data, int(setting)) and f"single-{name}" in theirs["model"]:
                paper = float(theirs.sel(model=f"single-{name}"))
                star(panel, row + 0.2, paper, float("nan"), style.colour, vertical=False)
        bound = float(here["optimum"])
        if np.isfinite(bound):
            panel.axvline(bound, color=theme.FAILURE, linewidth=1.4, linestyle=(0, (5, 3)), zorder=1)
            note: dict[str, Any] = {"color": theme.FAILURE, "size": theme.SMALL_SIZE, "ha": "center", "va": "bottom"}
            panel.text(bound, 0.62, f"{100 * bound:.1f} %, theorem 4.1", **note)


def _ranges_as_published(data: xr.Dataset, setting: int) -> bool:
    """Whether alpha and gamma are those of tables 7, (1, 2) in setting 3, and 8, as in settings 1 and 2."""
    given = re.findall(r"\bfeature(?:_noise)?=\(([^)]*)\)", str(data.attrs.get("call", "")))
    ranges = [tuple(float(end) for end in one.split(",")) for one in given]
    return ranges == [(1.0, 2.0)] * 2 if setting == 3 else not ranges


def _fallen(data: xr.Dataset) -> str:
    last = data["dispatch_entropy"].isel(step=-1).median("trial")
    parts = []
    for setting in data["setting"].values:
        each = last.sel(setting=setting)
        words = series(f"{name_of(str(name))} {_entropy(each.sel(model=name))}" for name in data["model"].values)
        parts.append(f"setting {setting}: {words}")
    return f"Median entropy at step {int(data['step'][-1])} ({counted(data.sizes['trial'])}). {'; '.join(parts)}."


def _thin_and_thick(data: xr.Dataset) -> list[Head]:
    note = f"thin: one of {data.sizes['trial']} trials, thick: their median"
    return [(16, "Dispatch entropy through training", note)]


@PICTURES.of(
    "figure 3",
    finding=findings.when_divided,
    caption=_fallen,
    heads=_thin_and_thick,
    boxes=lambda data: side_by_side(data.sizes["setting"], 76, 956, 104, 272, gap=120),
)
def entropy_through_time(data: xr.Dataset, axes: Any) -> None:
    """Figure 3: the dispatch entropy through training, thin lines for trials, thick medians; one Axes per setting."""
    panels = panels_of(axes, data.sizes["setting"])
    for setting, panel in zip(data["setting"].values, panels, strict=True):
        entropy_axis(theme.plain(panel), clusters_of(data))
        panel.set_xlim(0, int(data["step"].max()))
        panel.set_xlabel("training step")
        title(panel, f"setting {setting}")
        ends = []
        for name in map(str, data["model"].values):
            style = style_of(name)
            end = trials(panel, data["dispatch_entropy"].sel(setting=setting, model=name), "step", style)
            ends.append((end, name.removeprefix("moe-"), style.colour))
        theme.end_labels(panel, ends)
    panels[0].set_ylabel("dispatch entropy, nats")


def _learned(data: xr.Dataset) -> str:
    last: dict[str, xr.DataArray] = {name: abs(data[name].isel(step=-1, trial=0)) for name in _PRODUCTS}
    most = [f"{float(value.max()):.2g}" for value in last.values()]
    return (
        f"Of what an expert has learned of label signals, {100 * findings.sharpness(data):.0f} % lies on one of them "
        f"(median). Largest: "
        f"experts {most[0]} with v, {most[1]} with c; routers {most[2]} with v, {most[3]} with c."
    )


def _product_heads(data: xr.Dataset) -> list[Head]:
    note = "colour: the signal; thick: the largest of each expert"
    return [(16, "What experts and routers learn", f"{_settings(data)['model']['activation']} experts; {note}")]


@PICTURES.of(
    "figure 4",
    "figure 5",
    "figures 4 and 5, another activation",
    finding=findings.learned,
    caption=_learned,
    heads=_product_heads,
    boxes=lambda _: [box for top in (94, 356) for box in side_by_side(2, 76, 990, top, 205, gap=154)],
    height=640,
)
def inner_products(data: xr.Dataset, axes: Any, trial: int = 0) -> None:
    """Figures 4 and 5: what each expert and each router has learned, in one trial; 2 x 2 Axes, experts on top.

    One line for each expert and signal, in the colour and dashes of the signal; thick the largest of each expert, with
    its name ("3: v₂" is expert 3 and label signal v₂) where it counts. Signals and centers share a scale.
    """
    steps = data["step"].values
    for number, (panel, (name, words)) in enumerate(zip(panels_of(axes, 4), _PRODUCTS.items(), strict=True)):
        values = data[name].isel(trial=trial).transpose("step", "expert", "cluster").values
        row, letter = number // 2, "vc"[number % 2]
        both = [abs(data[one]).values for one in list(_PRODUCTS)[2 * row : 2 * row + 2]]
        high = float(np.nan_to_num(both).max()) or 1.0  # both panels of a row have one scale
        ends = []
        theme.plain(panel)
        panel.set(xlim=(0, int(steps[-1])), ylim=(-1.05 * high if row else 0, 1.05 * high))
        title(panel, words)
        for expert in range(values.shape[1]):
            final = np.nan_to_num(values[-1, expert], nan=-np.inf)
            best = int(final.argmax())
            for signal in range(values.shape[2]):
                style = _signal(signal)
                line: dict[str, Any] = {"color": style.colour, "linestyle": style.line}
                panel.plot(steps, values[:, expert, signal], **line, linewidth=0.8, alpha=0.6, zorder=2, gid="others")
            style = _signal(best)
            line = {"color": style.colour, "linestyle": style.line, "linewidth": 2.4, "zorder": 3}
            panel.plot(steps, values[:, expert, best], **line, gid="largest")
            mark: dict[str, Any] = {"marker": theme.expert(expert).marker, "markersize": 6, "clip_on": False}
            panel.plot(steps[-1:], values[-1:, expert, best], color=style.colour, zorder=4, **mark)
            if final[best] > 0.25 * high:
                low = str(best + 1).translate(str.maketrans("0123456789", "₀₁₂₃₄₅₆₇₈₉"))
                ends.append((float(values[-1, expert, best]), f" {expert + 1}: {letter}{low}", style.colour))
        theme.end_labels(panel, ends, 13)
        if row:
            panel.set_xlabel("training step")


def _mapped(data: xr.Dataset) -> str:
    parts = []
    for name in data["model"].values:
        here = data.sel(model=name)
        right, entropy = percent(here["test_accuracy"]), _entropy(here["dispatch_entropy"])
        parts.append(f"{name_of(str(name))} {right} right, entropy {entropy}")
    return f"{data.sizes['sample']} unseen samples, trial {_settings(data)['first_trial']}: {'; '.join(parts)}."


_HOW = "colour and shape: expert; filled: class +, open: class −; ground: the answer"


@PICTURES.of(
    "figure 1",
    finding=findings.divided,
    caption=_mapped,
    heads=lambda _: [(8, "Linear experts", _HOW), (548, "Cubic experts", "the same samples; cross: wrong answer")],
    boxes=lambda _: side_by_side(2, 20, 1080, 78, 352, gap=20),
)
def tsne(data: xr.Dataset, axes: Any) -> None:
    """Figure 1: samples on a plane, the expert of each, and the regions of the predictions; one Axes per model.

    Colour and shape denote the expert, filled marks class +, open marks class −, a cross a wrong prediction. The ground
    is blue where the prediction is + and orange where it is −.
    """
    tints = {1: to_rgba(theme.CLASSES_TINT[0]), -1: to_rgba(theme.CLASSES_TINT[1])}
    x, y = data["xy"].sel(axis="x").values, data["xy"].sel(axis="y").values
    side, labels = data["x"].values, data["label"].values
    edge = (side[1] - side[0]) / 2
    limits = (float(side[0] - edge), float(side[-1] + edge))
    for name, panel in zip(data["model"].values, panels_of(axes, data.sizes["model"]), strict=True):
        shown = data.sel(model=name)
        region = shown["region"].transpose("y", "x").values
        experts = shown["expert"].values
        image = np.where((region > 0)[..., None], tints[1], tints[-1])
        panel.imshow(image, origin="lower", extent=(*limits, *limits), interpolation="nearest", zorder=0, aspect="auto")
        panel.contour(side, side, region, levels=[0], colors=[theme.MUTED], linewidths=0.7, zorder=1)
        for expert in np.unique(experts):
            style = theme.expert(int(expert) - 1)
            mark: dict[str, Any] = {"marker": style.marker, "s": 15, "linewidths": 0.8, "edgecolors": style.colour}
            for label, face in ((1, style.colour), (-1, "none")):
                here = (experts == expert) & (labels == label)
                panel.scatter(x[here], y[here], facecolors=face, **mark, zorder=2, gid=f"expert {expert}, {label}")
        wrong = shown["answer"].values != labels
        panel.scatter(x[wrong], y[wrong], marker="x", s=34, linewidths=1.3, color=theme.INK, zorder=3, gid="wrong")
        for place, expert in enumerate(np.unique(data["expert"].values)):
            for artist in theme.expert_head(panel, int(expert) - 1):
                artist.set_transform(panel.transAxes)
                artist.set_data([0.035 + 0.045 * place], [0.95])
        panel.set(xlim=limits, ylim=limits, xticks=[], yticks=[], facecolor=theme.PAPER)
        for spine in panel.spines.values():
            spine.set(color=theme.RULE)
