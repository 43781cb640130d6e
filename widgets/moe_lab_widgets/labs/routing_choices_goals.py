"""The routing-choices Lab's goals."""

from __future__ import annotations

from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Why


def so_far(now: MarkRecord) -> Words:
    words = "Patches lost: {:.0%}; o kept: {:.0%}; right: {:.0%}."
    return say(words, median_of(now, "lost"), median_of(now, "signal_kept"), median_of(now, "test_accuracy"))


GOALS = (
    Goal(
        "Keep o in 95 % of the samples, with one place for each patch.",
        reached=lambda now: median_of(now, "signal_kept") >= 0.95,
        so_far=so_far,
        solved_by={"order": "priority"},
        keeps=("routing", "capacity_factor", "experts_per_patch", "trials", "noise"),
        why=Why(
            "As many patches are lost. Why not o any more?",
            {
                "Those with high scores are served first": "A router that has learned gives o a high score, so o finds "
                "a place before the others.",
                "The load is even now": "Three experts still get nearly all the calls.",
                "There is more room": "There are as many places as before.",
            },
            measured=lambda start, end: median_of(end, "lost") > median_of(start, "lost") - 0.05,
        ),
        seen="What is lost does not matter, as long as it is not o.",
    ),
    Goal(
        "Lose 70 % of the patches, and be right in 97 %.",
        reached=lambda now: (median_of(now, "lost") >= 0.7) & (median_of(now, "test_accuracy") >= 0.97),
        so_far=so_far,
        solved_by={"order": "priority", "capacity_factor": 0.5},
        keeps=("routing", "trials", "noise", "samples"),
        why=Why(
            "Why is it right more often with half the places?",
            {
                "Less reaches the experts that means nothing": "One place for each expert, and o has it: hardly "
                "anything else can mislead.",
                "More patches have a place": "Fewer have one.",
                "Experts have more weights now": "They have as many.",
            },
            measured=lambda start, end: median_of(end, "signal_kept") >= 0.95,
        ),
        seen="Routing is worth what it leaves out.",
    ),
    Goal(
        "Lose nothing, and be right in less than 90 %.",
        reached=lambda now: (median_of(now, "lost") < 0.005) & (median_of(now, "test_accuracy") < 0.9),
        so_far=so_far,
        solved_by={"routing": "hash", "capacity_factor": 3.0},
        keeps=("trials", "noise", "samples"),
        why=Why(
            "Everything arrives, and it does not help. Why?",
            {
                "o arrives among all the others": "A hash learns nothing of what matters: an expert sees o among as "
                "much noise as a network without a router does.",
                "The experts never see o": "They see it in every sample.",
                "It has not trained long enough": "It trains as long as the others do.",
            },
            measured=lambda start, end: median_of(end, "signal_kept") >= 0.99,
        ),
        seen="Soft MoE loses nothing, either, but it weighs what it passes on.",
    ),
)
