"""ModelPruningLab: experts of a small language model are pruned, and what is left is fine-tuned, live."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.saliency import name_of
from moe_lab.drawing import theme
from moe_lab.drawing.marks import (
    Cells,
    Curves,
    Ends,
    Heads,
    Level,
    Mark,
    Scales,
    Stacks,
    Swarm,
    Table,
    Title,
    Writing,
)
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab_hub.example import CRITERIA, EXPERTS, NUMBERS
from moe_lab_hub.repair import DRAWS, KNOWN, NEW, NUMBERS_OF_A_STEP, WAYS, check, prune_and_repair
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import median_of, spread_note
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.engine.knobs import MORE_TRIALS, LabKnob, arguments, device_setting
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.labs.model_pruning_goals import GOALS, QUESTION, right_after
from moe_lab_widgets.labs.model_pruning_stories import STORIES

TASKS = {NEW: f"a new rule, {NEW}", KNOWN[0]: f"a known rule, {KNOWN[0]}"}
LAYERS, SHOWN = 2, 0
"""Layers of the model, and the trial whose experts are drawn."""
LEAST = 0.06
"""The height of the lowest bar, so that it can be seen."""

KNOBS = (
    LabKnob(name="kept", main=True, meaning="experts that stay of 8", default=4, low=1,
            slider=(2, EXPERTS - 1, 1), effect="Fewer experts need less memory and know less."),
    LabKnob(name="criterion", main=True, meaning="prune by", default=CRITERIA[0],
            choices=CRITERIA, words={one: name_of(one) for one in CRITERIA},
            effect="Another choice of the experts that stay."),
    LabKnob(name="way", main=True, meaning="tokens of pruned experts are", default=WAYS[0], choices=WAYS,
            words={"rerouted": "rerouted", "silent": "answered by 0 (silent)"},
            effect="Rerouted tokens choose again among the experts left; a silent expert answers 0."),
    LabKnob(name="steps", main=True, meaning="steps of repair", default=40, low=1,
            slider=(5, 60, 5), effect="What is left is fine-tuned for longer."),
    LabKnob(name="task", meaning="fine-tuned to", default=NEW, choices=tuple(TASKS), words=TASKS,
            effect="A rule of arithmetic that the base model has never seen, or one that it knew."),
    LabKnob(name="trials", meaning="trials", default=1, low=1, slider=(1, 3, 1), effect=MORE_TRIALS),
)  # fmt: skip


def fits(values: Mapping[str, Any]) -> None:
    check(values["task"], values["kept"], values["criterion"], values["way"])


# ---- panel 1: what pruning forgets, and what fine-tuning brings back ----


def shown_steps(values: MarkValues) -> tuple[Tensor, Tensor]:
    """Returns where the axis ends, and how far left of 0 the model is before pruning."""
    last = values.number("steps").clamp(min=10)
    return last, last / 3


def forgotten_axes(values: MarkValues) -> Iterator[list[Mark]]:
    last, lead = shown_steps(values)
    words = ("before", "pruned", f"{float(last):.0f} steps later")
    guess = 1 / NUMBERS
    yield [
        Scales((-lead, last), (0, 1.02), (-lead, 0, last), (0, 0.25, 0.5, 0.75, 1), x_words=words, x_reads="step",
               y_reads="right answers", percent="y", bare="x"),
        Level(guess),
        Writing(last, guess, say("guessing"), "muted", "right", size=theme.SMALL_SIZE, down=10),
    ]  # fmt: skip


def forgotten(now: MarkRecord) -> Iterator[list[Mark]]:
    _, lead = shown_steps(now.values)
    marks: list[Mark] = []
    for measure, before, style, name in LINES:
        steps, values = now.curve(measure)
        x, y = torch.cat((-lead[None], steps)), torch.cat((now.last(before)[None], values))
        marks.append(Curves(x, y, style, name))
    ends = [median_of(now, measure) for measure, *_ in LINES]
    words = [say(f"{now.values['task']}\n{{:.0%}}", ends[0]), say("other rules\n{:.0%}", ends[1])]
    yield [*marks, Ends(ends, words, [style for _, _, style, _ in LINES], apart=0.2)]


LINES = (("accuracy", "whole", "model", "its rule"), ("others", "others_whole", "other", "the other rules"))
"""Of each curve: the measure, what it is before pruning, the style and the name."""

# ---- panel 2: which experts stay ----


def expert_axes(values: MarkValues) -> Iterator[list[Mark]]:
    for layer in range(LAYERS):
        yield [
            Scales((-0.5, EXPERTS - 0.5), (0, 1.08), (), ()),
            Title(say(f"layer {layer + 1}")),
            Heads(EXPERTS, 0, 13, down=14),
        ]


def experts(now: MarkRecord) -> Iterator[list[Mark]]:
    scores, stays = now.last("scores")[SHOWN], now.last("stays")[SHOWN]
    low, high = scores.amin(1, keepdim=True), scores.amax(1, keepdim=True)
    heights = LEAST + (1 - LEAST) * ((scores - low) / (high - low).clamp(min=1e-12)).nan_to_num()
    for layer in range(LAYERS):
        there = stays[layer] > 0
        names = "expert {} stays: score", "expert {} goes: score"
        yield [Stacks(heights[layer] * there, heights[layer] * ~there, names)]


def expert_note(values: MarkValues) -> Words:
    return say(f"{name_of(values['criterion'])}, from the lowest\nto the highest; full bars stay (trial {SHOWN + 1})")


# ---- panel 3: what the choice is worth, and what it saves ----


def choice_axes(values: MarkValues) -> Iterator[list[Mark]]:
    places, names = tuple(range(len(CRITERIA))), [name_of(one).replace(" ", "\n") for one in CRITERIA]
    yield [
        Scales((-0.6, len(CRITERIA) - 0.4), (0, 1.02), places, (0, 0.25, 0.5, 0.75, 1), x_words=names,
               y_reads="right answers", percent="y", bare="x"),
        Level(1 / NUMBERS),
    ]  # fmt: skip
    yield [
        Table(("memory", "operations"), ("of the whole model",), (2, 1), widest=90, highest=30),
        Title(say("what is left of the whole model's"), 70),
    ]


def choices(now: MarkRecord) -> Iterator[list[Mark]]:
    swarms: list[Mark] = []
    found, chance = now.last("by_criterion"), now.last("by_chance")
    for place, criterion in enumerate(CRITERIA):
        values = chance.flatten() if criterion == "random" else found[:, place]
        style = "model" if criterion == now.values["criterion"] else "other"
        swarms.append(Swarm(place, values, torch.zeros_like(values) > 0, style, name_of(criterion)))
    yield swarms
    saved = torch.stack([median_of(now, name) for name in ("bytes", "operations")])[:, None]
    yield [Cells(saved, saved, ("{:.0%}",))]


CHOICE_NOTE = f"right answers right after pruning, by\neach criterion and {DRAWS} random choices"

# ---- words ----


def caption(now: MarkRecord) -> Words:
    right, chance = right_after(now)
    kept = now.values.number("kept")
    words = say(
        f"Before pruning {{:.0%}} of the answers are right. With {{:.0f}} of {EXPERTS} experts left it is {{:.0%}}, "
        f"after {DRAWS} random choices {{:.0%}} on average.",
        median_of(now, "whole"),
        kept,
        right,
        chance,
    )
    repaired = say(" After {:.0f} more steps: {:.0%}.", now.step, median_of(now, "accuracy"))
    return words + either(now.first, NOTHING, repaired) + spread_note(now)


def code(values: Mapping[str, Any]) -> str:
    given = {name: values[name] for name in (*(knob.name for knob in KNOBS), "seed")} | device_setting(values)
    return "\n".join((
        "from moe_lab.core.snapshots import collect",
        "from moe_lab_hub.repair import prune_and_repair",
        "",
        f"data = collect(prune_and_repair({arguments(given)}))",
        'print(data["accuracy"].to_series())',
    ))  # fmt: skip


ModelPruningLab = lab(
    "Prune a language model",
    prune_and_repair,
    name="ModelPruningLab",
    about="""A tiny Mixtral that was fine-tuned to a rule of arithmetic is pruned, and what is left is fine-tuned again.

    The first picture of a seed takes three seconds, in which the model is trained. It needs the library transformers.
    """,
    knobs=KNOBS,
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    panels=(
        mark_panel(
            "What pruning forgets",
            forgotten,
            forgotten_axes,
            "right answers, before pruning, right after it,\nand while the rest is fine-tuned",
            width=392,
            margins=(56, 92, 84, 44),
        ),
        mark_panel(
            "Which experts stay", experts, expert_axes, expert_note, width=344, margins=(20, 20, 104, 34), rows=2,
            gap=60,
        ),
        mark_panel(
            "Better than chance?", choices, choice_axes, CHOICE_NOTE, width=364, margins=(80, 16, 84, 24),
            rows=(178, 60), gap=74, pin=lambda ax, pinned, now: None,
        ),
    ),
    caption=sentence(caption),
    check=fits,
    code=code,
    work=lambda values: NUMBERS_OF_A_STEP,
)  # fmt: skip
