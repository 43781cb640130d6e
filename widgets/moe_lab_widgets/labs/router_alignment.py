"""RouterAlignmentLab: routers learn which patches matter, live, beside a CNN that must look at all of them.

Its knobs and runs are in router_alignment_runs.py, and the drawing of patches in router_alignment_tiles.py.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.patch_routing import CNN
from moe_lab_widgets.drawing.on_axes import bars, ends, heads, line, note, percents, reads
from moe_lab_widgets.drawing.panel import Panel, PanelValues
from moe_lab_widgets.drawing.trials import MOST_LINES, spread_words, trials_and_median
from moe_lab_widgets.drawing.words import middle, percent
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.mnist import with_mnist
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.router_alignment_runs import (
    KNOBS,
    begin,
    digits_of,
    overlap,
    own_mixture,
    patterns,
    runs,
    steps,
    task_of,
)
from moe_lab_widgets.labs.router_alignment_stories import STORIES
from moe_lab_widgets.labs.router_alignment_tiles import draw_tiles, furnish_tiles
from moe_lab_widgets.labs.router_alignment_words import WORDS

SHOWN = 0
"""The trial whose routers and patches are drawn, counted from 0."""
POINTS_AT = 0.7
"""The least cosine (45 degrees) at which the caption says that a router looks for a pattern."""
COVERED = 0.6
"""Coverage of a class below which the caption reports a failure."""
RARE = 0.005
"""Coverage below which the caption says that no expert receives a pattern."""
HIGH = 0.75
"""Accuracy from which on the caption says that one pattern is enough."""
SMALLEST_BAR = 0.015
"""So that a coverage of 0 can be seen."""
NAMES = {"joint": "mixture", "cnn": "CNN"}
STYLES = {"joint": theme.MODEL, "cnn": theme.OTHER}
Values = Mapping[str, Any]

# ---- panel 1: where routers point ----


def furnish_plane(ax: Axes, values: PanelValues) -> None:
    """Draws the ellipse of unit vectors, tinted by the nearer o: only there can the cosines be."""
    ax.set(xlim=(-1.12, 1.2), ylim=(-1.17, 1.27), xticks=(-1, 0, 1), yticks=(-1, 0, 1))
    for draw in (ax.axhline, ax.axvline):
        draw(0, color=theme.RULE, linewidth=0.8, zorder=1.5)
    cosine = values.of(overlap)
    angle = float(np.arccos(np.clip(cosine, -1, 1)))
    turn = np.linspace(angle / 2 - np.pi, angle / 2, 60)
    for phi, tint in zip((turn, turn + np.pi), theme.CLASSES_TINT, strict=True):
        ax.fill(np.cos(phi), np.cos(phi - angle), color=tint, linewidth=0, zorder=1)
    phi = np.linspace(0, 2 * np.pi, 160)
    ax.plot(np.cos(phi), np.cos(phi - angle), color=theme.REFERENCE, linewidth=1, zorder=2)
    apart = 0.15 if cosine > 0.5 else 0  # near twins: their names part, so that heads hide neither
    places = (("left", "center", 1.09, cosine - apart), ("center", "bottom", cosine - 1.4 * apart, 1.09))
    for side, (ha, va, x, y) in enumerate(places):
        style: dict[str, Any] = {"color": theme.CLASSES[side], "zorder": 2.5}
        ax.plot(*((1, cosine), (cosine, 1))[side], "*", markersize=15, markeredgecolor="white", clip_on=False, **style)
        ax.text(x, y, theme.CLASS_NAMES[side], size=theme.TITLE_SIZE, weight="bold", ha=ha, va=va, **style)
    words = [f"cos(w, {name})" for name in theme.CLASS_NAMES]
    both = zip(theme.CLASS_NAMES, values.of(patterns), strict=True)
    axes = [WORDS["AXIS"].format(name=name, pattern=pattern) for name, pattern in both]
    ax.set_xlabel(axes[0], color=theme.CLASSES[0], labelpad=6)
    ax.set_ylabel(axes[1], color=theme.CLASSES[1], labelpad=0)
    reads(ax, *words)
    note(ax, 0, 60, _others(values["trials"]), under=True)


def _others(trials: int) -> str:
    """Returns whose routers are drawn."""
    others = trials - 1
    many = "TRIALS_SOME" if others > MOST_LINES else "TRIALS"
    words = WORDS["TRIAL_ONE" if not others else "TRIALS_TWO" if others == 1 else many]
    return words.format(shown=SHOWN + 1, drawn=MOST_LINES, others=f"{others:,}")


def draw_plane(ax: Axes, now: Record) -> None:
    rest = np.delete(now["alignment"], SHOWN, axis=0)[:MOST_LINES].reshape(-1, 2)
    dots: dict[str, Any] = {"marker": "o", "markersize": 2.8, "alpha": 0.75, "markeredgewidth": 0, "clip_on": False}
    line(ax, *rest.T, linestyle="none", color=theme.REFERENCE, label="a router of another trial", zorder=3, **dots)
    way = np.array([shot["alignment"][SHOWN] for shot in now.shots["joint"]])  # (record, expert, class)
    way = way[np.isfinite(way).all((1, 2))]
    if not len(way):
        return
    experts, few = way.shape[1], way.shape[1] <= 4
    way = way if few else way[-25:]
    style: dict[str, Any] = {"marker": "o", "markersize": 4.5, "markevery": [-1], "linewidth": 2.4 if few else 1.6}
    for s in range(experts):
        style |= {"color": theme.expert(s).colour, "label": f"the way of expert {s + 1}'s router"}
        line(ax, *way[:, s].T, zorder=4, **style)
    places = theme.push_apart(way[-1], 0.2 if few else 0.17, rounds=20)
    heads(ax, places[:, 0], places[:, 1], 14 if few else 12, edge=1.2, label="the router of expert {}")


# ---- panel 2: what each expert receives ----


def furnish_patches(axes: list[Axes], values: PanelValues) -> None:
    for side, (ax, name) in enumerate(zip(axes, values.of(patterns), strict=True)):
        furnish_tiles(ax, side, name, values["patches"], values["experts"])


def draw_patches(axes: list[Axes], now: Record) -> None:
    task = task_of(now.values)
    for side, ax in enumerate(axes):
        draw_tiles(ax, task, now.of(), SHOWN, side)


def _framed(values: Values) -> str:
    kept = values["patches_per_expert"]
    return WORDS["FRAMED_ONE" if kept == 1 else "FRAMED"].format(kept=kept)


# ---- panel 3: what comes out ----


def furnish_outcome(axes: list[Axes], values: PanelValues) -> None:
    accuracy, coverage = axes
    last, experts = values.of(steps), values["experts"]
    accuracy.set(xlim=(0, last), ylim=(0.4, 1.01), yticks=(0.5, 0.75, 1), xticks=(0, last))
    accuracy.set_xlabel("SGD step", labelpad=-9)
    reads(accuracy, y="accuracy")
    accuracy.axhline(0.5, color=theme.RULE, linewidth=0.8)
    accuracy.text(0.98 * last, 0.492, "guessing", color=theme.MUTED, size=theme.SMALL_SIZE, ha="right", va="top")
    coverage.set(xlim=(-0.5, experts - 0.5), ylim=(0, 1.04), yticks=(0, 0.5, 1), xticks=())
    for height in (0.5, 1):
        coverage.axhline(height, color=theme.RULE, linewidth=0.6, zorder=0.5)
    for ax in axes:
        percents(ax.yaxis)
    note(coverage, -32, -22, WORDS["COVERAGE"].format(shown=SHOWN + 1))
    heads(coverage, range(experts), 0, 13 if experts <= 5 else 9.5, down=14)


def _thick(values: Values) -> str:
    count = values["trials"]
    words = WORDS["ACCURACY_MANY" if count > MOST_LINES else "ACCURACY" if count > 1 else "ACCURACY_ONE"]
    return words.format(trials=f"{count:,}")


def draw_outcome(axes: list[Axes], now: Record) -> None:
    accuracy, coverage = axes
    last = {}
    looks: tuple[tuple[str, float, dict[str, Any]], ...] = (("cnn", 2, {"dashes": (3, 1.5)}), ("joint", 2.6, {}))
    for model, width, dashes in looks:
        at, values = now.curve("test_accuracy", model)
        style, name = STYLES[model], NAMES[model]
        last[model] = trials_and_median(accuracy, at, values, style, name, None, linewidth=width, **dashes)
    labels = [(last[model], f"{name}\n{percent(last[model])}", STYLES[model].colour) for model, name in NAMES.items()]
    ends(accuracy, labels, 0.24)
    _draw_coverage(coverage, np.nan_to_num(now["expert_coverage"][SHOWN]))


def _draw_coverage(ax: Axes, cover: NDArray[np.float64]) -> None:
    """Draws (expert, class) how often an expert receives o, and strongly where it is the best one."""
    best = cover.max(axis=0)
    colours = np.where(cover >= best - 1e-9, theme.CLASSES, theme.CLASSES_PALE)
    places = np.arange(len(cover))[:, None] + (-0.18, 0.18)
    names = [f"expert {s + 1}: coverage of {name}" for s in range(len(cover)) for name in theme.CLASS_NAMES]
    bars(ax, places.ravel(), np.maximum(cover, SMALLEST_BAR).ravel(), 0.34, colours.ravel().tolist(), names=names)
    both = zip(best.tolist(), theme.CLASS_NAMES, theme.CLASSES, strict=True)
    ends(ax, [(high, f"{name} {percent(high)}", colour) for high, name, colour in both], 0.21, theme.SMALL_SIZE)


# ---- words ----


def caption(now: Record) -> str:
    names = [WORDS["DIGIT"].format(digit=digit) for digit in digits_of(now.values)] or list(theme.CLASS_NAMES)
    cover = now["coverage"][SHOWN]
    if now.step == 0:
        return WORDS["START"].format(received=_received(names, cover))
    mixture, cnn = (percent(middle(now.last("test_accuracy", name))) for name in now.names)
    both, found = _both(now), _received(names, cover)
    right = WORDS["RIGHT"].format(mixture=mixture, cnn=cnn)
    if (now.ended or now.step >= now.total / 2) and np.nanmin(cover, initial=1) < COVERED:
        side = int(np.nanargmin(cover))
        rarely = WORDS["NEVER" if cover[side] < RARE else "RARELY"]
        found = rarely.format(name=names[side], share=percent(cover[side]))
        if both:
            found = WORDS["AND"].format(found=found, both=both)
        if middle(now.last("test_accuracy")) > HIGH:
            right = WORDS["ENOUGH"].format(mixture=mixture, cnn=cnn)
    elif both:
        found = _begun(both)
    told = WORDS["CAPTION"].format(directions=_begun(_directions(now, names)), found=found, right=right)
    return f"{told}{spread_words(now.trials)}"


def _received(names: Sequence[str], cover: NDArray[np.float64]) -> str:
    """Returns how often the best expert of each class receives what decides it."""
    shares = {"one": percent(cover[0]), "other": percent(cover[1])}
    return WORDS["RECEIVED"].format(first=names[0], second=names[1], **shares)


def _both(now: Record) -> str:
    """Returns in how many trials experts receive both, at the end of several; else nothing."""
    if not now.ended or now.trials == 1:
        return ""
    count = int((now["coverage"].min(axis=1) >= COVERED).sum())
    what = WORDS["DIGITS" if digits_of(now.values) else "PATTERNS"]
    return WORDS["BOTH"].format(what=what, count=count, trials=f"{now.trials:,}")


def _begun(sentence: str) -> str:
    """Returns a sentence with a capital letter; o₁ and o₂ stay as they are."""
    return sentence if sentence.startswith(theme.CLASS_NAMES) else sentence[0].upper() + sentence[1:]


def _directions(now: Record, names: Sequence[str]) -> str:
    """Returns which routers look for which pattern, in words."""
    if moved(now) == 0:
        return WORDS["UNMOVED"]
    cosines = now["alignment"][SHOWN]  # (expert, class)
    nearest = np.where(np.isfinite(cosines).all(1), cosines.argmax(1), -1)
    parts: dict[str, str] = {}
    for side, name in enumerate(names):
        found = [str(s + 1) for s in np.flatnonzero((nearest == side) & (cosines.max(1) >= POINTS_AT))]
        if found:
            words = WORDS["ALSO" if parts else "LOOKS" if len(found) == 1 else "LOOK"]
            parts[name] = words.format(routers=_routers(found), name=name)
    if len(parts) == 1:
        missing = next(name for name in names if name not in parts)
        return WORDS["NONE"].format(part=next(iter(parts.values())), name=missing)
    return ", ".join(parts.values()) or WORDS["NOBODY"].format(first=names[0], second=names[1])


def _routers(numbers: Sequence[str]) -> str:
    *most, last = numbers
    return WORDS["ROUTERS" if most else "ROUTER"].format(most=", ".join(most), last=last)


def moved(now: Record) -> float:
    """Returns the largest change of any router's cosines since the start."""
    change = now["alignment"] - now.shots["joint"][0]["alignment"]
    return float(np.nanmax(np.abs(change), initial=0.0))


RouterAlignmentLab = lab(
    "Router alignment",
    name="RouterAlignmentLab",
    about="""A jointly trained mixture and a CNN on the same samples, step by step.

    On digits, n, l, k, m, N and noise apply; on synthetic patches the whole data model of the paper does. Values left
    out take the defaults of the chosen source.

    Args:
      mnist: a folder of MNIST's IDX files, or "download" (fetched once and checked): offers 28x28 images, too, and
        begins with them.
      mixture: a model of your own in the mixture's place, of the size that the sliders say: a `StepwiseMoE`, or a
        JointMoE whose subclass has a router of its own.

    Raises:
      ValueError: mixture is no such model.
    """,
    knobs=KNOBS,
    arguments={"mnist": with_mnist, "mixture": own_mixture},
    runs=runs,
    begin=begin,
    steps=steps,
    records=100,
    measures=lambda run: {"test_accuracy": "", **({} if isinstance(run.model, CNN) else {"coverage": "coverage"})},
    panels=(
        Panel(
            "Where routers point",
            draw_plane,
            furnish_plane,
            "cosine between each router w and\nthe two patches that decide the class",
            width=312,
            margins=(58, 10, 96, 95),
            pin=lambda ax, pinned, now: None,  # two runs' ways would hide each other
        ),
        Panel(
            "What each expert receives",
            draw_patches,
            furnish_patches,
            _framed,
            width=484,
            margins=(34, 34, 90, 21),  # so that 16 digits of 8 x 8 pixels are drawn three times as large
            rows=2,
            gap=41,
        ),
        Panel(
            "What comes out",
            draw_outcome,
            furnish_outcome,
            _thick,
            width=304,
            margins=(48, 79, 72, 34),
            rows=(182, 84),
            gap=76,
        ),
    ),
    caption=caption,
    stories=STORIES,
    diverged=lambda name, trials: WORDS["DIVERGED"].format(model=NAMES[name], trials=trials),
)
