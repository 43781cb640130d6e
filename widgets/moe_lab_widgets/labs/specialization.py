"""SpecializationLab: nonlinear experts divide the clusters among them, live, beside linear experts that share them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing.marks import (
    Cells,
    Curves,
    Ends,
    Key,
    Level,
    Mark,
    Note,
    Scales,
    Swarm,
    Table,
    Writing,
    first_true,
    middle,
)
from moe_lab.drawing.words import Words, either, say
from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.training import ClusterTraining
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import larger, median_of, spread_note, trial_words
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.engine.goal import Question, Sketch, ends_of
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.labs.specialization_goals import GOALS
from moe_lab_widgets.labs.specialization_stories import STORIES
from moe_lab_widgets.live.declare import LivePage

FIRST_FILTERS = 8e-4
"""sigma_0: first filters so small that one can watch the clusters being divided (from .01 it is done in 10 steps)."""
IDLE, SHOWN = 0.01, 0
"""Share of the samples below which an expert is called idle; the trial whose tables are drawn."""
FALL, FOUND = 0.03, 0.95
"""How far a collapsed trial lies below its best accuracy, and what that must have been."""
LOW, APART, GOOD = 0.3, 0.2, 0.9
"""An entropy this low, another higher by this, both accuracies this high: then accuracy hides it, says the caption."""
STYLES = (("model", 2.6), ("other", 2.0))
"""Style and width of the model under study, and of the one beside it."""
SIGNALS = tuple(f"signal v{number}" for number in "₁₂₃₄₅₆₇₈₉")

# ---- knobs, and the two runs that their values describe ----


def _routed(values: Mapping[str, Any]) -> bool:
    return bool(values["experts"] > 1)


KNOBS = (
    offer(SwitchMoE, "experts", main=True,
          effect="More experts among whom the router chooses."),
    offer(ClusterTask, "clusters", main=True, meaning="clusters",
          effect="More kinds of samples, each with a signal of its own, for the experts to divide."),
    offer(ClusterRun, "samples", main=True, meaning="training samples", default=2000, slider=(200, 6000, 200),
          far=16_000, effect="More samples teach the signals rather than the noise, and make steps slower."),
    offer(ClusterTask, "noise", main=True, symbol="σ_p", meaning="noise patches",
          enabled_when=lambda v: v["patches"] > 3,
          effect="Longer noise hides the signals.",
          applies="only where samples have noise patches (P of at least 4)"),
    offer(SwitchMoE, "activation", main=True, symbol="σ", meaning="experts' activation",
          effect="What a filter does with its product: keeps it, bends it, or takes its cube."),
    offer(SwitchMoE, "router_learning_rate", main=True, symbol="η_r", meaning="router's rate",
          enabled_when=_routed,
          effect="A faster router follows the experts sooner. At 0 it stays as it is.",
          applies="only with more than one expert"),
    offer(SwitchMoE, "router_noise", main=True, meaning="router's noise", enabled_when=_routed,
          effect="More noise gives every expert samples at first.", applies="only with more than one expert"),
    offer(SwitchMoE, "load_balancing", main=True, symbol="λ", meaning="load balancing", enabled_when=_routed,
          effect="A larger weight makes the router send all experts about equally many samples.",
          applies="only with more than one expert"),
    LabKnob(name="gamma", symbol="γ", meaning="largest feature noise", default=2.0, low=0.5, slider=(0.5, 4.0, 0.25),
            effect="Signals of other clusters, which mislead in a sample, may be this strong."),
    offer(SwitchMoE, "filters", meaning="filters per expert", default=8, slider=(1, 16, 1),
          effect="Each expert can represent more, and each step takes longer."),
    offer(SwitchMoE, "learning_rate", symbol="η", meaning="length of experts' steps",
          effect="Longer steps learn sooner, but an expert that is right still takes them."),
    LabKnob(name="steps", symbol="S", meaning="training steps", default=400, low=1, slider=(50, 1000, 50),
            effect="A longer run. Steps keep their length."),
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


def longest(values: MarkValues) -> Tensor:
    """Returns the length of all steps of an expert together, which no product can exceed by more than its start."""
    return values.number("learning_rate") * values.number("steps")


def table_axes(values: MarkValues) -> Iterator[list[Mark]]:
    shape = values.number("clusters"), values.number("experts")
    sent = say("share of a cluster sent to an expert (test samples)")
    yield [Table("cluster {}", "expert {}", shape), Note(sent, -58, -14, under=False), Key(100, "%")]
    learned = say("largest |⟨filter, signal⟩| of an expert (at most η S)")
    under = say(f"expert (grey: idle, under 1 % of the samples)   {values['activation']} experts, ")
    yield [
        Table(SIGNALS, "expert {}", shape),
        Note(learned, -58, -14, under=False),
        Key(longest(values)),
        Note(under + trial_words(SHOWN, values), -58, 35),
    ]


def tables(now: MarkRecord) -> Iterator[list[Mark]]:
    sent = now.last("dispatch")[SHOWN].nan_to_num()  # (cluster, expert)
    shares = sent / sent.sum(1, keepdim=True).clamp(min=1)
    yield [Cells(shares, 100 * shares, ("{:.0f}",), least=0.5)]
    learned, most = now.last("expert_feature")[SHOWN].nan_to_num().mT, longest(now.values)
    below = now.values.number("clusters") - 0.5
    yield [
        Cells(learned / most, learned, ("{:.1s}",), least=0.05 * most),
        Writing(0, below, size=11, down=15, each=carriers(now)),
    ]


def carriers(now: MarkRecord) -> Tensor:
    """Returns (expert,) which experts get more than a hundredth of the test samples in the trial on show."""
    return now.last("expert_load")[SHOWN].nan_to_num() >= IDLE


# ---- panel 2: dispatch entropy ----


def entropy_axes(values: MarkValues) -> Iterator[list[Mark]]:
    clusters, steps = values.number("clusters"), values.number("steps")
    most = clusters.log()
    halves = torch.arange(12) / 2
    whole = torch.where(halves < most - 0.1, halves, torch.nan)
    looks: dict[str, Any] = {"align": "left", "size": 9.5}
    highest = say("log {:.0f} = {:.2f}: nobody specialises", clusters, most)
    yield [
        Scales(
            (0, steps), (-0.09 * most, 1.06 * most), (0, steps / 2, steps), (*whole, most), "training step",
            y_reads="entropy", last_y="log K",
        ),
        Level(most, "failure"),
        Level(0, "muted"),
        Writing(0.02 * steps, 1.035 * most, highest, "failure", **looks),
        Writing(0.02 * steps, -0.042 * most, say("0: each has one cluster"), "muted", **looks),
    ]  # fmt: skip


def entropy(now: MarkRecord) -> Iterator[list[Mark]]:
    curves = [
        Curves(*now.curve("dispatch_entropy", name), style, f"{name} experts", width)
        for name, (style, width) in zip(now.names, STYLES, strict=True)
    ]
    ends = [median_of(now, "dispatch_entropy", name) for name in now.names]
    words = [say(f"{name}\n{{:.2f}}", without_sign(end)) for name, end in zip(now.names, ends, strict=True)]
    yield [*curves[::-1], Ends(ends, words, [style for style, _ in STYLES])]


def entropy_note(values: MarkValues) -> Words:
    trials = values.number("trials")
    few = say(
        f"thick: median of {{:.0f}} trials; firm thin line: trial {SHOWN + 1}", trials,
        when=trials > 1, instead=say("the one trial"),
    )  # fmt: skip
    many = f"median, half, 90 % of {{:,.0f}} trials; thin: trial {SHOWN + 1}"
    return say(many, trials, when=trials > MOST_LINES, instead=few)


# ---- panel 3: test accuracy ----


def lowest_accuracy(values: MarkValues) -> Tensor:
    """Returns where the accuracy axis begins: at 90 % where experts can specialise, else at 50 %."""
    hard = values.number("experts") < values.number("clusters")
    hard = hard | (values.number("router_learning_rate") < 2) | (values.number("samples") < 1000)
    hard = hard | (values.number("noise") > 2) | (values.number("gamma") > 2)
    return 0.9 - 0.4 * hard.to(torch.float64)


def accuracy_axes(values: MarkValues) -> Iterator[list[Mark]]:
    low = values.of(lowest_accuracy)
    ticks = [low + (1 - low) * part / 5 for part in range(6)]
    yield [
        Scales((0, 1), (low, low + 1.03 * (1 - low)), (), ticks, y_reads="accuracy", percent="y"),
        *(Level(tick, "rule") for tick in ticks[1:]),
        Note(say("▼ below the axis"), -42, 60),
        Note(say(f"✖ fell {100 * FALL:.0f} points from its best"), -42, 77, "failure"),
    ]


def accuracy(now: MarkRecord) -> Iterator[list[Mark]]:
    low, drawn = lowest_accuracy(now.values), list[Mark]()
    for place, name, (style, _) in zip((0.25, 0.75), now.names, STYLES, strict=True):
        last = now.last("test_accuracy", name)
        looks: dict[str, Any] = {"style": style, "bold": True}
        drawn += [
            Swarm(place, last, collapsed(now, name), style, f"{name} experts"),
            Writing(place, low, say(name), down=16, **looks),
            Writing(place, low, say("{:.1%}", middle(last)), down=37, **looks),
        ]
    yield drawn


def collapsed(now: MarkRecord, name: str) -> Tensor:
    """Returns (trial,) whether the accuracy has fallen `FALL` below its best."""
    best = now.curve("test_accuracy", name)[1].nan_to_num(-1).amax(0)
    return (best >= FOUND) & (best - now.last("test_accuracy", name) >= FALL)


def accuracy_note(values: MarkValues) -> Words:
    trials = values.number("trials")
    each = say("a mark for each of", when=trials <= MOST_LINES, instead=say(f"a mark: a {MOST_LINES}th of"))
    several = each + say(" {:,.0f} trials,\nbar: their median", trials)
    return say("the one trial", when=trials == 1, instead=several)


# ---- words ----


def without_sign(value: Tensor) -> Tensor:
    """Returns an entropy without the sign of a rounded zero."""
    return torch.where(value.abs() < 0.005, value.abs(), value)


def caption(now: MarkRecord) -> Words:
    clusters, experts = now.values.number("clusters"), now.values.number("experts")
    work = carriers(now)
    alone = say("Expert {:.0f} alone carries all {:.0f} clusters. ", first_true(work), clusters)
    count = work.sum()
    who = say(
        "{:.0f} of {:.0f} experts carry the {:.0f} clusters. ", count, experts, clusters, when=count != 1, instead=alone
    )
    begun = say("Expert 1 gets every sample, because ")
    begun += say("there is one expert", when=experts == 1, instead=say("all scores of the router are 0"))
    begun += say(". The entropy is log {:.0f} = {:.2f}: nobody specialises.", clusters, clusters.log())
    return (
        say("", when=~now.first, instead=begun)
        + _said_later(now, who)
        + _said_later(now, _compared(now))
        + _said_later(now, say("", when=~now.ended, instead=_failure(now, clusters, experts)))
        + _said_later(now, spread_note(now))
    )


def _said_later(now: MarkRecord, words: Words) -> Words:
    """Returns words that are not said of the first record."""
    return say("", when=now.first, instead=words)


def _compared(now: MarkRecord) -> Words:
    """Returns a sentence on both models' median entropies and accuracies."""
    entropies = torch.stack([median_of(now, "dispatch_entropy", name) for name in now.names])
    accuracies = torch.stack([median_of(now, "test_accuracy", name) for name in now.names])
    parts = ", ".join(f"{{:.2f}} with {name} experts" for name in now.names)
    least, apart = accuracies.min(), entropies.max() - entropies.min()
    hidden = (least >= GOOD) & (entropies.min() <= LOW) & (apart >= APART)
    both = say(", although both are right in at least {:.0f} %.", (100 * least).floor())
    each = say(". Accuracy: {:.1%}, {:.1%}.", *accuracies, when=~hidden, instead=both)
    return say(f"Median entropy: {parts}", *map(without_sign, entropies)) + each


def _failure(now: MarkRecord, clusters: Tensor, experts: Tensor) -> Words:
    """Returns what keeps the experts from specialising, where it is known."""
    still = now.last("router_center").nan_to_num().abs().amax() == 0
    unmoved = say(" The router has not moved at all.", when=(experts > 1) & still)
    few = say(
        " With {:.0f} experts for {:.0f} clusters the entropy cannot fall below log({:.0f}/{:.0f}) = {:.2f}.",
        *(experts, clusters, clusters, experts, (clusters / experts).log()),
        when=(experts > 1) & (experts < clusters),
        instead=unmoved,
    )
    fallen = collapsed(now, now.names[0]).sum()
    lost = " In {:.0f} of {:,.0f} trials experts had divided the clusters and lost them again."
    return say(lost, fallen, now.values.number("trials"), when=fallen > 0, instead=few)


def _by_kind(now: MarkRecord, measure: str) -> tuple[Tensor, Tensor]:
    """Returns the medians of a measure, of the nonlinear experts and of the linear ones."""
    bent = next(name for name in now.names if name != "linear")
    return median_of(now, measure, bent), median_of(now, measure, "linear")


def _entropies(now: MarkRecord) -> tuple[Tensor, Tensor]:
    return _by_kind(now, "dispatch_entropy")


def divided_more(now: MarkRecord) -> Tensor:
    """Returns whose dispatch entropy is lower: 0 of the nonlinear experts, 1 of the linear ones, 2 of neither."""
    bent, straight = _entropies(now)
    return larger(straight, bent, APART)


def seen(now: MarkRecord) -> Words:
    which, entropies = divided_more(now), map(without_sign, _entropies(now))
    one = either(which == 0, say("the nonlinear experts have divided the clusters more"),
                 say("the linear experts have divided the clusters more"))  # fmt: skip
    result = either(which == 2, say("both have divided the clusters about as much"), one)
    return result + say(
        ": the dispatch entropy is {:.2f} with nonlinear experts and {:.2f} with linear ones", *entropies
    )


QUESTION = Question(
    "Predict before you run: at the end, which experts will have divided the clusters among them more?",
    ("the nonlinear experts", "the linear experts", f"about the same (entropies within {APART:g})"),
    divided_more,
    seen,
    Sketch(1, ("nonlinear", "linear"), ("model", "other"), ends_of(_entropies), near=0.15, percent=False),
)

LIVE = LivePage(
    numbers={
        "experts": (5, 6, 9), "clusters": (3, 4, 6), "samples": (21, 22, 30), "trials": (3, 4, 2),
        "filters": (4, 6, 2), "patches": (5, 6, 9), "dimension": (20, 22, 31), "noise": (1.0, 1.5, 0.75),
        "gamma": (2.0, 1.0, 4.0), "router_learning_rate": (10.0, 8.0, 3.0),
        "router_noise": (1.0, 0.5, 2.0), "load_balancing": (0.01, 0.02, 0.1),
        "learning_rate": (0.01, 0.02, 0.005), "steps": (400, 300, 100),
    },
    choices={"activation": ("cubic", "linear", "relu")},
    missing=("Other activations need Python.",),
    restricted=(("clusters", "dimension"), ("filters", "activation")),
)  # fmt: skip
"""How the Lab is recorded for a page."""

SpecializationLab = lab(
    "Specialisation",
    name="SpecializationLab",
    about="A mixture of cubic experts and one of linear experts on the same samples, step by step.",
    knobs=KNOBS,
    runs=runs,
    page=LIVE,
    training=ClusterTraining,
    seconds=seconds,
    measures={"test_accuracy": "", "dispatch_entropy": "entropy"},
    panels=(
        mark_panel(
            "Who serves which cluster",
            tables,
            table_axes,
            width=545,
            margins=(84, 13, 64, 59),
            rows=2,
            gap=33,
        ),
        mark_panel("Dispatch entropy", entropy, entropy_axes, entropy_note, width=335, margins=(49, 94, 84, 60)),
        mark_panel("Test accuracy", accuracy, accuracy_axes, accuracy_note, width=220, margins=(58, 12, 84, 94)),
    ),
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged="The loss of the {name} experts became infinite in {trials}: try smaller steps.",
)
