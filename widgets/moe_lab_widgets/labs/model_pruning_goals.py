"""The question and the goals of the Lab that prunes a language model."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Question, Sketch, Why

BY_NORM, BY_IMPORTANCE = 0, 2
"""The places of two criteria among all."""


def right_after(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the share of right answers right after pruning, and after as many random choices."""
    return middle(now.curve("accuracy")[1][0]), middle(now.last("by_chance").mean(1))


def by(now: MarkRecord, criterion: int) -> Tensor:
    """Returns the share of right answers right after pruning by a criterion."""
    return middle(now.last("by_criterion")[:, criterion])


def against_chance(now: MarkRecord) -> Words:
    return say("Right after pruning: {:.0%} right, at random {:.0%}.", *right_after(now))


GOALS = (
    Goal(
        "With half of the experts gone, have 9 answers of 10 right again.",
        reached=lambda now: median_of(now, "accuracy") >= 0.9,
        so_far=lambda now: say(
            "Before pruning {:.0%}, now {:.0%}.", median_of(now, "whole"), median_of(now, "accuracy")
        ),
        solved_by={"steps": 40},
        why=Why(
            "Why can four experts do what eight did?",
            {
                "They get every token, and learn": "In fine-tuning they take over what the others knew.",
                "The four that went were useless": "Without them half of the answers were wrong.",
                "Fine-tuning brings the others back": "The model still has four experts in a layer.",
            },
            measured=lambda start, end: median_of(end, "accuracy") > right_after(end)[0] + 0.3,
        ),
        seen="So measure a pruned model after its repair, too, and not only before.",
        start={"steps": 5},
        keeps=("task", "kept", "trials"),
    ),
    Goal(
        "Right after pruning, be 10 points better than chance.",
        reached=lambda now: right_after(now)[0] - right_after(now)[1] >= 0.1,
        so_far=against_chance,
        solved_by={"criterion": "importance-score"},
        why=Why(
            "Why does the importance score choose better than the change of the norm?",
            {
                "It has read the questions": "It counts which experts win tokens of this task with a large gate.",
                "It keeps more experts": "Each keeps four in a layer.",
                "Routers do not move in fine-tuning": "They have moved; but an expert may matter without it.",
            },
            measured=lambda start, end: by(end, BY_IMPORTANCE) > by(end, BY_NORM) + 0.1,
        ),
        seen="But it needs texts of your task and the model in memory. The change of the norm needs two checkpoints.",
        keeps=("task", "kept", "trials"),
    ),
    Goal(
        "With three experts left, save a tenth of a token's operations, and be right in 7 of 10.",
        reached=lambda now: (median_of(now, "operations") <= 0.9) & (median_of(now, "accuracy") >= 0.7),
        so_far=lambda now: say(
            "{:.0%} of the operations, and {:.0%} right.", median_of(now, "operations"), median_of(now, "accuracy")
        ),
        solved_by={"way": "silent"},
        why=Why(
            "Why did the rerouted model compute as much as the whole one?",
            {
                "A token still met two experts": "It chose two among those left, and each computes as much as before.",
                "It had as many experts": "It had three of eight: the memory is smaller, the work is not.",
                "Its experts were larger": "They are the same experts.",
            },
            measured=lambda start, end: median_of(start, "operations") > 0.95,
        ),
        start={"kept": 3},
        seen="Silent pruning saves work, but it is no checkpoint: the router is as large as before.",
        keeps=("task", "kept", "steps", "trials"),
    ),
)

NEAR, SOME = 0.05, 0.3
"""How near to the model before pruning is called as good; the share of what was lost that is called some of it."""


def come_back(now: MarkRecord) -> Tensor:
    """Returns which answer is right: 0 all of what was lost has come back, 1 some of it, 2 hardly any."""
    whole, lowest, end = median_of(now, "whole"), right_after(now)[0], median_of(now, "accuracy")
    some = torch.where(end - lowest >= SOME * (whole - lowest), 1.0, 2.0)
    answer = torch.where(end >= whole - NEAR, 0.0, some)
    return torch.where(end.isfinite(), answer, torch.nan)


def seen(now: MarkRecord) -> Words:
    words = "{:.0%} are right at the end, {:.0%} right after pruning and {:.0%} before it"
    return say(words, median_of(now, "accuracy"), right_after(now)[0], median_of(now, "whole"))


QUESTION = Question(
    "Before it runs: how much of what was lost will the repair bring back?",
    ("all of it", "some of it", "hardly any"),
    come_back,
    seen,
    Sketch(
        0,
        ("the rule of fine-tuning", "the other rules"),
        ("model", "other"),
        lambda now: torch.stack([median_of(now, name) for name in ("accuracy", "others")]),
        near=0.1,
    ),
)
