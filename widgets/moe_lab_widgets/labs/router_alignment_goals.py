"""The router-alignment Lab's goals."""

from __future__ import annotations

from torch import Tensor

from moe_lab.drawing.marks import middle
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Why


def right(now: MarkRecord, name: str) -> Tensor:
    """Returns the median accuracy of a model."""
    return median_of(now, "test_accuracy", name)


def both(now: MarkRecord) -> Words:
    return say("The mixture: {:.0%}, the CNN: {:.0%}.", right(now, "joint"), right(now, "cnn"))


def rarer(now: MarkRecord) -> Tensor:
    """Returns how often the class that reaches an expert less often does so, the median over the trials."""
    return middle(now.last("coverage").amin(1))


def mixture_and_rarer(now: MarkRecord) -> Words:
    words = "The mixture: {:.0%}; the rarer pattern reaches an expert in {:.0%} of its samples."
    return say(words, right(now, "joint"), rarer(now))


GOALS = (
    Goal(
        "Make the CNN win, by 3 points.",
        reached=lambda now: right(now, "cnn") >= right(now, "joint") + 0.03,
        so_far=both,
        solved_by={"patches_per_expert": 1},
        keeps=("noise", "trials", "samples", "source"),
        why=Why(
            "Why can the CNN be better than the mixture here?",
            {
                "The routers do not learn": "With l = 1 the gate is the softmax of one number, which is always 1. Its "
                "slope is 0, and no router moves.",
                "One patch is too little to see": "One patch is enough, if it is the right one.",
                "There are too few experts": "As many experts win with l = 2.",
            },
            measured=lambda start, end: (
                (end.last("alignment") == end.curve("alignment")[1][0]).all()
                & (start.last("alignment") != start.curve("alignment")[1][0]).any()
            ),
        ),
        seen="Set l to 2, and the routers turn.",
    ),
    Goal(
        "Stay right in 85 %, although one of the two patterns hardly ever reaches an expert.",
        reached=lambda now: (right(now, "joint") >= 0.85) & (rarer(now) < 0.1),
        so_far=mixture_and_rarer,
        solved_by={"experts": 1},
        keeps=("noise", "trials", "samples", "source"),
        why=Why(
            "How can it be right about a pattern that it hardly ever sees?",
            {
                "What is not the one is the other": "There are two classes: where the one pattern is missing, the "
                "sample belongs to the other class.",
                "It guesses": "Guessing would be right in half of those samples, and so in 75 % of all.",
                "It sees the pattern in the test": "Routers choose in the test as they do in training.",
            },
            measured=lambda start, end: (right(end, "joint") >= 0.85) & (rarer(start) > 0.5),
        ),
        seen="A single router turns to one pattern, and with two classes that is enough.",
    ),
    Goal(
        "Reach 95 % with only 60 samples.",
        reached=lambda now: right(now, "joint") >= 0.95,
        so_far=both,
        start={"samples": 60},
        solved_by={"patches": 6},
        keeps=("samples", "noise", "trials", "source"),
        why=Why(
            "Why do fewer patches make samples go further?",
            {
                "Fewer patches can mislead": "With six patches in place of sixteen, chance puts less that looks like a "
                "reason beside the one that decides.",
                "The network is smaller": "It is as large as before: every patch is seen by the same weights.",
                "More of the samples are of one class": "Both classes are as frequent as before.",
            },
            measured=lambda start, end: right(end, "cnn") > right(start, "cnn") + 0.03,
        ),
        seen="The CNN gains, too, as it looks at all patches.",
    ),
)
