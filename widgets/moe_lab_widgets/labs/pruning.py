"""PruningLab: experts whose routers did not grow in training can go; other criteria take the wrong ones, live.

The layer of pruning2024 is trained from a checkpoint, pruned by a criterion, and fine-tuned again (algorithm 1). Rho,
the criterion, fine-tuning and the trial on show are view-only: they start no training.
"""

from __future__ import annotations

from collections.abc import Iterator

import torch
from matplotlib.axes import Axes
from torch import Tensor

from moe_lab.drawing.marks import Ends, Level, Mark, Scales, Writing, middle, picked
from moe_lab.drawing.pruning_marks import Gauges, Series, Span, Strip, StripTable
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.mark_words import median_of, named, short
from moe_lab_widgets.drawing.marks_on_axes import draw_mark, mark_panel, sentence
from moe_lab_widgets.drawing.strips import SCORES, SCORES_TOP
from moe_lab_widgets.engine.make import lab
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import pruning_record as of
from moe_lab_widgets.labs import pruning_seen as seen
from moe_lab_widgets.labs import pruning_words as words
from moe_lab_widgets.labs.pruning_goals import GOALS, QUESTION
from moe_lab_widgets.labs.pruning_knobs import KNOBS, check, check_view
from moe_lab_widgets.labs.pruning_names import LABELS
from moe_lab_widgets.labs.pruning_seen import RANDOM
from moe_lab_widgets.labs.pruning_stories import STORIES
from moe_lab_widgets.live.declare import LivePage

# ---- panel 1: which routers moved ----

NOTABLE = 0.3
"""A change from which its number is written."""
CHANGE = 0
"""The place of the criterion whose scores are the changes themselves, which the panel shows already."""


def longest(values: MarkValues) -> Tensor:
    """Returns where the axis of Delta ends: the same for all runs but very long ones."""
    return torch.where(values.number("steps") * values.number("router_learning_rate") <= 10, 5.5, 8.0).to(torch.float64)


def routers_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield [StripTable(values.number("experts"), longest(values), seen.threshold(values), "Δ")]


def routers(now: MarkRecord) -> Iterator[list[Mark]]:
    trial, ranked = seen.trial(now), seen.is_ranked(now)
    stays, carries, lost = (
        picked(one(now).to(torch.float64), trial) > 0 for one in (seen.kept, seen.carriers, seen.lost)
    )
    unordered = say("It is undefined, because ") + words.undefined(now.values) + say(".")
    yield [
        Strip(
            picked(now.last("norm_change"), trial).nan_to_num(),
            scores(now, trial),
            stays,
            ranked,
            carries,
            lost,
            NOTABLE,
        ),
        _written(words.trial_note(now), SCORES, 13),
        _written(score_note(now), SCORES_TOP, -14),
        _written(either(seen.is_undefined(now), unordered, NOTHING), SCORES_TOP, 12, "failure"),
    ]  # fmt: skip


def _written(said: Words, y: float, down: float, style: str = "muted") -> Writing:
    """Returns small print at the left, below a height of the strip."""
    return Writing(-0.5, y, said, style, "left", size=9.5, down=down)


def scores(now: MarkRecord, trial: Tensor) -> Tensor:
    """Returns (k,) the lengths of the scores' bars, from the smallest of all or 0 on; NaN where there are none."""
    found = picked(picked(now.last("score"), seen.chosen(now.values), 1), trial)
    low, high = found.amin().clamp(max=0), found.amax()
    lengths = (found - low) / (high - low).clamp(min=1e-12)
    return torch.where(seen.is_ranked(now) & (seen.chosen(now.values) != CHANGE), lengths, torch.nan)


def score_note(now: MarkRecord) -> Words:
    """Returns what the criterion on show measures."""
    later = say("The scores by which experts are pruned follow when training has ended.")
    meaning = either(seen.chosen(now.values) == CHANGE, say("Δ, as drawn above"), words.meaning_of(now.values))
    meant = words.name_of(now.values) + say(" = ") + meaning + say(" (the largest stay)")
    return either(seen.is_pruned(now), meant, later)


# ---- panel 2: accuracy after pruning ----

LOW, HIGH = 0.4, 1.02
SIGNS = ("●", "✖", "■")
"""The marks of the chosen criterion, of chance, and of the best other one."""


def accuracy_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield [
        Scales(
            (-0.02, 0.97), (LOW, HIGH), (0, 0.2, 0.4, 0.6, 0.8), (0.5, 0.75, 1), "ρ, share of experts pruned",
            y_reads="accuracy", percent="y",
        ),
        Level(0.5, "rule"),
        Writing(0, 0.425, say("50 %: guessing"), "muted", "left", size=9.5),
    ]  # fmt: skip


def accuracy(now: MarkRecord) -> Iterator[list[Mark]]:
    values, shown = now.values, seen.on_show(now)
    curves = seen.medians(shown)  # (criterion, rho)
    shares = torch.arange(curves.shape[1]) / seen.half(values)
    steps, _ = seen.fine_tuned(now)
    here, count = seen.chosen(values), seen.gone(values)
    places = here, torch.tensor(float(RANDOM)), seen.best_other(curves, values)
    there = torch.tensor(True), here != RANDOM, seen.is_pruned(now)
    firm = [picked(curves, place).masked_fill(~known, torch.nan) for place, known in zip(places, there, strict=True)]
    names = [named(place, LABELS) for place in places]
    plain = picked(seen.medians(now.last("pruned_accuracy")), here)
    tuned = picked(picked(steps, count, 1), here)
    unpruned = torch.where(seen.is_pruned(now), torch.nan, median_of(now, "test_accuracy"))
    looks = [
        ("cross", "dashed", 1.5, False),
        ("square", "dashed", 1.5, False),
        ("dot", "", 2.8, True),
    ]
    order, training = (1, 2, 0), say("in training: nothing is pruned yet")
    is_firm = [torch.stack([place == number for place in places]).any() for number in range(curves.shape[0])]
    yield [
        *(
            Series(shares, curves[number].masked_fill(is_firm[number], torch.nan), "rule", name, width=1.2)
            for number, name in enumerate(LABELS[: curves.shape[0]])
        ),
        *(
            Series(shares, firm[place], "ink", "", names[place], shape, dash, width, pinned)
            for place, (shape, dash, width, pinned) in zip(order, looks, strict=True)
        ),
        Series(shares, torch.where(tuned > 0, plain, torch.nan), "ink", "", names[0] + say(", without fine-tuning"),
               "small", "dotted", 1.6),
        Series(torch.zeros(1), unpruned[None], "ink", "not pruned", shape="dot"),
        Level(count / seen.half(values), "ink", upright=True),
        *_ranges(now, shown, count),
        Ends([one[-1] for one in firm[::-1]],
             [say(f"{sign} ", when=known) + either(known, name, NOTHING)
              for sign, name, known in zip(SIGNS[::-1], names[::-1], _known(firm[::-1]), strict=True)],
             ["ink"] * 3, 0.06),
        _rho_note(now, count),
        Writing(-0.02, HIGH, either(seen.is_pruned(now), words.tuning_note(now, tuned), training), "muted", "left",
                size=9.5, right=-36, down=-27),
    ]  # fmt: skip


def _known(curves: list[Tensor]) -> list[Tensor]:
    return [one[-1].isfinite() for one in curves]


def _ranges(now: MarkRecord, shown: Tensor, count: Tensor) -> Iterator[Span]:
    """Yields the ranges of the trials at rho, by chance and by the chosen criterion."""
    at = picked(shown, count, -1)  # (trial, criterion)
    here = seen.chosen(now.values)
    kinds = ((torch.tensor(float(RANDOM)), "other", 6), (here, "ink", -6))
    for (place, style, aside), name in zip(kinds, ("at random", "by the criterion"), strict=True):
        own = picked(at, place, 1)
        known = own.isfinite()
        low, high = (torch.where(known, own, edge) for edge in (torch.inf, -torch.inf))
        low = torch.where(known.any(), low.amin().clamp(min=LOW), torch.nan)
        yield Span(count / seen.half(now.values), low, high.amax(), style, f"ρ, range of the trials {name}", aside)


def _rho_note(now: MarkRecord, count: Tensor) -> Writing:
    half = seen.half(now.values)
    said = say("ρ = {:.2f}: {:.0f} of {:.0f} in each half", now.values.number("rho"), count, half)
    said = either(seen.is_pruned(now), said, NOTHING)
    return Writing((count / half).clamp(0.34, 0.75), HIGH, said, bold=True, size=9.5, down=-11)


def pin_accuracy(ax: Axes, pinned: Record, now: Record) -> None:
    """Draws the chosen curve of a pinned record, thin."""
    (marks,) = accuracy(MarkRecord(pinned))
    for one in marks:
        if isinstance(one, Series) and one.pinned:
            draw_mark(Series(one.x, one.y, "ink", "", one.words + say(", pinned"), "small", "", 1.1), ax)
    draw_mark(Writing(0.97, LOW, say("thin: pinned"), "muted", "right", size=9.5, down=-12), ax)


# ---- panel 3: what is left ----

TITLES = ("accuracy", "memory", "FLOPs per input")


def left_axes(values: MarkValues) -> Iterator[list[Mark]]:
    yield []


def left(now: MarkRecord) -> Iterator[list[Mark]]:
    found, experts = seen.outcome(now), now.values.number("experts")
    known, ranked = seen.is_pruned(now), seen.is_ranked(now)
    in_training = torch.where(known, torch.nan, 1.0)
    shares = (
        torch.where(ranked, middle(found.tuned), in_training * median_of(now, "test_accuracy")),
        torch.where(ranked, found.memory, in_training),
        torch.where(ranked, found.operations, in_training),
    )
    routers_left = "routers stay" if now.values["routing"] == of.TOKENS_CHOOSE else "routers go too"
    pruned = (
        say("worst trial ") + short(words.least(found.tuned)),
        say("{:.0f} of {:.0f} experts", found.left, experts),
        say(routers_left),
    )
    training = (say("not pruned"), say("all {:.0f} experts", experts), say("in training"))
    unordered = (say("no order of experts"), say("nothing is pruned"), NOTHING)
    notes = [
        either(ranked, one, either(known, none, other))
        for one, none, other in zip(pruned, unordered, training, strict=True)
    ]
    yield [Gauges(TITLES, shares, [short(share) for share in shares], notes)]


# ---- the Lab ----


def progress(now: Record) -> str:
    marks = MarkRecord(now)
    if bool(marks.last("norm_change").isnan().all()) and not now.step:
        return "pre-training the branches"
    if now.values["fine_tune"] and bool((seen.fine_tuned(marks)[0] > 0).any()):
        return f"trained {now.total} steps, pruned, fine-tuning"
    return f"step {now.step} of {now.total}"


LIVE = LivePage(
    numbers={
        "experts": (10, 14, 16), "tokens": (11, 13, 17), "patterns": (40, 46, 61), "trials": (3, 4, 2),
        "top": (3, 2, 4), "steps": (110, 100, 50), "router_learning_rate": (0.05, 0.06, 0.02),
        "others_norm": (12.0, 10.0, 3.0), "others_neurons": (0.2, 0.1, 0.3), "important": (2, 1, 3),
        "rho": (0.8, 0.5, 0.3), "shown": (1, 2, 2),
    },
    choices=[
        {"routing": routing, "loss": loss, "top": top}
        for routing in (of.EXPERTS_CHOOSE, of.TOKENS_CHOOSE)
        for loss in ("linear", "hinge")
        for top in ((2, 12), (1, 1))
    ],
    fixed={"start": of.PLANTED, "fine_tune": False, "tuning_steps": 60},
    looks=("rho", "criterion", "shown"),
    missing=("Fine-tuning of what is left, random weights and pre-trained branches need Python.",),
    restricted=(
        ("top", "experts", ({"knob": "routing", "is": [of.TOKENS_CHOOSE]},)),
        ("top", "tokens", ({"knob": "routing", "is": [of.EXPERTS_CHOOSE]},)),
        ("important", "experts"),
    ),
)  # fmt: skip
"""How the Lab is recorded for a page."""

PruningLab = lab(
    "Expert pruning",
    name="PruningLab",
    about="A layer is trained, experts are pruned by a criterion, and what is left is measured.",
    runs=of.runs,
    begin=of.begin,
    arguments={"score": of.own_score},
    training=of.OfferedTraining,
    page=LIVE,
    records=of.RECORDS,
    seconds=of.seconds,
    knobs=KNOBS,
    panels=(
        mark_panel("Which routers moved", routers, routers_axes, words.axis_note, width=546, margins=(52, 8, 86, 28)),
        mark_panel(
            "Accuracy after pruning",
            accuracy,
            accuracy_axes,
            words.trials_note,
            width=392,
            margins=(52, 152, 94, 48),
            pin=pin_accuracy,
        ),
        mark_panel("What is left", left, left_axes, width=162, margins=(20, 12, 60, 50)),
    ),
    caption=sentence(words.caption),
    trouble=sentence(words.trouble),
    question=QUESTION,
    goals=GOALS,
    stories=STORIES,
    check=check,
    check_view=check_view,
    more=of.more,
    compares=False,  # a record holds the trained layer
    progress=progress,
    code=of.code,
    data=of.data,
)
