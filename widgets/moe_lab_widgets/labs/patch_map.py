"""PatchMapLab: which patches of an image each expert of a convolutional network keeps, live, beside two controls."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing import theme
from moe_lab.drawing.image_marks import ImageAxes, PatchedImage
from moe_lab.drawing.marks import Cells, Curves, Ends, Level, Mark, Scales, Table, Title, Writing, picked
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab.vision.patches.data import QuadrantTask
from moe_lab.vision.patches.model import WRN, Model, PatchWRN
from moe_lab.vision.patches.run import PatchImageRun
from moe_lab.vision.patches.together import PatchImageTraining
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import larger, median_of, of_three, spread_note, whole_passes
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, config_from, offer
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.labs.patch_map_goals import GOALS, QUESTION
from moe_lab_widgets.labs.patch_map_stories import STORIES
from moe_lab_widgets.live.declare import LivePage

STUDY, NO_GATE, CONV = MODELS = ("pMoE", "no gate", "conv")
"""WRN-pMoE, the same network whose experts get all patches, and the network without experts."""
SAID = {STUDY: "mixture", NO_GATE: "no gates", CONV: "CNN"}
"""What the picture calls them."""
LOOKS = {CONV: ("other 2", 2.2), NO_GATE: ("other", 2.0), STUDY: ("model", 2.6)}
"""Of every model, from back to front: the style and the width of its curve."""
SAME = 0.03
"""How far apart accuracies are that the sentence calls the same."""
TEST_SAMPLES, EXAMPLES, SHOWN = 200, 8, 0
"""Test images, those that can be drawn, and the trial whose images they are."""
BATCH = 50
"""Divides every N on the slider: a smaller last batch would spoil batch norm's averages just before the end."""
RECORDS = 30
"""Approximate number of records of a run: six to ten seconds at 3 to 5 records per second."""
KEEPING = ("learned", "random")
"""Gates that keep l patches; the others keep all."""
EXPERTS, USUAL = (1, 2, 4, 8), 4
"""The values of k, which divide the 64 channels; and the one at which the Lab opens."""
QUARTERS = 4
CHANCE = 1 / QUARTERS
"""One of four quarters is the object, whatever l and k are; and one of four classes is right."""

# ---- knobs, and the three runs that their values describe ----


def _keeps(values: Mapping[str, Any]) -> bool:
    return values["gates"] in KEEPING


def _learned(values: Mapping[str, Any]) -> bool:
    return bool(values["gates"] == "learned")


KNOBS = (
    offer(PatchWRN, "patches_per_expert", main=True, meaning="patches per expert", default=2, enabled_when=_keeps,
          effect="Each expert sees more of the image. With all 16 there is nothing left to choose.",
          applies="only to gates that keep some patches (learned or random)"),
    offer(PatchWRN, "experts", main=True, slider=None, choices=EXPERTS,
          effect="More experts, each with a smaller part of the 64 channels."),
    offer(PatchImageRun, "samples", main=True, default=600, effect="More samples help all three networks."),
    offer(QuadrantTask, "noise", main=True, symbol="σ", meaning="noise on every pixel", default=0.1,
          effect="More noise hides the object."),
    offer(PatchWRN, "gates", main=True, meaning="gates",
          words={"none": "without (all patches)", "soft": "soft (all, weighted)"},
          effect="Experts get the patches that a gate has learned to choose, random ones, or all."),
    LabKnob(name="image", main=True, meaning="test image", default=1, low=1, slider=(1, EXAMPLES, 1), view_only=True,
            effect="Shows another test image; nothing is trained anew."),
    LabKnob(name="steps", meaning="maximum number of SGD steps", default=60, low=1, slider=(20, 200, 10),
            effect="A longer run, in which all networks learn more."),
    offer(PatchImageRun, "trials", meaning="trials", slider=(1, 6, 1), far=100, effect=MORE_TRIALS),
    offer(PatchWRN, "learning_rate", symbol="η", meaning="learning rate", effect="Faster and less steady steps."),
    offer(PatchWRN, "softmax", meaning="softmax over", words={"all": "all patches", "kept": "kept patches"},
          enabled_when=_learned,
          effect="A gate is compared with those of all patches, or with those of the kept ones alone (eq. 5).",
          applies="only to learned gates"),
)  # fmt: skip


def runs(values: Mapping[str, Any]) -> dict[str, PatchImageRun]:
    """Returns the runs of the model under study and of its controls."""
    task, epochs = config_from(QuadrantTask, values), epochs_of(values)
    shared: dict[str, Any] = {"epochs": epochs, "test_samples": TEST_SAMPLES, "examples": EXAMPLES}
    return {
        name: config_from(PatchImageRun, values, model=model, task=task, **shared)
        for name, model in models(values).items()
    }


def models(values: Mapping[str, Any]) -> dict[str, Model]:
    """Returns the model under study and its controls, by name."""
    shared: dict[str, Any] = {"trunk": "plain", "batch_size": BATCH, "learning_rate": values["learning_rate"]}
    no_gate = PatchWRN(experts=values["experts"], gates="none", **shared)
    return {STUDY: config_from(PatchWRN, values, **shared), NO_GATE: no_gate, CONV: WRN(**shared)}


def epochs_of(values: Mapping[str, Any]) -> int:
    """Returns the passes over the data, so many that they make at least `steps` steps."""
    samples = max(values["samples"], 1)
    return int(max(1, -(-values["steps"] // -(-samples // min(BATCH, samples)))))


def steps_of(values: Mapping[str, Any]) -> int:
    """Returns the most steps that a run can take."""
    return runs(values)[STUDY].last_step


def measures(run: Any) -> dict[str, str]:
    """Returns what copied code prints of a run."""
    found = {"kept_in_object": "kept in the object"} if isinstance(run.model, PatchWRN) else {}
    return {"test_accuracy": "", **found}


# ---- panel 1: one test image, and the patches of it that experts keep ----

PATCHES = 4
"""Patches along a side of an image."""
SIDE = QuadrantTask().image[1]
NOTES = {
    "learned": "heads: the experts that keep a patch",
    "random": "heads: the experts that chance gives a patch",
    "none": "every expert gets all patches",
    "soft": "heads: experts with an above-average gate",
}


def image_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield [ImageAxes(SIDE)]


def image(now: MarkRecord) -> Iterator[list[Mark]]:
    shown = now.values.number("image") - 1
    ink, box, label, gates, kept, answer = (
        picked(now.last(f"example_{name}")[SHOWN], shown)
        for name in ("images", "boxes", "labels", "gates", "kept", "predicted")
    )
    heads = HEADS[now.values["gates"]](kept, gates)
    right = answer == label
    sign = say("  ✔", when=right, instead=say("  ✗", when=answer.isfinite()))
    covered = now.values["gates"] in KEEPING
    yield [
        PatchedImage(
            ink[0],
            PATCHES,
            heads,
            heads.any(0) if covered else torch.ones_like(heads[0]),
            box,
            say("the digit in the frame decides: class {:.0f}", label),
            say("the mixture says {:.0f}", answer) + sign,
            right,
        )
    ]


HEADS: dict[str, Callable[[Tensor, Tensor], Tensor]] = {
    **{gates: lambda kept, gates: kept.nan_to_num() > 0 for gates in KEEPING},
    "none": lambda kept, gates: torch.zeros_like(kept) > 0,
    "soft": lambda kept, gates: gates.nan_to_num() > 1 / PATCHES**2,
}
"""Of each kind of gates, where the heads of the experts stand, given what they keep and the gates."""


def image_note(values: MarkValues) -> Words:
    return say(
        f"test image {{:.0f}} of {EXAMPLES}, trial {SHOWN + 1};\n{NOTES[values['gates']]}", values.number("image")
    )


# ---- panels 2 and 3: shares over the steps ----


def shares(values: MarkValues, reads: str, chance: str) -> list[Mark]:
    total = whole_passes(values, BATCH)
    return [
        Scales((0, total), (0, 1.02), (0, total), (0, 0.25, 0.5, 0.75, 1), "SGD step", y_reads=reads, percent="y"),
        Level(CHANCE),
        Writing(total, CHANCE, say(chance), "muted", "right", size=theme.SMALL_SIZE, down=10),
    ]


def found_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield shares(values, "share in the object", "chance 25 %")
    rows = ("the frame", "others, each")
    yield [
        Table(rows, "expert {}", (len(rows), values.number("experts")), numbered=True, highest=30, widest=56),
        Title(say(f"each expert's patches by quarter, in %, trial {SHOWN + 1}"), 60),
    ]


def found(now: MarkRecord) -> Iterator[list[Mark]]:
    measure = share_of(now)
    share = median_of(now, measure)
    yield [Curves(*now.curve(measure), "model", SAID[STUDY]), Ends([share], [say("{:.0%}", share)], ["ink"])]
    inside = now.last(f"expert_{measure}")[SHOWN].nan_to_num()
    parts = torch.stack((inside, (1 - inside) / (QUARTERS - 1)))
    yield [Cells(parts, 100 * parts, ("{:.0f}",))]


def share_of(now: MarkRecord) -> str:
    """Returns the measure of what lies in the object: of kept patches, or of gates where all patches are kept."""
    return "gate_in_object" if now.values["gates"] == "soft" else "kept_in_object"


def found_note(values: MarkValues) -> Words:
    what = "share of the gates' sum" if values["gates"] == "soft" else "share of kept patches that lie"
    return say(f"{what}\nin the frame, all {TEST_SAMPLES} test images")


def accuracy_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield shares(values, "accuracy", "guessing")


def accuracy(now: MarkRecord) -> Iterator[list[Mark]]:
    curves = [
        Curves(*now.curve("test_accuracy", name), style, SAID[name], width) for name, (style, width) in LOOKS.items()
    ]
    last = [median_of(now, "test_accuracy", name) for name in MODELS]
    words = [say(f"{SAID[name]}\n{{:.0%}}", one) for name, one in zip(MODELS, last, strict=True)]
    yield [*curves, Ends(last, words, [LOOKS[name][0] for name in MODELS])]


def accuracy_note(values: MarkValues) -> Words:
    trials = values.number("trials")
    many = say(f"median, half, 90 % of {{:,.0f}} trials;\nthin: trial {SHOWN + 1}", trials)
    few = f"thick: median of {{:.0f}} trials;\nfirm thin line: trial {SHOWN + 1}"
    some = say(few, trials, when=trials <= MOST_LINES, instead=many)
    return say("the one trial", when=trials == 1, instead=some)


# ---- words ----


def caption(now: MarkRecord) -> Words:
    share, chance = median_of(now, share_of(now)), median_of(now, "chance")
    right = {name: median_of(now, "test_accuracy", name) for name in MODELS}
    subject = "of the gates' sum falls on" if now.values["gates"] == "soft" else "of the kept patches lie in"
    where = say(f"{{:.0%}} {subject} the object; chance is {{:.0%}}.", share, chance)
    if now.values["gates"] == "none":
        where = say("There are no gates, so every expert gets all patches.")
    found = say(
        " The mixture classifies {:.0%} of the test images correctly, without gates {:.0%}, a CNN {:.0%}.",
        *right.values(),
    )
    result = of_three(
        larger(right[STUDY], right[NO_GATE], SAME),
        say(" The gates help."),
        say(" The gates do harm."),
        say(f" The gates make no difference of more than {100 * SAME:.0f} points."),
    )
    if now.values["gates"] == "none":
        result = NOTHING
    during = found + either(now.ended, result, NOTHING) + spread_note(now)
    return where + either(now.first, say(" That is before training."), during)


def diverged(name: str, trials: str) -> str:
    model = "mixture without gates" if name == NO_GATE else SAID[name]
    return f"The loss of the {model} became infinite in {trials}: try a smaller step size."


LIVE = LivePage(
    numbers={
        "patches_per_expert": (3, 5, 7), "samples": (100, 150, 200), "noise": (0.3, 0.5, 0.2), "trials": (3, 4, 2),
        "learning_rate": (0.1, 0.3, 0.2), "steps": (60, 80, 40), "image": (1, 2, 3),
    },
    choices=[
        *({"gates": "learned", "softmax": "all", "experts": experts} for experts in EXPERTS[1:]),
        {"gates": "learned", "softmax": "kept", "experts": USUAL},
        *({"gates": gates, "experts": USUAL} for gates in ("none", "soft")),
    ],
    looks=("image",),
    missing=(
        "Random gates and one expert alone need Python.",
        f"Without gates, with soft ones, and with a softmax over the kept patches the page has {USUAL} experts.",
    ),
)  # fmt: skip
"""How the Lab is recorded for a page."""

PatchMapLab = lab(
    "Patch map",
    name="PatchMapLab",
    about="""WRN-pMoE of pmoe2023, the same network without gates and a network without experts, on digits in quadrants.

    At these sizes gates bring no accuracy; what there is to see is where the kept patches lie.
    """,
    knobs=KNOBS,
    runs=runs,
    training=PatchImageTraining,
    page=LIVE,
    records=RECORDS,
    measures=measures,
    panels=(
        mark_panel("Which patches experts keep", image, image_axes, image_note, width=348, margins=(20, 20, 102, 34)),
        mark_panel(
            "Found the object?",
            found,
            found_axes,
            found_note,
            width=432,
            margins=(92, 60, 84, 34),
            rows=(160, 60),
            gap=84,
        ),
        mark_panel("Test accuracy", accuracy, accuracy_axes, accuracy_note, width=320, margins=(56, 88, 84, 62)),
    ),
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged=diverged,
)
