"""Draws the Datasets of `figures`: one function a figure, onto an Axes or several.

They return nothing and never train. Experts that vote + are blue, those that vote - orange; the chosen
criterion is in ink, the others are grey, each with its own dashes and marker. `picture` draws any of them on a page of
its own, with heads and a caption.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import FuncFormatter

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Kind, Pictures, panels_of
from moe_lab.pruning import captions, layout, plot_helpers
from moe_lab.pruning.captions import darkest, pattern_of, settings_of, shown, signed
from moe_lab.pruning.costs import relative


def criteria(data: xr.Dataset, axes: Any, chosen: str = "router-norm-change") -> None:
    """Figures 4a, 5 and 9 in kind: what moved, and the accuracy against rho by each criterion.

    Args:
      data: what `figures.criteria` returned.
      axes: one Axes for Delta and one for each value of fine_tuned.
      chosen: the criterion in ink; the first one where this is not among the data's.
    """
    panels = panels_of(axes, 1 + data.sizes["fine_tuned"])
    norm_changes(data, panels[0])
    for panel, tuned in zip(panels[1:], data["fine_tuned"].values, strict=True):
        pruning_curve(data, panel, bool(tuned), chosen)


def norm_changes(data: xr.Dataset, axes: Axes) -> None:
    """Delta of every expert in every trial, those planted as important apart from the others."""
    theme.plain(axes)
    known = "important" in data
    columns = [(sign, flag) for sign in plot_helpers.GROUPS for flag in ((True, False) if known else (None,))]
    for place, (sign, flag) in enumerate(columns):
        mine = data["norm_change"].sel(expert=data["group"] == sign)
        if flag is not None:
            mine = mine.where(data["important"].sel(expert=data["group"] == sign) == flag)
        values = mine.values.ravel()
        values = np.sort(values[np.isfinite(values)])
        aside = place + 0.22 * np.resize([0, -1, 1, -0.5, 0.5], len(values)) * (len(values) > 1)
        colour = theme.CLASSES[plot_helpers.GROUPS.index(sign)]
        face = theme.PAPER if flag is False else colour
        mark: dict[str, Any] = {"marker": "os"[sign == "-"], "linestyle": "none", "markersize": 4.5, "clip_on": False}
        axes.plot(aside, values, **mark, markerfacecolor=face, markeredgecolor=colour, alpha=0.65, gid=f"{sign} {flag}")
    words = {True: "important", False: "others", None: "experts"}
    ticks = [f"{words[flag]}\nvote {theme.CLASS_SIGNS[sign == '-']}" for sign, flag in columns]
    axes.set_xticks(range(len(columns)), ticks)
    for label, (sign, _) in zip(axes.get_xticklabels(), columns, strict=True):
        label.set(color=theme.CLASSES[plot_helpers.GROUPS.index(sign)], size=theme.SMALL_SIZE)
    axes.tick_params(axis="x", length=0)
    axes.set_xlim(-0.5, len(columns) - 0.5)
    model = settings_of(data)["model"]
    known_theory = model["routing"] == "expert-choice" and model["top"] > 1
    level = 1.5 * np.log(model["top"]) if known_theory else 0.0
    finite = data["norm_change"].values[np.isfinite(data["norm_change"].values)]
    low, high = min(0.0, float(finite.min(initial=0))), max(level, float(finite.max(initial=1)))
    axes.set_ylim(low - 0.04 * (high - low), high + 0.1 * (high - low))
    if known_theory:  # lemma 4.1 is about experts that choose
        plot_helpers.threshold(axes, level, f"theory: 1.5 log l = {level:.2f}")
    axes.set_ylabel("Δ, change of the router's norm")


def pruning_curve(data: xr.Dataset, axes: Axes, fine_tuned: bool = False, chosen: str = "router-norm-change") -> None:
    """Median test accuracy against rho, a line for each criterion; the ground is random's range from trial to trial.

    Args:
      data: what `figures.criteria` returned; `rho=figures.CURVE` gives a fine grid.
      fine_tuned: which of the two.
      chosen: see `criteria`.
    """
    theme.plain(axes)
    values = data["test_accuracy"].sel(fine_tuned=fine_tuned).sortby("rho")
    rho = values["rho"].values
    names = [str(name) for name in data["criterion"].values]
    chosen = chosen if chosen in names else names[0]
    finite = values.values[np.isfinite(values.values)]
    plot_helpers.percent(axes, plot_helpers.LOW if finite.min(initial=1) >= plot_helpers.LOW else 0.0)
    axes.set_xlim(min(0.0, float(rho[0])) - 0.02, float(rho[-1]) + 0.03)
    axes.axhline(0.5, color=theme.RULE, linewidth=1, zorder=0)
    if "random" in names:
        one = values.sel(criterion="random")
        between: dict[str, Any] = {"color": theme.BACKGROUND, "alpha": 0.45, "linewidth": 0, "zorder": 0}
        axes.fill_between(rho, one.min("trial"), one.max("trial"), gid="range of random", **between)
    ends = []
    for name in sorted(reversed(names), key=lambda name: name == chosen):  # the last of equals is named on top
        colour, marker, dashes = plot_helpers.style_of(name, chosen, names)
        median = values.sel(criterion=name).median("trial").values
        mine = name == chosen
        line: dict[str, Any] = {"color": colour, "linestyle": dashes, "linewidth": 3.4 if mine else 1.6}
        mark: dict[str, Any] = {"marker": marker, "markersize": 8 if mine else 5.5}
        mark |= {"markeredgecolor": theme.PAPER, "markeredgewidth": 0.6}
        axes.plot(rho, median, **line, **mark, zorder=4 if mine else 3, clip_on=False, gid=name)
        ends.append((float(median[-1]), name, colour))
    plot_helpers.names(axes, float(rho[-1]), ends)
    axes.set_xlabel("ρ, share of experts pruned")
    axes.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))


def routers(data: xr.Dataset, axes: Any) -> None:
    """Figures 3 and 7: norms of all routers, then components of an expert with a large and of one with a small router.

    Args:
      data: what `figures.figure3` or `figure7` returned.
      axes: five Axes: norms; router and neurons of the large one; router and neurons of the small one.
    """
    panels = panels_of(axes, 5)
    router_norms(data, panels[0])
    picked = [shown(data, role)[0] for role in ("large", "small")]
    largest = darkest(data)
    for number, expert in enumerate(picked):
        one = data.sel(expert=expert)
        group = str(one["group"].item())
        above, below = panels[1 + 2 * number : 3 + 2 * number]
        for panel in (above, below):
            theme.plain(panel)
        along = one["router_component"].values
        plot_helpers.components(above, along[None], largest[0])
        plot_helpers.components(below, one["neuron_component"].transpose("neuron", "pattern").values, largest[1])
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
        below.set_xlabel(f"{int((own > 1).sum())} of {count} above 1 along {pattern_of(group)}")


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
    for sign in plot_helpers.GROUPS:
        mine = norms.sel(expert=data["group"] == sign)
        colour = theme.CLASSES[plot_helpers.GROUPS.index(sign)]
        axes.bar(mine["expert"], mine, width=0.72, color=colour, zorder=2)
        for expert, value in zip(mine["expert"].values, mine.values, strict=True):
            if value > level:
                style: dict[str, Any] = {"ha": "center", "va": "top", "size": theme.SMALL_SIZE, "weight": "bold"}
                axes.text(expert, value - 0.015 * high, f"{value:.1f}", color="white", rotation=90, gid="norm", **style)
        words = f"vote {theme.CLASS_SIGNS[sign == '-']}"
        head: dict[str, Any] = {"ha": "center", "va": "top", "size": theme.TEXT_SIZE, "weight": "bold"}
        axes.text(float(mine["expert"].mean()), high, words, color=colour, **head)
    axes.axvline(len(experts) / 2 + 0.5, color=theme.RULE, linewidth=1, zorder=0)
    plot_helpers.threshold(axes, level, f"1.5 log l = {level:.2f}", 0.01, "left")
    every = 1 if len(experts) <= 20 else 5
    some = [int(expert) for expert in experts if expert in marked or (int(expert) % every == 0)]
    axes.set_xticks(some, [str(expert) for expert in some])
    for label, expert in zip(axes.get_xticklabels(), some, strict=True):
        weight, colour = ("bold", theme.INK) if expert in marked else ("normal", theme.REFERENCE)
        label.set(weight=weight, color=colour)
    axes.tick_params(axis="x", length=0, pad=2)
    axes.set_xlabel("expert (bold: shown at the right)")
    axes.set_ylabel("norm of the router after training")


def efficiency(data: xr.Dataset, axes: Any) -> None:
    """Figures 6 and 10 in kind: FLOPs, memory and time of the pruned layer against the share of experts pruned.

    Lines are FLOPs by formula, bytes, and median times; marks are FLOPs as torch counts them, and every measured time.

    Args:
      data: what `figures.efficiency` returned.
      axes: three Axes.
    """
    share = data["pruned_share"].values
    for panel, quantity in zip(panels_of(axes, 3), captions.COSTS, strict=True):
        theme.plain(panel)
        panel.plot([0, 1], [1, 0], color=theme.RULE, linewidth=1, zorder=0, gid="in proportion")
        ends, highest = [], 1.0
        for routing in map(str, data["routing"].values):
            style = plot_helpers.ROUTINGS[routing]
            curve = relative(data, quantity).sel(routing=routing).values
            thick: dict[str, Any] = {"linewidth": 2.8 if style is theme.MODEL else 2, "zorder": 3}
            panel.plot(share, curve, color=style.colour, linestyle=style.line, **thick, clip_on=False, gid=routing)
            marks = _marks(data, quantity, routing)
            highest = max(highest, float(marks.max()))
            across = np.repeat(share, marks.shape[1])
            face = style.colour if style is theme.MODEL else theme.PAPER
            mark: dict[str, Any] = {"marker": style.marker, "markersize": 5, "markerfacecolor": face}
            mark |= {"color": style.colour, "linestyle": "none", "zorder": 4, "clip_on": False}
            panel.plot(across, marks.ravel(), **mark, gid=f"{routing} marks")
            slope = float(data["slope"].sel(quantity=quantity, routing=routing))
            words = f"{routing}\n slope {slope:.2f}".replace("-0", "−0").replace("-1", "−1")
            ends.append((float(curve[-1]), words, style.colour))
        panel.set_xlim(0, 1)
        plot_helpers.percent(panel, 0.0, highest)
        plot_helpers.names(panel, float(share[-1]), ends, 30)
        panel.set_xlabel("share of experts pruned")
        panel.xaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{100 * value:.0f} %"))
        panel.set_xticks([0, 0.5, 1])


def _marks(data: xr.Dataset, quantity: str, routing: str) -> np.ndarray:
    """(rho, marks) what is marked on a line of `efficiency`, as shares of the unpruned layer's."""
    one = data.sel(routing=routing)
    if quantity == "seconds":
        seconds = one["seconds"].transpose("rho", "repeat")
        return np.asarray((seconds / seconds.sel(rho=0.0).median()).values)
    counted = one["counted_operations" if quantity == "operations" else quantity]
    return np.asarray((counted / counted.sel(rho=0.0)).values)[:, None]


PICTURES = Pictures(
    "pruning2024",
    {
        "figure 3": Kind(captions.routers, routers, layout.routers),
        "figure 7": Kind(captions.routers, routers, layout.routers),
        "figure 5": Kind(captions.criteria, criteria, layout.criteria),
        "figure 6": Kind(captions.efficiency, efficiency, layout.efficiency),
    },
)
caption, picture = PICTURES.caption, PICTURES.picture
