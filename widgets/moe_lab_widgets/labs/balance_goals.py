"""The balance Lab's goals."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Why

NONE, BALANCED = "none", ("switch", "importance", "z-loss", "bias")


def right(now: MarkRecord, name: str) -> Tensor:
    """Returns the median accuracy of a mixture."""
    return median_of(now, "test_accuracy", name)


def worth(now: MarkRecord, name: str) -> Tensor:
    """Returns the median number of equally loaded experts whose load has the same entropy."""
    return middle(now.last("load_entropy", name).exp())


def without_and_with(now: MarkRecord) -> Words:
    other = now.values["balancing"]
    words = "Without balancing: {:.1%}, a load worth {:.1f}; with: {:.1%} and {:.1f}."
    return say(words, right(now, NONE), worth(now, NONE), right(now, other), worth(now, other))


def z_loss_and_best(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the accuracy with the z-loss, and the best of the three other ways."""
    others = torch.stack([right(now, name).nan_to_num() for name in BALANCED if name != "z-loss"])
    return right(now, "z-loss"), others.amax()


GOALS = (
    Goal(
        "Make a more even load less accurate, by 1 point.",
        reached=lambda now: (
            (worth(now, now.values["balancing"]) > worth(now, NONE) + 0.5)
            & (right(now, now.values["balancing"]) < right(now, NONE) - 0.01)
        ),
        so_far=without_and_with,
        start={"activation": "cubic", "expert_steps": "gradient"},
        solved_by={"balancing": "bias"},
        keeps=("activation", "trials", "samples"),
        why=Why(
            "The load is more even, and fewer samples are right. How?",
            {
                "Experts are sent samples that are not their own": "The bias moves scores whatever the experts have "
                "learned, so that clusters are torn apart.",
                "Experts have too few samples": "On average they have as many as before.",
                "The noise has grown": "Nothing of the samples has changed.",
            },
            measured=lambda start, end: median_of(end, "agreement", "bias") < median_of(end, "agreement", "switch"),
        ),
        seen="An even load is a means. The Switch and the importance loss even it out, too, and are right more often.",
    ),
    Goal(
        "Undo the collapse without any balancing: 95 %, with expert 1 still ahead by 4.",
        reached=lambda now: right(now, NONE) >= 0.95,
        so_far=without_and_with,
        solved_by={"experts_per_sample": 2},
        keeps=("lead", "trials", "activation", "samples"),
        why=Why(
            "What did you change for the experts that were idle?",
            {
                "Each sample goes to a second one, too": "Whatever expert 1 gets, another one gets as well, and learns "
                "from it.",
                "Expert 1 is ahead by less": "The lead is as large as before.",
                "They are paid for an even load": "There is no such loss in this run.",
            },
            measured=lambda start, end: worth(end, NONE) > worth(start, NONE) + 0.5,
        ),
        seen="It costs twice the compute.",
    ),
    Goal(
        "Make the z-loss the best of the four, by 1 point.",
        reached=lambda now: z_loss_and_best(now)[0] >= z_loss_and_best(now)[1] + 0.01,
        so_far=lambda now: say("The z-loss: {:.1%}, the best of the others: {:.1%}.", *z_loss_and_best(now)),
        solved_by={"strength": 0.001},
        keeps=("lead", "trials", "activation", "samples", "steps"),
        why=Why(
            "Why does so small a λ leave the z-loss in front?",
            {
                "It pulls hard even then": "The z-loss is about the square of the scores, which a lead of 4 makes "
                "large. The other three hardly act at a thousandth.",
                "It looks at the load most closely": "It does not look at the load at all, but at the size of scores.",
                "It needs no training": "It acts through the gradient, as the other losses do.",
            },
            measured=lambda start, end: worth(end, "z-loss") > worth(end, "bias") + 0.2,
        ),
        seen="At λ = 1 it is the other way round: the z-loss overshoots and becomes infinite.",
    ),
)
