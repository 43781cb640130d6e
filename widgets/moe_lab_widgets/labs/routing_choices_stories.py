"""The routing-choices Lab's stories. Every number is a median of 4 trials, measured with the story's own settings."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "A gate that cannot learn",
        {"gates": "softmax", "seed": 0},
        "The softmax of the one chosen score is 1 whatever the router does, so it stays where it began: load is "
        "even by chance, 29 % are lost, and accuracy is 72 %.",
    ),
    Story(
        "Ask all eight",
        {"gates": "softmax", "experts_per_patch": 8, "seed": 0},
        "Every patch asks everybody, and 88 % of the choices find no place: 76 %. With as many places, asking more "
        "experts helps a little and wastes most of the asking.",
    ),
    Story(
        "One patch an expert, experts choose",
        {"routing": "expert-choice", "capacity_factor": 0.5, "seed": 0},
        "A softmax over all patches, before the choice, learns from a single kept patch: 72 % are lost, o never, "
        "and accuracy is 100 %. Take the softmax after the choice, and it is 67 %.",
    ),
    Story(
        "Nobody chooses (soft MoE)",
        {"routing": "soft", "seed": 0},
        "Each of 16 slots takes a weighted mean of all patches. Nothing is lost, and o is 16 % of what experts see, "
        "where equal weights would give 6 %: accuracy 100 %.",
    ),
)
