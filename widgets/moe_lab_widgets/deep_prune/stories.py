"""The deep pruning Lab's stories."""

from __future__ import annotations

from moe_lab_widgets.deep_prune.settings import REROUTED
from moe_lab_widgets.engine.definition import Story

STORIES = (
    Story(
        "Half of the experts go",
        {"seed": 0},
        "Pruned silently, half of the experts cost about a point here, and 1 to 6 points over five seeds. The routers "
        "stay, so memory, FLOPs and the measured time of a large block all fall by two fifths.",
    ),
    Story(
        "The same half, rerouted",
        {"mode": REROUTED, "seed": 0},
        "Memory falls as much as before, but FLOPs and time do not: each token still visits two experts, others than "
        "it chose. Accuracy falls further than silently, in each of five seeds.",
    ),
    Story(
        "Not the upper bound",
        {"criterion": "router-magnitude", "mode": REROUTED, "pruned": 6, "seed": 0},
        "The paper calls the norm change an upper bound to the other criteria. With six of eight gone, the router's "
        "norm, which needs no model from before, is as good or better in each of five seeds.",
    ),
    Story(
        "By lot",
        {"criterion": "random", "mode": REROUTED, "pruned": 6, "seed": 0},
        "Six of eight drawn by lot: 8 points worse than by norm change here. Over five seeds norm change beats the "
        "mean of four draws in four. Silently, with half gone, it hardly differs from chance.",
    ),
    Story(
        "Two digits cannot tell",
        {"classes": 2, "pruned": 6, "seed": 0},
        "0 against 1, upside down. With six of eight experts gone every criterion is still at 99 %, chance too: the "
        "rest of the model carries so small a task. It takes ten digits to compare criteria.",
    ),
    Story(
        "Stopped early",
        {"steps": 150, "seed": 0},
        "x.",
    ),
)
