"""Draws what pruning a model was decided by, and what it left: one function a picture, onto one Axes.

They return nothing and never run a model. The change of the router's norm is in ink, other criteria are grey, each
with its own dashes and marker; pruned experts are grey and striped.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import xarray as xr
from jaxtyping import Float
from matplotlib.axes import Axes
from torch import Tensor

from moe_lab.core.saliency import name_of
from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style

_LINES = (("s", (0, (5, 2))), ("^", (0, (1, 1.5))), ("D", (0, (6, 2, 1, 2))), ("v", (0, (3, 3))), ("P", "-"))
_MAIN = "router-norm-change"


@in_fixed_style
def scores(values: Float[Tensor, " k"], kept: Sequence[int], axes: Axes) -> None:
    """A bar for each expert of a layer: its score, filled where it stays and striped where it is pruned.

    Args:
      values, kept: of one layer, from `Pruned.scores` and `Pruned.kept`.
    """
    theme.plain(axes)
    for expert, value in enumerate(values.tolist()):
        look: dict[str, Any] = {"color": theme.INK}
        if expert not in kept:
            look = {"facecolor": theme.BACKGROUND, "edgecolor": theme.REFERENCE, "hatch": "///"}
        axes.bar(expert, value, width=0.7, **look)
    axes.axhline(0, color=theme.RULE, linewidth=0.8, zorder=0)
    axes.set_xticks(range(len(values)), [str(expert) for expert in range(len(values))])
    axes.set_xlabel("expert")


@in_fixed_style
def comparison(data: xr.Dataset, axes: Axes) -> None:
    """Accuracy against the number of experts left, a line for each criterion; after fine-tuning, hollow marks.

    Args:
      data: what `example.compare` returned.
    """
    theme.plain(axes)
    whole, experts = float(data["whole"]), int(data.attrs["experts"])
    others = iter(_LINES)
    labels = []
    for place, criterion in enumerate(data["criterion"].values):
        main = criterion == _MAIN
        marker, line = ("o", "-") if main else next(others)
        colour = theme.INK if main else theme.REFERENCE
        found = data["accuracy"].sel(criterion=criterion)
        axes.plot(
            [experts, *data["kept"].values],
            [whole, *found.values],
            color=colour,
            marker=marker,
            linestyle=line,
            markersize=6,
            linewidth=2 if main else 1.4,
            zorder=3 if main else 2,
        )
        aside = 0.16 * (place - (data.sizes["criterion"] - 1) / 2)
        axes.plot(
            data.attrs["tuned"] + aside,
            float(data["tuned"].sel(criterion=criterion)),
            marker=marker,
            markersize=7,
            markerfacecolor=theme.PAPER,
            markeredgecolor=colour,
            linestyle="none",
            zorder=4,
        )
        labels.append((float(found[-1]), name_of(str(criterion)), colour))
    axes.set(xlim=(experts + 0.3, float(data["kept"].min()) - 0.1), ylim=(0, 1.05))
    axes.set_xticks([experts, *data["kept"].values.tolist()])
    axes.set(xlabel=f"experts left of {experts}", ylabel="share of right answers")
    theme.end_labels(axes, labels)


@in_fixed_style
def against_chance(content: Mapping[str, Any], axes: Axes) -> None:
    """Losses minus those of random choices: a mark for each criterion, a grey one for each random choice.

    A line is the 95 % interval over texts; the mark of a criterion that is not told apart from chance is hollow.

    Args:
      content: what `moe-lab compare` writes to its JSON.
    """
    theme.plain(axes)
    rows = [row for row in content["rows"] if "losses" in row]
    for place, row in enumerate(rows):
        y, chance = len(rows) - 1 - place, sum(row["chance"]) / len(row["chance"])
        axes.plot([one - chance for one in row["chance"]], [y + 0.18] * len(row["chance"]), "o", color=theme.REFERENCE,
                  markersize=4, alpha=0.6, linestyle="none")  # fmt: skip
        told = not row["words"].startswith("not")
        axes.plot([row["low"], row["high"]], [y - 0.12] * 2, color=theme.INK if told else theme.REFERENCE, linewidth=2)
        fill = theme.INK if told else theme.PAPER
        axes.plot(row["difference"], y - 0.12, "D", color=theme.INK, markerfacecolor=fill, markersize=6)
    axes.axvline(0, color=theme.INK, linewidth=0.8, zorder=0)
    axes.set_yticks(range(len(rows)), [row_name(row["criterion"], row["share"], row["way"]) for row in rows[::-1]])
    axes.set_ylim(-0.6, len(rows) - 0.4)
    axes.set_xlabel("loss minus that of random choices (nats a token); left is better")


def row_name(criterion: str, share: float | None, way: str) -> str:
    """Returns what a row of a comparison is called: its criterion, its share if it has one, and an unusual way."""
    return f"{criterion}{'' if share is None else f' {share:g}'}{'' if way == 'removed' else f', {way}'}"
