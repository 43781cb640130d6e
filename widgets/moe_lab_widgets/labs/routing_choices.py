"""RoutingChoicesLab: who gets which patches, which patches are lost, and what that costs, live at equal compute.

One routing is in the sliders' hands; beside it run four others with as many places for each expert. The task is the
synthetic patches of pmoe2023: one patch of each sample decides its class.
"""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.drawing.marks import Cells, Curves, Ends, Heads, Level, Mark, Scales, Stacks, Table, chosen, middle
from moe_lab.drawing.patch_marks import Places, PlaceTable
from moe_lab.drawing.words import Words, either, say
from moe_lab.patch_routing import PatchRun, PatternTask, RoutedMoE, train_batch
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.routing_rows import ROWS, STEP_SIZE
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import larger, median_of, of_three, whole_passes
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.engine.goal import Question, Sketch, ends_of
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.labs.routing_choices_goals import GOALS
from moe_lab_widgets.labs.routing_choices_stories import STORIES
from moe_lab_widgets.live.declare import Derived, LivePage

STUDY = "chosen"
"""The model whose routing the sliders describe."""
BESIDE = ("expert choice", "token choice", "soft MoE", "hash")
"""The rows of comparison, with as many places for each expert."""
MODELS = (STUDY, *BESIDE)
SHARED = ("experts", "capacity_factor", "neurons", "learning_rate")
"""What the rows of comparison have in common with the chosen model."""
TEST_SAMPLES = 200
SHOWN = 0
"""The trial whose examples and loads are drawn."""
ROUTING_WORDS = {"expert-choice": "experts", "token-choice": "patches", "soft": "nobody (soft)", "hash": "a hash"}
GATE_WORDS = {
    "softmax": "softmax after",
    "softmax-before": "softmax before",
    "sigmoid": "sigmoid",
    "sigmoid-normalised": "sigmoid / sum",
}

# ---- knobs, and the five runs that their values describe ----


def _scored(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("expert-choice", "token-choice")


def _by_patches(values: Mapping[str, Any]) -> bool:
    return bool(values["routing"] == "token-choice")


def _asking(values: Mapping[str, Any]) -> bool:
    return values["routing"] in ("token-choice", "hash")


KNOBS = (
    offer(RoutedMoE, "routing", main=True, meaning="who chooses", words=ROUTING_WORDS,
          effect="Experts take patches, patches ask experts, all patches are mixed, or a hash decides."),
    offer(RoutedMoE, "experts_per_patch", main=True, meaning="experts per patch", enabled_when=_asking,
          effect="Each patch asks more experts for as many places.",
          applies="only where patches or a hash choose"),
    offer(RoutedMoE, "capacity_factor", main=True, meaning="places per patch",
          effect="More places: fewer patches are lost, at more compute."),
    offer(RoutedMoE, "gates", main=True, meaning="gates", default="softmax-before", words=GATE_WORDS,
          enabled_when=_scored,
          effect="How scores become weights: a softmax before or after the choice, or sigmoids.",
          applies="only where experts or patches choose"),
    offer(RoutedMoE, "order", main=True, meaning="who gets a place first", enabled_when=_by_patches,
          words={"arrival": "first come (arrival)", "priority": "highest score (priority)"},
          effect="Either the patches that come first in a sample, or those with the highest scores.",
          applies="only where patches choose"),
    offer(RoutedMoE, "experts", main=True, slider=None, choices=(2, 4, 8),  # that divide 40 neurons
          effect="As many places are spread over more experts, each with fewer of the neurons."),
    offer(PatternTask, "patches", main=True, meaning="patches per sample", slider=(8, 32, 1), far=64,
          effect="o hides among more patches; there are places for more, too."),
    offer(PatternTask, "noise", main=True, symbol="", meaning="noise on each patch",
          effect="More noise hides the patterns from experts and routers."),
    offer(RoutedMoE, "router_noise", symbol="σ", meaning="noise on scores", enabled_when=_scored,
          effect="More noise gives weak experts patches while the model trains.",
          applies="only where experts or patches choose"),
    offer(PatchRun, "samples", meaning="training samples", effect="More samples for all routings to learn from."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=120, low=1, slider=(20, 600, 20),
            effect="A longer run, in which slow ways to route can catch up."),
    offer(RoutedMoE, "learning_rate", symbol="η", meaning="learning rate", default=STEP_SIZE, slider=(5.0, 80.0, 5.0),
          effect="Faster and less steady steps."),
    offer(PatchRun, "trials", meaning="trials", default=4, far=1000, effect=MORE_TRIALS),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, PatchRun]:
    """Returns the run of the chosen routing, and those of the rows of comparison, on the same task."""
    chosen = config_from(RoutedMoE, values)
    shared = {name: getattr(chosen, name) for name in SHARED}
    models = {STUDY: chosen, **{name: ROWS[name].replace(**shared) for name in BESIDE}}
    task, epochs = config_from(PatternTask, values), steps(values) // steps_of_an_epoch(values)
    return {
        name: config_from(PatchRun, values, model=model, task=task, epochs=epochs, test_samples=TEST_SAMPLES)
        for name, model in models.items()
    }


def steps_of_an_epoch(values: Mapping[str, Any]) -> int:
    return int(-(-max(values["samples"], 1) // RoutedMoE().batch_size))


def steps(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take: whole passes over the data, at least as many as the slider says."""
    epoch = steps_of_an_epoch(values)
    return int(epoch * max(1, -(-values["steps"] // epoch)))


def begin(run: PatchRun, cache: dict[str, Any]) -> Iterator[Snapshot]:
    """Begins a run on the samples of the other runs, which are kept until other samples are needed."""
    key = (run.task, run.trials, run.seed, run.samples, run.test_samples, run.device)
    if cache.get("key") != key:
        cache.update(key=key, samples=samples_of([run]))
    return train_batch([run], cache["samples"])


# ---- panel 1: where the patches go ----

SIDES = ("class 1", "class 2")
NOTES = {
    "expert-choice": "full box: the expert takes the patch",
    "token-choice": "full box: the patch has a place; ×: it asked, but no place was left",
    "soft": "every patch goes to every expert; the darker, the larger its weight",
    "hash": "full box: it has a place; ×: the hash sent it, but no place was left",
}


def places_note(values: MarkValues) -> Words:
    which = f"one test sample of each class, trial {SHOWN + 1}; framed: what decides the class"
    return say(f"{which}\n{NOTES[values['routing']]}")


def places_axes(values: MarkValues) -> Iterator[list[Mark]]:
    shape = values.number("experts"), values.number("patches")
    for side, name, sign in zip(SIDES, theme.CLASS_NAMES, theme.CLASS_SIGNS, strict=True):
        yield [PlaceTable(shape, say(f"class {sign}: one patch is {name}"), side)]


def places(now: MarkRecord) -> Iterator[list[Mark]]:
    shown = {name: now.last(f"example_{name}")[SHOWN] for name in ("kept", "asked", "gates", "roles", "sides")}
    kept, asked = (shown[name].nan_to_num() > 0 for name in ("kept", "asked"))  # (class, expert, patch)
    weights = kept.to(torch.float64)
    if now.values["routing"] == "soft":
        gates = shown["gates"].nan_to_num()
        weights = gates / gates.amax().clamp(min=1e-12)
    for side in range(len(SIDES)):
        refused, lost = asked[side] & ~kept[side], ~kept[side].any(0)
        yield [Places(weights[side], refused, lost, side, shown["roles"][side], shown["sides"][side])]


# ---- panel 2: the load of the experts ----


def places_of(values: MarkValues) -> Tensor:
    """Returns C, the places of an expert."""
    patches = values.number("patches")
    exact = values.number("capacity_factor") * patches / values.number("experts")
    return (exact - 5e-10).ceil().clamp(min=1).clamp(max=patches)  # as `RoutedMoE.places` rounds


def load_axes(values: MarkValues) -> Iterator[list[Mark]]:
    patches, experts = values.number("patches"), values.number("experts")
    yield [
        Scales((-0.5, experts - 0.5), (0, patches), (), (0, (patches / 2).floor(), patches)),
        Level(places_of(values)),
        Heads(experts, 0, chosen(experts <= 4, 13, 11), down=16),
    ]


def load(now: MarkRecord) -> Iterator[list[Mark]]:
    taken, refused = (now.last(name)[SHOWN].nan_to_num() for name in ("places_taken", "turned_away"))
    yield [Stacks(taken, refused, ("expert {}: patches with a place", "expert {}: patches turned away"))]


# ---- panel 3: what comes out ----

LOOKS = {**{name: (f"other {number + 1}", 1.8) for number, name in enumerate(BESIDE)}, STUDY: ("model", 2.8)}
"""Style and width of every model's curve, from back to front."""
MEASURES = {"test_accuracy": "accuracy", "signal_kept": "o kept", "lost": "lost"}


def outcome_note(values: MarkValues) -> Words:
    trials, twin = values.number("trials"), twin_of(values)
    of = say("test accuracy, median of {:,.0f} trials;", trials)
    same = say("\nall of them have as many places")
    if twin is not None:
        same = either(twin[1], say(f"\n{STUDY} is the same as {twin[0]} now"), same)
    return either(trials > 1, of, say("test accuracy, one trial;")) + same


def twin_of(values: MarkValues) -> tuple[str, Tensor] | None:
    """Returns the row of comparison that the chosen model may be, and whether its numbers say so."""
    silent, asks_one = values.number("router_noise") == 0, values.number("experts_per_patch") == 1
    own = [values["routing"], *(values[name] for name in ("gates", "order") if _applies(name, values))]
    for name in BESIDE:
        row = ROWS[name]
        if own != [row.routing, *(getattr(row, knob) for knob in ("gates", "order") if _applies(knob, values))]:
            continue
        needs = {"expert choice": silent, "token choice": silent & asks_one, "hash": asks_one}
        return name, needs.get(name, torch.tensor(True))
    return None


def _applies(name: str, values: MarkValues) -> bool:
    return _scored(values.plain) if name == "gates" else _by_patches(values.plain)


def outcome_axes(values: MarkValues) -> Iterator[list[Mark]]:
    last = whole_passes(values, RoutedMoE().batch_size)
    yield [
        Scales(
            (0, last), (0.4, 1.01), (0, last), (0.5, 0.75, 1), "SGD step", x_pad=-9, y_reads="accuracy", percent="y"
        ),
        Level(0.5, "axis"),
    ]
    heads = tuple(map(say, MEASURES.values()))
    firm = [float(name == STUDY) for name in MODELS]
    yield [Table(MODELS, tuple(MEASURES.values()), (len(MODELS), len(MEASURES)), heads, firm=firm, widest=70)]


def outcome(now: MarkRecord) -> Iterator[list[Mark]]:
    curves: list[Mark] = []
    for name, (style, width) in LOOKS.items():
        steps, accuracy = now.curve("test_accuracy", name)
        curves.append(Curves(steps, middle(accuracy)[:, None], style, name, width))
    ends = [median_of(now, "test_accuracy", name) for name in LOOKS]
    styles = [style for style, _ in LOOKS.values()]
    yield [*curves, Ends(ends, tuple(map(say, LOOKS)), styles, 0.115, theme.SMALL_SIZE)]
    numbers = middle(torch.stack([torch.stack([now.last(measure, name) for measure in MEASURES]) for name in MODELS]))
    yield [Cells(numbers.nan_to_num(), numbers, ("{:.0%}",) * len(MEASURES), size=theme.SMALL_SIZE)]


# ---- words ----


def caption(now: MarkRecord) -> Words:
    kept, lost, dropped, accuracy = (
        median_of(now, name) for name in ("signal_kept", "lost", "dropped", "test_accuracy")
    )
    places, routing = places_of(now.values), now.values["routing"]
    each = either(places > 1, say("With {:.0f} places an expert, ", places), say("With 1 place an expert, "))
    found = say("o is kept in {:.0%} of the samples and {:.0%} of the patches are lost", kept, lost)
    if routing in ("token-choice", "hash"):
        found = say(
            "o is kept in {:.0%}, {:.0%} of patches are lost, and {:.0%} of choices find no place", kept, lost, dropped
        )
    if routing == "soft":
        share = median_of(now, "signal_share")
        found = say("nothing is lost, and o is {:.0%} of what experts receive", share)
    beside = ", ".join(f"{name} {{:.0%}}" for name in BESIDE)
    others = [median_of(now, "test_accuracy", name) for name in BESIDE]
    later = say(f". The accuracy is {{:.0%}} ({beside}).", accuracy, *others)
    return each + found + either(now.first, say("."), later)


PANELS = (
    mark_panel(
        "Where the patches go", places, places_axes, places_note,
        width=490, margins=(56, 14, 104, 28), rows=2, gap=32,
    ),
    mark_panel(
        "Load of the experts", load, load_axes,
        f"patches of a sample, trial {SHOWN + 1}\nhollow: turned away; dashed: C",
        width=232, margins=(46, 20, 96, 76),
    ),
    mark_panel(
        "What comes out", outcome, outcome_axes, outcome_note,
        width=378, margins=(100, 118, 90, 24), rows=(160, 125), gap=49,
    ),
)  # fmt: skip

SAME = 0.02
"""How far apart accuracies are that the page calls about the same."""


def _accuracies(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the medians of the chosen routing and of expert choice."""
    return median_of(now, "test_accuracy"), median_of(now, "test_accuracy", BESIDE[0])


def more_often(now: MarkRecord) -> Tensor:
    """Returns which is right more often at the median: 0 the chosen routing, 1 expert choice, 2 about the same."""
    return larger(*_accuracies(now), SAME)


def seen(now: MarkRecord) -> Words:
    mine, theirs = _accuracies(now)
    result = of_three(
        more_often(now),
        say("the chosen routing is right more often"),
        say("expert choice is right more often"),
        say("both are right about as often"),
    )
    return result + say(": {:.0%} of the test samples against {:.0%} with expert choice", mine, theirs)


QUESTION = Question(
    "Predict before you run: at the end, which will be right more often?",
    ("the chosen routing", "expert choice", f"about the same (within {100 * SAME:.0f} points)"),
    more_often,
    seen,
    Sketch(2, ("the chosen routing", "expert choice"), ("model", "other 1"), ends_of(_accuracies), near=0.03),
)

_GATES, _ORDERS = tuple(GATE_WORDS), ("arrival", "priority")
LIVE = LivePage(
    numbers={
        "experts_per_patch": (3, 4, 2), "places": (6, 9, 5), "experts": (8, 4, 2), "patches": (11, 13, 10),
        "samples": (40, 60, 100), "trials": (2, 3, 4), "noise": (0.3, 0.5, 0.2), "router_noise": (0.6, 0.8, 0.7),
        "steps": (100, 140, 200), "learning_rate": (30.0, 45.0, 55.0),
    },
    derived={"places": Derived({"capacity_factor": 1, "patches": 1, "experts": -1}, most="patches")},
    choices=(
        *({"routing": "expert-choice", "gates": gates} for gates in _GATES),
        *({"routing": "token-choice", "gates": gates, "order": order} for gates in _GATES for order in _ORDERS),
        {"routing": "soft"},
        {"routing": "hash"},
    ),
    restricted=(("experts_per_patch", "experts"),),
)  # fmt: skip
"""How the Lab is recorded for a page."""

RoutingChoicesLab = lab(
    "Routing choices",
    name="RoutingChoicesLab",
    about="One routing in the sliders' hands, and four others with as many places for each expert.",
    knobs=KNOBS,
    runs=runs,
    begin=begin,
    training=of_run,
    page=LIVE,
    steps=steps,
    records=60,
    measures={"test_accuracy": "", "signal_kept": "o kept", "lost": "lost"},
    panels=PANELS,
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged="The loss of {name} became infinite in {trials}: try a smaller step size.",
)
