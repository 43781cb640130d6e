"""The routing-choices Lab's stories. Every number is a median of 4 trials, measured with the story's own settings."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "First come, first served",
        {"seed": 0},
        "Patches ask, and three experts get nearly all the calls: 58 % of patches are lost, o is kept in 44 %. "
        "Accuracy 69 %, where experts that choose for themselves reach 100 % with as many places.",
    ),
    Story(
        "The same places, by priority",
        {"order": "priority", "seed": 0},
        "Now the patches with the highest scores are served first. As many are lost (60 %), but o is kept in 100 %: "
        "accuracy 95 % in place of 69 %.",
    ),
    Story(
        "Half as many places",
        {"order": "priority", "capacity_factor": 0.5, "seed": 0},
        "One place an expert, 74 % of patches are lost, and accuracy is 100 %: what is lost does not matter, as "
        "long as it is not o.",
    ),
    Story(
        "Room for three times as many",
        {"capacity_factor": 3.0, "seed": 0},
        "Six places an expert cost three times the compute: 14 % are lost, o is kept in 88 %, accuracy 91 %. "
        "Priority gave 95 % with a third of the places.",
    ),
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
        "Noise on the scores",
        {"router_noise": 1.0, "seed": 0},
        "Noise lets weak experts have a try while training. The load at the end is no more even, 58 % are lost as "
        "before, but accuracy is 80 % in place of 69 %.",
    ),
    Story(
        "Nobody chooses (soft MoE)",
        {"routing": "soft", "seed": 0},
        "Each of 16 slots takes a weighted mean of all patches. Nothing is lost, and o is 16 % of what experts see, "
        "where equal weights would give 6 %: accuracy 100 %.",
    ),
    Story(
        "A hash with room for all",
        {"routing": "hash", "capacity_factor": 3.0, "seed": 0},
        "Nothing is learned of who gets what, and nothing is lost: o always arrives, among all the others. Accuracy "
        "68 %: routing is worth what it leaves out.",
    ),
)
