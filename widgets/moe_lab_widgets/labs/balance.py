"""BalanceLab: one expert begins with a lead and takes everything; four ways to balance the load act beside it."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing.marks import (
    Cells,
    Curves,
    Ends,
    Level,
    Lines,
    Mark,
    Note,
    Scales,
    Table,
    Title,
    middle,
)
from moe_lab.drawing.words import Words, say
from moe_lab.specialization import ClusterRun, ClusterTask, TopKMoE
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.topk import BALANCINGS
from moe_lab.specialization.training import ClusterTraining
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once
from moe_lab_widgets.drawing.mark_words import larger, of_three, spread_note, trial_words
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.engine.goal import Question, Sketch, ends_of
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.labs.balance_goals import GOALS
from moe_lab_widgets.labs.balance_stories import STORIES
from moe_lab_widgets.live.declare import LivePage

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
          effect="Balancing counts more beside the task."),
    offer(TopKMoE, "lead", main=True, symbol="h₀", meaning="lead of expert 1", default=4.0,
          effect="The router prefers expert 1 more strongly at first."),
    offer(TopKMoE, "experts", main=True, meaning="experts",
          effect="More experts to keep busy."),
    offer(TopKMoE, "experts_per_sample", main=True, meaning="experts per sample", slider=(1, 4, 1),
          effect="Each sample goes to more experts, at more compute."),
    offer(TopKMoE, "router_noise", main=True, meaning="router's noise",
          effect="More noise gives weaker experts samples in training."),
    offer(ClusterRun, "samples", main=True, meaning="training samples", default=1000, slider=(100, 2000, 100),
          effect="More samples teach the signals rather than the noise, and make steps slower."),
    offer(TopKMoE, "activation", symbol="σ", meaning="experts' activation", default="linear",
          effect="What a filter does with its product: keeps it, bends it, or takes its cube."),
    LabKnob(name="expert_steps", meaning="experts' steps", default=EQUAL, choices=STEPS,
            words={EQUAL: "of equal length", GRADIENT: "as long as the gradient"},
            effect="All steps have one length, or each is as long as the gradient."),
    offer(TopKMoE, "shared", symbol="K_s", meaning="shared experts",
          effect="Experts that get every sample without a router."),
    offer(TopKMoE, "router_learning_rate", symbol="η_r", meaning="router's learning rate",
          effect="A faster router follows the experts sooner. At 0 it stays as it is."),
    offer(ClusterTask, "clusters", meaning="clusters",
          effect="More kinds of samples, each with a signal of its own, for the experts to divide."),
    offer(ClusterTask, "imbalance", symbol="ρ", meaning="size ratio of clusters",
          effect="Clusters differ more in size."),
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


def pair(values: MarkValues) -> tuple[str, str]:
    """Returns the two mixtures on show: the one without balancing, and the one that is compared with it."""
    return NONE, values["balancing"]


def titles(values: MarkValues) -> tuple[Words, Words]:
    """Returns the headings of the two."""
    return say("no balancing"), say(NAMES[values["balancing"]])


# ---- panel 1: the load of each expert ----


def load_axes(values: MarkValues) -> Iterator[list[Mark]]:
    steps, equal = values.number("steps"), 1 / values.number("experts")
    for title, name in zip(titles(values), ("", "training step"), strict=True):
        looks: dict[str, Any] = {"x_reads": "step", "y_reads": "load", "percent": "y", "x_name": name}
        yield [Scales((0, steps), (0, 1.04), (0, steps), (0, 0.5, 1), **looks), Level(equal), Title(title, 30)]


def loads(now: MarkRecord) -> Iterator[list[Mark]]:
    for name in pair(now.values):
        steps, load = now.curve("expert_load", name)
        yield [Lines(steps, load[:, SHOWN], "an expert")]


# ---- panel 2: who gets which cluster ----


def table_axes(values: MarkValues) -> Iterator[list[Mark]]:
    shape = values.number("clusters"), values.number("experts")
    looks: dict[str, Any] = {"numbered": True, "widest": 72, "highest": 44}
    for title, below in zip(titles(values), ("", "expert"), strict=True):
        yield [Table("cluster {}", "expert {}", shape, below=below, **looks), Title(title, 60)]


def tables(now: MarkRecord) -> Iterator[list[Mark]]:
    for name in pair(now.values):
        sent = now.last("dispatch", name)[SHOWN].nan_to_num()  # (cluster, expert)
        shares = sent / sent.sum(1, keepdim=True).clamp(min=1)
        yield [Cells(shares, 100 * shares, ("{:.0f}",), least=0.5, size=9.5)]


# ---- panel 3: what comes out ----

STYLES = (("other", 2.0), ("model", 2.6))
"""Style and width of the curve without balancing, and of the one beside it."""
COLUMNS = ("accuracy", "worth", "own cluster")
FORMS = ("{:.1%}", "{:.1f}", "{:.1%}")


def outcome_axes(values: MarkValues) -> Iterator[list[Mark]]:
    steps = values.number("steps")
    yield [Scales((0, steps), (0.5, 1.02), (0, steps), (0.5, 0.75, 1), x_reads="step", y_reads="accuracy", percent="y")]
    heads = say(COLUMNS[0]), say("worth (of {:.0f})", values.number("experts")), say(COLUMNS[2])
    firm = [float(name in pair(values)) for name in NAMES]
    yield [
        Table(tuple(NAMES.values()), COLUMNS, (len(NAMES), len(COLUMNS)), heads, firm=firm, widest=96),
        Note(say("worth: equally loaded experts with the same entropy"), -82, 12),
        Note(say("own cluster: share of an expert's most frequent cluster"), -82, 26),
    ]


def outcome(now: MarkRecord) -> Iterator[list[Mark]]:
    shown = pair(now.values)
    curves = [
        Curves(*now.curve("test_accuracy", name), style, NAMES[name], width)
        for name, (style, width) in zip(shown, STYLES, strict=True)
    ]
    ends = [medians(now, name)[0] for name in shown]
    words = [say(f"{NAMES[name]}\n{FORMS[0]}", end) for name, end in zip(shown, ends, strict=True)]
    yield [*curves, Ends(ends, words, [style for style, _ in STYLES], apart=0.3)]
    numbers = torch.stack([medians(now, name) for name in NAMES])
    whole = torch.stack((torch.ones(()), now.values.number("experts"), torch.ones(())))
    yield [Cells((numbers / whole).nan_to_num(), numbers, FORMS)]


@once
def medians(now: MarkRecord, name: str) -> Tensor:
    """Returns accuracy, experts' worth and own cluster of a run, medians over the trials."""
    measures = now.last("test_accuracy", name), worth(now, name), now.last("agreement", name)
    return middle(torch.stack(measures))


def worth(now: MarkRecord, name: str) -> Tensor:
    """Returns (trial,) the number of equally loaded experts whose load has the same entropy."""
    return now.last("load_entropy", name).exp()


# ---- words ----


def load_note(values: MarkValues) -> Words:
    return say("test samples, ") + trial_words(SHOWN, values) + say("; dashed: all alike")


def outcome_note(values: MarkValues) -> Words:
    count = values.number("trials")
    bands = say("bands: half, 90 % of {:,.0f}", count, when=count > MOST_LINES)
    several = say("thin: each of {:.0f} trials", count, when=(count > 1) & (count <= MOST_LINES))
    several += say(", thick: median", when=count > 1, instead=say("the one trial"))
    return say("test accuracy; ") + bands + several


def diverged(name: str, trials: str) -> str:
    words = "without balancing" if name == NONE else f"with {NAMES[name]}"
    return f"The loss {words} became infinite in {trials}: try a smaller rate of the router."


def caption(now: MarkRecord) -> Words:
    experts, (none, other) = now.values.number("experts"), pair(now.values)
    first, then = medians(now, none), medians(now, other)
    begun = say("The load is worth {:.1f} of {:.0f} experts, and nobody has learned anything.", first[1], experts)
    compared = say(
        "Without balancing {:.1%} of the test samples are right and the load is worth {:.1f} of {:.0f} experts; "
        f"with {SENTENCE[other]} it is {{:.1%}} and {{:.1f}}.",
        *(first[0], first[1], experts, then[0], then[1]),
        when=~now.first,
        instead=begun,
    )
    return compared + say("", when=now.first, instead=spread_note(now))


PANELS = (
    mark_panel(
        "Load of each expert", loads, load_axes, load_note,
        width=330, margins=(56, 48, 86, 42), rows=2, gap=56,
    ),
    mark_panel(
        "Who gets which cluster", tables, table_axes, "percent of a cluster's assignments that an expert gets",
        width=376, margins=(78, 8, 86, 48), rows=2, gap=62,
    ),
    mark_panel(
        "What comes out", outcome, outcome_axes, outcome_note,
        width=394, margins=(100, 112, 86, 42), rows=(136, 130), gap=54,
    ),
)  # fmt: skip

SAME = 0.01
"""How far apart accuracies are that the page calls about the same."""


def _accuracies(now: MarkRecord) -> tuple[Tensor, Tensor]:
    none, other = pair(now.values)
    return medians(now, none)[0], medians(now, other)[0]


def right_more_often(now: MarkRecord) -> Tensor:
    """Returns which of the mixtures on show is right more often: 0 without balancing, 1 with it, 2 neither."""
    return larger(*_accuracies(now), SAME)


def seen(now: MarkRecord) -> Words:
    first, then = _accuracies(now)
    result = of_three(
        right_more_often(now),
        say("balancing makes it wrong more often"),
        say("balancing makes it right more often"),
        say("balancing hardly changes how often it is right"),
    )
    return result + say(
        f": {{:.1%}} of the test samples without, {{:.1%}} with {SENTENCE[now.values['balancing']]}", first, then
    )


QUESTION = Question(
    "Predict before you run: at the end, which mixture will be right more often?",
    ("without balancing", "with the balancing on show", f"about the same (within {100 * SAME:.0f} point)"),
    right_more_often,
    seen,
    Sketch(2, ("without", "with balancing"), ("other", "model"), ends_of(_accuracies), near=0.02),
)

LIVE = LivePage(
    numbers={
        "experts": (7, 5, 9), "clusters": (3, 4, 6), "samples": (21, 22, 30), "trials": (3, 4, 2),
        "filters": (4, 6, 2), "experts_per_sample": (2, 3, 3), "strength": (0.1, 0.03, 1.0),
        "lead": (4.0, 2.0, 0.5), "router_noise": (1.0, 0.5, 2.0), "steps": (400, 300, 100),
        "router_learning_rate": (10.0, 8.0, 3.0),
    },
    choices=[
        *(
            {"experts_per_sample": each, "expert_steps": steps, "activation": activation, "shared": 0}
            for each in ((1, 1), (2, 4)) for steps in STEPS for activation in ("linear", "cubic")
        ),
        {"experts_per_sample": (1, 1), "expert_steps": EQUAL, "activation": "linear", "shared": 1},
    ],
    fixed={"imbalance": 1.0},
    missing=("Other activations, several shared experts and clusters of different sizes need Python.",),
    restricted=(("experts_per_sample", "experts"),),
)  # fmt: skip
"""How the Lab is recorded for a page."""

BalanceLab = lab(
    "Balance and collapse",
    name="BalanceLab",
    about="Five mixtures on the same samples from the same start: without balancing, with three losses, with a bias.",
    knobs=KNOBS,
    runs=runs,
    page=LIVE,
    training=ClusterTraining,
    records=40,
    seconds=seconds,
    slowest=0.08,
    measures={"test_accuracy": "", "load_entropy": "entropy of the load"},
    panels=PANELS,
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged=diverged,
)
