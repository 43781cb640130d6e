"""Draws what pruning a model has cost: one function a picture, onto one Axes. They return nothing and run no model."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from matplotlib.axes import Axes

from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style


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
