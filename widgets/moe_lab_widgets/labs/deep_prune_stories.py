"""The deep pruning Lab's stories. Numbers were measured for seeds 0 to 9, on 500 digits: one of them is ± 2 points."""

from __future__ import annotations

from moe_lab.vision.deep import MODES
from moe_lab_widgets.engine.definition import Story

SILENT, REROUTED = MODES

STORIES = (
    Story(
        "Half of the experts go",
        {"seed": 0},
        "Pruned silently, half of the experts cost 2 points here, 1 to 9 over ten seeds. The routers stay as they are; "
        "memory, FLOPs and the measured time of a large block all fall.",
    ),
    Story(
        "The same half, rerouted",
        {"mode": REROUTED, "seed": 0},
        "Memory falls as before, FLOPs and time do not: each token still visits two experts, others than it was "
        "trained with. Accuracy falls further than silently, in each of ten seeds.",
    ),
    Story(
        "Against chance",
        {"pruned": 6, "seed": 0},
        "With six of eight gone silently, norm change beats the mean of four random draws in nine of ten seeds, by 1 "
        "to 5 points. With four gone, in seven of ten: within the error bar, hardly different.",
    ),
    Story(
        "Random choice, rerouted",
        {"criterion": "random", "mode": REROUTED, "pruned": 6, "seed": 0},
        "Six of eight go and tokens are rerouted: 10 to 19 points are lost by norm change, and more at random in nine "
        "of ten seeds. Memory falls to 30 %, and that is all that is saved.",
    ),
    Story(
        "Not the upper bound",
        {"criterion": "router-magnitude", "seed": 0},
        "The paper calls the norm change an upper bound to the other criteria. With half gone, the router's norm is "
        "ahead of its change in eight of ten seeds, and needs no model from before.",
    ),
    Story(
        "Two digits cannot tell",
        {"classes": 2, "pruned": 6, "seed": 0},
        "0 against 1, upside down. With six of eight experts gone silently every criterion is still at 99 %, chance "
        "too: the rest of the model carries so small a task. To compare criteria takes more.",
    ),
)
