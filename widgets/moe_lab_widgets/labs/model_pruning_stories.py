"""The stories of the Lab that prunes a language model. Numbers were measured with each story's own settings."""

from __future__ import annotations

from moe_lab_hub.repair import KNOWN
from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "A rule that the base model knew",
        {"task": KNOWN[0], "trials": 3, "seed": 0},
        "Little was left to learn, so the routers' growth tells little: 69 % of the answers are right, and 59 % "
        "after random choices. The importance score, which reads the questions, is at 87 %.",
    ),
    Story(
        "Chance, three times",
        {"criterion": "random", "trials": 3, "seed": 0},
        "Four experts that nobody has chosen: 45 % are right at first, and 99 % after 40 steps. But the other rules "
        "fall from 58 % to 37 %, for the repair asks for one rule alone.",
    ),
    Story(
        "Two experts left, silently",
        {"kept": 2, "way": "silent", "trials": 3, "seed": 0},
        "A third of the work is saved. 31 % of the answers are right at first, 87 % after 40 steps. No checkpoint can "
        "hold this model: its router is as large as before.",
    ),
)
