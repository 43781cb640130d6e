"""SpecializationLab: nonlinear experts divide the clusters among them, live, beside linear experts that share them."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab_widgets.drawing.on_axes import cells, ends, line, note, percents, ramp_key, reads, table, write
from moe_lab_widgets.drawing.panel import Panel, PanelValues
from moe_lab_widgets.drawing.trials import MOST_LINES, few, spread_words, swarm, trials_and_median
from moe_lab_widgets.drawing.words import middle, percent, trial_of
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs.specialization_stories import STORIES

FIRST_FILTERS = 8e-4
"""sigma_0: first filters so small that one can watch the clusters being divided (from .01 it is done in 10 steps)."""
IDLE, SHOWN = 0.01, 0
"""Share of the samples below which an expert is called idle; the trial whose tables are drawn."""
FALL, FOUND = 0.03, 0.95
"""How far a collapsed trial lies below its best accuracy, and what that must have been."""
LOW, APART, GOOD = 0.3, 0.2, 0.9
"""An entropy this low, another higher by this, both accuracies this high: then accuracy hides it, says the caption."""
STYLES = (theme.MODEL, theme.OTHER)
"""Of the model under study, and of the one beside it."""

# ---- knobs, and the two runs that their values describe ----


def _routed(values: Mapping[str, Any]) -> bool:
    return bool(values["experts"] > 1)


KNOBS = (
    offer(SwitchMoE, "experts", main=True,
          effect="Spare experts are an insurance: with few of them a cluster may find none of its own."),
    offer(ClusterTask, "clusters", main=True, meaning="clusters",
          effect="More kinds of samples, each with a signal of its own, for the experts to divide."),
    offer(ClusterRun, "samples", main=True, meaning="training samples", default=2000, slider=(200, 6000, 200),
          far=16_000, effect="More samples teach the signals rather than the noise, and make steps slower."),
    offer(ClusterTask, "noise", main=True, symbol="σ_p", meaning="length of noise patches",
          enabled_when=lambda v: v["patches"] > 3,
          effect="Longer noise hides the signals, until experts learn the noise by heart.",
          applies="only where samples have noise patches (P of at least 4)"),
    offer(SwitchMoE, "activation", main=True, symbol="σ", meaning="experts' activation",
          effect="Cubic experts divide the clusters among themselves; linear ones share them all."),
    offer(SwitchMoE, "router_learning_rate", main=True, symbol="η_r", meaning="router's learning rate",
          enabled_when=_routed,
          effect="A faster router follows the experts sooner. At 0 it never learns.",
          applies="only with more than one expert"),
    offer(SwitchMoE, "router_noise", main=True, meaning="noise on the router's scores", enabled_when=_routed,
          effect="More noise gives every expert samples at first.", applies="only with more than one expert"),
    offer(SwitchMoE, "load_balancing", main=True, symbol="λ", meaning="weight of load balancing", enabled_when=_routed,
          effect="A larger weight makes the router send all experts about equally many samples.",
          applies="only with more than one expert"),
    LabKnob(name="gamma", symbol="γ", meaning="largest feature noise", default=2.0, low=0.5, slider=(0.5, 4.0, 0.25),
            effect="Signals of other clusters, which mislead in a sample, may be this strong."),
    offer(SwitchMoE, "filters", meaning="filters per expert", default=8, slider=(1, 16, 1),
          effect="Each expert can represent more, and each step takes longer."),
    offer(SwitchMoE, "learning_rate", symbol="η", meaning="length of experts' steps",
          effect="Longer steps learn sooner, but an expert that is right still takes them."),
    LabKnob(name="steps", symbol="S", meaning="training steps", default=400, low=1, slider=(50, 1000, 50),
            effect="A longer run. Steps keep their length, so that late ones may spoil what was found."),
    offer(ClusterTask, "patches", meaning="patches per sample", slider=(3, 8, 1),
          effect="Three patches carry signals; all further ones are noise."),
    offer(ClusterTask, "dimension", meaning="numbers per patch", slider=(8, 100, 2),
          effect="Signals have more room apart from each other, and noise more directions."),
    offer(ClusterRun, "trials", meaning="trials", default=6, slider=(1, 10, 1), far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, ClusterRun]:
    """Returns two runs, which differ in the activation alone: linear runs beside all others, cubic beside linear."""
    task = config_from(ClusterTask, values, feature_noise=(0.5, values["gamma"]))
    study = config_from(SwitchMoE, values, initial_scale=FIRST_FILTERS)
    beside = study.replace(activation="cubic" if study.activation == "linear" else "linear")
    return {
        one.activation: config_from(ClusterRun, values, model=one, task=task, test_samples=1000)
        for one in (study, beside)
    }


def seconds(values: Mapping[str, Any]) -> float:
    """Returns about how long one step of both models takes on one CPU thread."""
    degree = ACTIVATIONS[values["activation"]].degree
    rows = values["patches"] - (3 if degree is not None else 0)  # that need a matrix product of their own
    return float(values["trials"] * values["samples"] * (4e-7 + 2.5e-8 * rows * values["filters"]))


# ---- panel 1: who serves which cluster ----


def _longest(values: Mapping[str, Any]) -> float:
    """The length of all steps of an expert together, which no product can exceed by more than its start."""
    return float(values["learning_rate"] * values["steps"])


def furnish_tables(axes: list[Axes], values: Mapping[str, Any]) -> None:
    experts = [f"expert {expert + 1}" for expert in range(values["experts"])]
    heads = (
        "share of a cluster sent to an expert (test samples)",
        "largest |⟨filter, signal⟩| of an expert (at most η S)",
    )
    for ax, words, head in zip(axes, ("cluster {}", "signal v{}"), heads, strict=True):
        names = [words.format(row + 1 if "cluster" in words else "₁₂₃₄₅₆₇₈₉"[row]) for row in range(values["clusters"])]
        table(ax, names, experts)
        note(ax, -58, -14, head)
    ramp_key(axes[0], 100, "%")
    ramp_key(axes[1], _longest(values))
    of = trial_of(SHOWN, values["trials"])
    words = f"expert (grey: idle, under 1 % of the samples)   {values['activation']} experts, {of}"
    note(axes[1], -58, 35, words, under=True)


def draw_tables(axes: list[Axes], now: Record) -> None:
    sent = np.nan_to_num(now["dispatch"][SHOWN])  # (cluster, expert)
    share = sent / np.maximum(sent.sum(1, keepdims=True), 1)
    learned, most = np.nan_to_num(now["expert_feature"][SHOWN]).T, _longest(now.values)
    cells(axes[0], (f"{100 * part:.0f}" if part >= 0.005 else "" for part in share.flat), share)
    cells(
        axes[1],
        ((f"{x:.1f}" if x < 9.95 else f"{x:.0f}") if x >= 0.05 * most else "" for x in learned.flat),
        learned / most,
    )
    works = carriers(now)
    shades = np.where(works, theme.INK, theme.REFERENCE)
    count = np.arange(len(works))
    write(
        axes[1], count, now.values["clusters"] - 0.5, [str(n + 1) for n in count], shades, size=11, bold=works, down=15
    )


def carriers(now: Record) -> NDArray[np.bool_]:
    """Returns (expert,) which experts get more than a hundredth of the test samples in the trial on show."""
    return np.asarray(np.nan_to_num(now["expert_load"][SHOWN]) >= IDLE)


# ---- panel 2: dispatch entropy ----


def furnish_entropy(ax: Axes, values: Mapping[str, Any]) -> None:
    most, steps = float(np.log(values["clusters"])), values["steps"]
    ax.set(xlim=(0, steps), ylim=(-0.09 * most, 1.06 * most), xlabel="training step")
    ax.set_xticks([0, steps / 2, steps])
    ax.set_yticks([*(whole := np.arange(0, most - 0.1, 0.5)), most], [*(f"{one:g}" for one in whole), "log K"])
    ax.tick_params(axis="y", length=0)
    reads(ax, y="entropy")
    ax.axhline(most, color=theme.FAILURE, linewidth=1.2, zorder=1)
    ax.axhline(0, color=theme.MUTED, linewidth=1.2, zorder=1)
    style: dict[str, Any] = {"size": theme.SMALL_SIZE, "va": "center"}
    ax.text(
        0.02 * steps,
        1.035 * most,
        f"log {values['clusters']} = {most:.2f}: nobody specialises",
        color=theme.FAILURE,
        **style,
    )
    ax.text(0.02 * steps, -0.042 * most, "0: each has one cluster", color=theme.MUTED, **style)


def draw_entropy(ax: Axes, now: Record) -> None:
    labels = []
    for name, style, width in reversed(list(zip(now.names, STYLES, (2.6, 2.0), strict=True))):
        steps, values = now.curve("dispatch_entropy", name)
        dashes: dict[str, Any] = {} if style is theme.MODEL else {"dashes": (3, 1.5)}
        end = trials_and_median(ax, steps, values, style, f"{name} experts", SHOWN, linewidth=width, **dashes)
        labels.append((end, f"{name}\n{number(end)}", style.colour))
    ends(ax, labels[::-1])


def _thick(values: Mapping[str, Any]) -> str:
    trials = values["trials"]
    if trials > MOST_LINES:
        return f"median, half, 90 % of {trials:,} trials; thin: trial {SHOWN + 1}"
    return f"thick: median of {trials} trials; firm thin line: trial {SHOWN + 1}" if trials > 1 else "the one trial"


# ---- panel 3: test accuracy ----


def lowest_accuracy(values: Mapping[str, Any]) -> float:
    """Returns where the accuracy axis begins: at 90 % where experts can specialise, else at 50 %."""
    hopeless = values["experts"] < values["clusters"] or values["router_learning_rate"] < 2 or values["samples"] < 1000
    return 0.5 if hopeless or values["noise"] > 2 or values["gamma"] > 2 else 0.9


def furnish_accuracy(ax: Axes, values: PanelValues) -> None:
    low = values.of(lowest_accuracy)
    ax.set(xlim=(0, 1), ylim=(low, low + 1.03 * (1 - low)))
    ax.set_xticks([])
    ax.set_yticks(np.linspace(low, 1, 6))
    percents(ax.yaxis)
    ax.hlines(np.linspace(low, 1, 6)[1:], 0, 1, color=theme.RULE, linewidth=0.6, zorder=0.5)
    reads(ax, y="accuracy")
    note(ax, -42, 60, "▼ below the axis", under=True)
    note(ax, -42, 77, f"✖ fell {100 * FALL:.0f} points from its best", theme.FAILURE, under=True)


def draw_accuracy(ax: Axes, now: Record) -> None:
    low, high = ax.get_ylim()
    edge: dict[str, Any] = {
        "markeredgecolor": theme.PAPER,
        "markeredgewidth": 0.7,
        "linestyle": "none",
        "clip_on": False,
    }
    for place, name, style in zip((0.25, 0.75), now.names, STYLES, strict=True):
        last = now.last("test_accuracy", name)
        marked = few(last)
        shown, fallen = np.maximum(last[marked], low), collapsed(now, name)[marked]
        wide = min(9, 62 / max(len(marked) - 1, 1)) / (ax.get_position().width * 1100)
        x = place + wide * swarm(shown, 8 / (ax.get_position().height * 480) * (high - low))
        below, label = last[marked] < low, f"{name} experts, a trial"
        for which, marker, colour, size in (
            (~fallen & ~below, style.marker, style.colour, 7.5),
            (below & ~fallen, "v", style.colour, 8),
            (fallen, "X", theme.FAILURE, 9),
        ):
            if which.any():
                line(
                    ax,
                    x[which],
                    shown[which],
                    marker=marker,
                    color=colour,
                    markersize=size,
                    zorder=4,
                    label=label,
                    **edge,
                )
        center = middle(last)
        if center >= low:
            line(
                ax,
                [place - 0.22, place + 0.22],
                [center] * 2,
                color=style.colour,
                linewidth=3,
                zorder=2,
                clip_on=False,
                label=f"{name} experts, median",
            )
        write(ax, place, low, [name], style.colour, bold=True, down=16)
        write(ax, place, low, [percent(center, 1)], style.colour, bold=True, down=37)


def collapsed(now: Record, name: str) -> NDArray[np.bool_]:
    """Returns (trial,) whether the accuracy has fallen `FALL` below its best."""
    accuracy = now.curve("test_accuracy", name)[1]
    if not len(accuracy):
        return np.zeros(now.trials, dtype=bool)
    best = np.fmax.accumulate(accuracy, axis=0)[-1]
    return np.asarray((best >= FOUND) & (best - accuracy[-1] >= FALL))


def _marks(values: Mapping[str, Any]) -> str:
    trials = values["trials"]
    each = "a mark for each of" if trials <= MOST_LINES else f"a mark: a {MOST_LINES}th of"
    return f"{each} {trials:,} trials,\nbar: their median" if trials > 1 else "the one trial"


# ---- words ----


def number(value: float) -> str:
    """Returns an entropy in words, without a minus before a rounded zero."""
    return f"{abs(value) if abs(value) < 0.005 else value:.2f}" if np.isfinite(value) else "–"


def caption(now: Record) -> str:
    clusters, experts = now["dispatch"].shape[1:]
    if now.step == 0:
        why = "there is one expert" if experts == 1 else "all scores of the router are 0"
        most = f"log {clusters} = {np.log(clusters):.2f}"
        return f"Expert 1 gets every sample, because {why}. The entropy is {most}: nobody specialises."
    work = carriers(now)
    who = (
        f"Expert {np.flatnonzero(work)[0] + 1} alone carries all {clusters} clusters."
        if work.sum() == 1
        else f"{work.sum()} of {experts} experts carry the {clusters} clusters."
    )
    failure = _failure(now, clusters, experts) if now.ended else ""
    return f"{who} {_compared(now)}{failure}{spread_words(now.trials)}"


def _compared(now: Record) -> str:
    """Returns a sentence on both models' median entropies and accuracies."""
    medians = {
        name: [middle(now.last(measure, name)) for measure in ("dispatch_entropy", "test_accuracy")]
        for name in now.parts
    }
    entropies, accuracies = (list(values) for values in zip(*medians.values(), strict=True))
    parts = (f"{number(entropy)} with {name} experts" for name, (entropy, _) in medians.items())
    text = f"Median entropy: {', '.join(parts)}"
    if min(accuracies) >= GOOD and min(entropies) <= LOW and max(entropies) - min(entropies) >= APART:
        return f"{text}, although both are right in at least {np.floor(100 * min(accuracies)):.0f} %."
    return f"{text}. Accuracy: {', '.join(percent(share, 1) for share in accuracies)}."


def _failure(now: Record, clusters: int, experts: int) -> str:
    """Returns what keeps the experts from specialising, where it is known."""
    fallen = collapsed(now, now.names[0])
    if fallen.any():
        return f" In {fallen.sum()} of {now.trials} trials experts had divided the clusters and lost them again."
    if 1 < experts < clusters:
        least = f"log({clusters}/{experts}) = {np.log(clusters / experts):.2f}"
        return f" With {experts} experts for {clusters} clusters the entropy cannot fall below {least}."
    return " The router has not moved at all." if experts > 1 and not np.nan_to_num(now["router_center"]).any() else ""


SpecializationLab = lab(
    "Specialisation",
    name="SpecializationLab",
    knobs=KNOBS,
    runs=runs,
    seconds=seconds,
    measures={"test_accuracy": "", "dispatch_entropy": "entropy"},
    panels=(
        Panel(
            "Who serves which cluster", draw_tables, furnish_tables, width=545, margins=(84, 13, 64, 59), rows=2, gap=33
        ),
        Panel("Dispatch entropy", draw_entropy, furnish_entropy, _thick, width=335, margins=(49, 94, 84, 60)),
        Panel("Test accuracy", draw_accuracy, furnish_accuracy, _marks, width=220, margins=(58, 12, 84, 94)),
    ),
    caption=caption,
    stories=STORIES,
    diverged="The loss of the {name} experts became infinite in {trials}: try smaller steps.",
)
