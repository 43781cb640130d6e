"""Draws which trials are stuck: every trial and its verdict, or for many sizes a map over experts and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from moe_lab.drawing import theme
from moe_lab.drawing.pictures import measured, panels_of, title
from moe_lab.recovery.gridlock import plot_helpers
from moe_lab.recovery.gridlock.captions import VERDICT_ORDER, verdict_counts
from moe_lab.recovery.gridlock.layout import points_across


def stuck(data: xr.Dataset, axes: Any) -> None:
    """Who is stuck: every trial's error, and how many were found, are still moving or are stuck; two Axes."""
    left, right = panels_of(axes, 2)
    points = points_across(data, ("k", "samples"))
    methods = [str(name) for name in data["algorithm"].values]
    theme.plain(left)
    left.set_yscale("log")
    left.set_xlim(-0.5, len(points) - 0.5)
    left.set_ylabel("error E(A, W) at the end")
    words = [plot_helpers.words_of(point) for point in points]
    left.set_xticks(range(len(points)), words)
    left.tick_params(axis="x", length=0)
    left.set_ylim(*plot_helpers.decades(data["error"].values))
    ends = []
    for number, method in enumerate(methods):
        style, end = plot_helpers.style_of(method), float("nan")
        aside = 0.7 * ((number + 0.5) / len(methods) - 0.5)
        for place, point in enumerate(points):
            one = data.sel({**point, "algorithm": method})
            end = measured(left, place + aside, one["error"].values, style)
            bad = one["error"].values[one["stuck"].values > 0]
            cross: dict[str, Any] = {"marker": "x", "markersize": 8, "color": theme.FAILURE, "linestyle": "none"}
            left.plot(np.full(len(bad), place + aside + 0.14), bad, **cross, zorder=5, gid="stuck")
        ends.append((end, plot_helpers.name_of(method), style.colour))
    plot_helpers.plain_numbers(left)
    theme.end_labels(left, ends)
    _verdict_bars(data, right, points, methods)


def _verdict_bars(data: xr.Dataset, panel: Axes, points: list[dict[str, Any]], methods: list[str]) -> None:
    """One bar of trials for each point and method: found, still moving, stuck."""
    theme.plain(panel)
    total, rows, labels = data.sizes["trial"], 0, []
    fills = {"found": theme.RAMP(0.6), "still moving": theme.RULE, "stuck": theme.FAILURE, "diverged": theme.INK}
    inks = {"found": "white", "still moving": theme.INK, "stuck": "white", "diverged": "white"}
    for point in points:
        for method in methods:
            counts, start = verdict_counts(data.sel({**point, "algorithm": method})), 0
            for word in VERDICT_ORDER:
                wide = counts[word]
                if wide:
                    panel.barh(-rows, wide, left=start, height=0.62, color=fills[word], linewidth=0, gid=word)
                    text = f"{wide} {word}" if wide > 0.22 * total else f"{wide}"
                    style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.SMALL_SIZE}
                    panel.text(start + wide / 2, -rows, text, color=inks[word], **style)
                start += wide
            labels.append(
                plot_helpers.name_of(method) + ("" if len(points) == 1 else f"\n{plot_helpers.words_of(point, ', ')}")
            )
            rows += 1
    panel.set_yticks(-np.arange(rows), labels)
    panel.set_ylim(-rows + 0.4, 0.6)
    panel.set_xlim(0, total)
    panel.tick_params(axis="y", length=0)
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.set_xlabel("trials")


def stuck_map(data: xr.Dataset, axes: Any) -> None:
    """Who is stuck over experts and samples: an Axes a method; shade and number are trials found, below who is not."""
    names = [str(name) for name in data["algorithm"].values]
    rows, columns, total = data["k"].values, data["samples"].values, data.sizes["trial"]
    for number, (method, panel) in enumerate(zip(names, panels_of(axes, len(names)), strict=True)):
        theme.plain(panel)
        panel.set_xlim(-0.5, len(columns) - 0.5)
        panel.set_ylim(-0.5, len(rows) - 0.5)
        panel.set_xticks(range(len(columns)), [f"{samples:,}" for samples in columns])
        panel.set_yticks(range(len(rows)), [str(k) for k in rows])
        panel.tick_params(length=0)
        panel.set_xlabel("n, samples")
        title(panel, plot_helpers.name_of(method))
        if number == 0:
            panel.set_ylabel("k, experts")
        for row, k in enumerate(rows):
            for column, samples in enumerate(columns):
                counts = verdict_counts(data.sel({"algorithm": method, "k": k, "samples": samples}))
                _map_cell(panel, column, row, counts, total)


def _map_cell(panel: Axes, column: int, row: int, counts: dict[str, int], total: int) -> None:
    """One cell: how many trials were found, and where some were not what became of them."""
    share = counts["found"] / total
    corner = (column - 0.48, row - 0.46)
    panel.add_patch(Rectangle(corner, 0.96, 0.92, facecolor=theme.RAMP(0.6 * share), linewidth=0, gid="cell"))
    others = {"stuck": "stuck", "still moving": "moving", "diverged": "diverged"}
    rest = [f"{counts[word]} {short}" for word, short in others.items() if counts[word]]
    middle: dict[str, Any] = {"ha": "center", "va": "center", "color": theme.ink_on(0.6 * share)}
    top = row + 0.14 * len(rest)
    panel.text(column, top, str(counts["found"]), size=theme.TEXT_SIZE, weight="bold", gid="found", **middle)
    for line, words in enumerate(rest):
        panel.text(column, top - 0.3 - 0.25 * line, words, size=theme.SMALL_SIZE, gid="rest", **middle)
