"""The patch-map Lab's stories. Every number was measured with the story's own settings, 3 trials unless said."""

from __future__ import annotations

from moe_lab_widgets.engine.definition import Story

STORIES = (
    Story(
        "Gates find the digit, somewhat",
        {"seed": 0},
        "By step 80 some 40 % of the kept patches lie in the digit that decides the class, by chance 25 %.",
    ),
)
