"""RouterAlignmentLab: routers learn which patches matter, live, beside a CNN that must look at all of them.

Its knobs and runs are in router_alignment_runs.py, and what its caption says in router_alignment_words.py.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing import theme
from moe_lab.drawing.marks import (
    Bars,
    Curves,
    Ends,
    Heads,
    Level,
    Mark,
    Note,
    Outline,
    Points,
    Scales,
    Ways,
    Writing,
    chosen,
)
from moe_lab.drawing.patch_marks import Tiles, TileTable
from moe_lab.drawing.words import Number, Words, say
from moe_lab.patch_routing import CNN
from moe_lab.patch_routing.training import of_run
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import larger, median_of, of_three, whole_passes
from moe_lab_widgets.drawing.marks_on_axes import mark_panel, sentence
from moe_lab_widgets.drawing.trials import MOST_LINES
from moe_lab_widgets.engine.goal import Question, Sketch
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.mnist import with_mnist
from moe_lab_widgets.labs.router_alignment_drawn import drawn, ink_of
from moe_lab_widgets.labs.router_alignment_goals import GOALS
from moe_lab_widgets.labs.router_alignment_runs import (
    DIGITS,
    KNOBS,
    SYNTHETIC,
    begin,
    overlap,
    own_mixture,
    patterns_of,
    runs,
    steps,
)
from moe_lab_widgets.labs.router_alignment_stories import STORIES
from moe_lab_widgets.labs.router_alignment_words import SHOWN, caption
from moe_lab_widgets.live.declare import OF_PATTERNS, LivePage

SMALLEST_BAR = 0.015
"""So that a coverage of 0 can be seen."""
NAMES = {"joint": "mixture", "cnn": "CNN"}
LOOKS = (("cnn", "other", 2.0), ("joint", "model", 2.6))
"""Style and width of each model's curve, from back to front."""
SIDES = ("class 1", "class 2")
FEW, LATEST = 4, 25
"""Experts up to which whole ways are drawn; of more, so many records of each."""

# ---- panel 1: where routers point ----


def plane_axes(values: MarkValues) -> Iterator[list[Mark]]:
    """Draws the ellipse of unit vectors, tinted by the nearer o: only there can the cosines be."""
    cosine = overlap_of(values)
    angle = cosine.clamp(-1, 1).acos()
    half, whole = torch.linspace(0, 1, 60, dtype=torch.float64), torch.linspace(0, 1, 160, dtype=torch.float64)
    turns = [angle / 2 - torch.pi + torch.pi * (half + side) for side in (0, 1)]
    around, unit = 2 * torch.pi * whole, torch.ones_like(cosine)
    apart = chosen(cosine > 0.5, 0.15, 0)  # near twins: their names part, so that heads hide neither
    stars = ((unit, cosine), (cosine, unit))
    named: tuple[tuple[Number, Number, str, float], ...] = (
        (1.12, cosine - apart, "left", 0),
        (cosine - 1.4 * apart, 1.09, "center", -9),
    )
    x_name, y_name = (
        f"cos(w, {name})   → looks for {pattern}"
        for name, pattern in zip(theme.CLASS_NAMES, patterns_of(values["source"]), strict=True)
    )
    yield [
        Scales(
            (-1.12, 1.2), (-1.17, 1.27), (-1, 0, 1), (-1, 0, 1), x_name, y_name, *SIDES, x_pad=6,
            x_reads=f"cos(w, {theme.CLASS_NAMES[0]})", y_reads=f"cos(w, {theme.CLASS_NAMES[1]})",
        ),
        Level(0, "axis"),
        Level(0, "axis", upright=True),
        *(Outline(one.cos(), (one - angle).cos(), side, filled=True) for one, side in zip(turns, SIDES, strict=True)),
        Outline(around.cos(), (around - angle).cos(), "other"),
        *(Points(x[None], y[None], side, "star") for (x, y), side in zip(stars, SIDES, strict=True)),
        *(
            Writing(x, y, say(name), side, align, bold=True, size=theme.TITLE_SIZE, down=down)
            for (x, y, align, down), name, side in zip(named, theme.CLASS_NAMES, SIDES, strict=True)
        ),
        Note(_others(values), 0, 60),
    ]  # fmt: skip


def overlap_of(values: MarkValues) -> Tensor:
    """Returns the cosine of o1 and o2, which sliders move where patches are synthetic."""
    if values["source"] == SYNTHETIC:
        return values.number("delta_d")
    return values.of(lambda some: overlap(some.plain))


def _others(values: MarkValues) -> Words:
    """Returns whose routers are drawn."""
    others = values.number("trials") - 1
    many = say(f"trial {SHOWN + 1}; grey dots: {MOST_LINES} of {{:,.0f}} other trials", others)
    some = say(f"trial {SHOWN + 1}; grey dots: {{:.0f}} other trials", others, when=others <= MOST_LINES, instead=many)
    two = say(f"trial {SHOWN + 1}; grey dots: 1 other trial", when=others == 1, instead=some)
    return say("one trial", when=others == 0, instead=two)


def plane(now: MarkRecord) -> Iterator[list[Mark]]:
    cosines, experts = now.last("alignment"), now.values.number("experts")  # (trial, expert, class)
    rest = cosines[SHOWN + 1 :]
    way = now.curve("alignment")[1][:, SHOWN]
    few = experts <= FEW
    yield [
        Points(
            rest[..., 0].flatten(), rest[..., 1].flatten(), "other", name="a router of another trial",
            most=MOST_LINES * experts,
        ),
        Ways(
            way[..., 0], way[..., 1], latest=chosen(few, torch.inf, LATEST), width=chosen(few, 2.4, 1.6),
            size=chosen(few, 14, 12), apart=chosen(few, 0.2, 0.17), name="the router of expert {}",
            of_way="the way of expert {}'s router",
        ),
    ]  # fmt: skip


# ---- panel 2: what each expert receives ----


def patch_axes(values: MarkValues) -> Iterator[list[Mark]]:
    shape = values.number("experts"), values.number("patches")
    for side, pattern in enumerate(patterns_of(values["source"])):
        title = f"class {theme.CLASS_SIGNS[side]}:  one patch is {theme.CLASS_NAMES[side]} ({pattern})"
        yield [TileTable(shape, say(title), SIDES[side])]


def patches(now: MarkRecord) -> Iterator[list[Mark]]:
    shown = {name: now.last(f"example_{name}")[SHOWN] for name in ("kept", "roles", "sides", "patches")}
    synthetic = now.values["source"] == SYNTHETIC
    for side in (0, 1):
        looks: dict[str, Any] = {"roles": shown["roles"][side], "sides": shown["sides"][side]}
        if synthetic:
            looks["grain"] = now.values.number("noise")
        else:
            looks["ink"] = ink_of(now.values["source"], shown["patches"][side])
        yield [Tiles(shown["kept"][side].nan_to_num() > 0, side, **looks)]


def patch_note(values: MarkValues) -> Words:
    kept = values.number("patches_per_expert")
    many = say("framed: the l = {:.0f} patches that each expert scores highest", kept)
    return say("framed: the l = 1 patch that each expert scores highest", when=kept == 1, instead=many)


# ---- panel 3: what comes out ----


def outcome_axes(values: MarkValues) -> Iterator[list[Mark]]:
    last, experts = whole_passes(values, CNN().batch_size), values.number("experts")
    yield [
        Scales(
            (0, last), (0.4, 1.01), (0, last), (0.5, 0.75, 1), "SGD step", x_pad=-9, y_reads="accuracy", percent="y"
        ),
        Level(0.5, "axis"),
        Writing(0.98 * last, 0.492, say("guessing"), "muted", "right", size=theme.SMALL_SIZE, down=9),
    ]
    yield [
        Scales((-0.5, experts - 0.5), (0, 1.04), (), (0, 0.5, 1), percent="y"),
        Level(0.5, "rule"),
        Level(1, "rule"),
        Note(
            say(f"coverage, trial {SHOWN + 1}: how often each expert\nreceives the deciding patch"),
            -32,
            -22,
            under=False,
        ),
        Heads(experts, 0, chosen(experts <= 5, 13, 9.5), down=14),
    ]


def outcome_note(values: MarkValues) -> Words:
    trials = values.number("trials")
    many = say("accuracy: median, half, 90 % of {:,.0f} trials", trials)
    few = say("test accuracy; thick: median of {:.0f} trials", trials, when=trials <= MOST_LINES, instead=many)
    return say("test accuracy of the one trial", when=trials == 1, instead=few)


def outcome(now: MarkRecord) -> Iterator[list[Mark]]:
    curves = [
        Curves(*now.curve("test_accuracy", model), style, NAMES[model], width, firm=False)
        for model, style, width in LOOKS
    ]
    ends = {model: median_of(now, "test_accuracy", model) for model in NAMES}
    words = [say(f"{name}\n{{:.0%}}", ends[model]) for model, name in NAMES.items()]
    yield [*curves, Ends(list(ends.values()), words, ("model", "other"), 0.24)]
    cover = now.last("expert_coverage")[SHOWN].nan_to_num()  # (expert, class)
    best = cover.amax(0)
    names = [f"expert {{}}: coverage of {name}" for name in theme.CLASS_NAMES]
    shares = [say(f"{name} {{:.0%}}", share) for name, share in zip(theme.CLASS_NAMES, best, strict=True)]
    yield [
        Bars(cover, cover >= best - 1e-9, SIDES, names, SMALLEST_BAR),
        Ends([best[0], best[1]], shares, SIDES, 0.21, theme.SMALL_SIZE),
    ]


SAME = 0.02
"""How far apart accuracies are that the page calls about the same."""


def accuracies(now: MarkRecord) -> Tensor:
    """Returns the median accuracies of the mixture and of the CNN."""
    return torch.stack([median_of(now, "test_accuracy", model) for model in NAMES])


def more_often(now: MarkRecord) -> Tensor:
    """Returns which model is right more often at the median: 0 the mixture, 1 the CNN, 2 for about the same."""
    mixture, cnn = accuracies(now)
    return larger(mixture, cnn, SAME)


def seen(now: MarkRecord) -> Words:
    mixture, cnn = accuracies(now)
    result = of_three(
        more_often(now),
        say("the mixture is right more often"),
        say("the CNN is right more often"),
        say("both are right about as often"),
    )
    return result + say(": {:.0%} of the test samples against the CNN's {:.0%}", mixture, cnn)


QUESTION = Question(
    "Predict before you run: at the end, which model will be right more often?",
    ("the mixture", "the CNN", f"about the same (within {100 * SAME:.0f} points)"),
    more_often,
    seen,
    Sketch(2, ("the mixture", "the CNN"), ("model", "other"), accuracies, near=0.03),
)

LIVE = LivePage(
    numbers={
        "patches": (6, 8, 11), "patches_per_expert": (3, 4, 5), "experts": (4, 6, 8), "samples": (60, 100, 140),
        "neurons": (48, 72, 96), "trials": (3, 5, 7), "noise": (0.3, 0.5, 0.2), "delta_d": (0.1, -0.2, 0.3),
        "gap": (0.4, 0.3, 0.2), "delta_r": (0.6, 0.7, 0.5), "distractors": (2, 3, 4), "steps": (100, 140, 200),
    },
    choices=(
        {"source": DIGITS, "noise": (0, 0)},
        {"source": DIGITS},
        {"source": SYNTHETIC, "distractors": (0, 0)},
        {"source": SYNTHETIC, "gap": (0, 0)},
        {"source": SYNTHETIC},
    ),
    drawn=drawn,
    missing=("MNIST and mixtures of one's own need Python.",),
    restricted=(
        ("experts", "neurons"),
        ("patches_per_expert", "patches"),
        *OF_PATTERNS,
    ),
)  # fmt: skip
"""How the Lab is recorded for a page."""

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
    training=of_run,
    page=LIVE,
    steps=steps,
    records=100,
    measures=lambda run: {"test_accuracy": "", **({} if isinstance(run.model, CNN) else {"coverage": "coverage"})},
    panels=(
        mark_panel(
            "Where routers point",
            plane,
            plane_axes,
            "cosine between each router w and\nthe two patches that decide the class",
            width=312,
            margins=(58, 10, 96, 95),
            pin=lambda ax, pinned, now: None,  # two runs' ways would hide each other
        ),
        mark_panel(
            "What each expert receives",
            patches,
            patch_axes,
            patch_note,
            width=484,
            margins=(34, 34, 90, 21),  # so that 16 digits of 8 x 8 pixels are drawn three times as large
            rows=2,
            gap=41,
        ),
        mark_panel(
            "What comes out",
            outcome,
            outcome_axes,
            outcome_note,
            width=304,
            margins=(48, 79, 72, 34),
            rows=(182, 84),
            gap=76,
        ),
    ),
    caption=sentence(caption),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    diverged=lambda name, trials: f"The {NAMES[name]}'s loss became infinite in {trials}: no further steps there.",
)
