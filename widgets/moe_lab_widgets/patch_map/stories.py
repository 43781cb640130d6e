"""The patch-map Lab's stories. Every number is the median of 3 trials, measured with the story's own settings."""

from __future__ import annotations

from moe_lab_widgets.engine.definition import Story

STORIES = (
    Story(
        "Gates find the object, and gain nothing",
        {"seed": 0},
        "42 % of the kept patches end up in the object, where chance has 25 %. And yet: accuracy 85 %, the same "
        "network without gates 90 %. In none of 3 trials are the gates ahead.",
    ),
    Story(
        "Chance instead of gates",
        {"gates": "random", "seed": 0},
        "Each expert gets two patches at random, others in every step: 54 % right, where learned gates have 85 %. So "
        "gates do choose well; getting everything is still better.",
    ),
    Story(
        "All patches, but weighted (soft gates)",
        {"gates": "soft", "seed": 0},
        "Nothing is thrown away, gates only weigh: 29 % of their sum falls in the object. Accuracy 93 %, ahead of no "
        "gate (90 %) in all 3 trials, though by 3 points at most.",
    ),
    Story(
        "One patch for each expert (l = 1)",
        {"patches_per_expert": 1, "seed": 0},
        "With a softmax over all patches a gate learns from a single one: 46 % lie in the object, more than for l = 2. "
        "Four patches of 16 are enough for 88 %.",
    ),
    Story(
        "A gate without a slope (l = 1, eq. 5)",
        {"patches_per_expert": 1, "softmax": "kept", "seed": 0},
        "The softmax of one number is always 1, so no gate ever learns: 31 % lie in the object, and 70 % are right. "
        "With the authors' softmax over all patches it is 46 % and 88 %.",
    ),
    Story(
        "Few samples (N = 200)",
        {"samples": 200, "seed": 0},
        "Where the paper promises most: 77 % with gates, 80 % without, 80 % for the plain convolution. The gates find "
        "the object all the same (38 %).",
    ),
    Story(
        "Drowned in noise (σ = .6)",
        {"noise": 0.6, "seed": 0},
        "26 % of the kept patches lie in the object: chance. Gates that do not know where to look do harm: 34 % right, "
        "without them 42 %, and guessing has 25 %.",
    ),
)
