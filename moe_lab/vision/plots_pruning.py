"""Draws the Datasets of `figures_pruning` and `PruningTable.data` onto Axes; nothing here trains.

The chosen criterion is in ink, the others are grey, each with its own dashes and marker; open stars are published.
"""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.ticker import PercentFormatter

from moe_lab.drawing import theme
from moe_lab.vision.figures_pruning import PUBLISHED_SAVINGS

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
        each = values.sel(criterion="random")
        ground: dict[str, Any] = {"color": theme.BACKGROUND, "alpha": 0.45, "linewidth": 0, "zorder": 0}
        axes.fill_between(counts, each.min("trial"), each.max("trial"), gid="range of random", **ground)
    for name in map(str, values["criterion"].values):
        mine = name == chosen
        marker, dashes = _LINES.get(name, ("*", ":"))
        line: dict[str, Any] = {"linestyle": "-" if mine else dashes if dashes != "-" else "--", "marker": marker}
        line |= {"color": theme.INK if mine else theme.REFERENCE, "linewidth": 3 if mine else 1.5}
        line |= {"markersize": 7 if mine else 5, "zorder": 4 if mine else 3, "label": name}
        axes.plot(counts, values.sel(criterion=name).median("trial"), gid=name, **line)
    axes.set_xlabel("experts pruned from each mixture")
    axes.set_ylabel(f"test accuracy, {mode}")
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
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
    axes.yaxis.set_major_formatter(PercentFormatter(1, decimals=0))
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
