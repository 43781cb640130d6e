"""The patch-map Lab's question and goals."""

from __future__ import annotations

from torch import Tensor

from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Sketch, Why, comparison, ends_of


def right(now: MarkRecord, name: str | None = None) -> Tensor:
    """Returns the median accuracy of a network, of that with gates where none is named."""
    return median_of(now, "test_accuracy", name)


def in_object(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns how much of what the gates keep lies in the object, and what chance would give."""
    return median_of(now, "kept_in_object"), median_of(now, "chance")


def patches_seen(now: MarkRecord) -> Tensor:
    """Returns how many patches all experts keep together."""
    return now.values.number("experts") * now.values.number("patches_per_expert")


def share(now: MarkRecord) -> Words:
    words = "In the object: {:.0%}, by chance {:.0%}; right: {:.0%}."
    return say(words, *in_object(now), right(now))


def beside(now: MarkRecord) -> Words:
    return say("With gates: {:.0%}, without: {:.0%}.", right(now), right(now, now.names[1]))


GOALS = (
    Goal(
        "Make gates do harm: 20 points worse than none.",
        reached=lambda now: right(now) < right(now, now.names[1]) - 0.2,
        so_far=beside,
        solved_by={"gates": "random"},
        keeps=("trials", "noise", "patches_per_expert", "samples"),
        why=Why(
            "Why are these gates worse than none?",
            {
                "They do not know where to look": "What they keep lies in the object as often as by chance, and the "
                "rest is thrown away.",
                "The network with gates is smaller": "Both have the same convolutions.",
                "They look beside the object": "They keep the object as often as chance does, not less.",
            },
            measured=lambda start, end: (in_object(end)[0] - in_object(end)[1]).abs() < 0.03,
        ),
        seen="So learned gates do choose well. But getting everything is as good here.",
    ),
    Goal(
        "Look at 4 of the 16 patches at most, and be right in 80 %.",
        reached=lambda now: (right(now) >= 0.8) & (patches_seen(now) <= 4),
        so_far=lambda now: say("{:.0f} patches are kept, and {:.0%} are right.", patches_seen(now), right(now)),
        solved_by={"patches_per_expert": 1},
        keeps=("trials", "gates", "noise", "samples"),
        why=Why(
            "Why is a quarter of the image enough?",
            {
                "Gates find the object": "The kept patches lie in it more often than chance would put them there.",
                "Every patch shows the object": "It covers a quarter of the image.",
                "The classes differ in their colour": "The images are grey.",
            },
            measured=lambda start, end: in_object(end)[0] > in_object(end)[1] + 0.1,
        ),
        seen="Each expert keeps only its best patch, by a softmax over all of them.",
    ),
    Goal(
        "Switch the learning of the gates off, without any noise.",
        reached=lambda now: in_object(now)[0] <= in_object(now)[1] + 0.11,
        so_far=share,
        solved_by={"patches_per_expert": 1, "softmax": "kept"},
        keeps=("trials", "gates", "noise", "samples"),
        why=Why(
            "Why has no gate learned anything?",
            {
                "The softmax of one number is always 1": "Over the kept patches alone, with l = 1, a gate has nothing "
                "to compare with, and its slope is 0.",
                "One patch is too little": "With a softmax over all patches one is enough.",
                "The object is too small": "With two patches the same gates find it.",
            },
            measured=lambda start, end: in_object(start)[0] > in_object(end)[0] + 0.05,
        ),
        seen="The authors' softmax, over all patches, learns from a single one.",
    ),
)


def accuracies(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns how often the networks with and without gates are right."""
    return right(now), right(now, now.names[1])


QUESTION = comparison(
    "Before it runs: which network will be right more often at the end?",
    ("the one with gates", "the one without gates", "both about equally often (within 3 points)"),
    accuracies,
    apart=0.03,
    found=("the one with gates is", "the one without gates is", "both are about equally often"),
    numbers=": {:.0%} with, {:.0%} without",
    sketch=Sketch(2, ("with gates", "without"), ("model", "other"), ends_of(accuracies), near=0.05),
)
