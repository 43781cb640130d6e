"""Draws which trials are stuck: every trial and its verdict, or for many sizes a map over experts and samples."""

from __future__ import annotations

from typing import Any

import numpy as np
import xarray as xr
from matplotlib.axes import Axes
from matplotlib.patches import Rectangle
from matplotlib.ticker import MaxNLocator

from moe_lab.core.words import series
from moe_lab.drawing import theme
from moe_lab.drawing.pictures import Box, Head, Pictures, panels_of, side_by_side
from moe_lab.drawing.published import measured, title
from moe_lab.drawing.scales import decades, plain_numbers
from moe_lab.drawing.style import in_fixed_style
from moe_lab.recovery.gridlock import findings
from moe_lab.recovery.gridlock.method_names import marks, name_of, points_across, style_of, words_of
from moe_lab.recovery.gridlock.stuck import verdict

PICTURES = Pictures("gridlock2019")
_VERDICTS = ("found", "still moving", "stuck", "diverged")
_MAP_ROW = 58  # pixels for a row of the map of who is stuck
_MOST_COLUMNS = 3
"""More sizes than these are drawn as a map of who is stuck."""


def _verdict_counts(data: xr.Dataset) -> dict[str, int]:
    """How many trials were found, are still moving, are stuck or diverged."""
    words = verdict(data).values.ravel().tolist()
    return {word: words.count(word) for word in _VERDICTS}


def _verdicts_of(data: xr.Dataset) -> str:
    parts = []
    for method in map(str, data["algorithm"].values):
        counts = _verdict_counts(data.sel(algorithm=method))
        numbers = [f"{counts[word]} {word}" for word in _VERDICTS if counts[word]]
        parts.append(f"{name_of(method)}: {series(numbers)}")
    total = int(np.prod([size for name, size in data["stuck"].sizes.items() if name != "algorithm"]))
    rule = (
        f"the error fell by less than {100 * float(data.attrs['gain']):g} % in {int(data.attrs['window'])} iterations"
    )
    return f"Of {total} trials each, {'; '.join(parts)}. Stuck: not found, and {rule}."


def _is_map(data: xr.Dataset) -> bool:
    """Whether a result of `stuck_rate` has more sizes than columns would show."""
    return bool(data.sizes["k"] * data.sizes["samples"] > _MOST_COLUMNS)


def _stuck_heads(data: xr.Dataset) -> list[Head]:
    gain, window = 100 * float(data.attrs["gain"]), int(data.attrs["window"])
    test = f"stuck: regressor fit < .95, error fell < {gain:g} % in {window} iterations"
    if _is_map(data):
        shade = f"number and shade: trials of {data.sizes['trial']} that found all regressors (fit ≥ .95)"
        return [(16, "Who finds the regressors, and who is stuck", f"{shade}; {test}")]
    return [(16, "How far from the truth", f"{marks(data)}, ×: stuck"), (570, "Who is stuck", test)]


def _stuck_boxes(data: xr.Dataset) -> list[Box]:
    if _is_map(data):
        return side_by_side(data.sizes["algorithm"], 76, 1040, 106, _MAP_ROW * data.sizes["k"], gap=40)
    return [(76, 84, 330, 300), (700, 84, 370, 300)]


@PICTURES.of(
    "section 4.3",
    finding=findings.found_most_often,
    caption=_verdicts_of,
    heads=_stuck_heads,
    boxes=_stuck_boxes,
    height=lambda data: 214 + _MAP_ROW * data.sizes["k"] if _is_map(data) else 480,
)
def stuck(data: xr.Dataset, axes: Any) -> None:
    """Who is stuck: a map over experts and samples (`stuck_map`) of many sizes, or every trial (`stuck_trials`)."""
    (stuck_map if _is_map(data) else stuck_trials)(data, axes)


@in_fixed_style
def stuck_trials(data: xr.Dataset, axes: Any) -> None:
    """Who is stuck: every trial's error, and how many were found, are still moving or are stuck; two Axes."""
    left, right = panels_of(axes, 2)
    points = points_across(data, ("k", "samples"))
    methods = [str(name) for name in data["algorithm"].values]
    theme.plain(left)
    left.set_yscale("log")
    left.set_xlim(-0.5, len(points) - 0.5)
    left.set_ylabel("error E(A, W) at the end")
    words = [words_of(point) for point in points]
    left.set_xticks(range(len(points)), words)
    left.tick_params(axis="x", length=0)
    left.set_ylim(*decades(data["error"].values))
    ends = []
    for number, method in enumerate(methods):
        style, end = style_of(method), float("nan")
        aside = 0.7 * ((number + 0.5) / len(methods) - 0.5)
        for place, point in enumerate(points):
            one = data.sel({**point, "algorithm": method})
            end = measured(left, place + aside, one["error"].values, style)
            bad = one["error"].values[one["stuck"].values > 0]
            cross: dict[str, Any] = {"marker": "x", "markersize": 8, "color": theme.FAILURE, "linestyle": "none"}
            left.plot(np.full(len(bad), place + aside + 0.14), bad, **cross, zorder=5, gid="stuck")
        ends.append((end, name_of(method), style.colour))
    plain_numbers(left)
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
            counts, start = _verdict_counts(data.sel({**point, "algorithm": method})), 0
            for word in _VERDICTS:
                wide = counts[word]
                if wide:
                    panel.barh(-rows, wide, left=start, height=0.62, color=fills[word], linewidth=0, gid=word)
                    text = f"{wide} {word}" if wide > 0.22 * total else f"{wide}"
                    style: dict[str, Any] = {"ha": "center", "va": "center", "size": theme.SMALL_SIZE}
                    panel.text(start + wide / 2, -rows, text, color=inks[word], **style)
                start += wide
            labels.append(name_of(method) + ("" if len(points) == 1 else f"\n{words_of(point, ', ')}"))
            rows += 1
    panel.set_yticks(-np.arange(rows), labels)
    panel.set_ylim(-rows + 0.4, 0.6)
    panel.set_xlim(0, total)
    panel.tick_params(axis="y", length=0)
    panel.xaxis.set_major_locator(MaxNLocator(5, integer=True))
    panel.set_xlabel("trials")


@in_fixed_style
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
        title(panel, name_of(method))
        if number == 0:
            panel.set_ylabel("k, experts")
        for row, k in enumerate(rows):
            for column, samples in enumerate(columns):
                counts = _verdict_counts(data.sel({"algorithm": method, "k": k, "samples": samples}))
                _map_cell(panel, column, row, counts, total)


def _map_cell(panel: Axes, column: int, row: int, counts: dict[str, int], total: int) -> None:
    """Draws one cell: how many trials were found, and the verdicts on the others."""
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
