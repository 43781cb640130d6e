"""BalanceLab: one expert begins with a lead and takes everything; four ways to balance the load act beside it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.specialization import ClusterRun, ClusterTask, TopKMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.topk import BALANCINGS
from moe_lab_widgets.drawing.on_axes import box_of, cells, ends, note, percents, reads, table, write
from moe_lab_widgets.drawing.panel import Panel
from moe_lab_widgets.drawing.trials import MOST_LINES, spread_words, trials_and_median
from moe_lab_widgets.drawing.words import middle, percent, trial_of
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.balance_stories import STORIES

NONE: str = BALANCINGS[0]
NAMES = {"none": "none", "switch": "Switch loss", "importance": "importance", "z-loss": "z-loss", "bias": "bias"}
"""What each way to balance is called in the picture."""
SENTENCE = {"switch": "the Switch loss", "importance": "the importance loss", "z-loss": "the z-loss", "bias": "a bias"}
"""What each way to balance is called in a sentence."""
TEST_SAMPLES = 1000
SHOWN = 0
"""The trial whose loads and tables are drawn."""
EQUAL, GRADIENT = STEPS = ("equal", "gradient")
"""Steps of one length for all experts (chen2022, eq. 3.4), or the learning rate times the gradient."""
TRAINED: Mapping[str, Mapping[str, Any]] = {
    EQUAL: {"equal_steps": True, "learning_rate": 0.01, "initial_scale": 0.01},
    GRADIENT: {"equal_steps": False, "learning_rate": 1.0, "initial_scale": 0.1},
}
STRENGTHS = (0.001, 0.003, 0.01, 0.03, 0.1, 0.3, 1.0)

# ---- knobs, and the five runs that their values describe ----

# Ranges in which a run stays live.
KNOBS = (
    LabKnob(name="balancing", main=True, meaning="compared with no balancing", default="importance",
            choices=BALANCINGS[1:], words=NAMES, view_only=True,
            effect="Shows another way to balance the load; all of them have been trained."),
    offer(TopKMoE, "strength", main=True, symbol="λ", meaning="strength of balancing", default=0.1, slider=None,
          choices=STRENGTHS,
          effect="Loads become more even, until balancing outweighs the task."),
    offer(TopKMoE, "lead", main=True, symbol="h₀", meaning="lead of expert 1", default=4.0,
          effect="The router prefers expert 1 more strongly at first, and collapses more easily."),
    offer(TopKMoE, "experts", main=True, meaning="experts",
          effect="More experts to keep busy; by themselves they are no cure for collapse."),
    offer(TopKMoE, "experts_per_sample", main=True, meaning="experts per sample", slider=(1, 4, 1),
          effect="Whatever one expert gets, others get too: less collapse, more compute."),
    offer(TopKMoE, "router_noise", main=True, meaning="noise on the router's scores",
          effect="More noise gives weaker experts samples in training."),
    offer(ClusterRun, "samples", main=True, meaning="training samples", default=1000, slider=(100, 2000, 100),
          effect="More samples teach the signals rather than the noise, and make steps slower."),
    offer(TopKMoE, "activation", symbol="σ", meaning="experts' activation", default="linear",
          effect="Cubic experts divide the clusters among themselves; linear ones share them."),
    LabKnob(name="expert_steps", meaning="experts' steps", default=EQUAL, choices=STEPS,
            words={EQUAL: "of equal length", GRADIENT: "as long as the gradient"},
            effect="With steps as long as the gradient, an expert with many samples learns faster than the others."),
    offer(TopKMoE, "shared", symbol="K_s", meaning="shared experts",
          effect="Experts that get every sample without a router: the others collapse less."),
    offer(TopKMoE, "router_learning_rate", symbol="η_r", meaning="router's learning rate",
          effect="A faster router follows the experts sooner. At 0 it never learns."),
    offer(ClusterTask, "clusters", meaning="clusters",
          effect="More kinds of samples, each with a signal of its own, for the experts to divide."),
    offer(ClusterTask, "imbalance", symbol="ρ", meaning="size ratio of clusters",
          effect="Clusters differ more in size, so that an even load is no longer the right one."),
    offer(TopKMoE, "filters", meaning="filters per expert", slider=(2, 16, 2),
          effect="Each expert can represent more, and each step takes longer."),
    LabKnob(name="steps", symbol="S", meaning="training steps", default=300, low=1, slider=(20, 600, 20),
            effect="A longer run: more time for a router to collapse or to recover."),
    offer(ClusterRun, "trials", meaning="trials", default=4, slider=(1, 10, 1), far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, ClusterRun]:
    """Returns a run for each way to balance the load, first the one without; they differ in nothing else."""
    own = {name: values[name] for name in TopKMoE.knobs() if name in values and name not in ("balancing", "strength")}
    plain = TopKMoE(**own, **TRAINED[values["expert_steps"]])
    models: dict[str, TopKMoE] = {NONE: plain}
    for name in BALANCINGS[1:]:
        models[name] = plain.replace(balancing=name, strength=values["strength"])
    task = config_from(ClusterTask, values)
    return {
        name: config_from(ClusterRun, values, model=model, task=task, test_samples=TEST_SAMPLES)
        for name, model in models.items()
    }


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of the five models takes on one CPU thread."""
    degree = ACTIVATIONS[values["activation"]].degree
    rows = {1: 0, 3: 1}.get(degree or 0, 4) if values["activation"] != "relu" else 1  # patches with a matrix product
    slots = values["experts_per_sample"] + values["shared"]
    sample = 1e-6 + 5e-8 * values["experts"] + 1.5e-7 * rows * values["filters"] * slots
    return float(values["trials"] * values["samples"] * sample)


def pair(now: Record) -> tuple[str, str]:
    """Returns the two mixtures on show: the one without balancing, and the one that is compared with it."""
    return NONE, now.values["balancing"]


def write_name(ax: Axes, name: str, left: float) -> None:
    """Writes above Axes which mixture they show, from pixels left of them on."""
    low, high = ax.get_xlim()[0], ax.get_ylim()[1]
    write(ax, low, high, [name], ha="left", size=theme.SMALL_SIZE, bold=True, right=-left, down=-19)


# ---- panel 1: the load of each expert ----

NAMED, APART, MOST = 0.04, 0.1, 2
"""Loads from which a line's expert is named at its end, the distance of two names, and most numbers in one."""


def furnish_load(axes: list[Axes], values: Mapping[str, Any]) -> None:
    for ax in axes:
        ax.set(xlim=(0, values["steps"]), ylim=(0, 1.04))
        ax.set_xticks([0, values["steps"]])
        ax.set_yticks([0, 0.5, 1])
        percents(ax.yaxis)
        ax.axhline(1 / values["experts"], color=theme.MUTED, linewidth=1, linestyle=(0, (6, 3)))
        reads(ax, x="step", y="load")
    axes[1].set_xlabel("training step", labelpad=-2)
    write_name(axes[0], "no balancing", 30)


def draw_load(axes: list[Axes], now: Record) -> None:
    write_name(axes[1], NAMES[now.values["balancing"]], 30)
    for ax, name in zip(axes, pair(now), strict=True):
        steps, loads = now.curve("expert_load", name)
        if not len(steps):
            continue
        own = loads[:, SHOWN]  # (records, expert)
        experts = range(own.shape[1])
        lines = LineCollection(
            [np.column_stack((steps, own[:, expert])) for expert in experts],
            colors=[theme.expert(expert).colour for expert in experts],
            linestyles=["-" if expert % 8 < 4 else (0, (4, 1.5)) for expert in experts],
            linewidths=1.7,
            zorder=3,
            label="an expert",
        )
        ax.add_collection(lines, autolim=False)
        if np.isfinite(own[-1]).all():
            _number(ax, float(steps[-1]), own[-1])


def _number(ax: Axes, end: float, loads: NDArray[np.float64]) -> None:
    """Writes the numbers of experts at the ends of their lines, those that nearly coincide side by side."""
    near: dict[int, list[int]] = {}
    for expert in np.argsort(-loads, kind="stable").tolist():
        if loads[expert] >= NAMED:
            near.setdefault(round(loads[expert] / APART), []).append(expert + 1)
    words = [" ".join(map(str, sorted(group)[:MOST])) + " …" * (len(group) > MOST) for group in near.values()]
    heights = [APART * place for place in near]
    write(ax, [end] * len(words), heights, words, ha="left", size=theme.SMALL_SIZE, bold=True, right=6)


# ---- panel 2: who gets which cluster ----


def furnish_tables(axes: list[Axes], values: Mapping[str, Any]) -> None:
    experts, clusters = values["experts"], values["clusters"]
    rows, columns = [f"cluster {row + 1}" for row in range(clusters)], [f"expert {one + 1}" for one in range(experts)]
    for ax in axes:
        table(ax, rows, columns, widest=72, highest=44)
        numbers = [str(expert + 1) for expert in range(experts)]
        below = [clusters - 0.5] * experts
        write(ax, range(experts), below, numbers, theme.MUTED, size=theme.SMALL_SIZE, down=11)
    write(axes[1], -0.5, clusters - 0.5, ["expert"], ha="left", down=29)
    write_name(axes[0], "no balancing", 60)


def draw_tables(axes: list[Axes], now: Record) -> None:
    write_name(axes[1], NAMES[now.values["balancing"]], 60)
    for ax, name in zip(axes, pair(now), strict=True):
        part = now.of(name)
        if part is None:
            continue
        sent = np.nan_to_num(part["dispatch"][SHOWN])  # (cluster, expert)
        shares = sent / np.maximum(sent.sum(1, keepdims=True), 1)
        roomy = now.values["experts"] <= 13 and now.values["clusters"] <= 9  # for a number in each cell
        words = (f"{100 * share:.0f}" if roomy and share >= 0.005 else "" for share in shares.flat)
        cells(ax, words, shares, size=theme.SMALL_SIZE)


# ---- panel 3: what comes out ----

STYLES: tuple[tuple[theme.Style, float, dict[str, Any]], ...] = (
    (theme.OTHER, 2.0, {"dashes": (3, 1.5)}),
    (theme.MODEL, 2.6, {}),
)
"""Style, width and dashes of the median without balancing, and of the one beside it."""
COLUMNS = ("accuracy", "worth", "own cluster")


def furnish_outcome(axes: list[Axes], values: Mapping[str, Any]) -> None:
    curves, numbers = axes
    curves.set(xlim=(0, values["steps"]), ylim=(0.5, 1.02))
    curves.set_xticks([0, values["steps"]])
    curves.set_yticks([0.5, 0.75, 1])
    percents(curves.yaxis)
    reads(curves, x="step", y="accuracy")

    table(numbers, list(NAMES.values()), COLUMNS)
    numbers.set_yticks([])  # `draw` writes the names, two of them bold
    numbers.set_xlim(-0.5, box_of(numbers)[2] / 96 - 0.5)  # wider than the Axes, below the names of the curves
    heads = (COLUMNS[0], f"worth (of {values['experts']})", COLUMNS[2])
    write(numbers, range(3), [-0.5] * 3, heads, theme.MUTED, size=theme.SMALL_SIZE, down=-10)
    note(numbers, -82, 12, "worth: equally loaded experts with the same entropy", under=True)
    note(numbers, -82, 26, "own cluster: share of an expert's most frequent cluster", under=True)


def draw_outcome(axes: list[Axes], now: Record) -> None:
    curves, numbers = axes
    labels = []
    for name, (style, width, dashes) in zip(pair(now), STYLES, strict=True):
        steps, values = now.curve("test_accuracy", name)
        end = trials_and_median(curves, steps, values, style, NAMES[name], linewidth=width, **dashes)
        labels.append((end, f"{NAMES[name]}\n{percent(end, 1)}", style.colour))
    ends(curves, labels, apart=0.3)

    measured = np.array([_numbers(now, name) for name in NAMES])
    words = [_word(number, column) for row in measured for column, number in enumerate(row)]
    cells(numbers, words, np.nan_to_num(measured / [1, now.values["experts"], 1]))
    firm = [name in pair(now) for name in NAMES]
    colours = np.where(firm, theme.INK, theme.MUTED)
    places = range(len(NAMES))
    names = list(NAMES.values())
    beside: dict[str, Any] = {"ha": "right", "size": theme.SMALL_SIZE, "right": -7}
    write(numbers, [-0.5] * len(names), places, names, colours, bold=np.array(firm), **beside)


def _numbers(now: Record, name: str) -> list[float]:
    """Returns the medians of accuracy, experts' worth and agreement."""
    return [middle(now.last("test_accuracy", name)), middle(worth(now, name)), middle(now.last("agreement", name))]


def worth(now: Record, name: str) -> NDArray[np.float64]:
    """Returns (trial,) the number of equally loaded experts whose load has the same entropy."""
    return np.exp(now.last("load_entropy", name))


def _word(number: float, column: int) -> str:
    """Returns a median in words."""
    if not np.isfinite(number):
        return "–"
    return f"{number:.1f}" if column == 1 else percent(number, 1)


# ---- words ----


def _shown(values: Mapping[str, Any]) -> str:
    of = trial_of(SHOWN, values["trials"])
    return f"test samples, {of}; dashed: all alike"


def _thin(values: Mapping[str, Any]) -> str:
    count = values["trials"]
    if count == 1:
        return "test accuracy; the one trial"
    several = f"bands: half, 90 % of {count:,}" if count > MOST_LINES else f"thin: each of {count} trials"
    return f"test accuracy; {several}, thick: median"


def diverged(name: str, trials: str) -> str:
    words = "without balancing" if name == NONE else f"with {NAMES[name]}"
    return f"The loss {words} became infinite in {trials}: try a smaller rate of the router."


def caption(now: Record) -> str:
    experts = now.values["experts"]
    if now.step == 0:
        load = f"{_word(middle(worth(now, NONE)), 1)} of {experts} experts"
        return f"The load is worth {load}, and nobody has learned anything."
    (accuracy, load), (other_accuracy, other_load) = (
        tuple(_word(value, column) for column, value in enumerate(_numbers(now, name)[:2])) for name in pair(now)
    )
    return (
        f"Without balancing {accuracy} of the test samples are right and the load is "
        f"worth {load} of {experts} experts; with {SENTENCE[now.values['balancing']]} it is {other_accuracy} and "
        f"{other_load}.{spread_words(now.trials)}"
    )


PANELS = (
    Panel(
        "Load of each expert", draw_load, furnish_load, _shown,
        width=330, margins=(56, 48, 86, 42), rows=2, gap=56,
    ),
    Panel(
        "Who gets which cluster", draw_tables, furnish_tables, "percent of a cluster's assignments that an expert gets",
        width=376, margins=(78, 8, 86, 48), rows=2, gap=62,
    ),
    Panel(
        "What comes out", draw_outcome, furnish_outcome, _thin,
        width=394, margins=(100, 112, 86, 42), rows=(136, 130), gap=54,
    ),
)  # fmt: skip

BalanceLab = lab(
    "Balance and collapse",
    name="BalanceLab",
    about="Five mixtures on the same samples from the same start: without balancing, with three losses, with a bias.",
    knobs=KNOBS,
    runs=runs,
    records=40,
    seconds=seconds,
    slowest=0.08,
    measures={"test_accuracy": "", "load_entropy": "entropy of the load"},
    panels=PANELS,
    caption=caption,
    stories=STORIES,
    diverged=diverged,
)
