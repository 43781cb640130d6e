"""The balance Lab's stories. Numbers were measured with each story's own settings: medians of 4 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "Too much of a cure (λ = 1)",
        {"strength": 1.0, "balancing": "switch", "seed": 0},
        "The Switch loss outweighs the task: the load stays even, but only 81.5 % of what experts get is of their "
        "own cluster (96.6 % at .1); 98.4 % are right. The z-loss overshoots and becomes infinite in every trial.",
    ),
    Story(
        "Nothing to cure (cubic experts, h₀ = 0)",
        {"activation": "cubic", "lead": 0.0, "seed": 0},
        "Cubic experts that start alike divide the clusters by themselves: 100 % right, a load equivalent to 4.3 "
        "of 8 experts. Uneven load is not yet collapse. The Switch loss puts all eight to work and gains nothing: 99.1 "
        "%.",
    ),
    Story(
        "A shared expert (K_s = 1)",
        {"shared": 1, "seed": 0},
        "One more expert gets every sample and needs no router. The routed ones collapse less, to a load "
        "equivalent to 3.0 experts, and 94.9 % are right without any balancing (81.4 % without the shared expert).",
    ),
    Story(
        "Twice the experts (M = 16)",
        {"experts": 16, "seed": 0},
        "More experts are no cure: a load equivalent to 1.2 of 16, 80.8 % right. With the importance loss it is "
        "equivalent to 10 experts after 300 steps (99.4 %); the bias has put 14.7 to work.",
    ),
)
