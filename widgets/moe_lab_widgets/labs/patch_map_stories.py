"""The patch-map Lab's stories. Every number is the median of 3 trials, measured with the story's own settings."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "With gates and without",
        {"seed": 0},
        "41 % of the kept patches end up in the object, where chance would give 25 %. And yet the network without "
        "gates is as good: both end at 92 %. Move the seed: sometimes one is ahead, sometimes the other.",
    ),
    Story(
        "Chance instead of gates",
        {"gates": "random", "seed": 0},
        "Each expert gets two patches at random, others in every step: 53 % right, where learned gates have 92 %. So "
        "gates do choose well; getting everything is as good.",
    ),
    Story(
        "All patches, but weighted (soft gates)",
        {"gates": "soft", "seed": 0},
        "Nothing is thrown away, gates only weigh: 29 % of their sum falls in the object, a little more than chance. "
        "Accuracy 92 %, as without gates.",
    ),
    Story(
        "Few samples (N = 200)",
        {"samples": 200, "seed": 0},
        "Where the paper promises most: 85 % with gates, 82 % without, 84 % for the plain convolution. Move the seed: "
        "over 12 trials (seeds 0 to 3) gates and no gates come out equal.",
    ),
)
