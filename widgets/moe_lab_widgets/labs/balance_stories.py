"""The balance Lab's stories. Numbers were measured with each story's own settings: medians of 4 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "One expert takes everything (h₀ = 4)",
        {"seed": 0},
        "The router begins by preferring expert 1 and hardly comes off it: a load equivalent to 1.3 of 8 "
        "experts, 81.4 % right. Importance and Switch loss put all to work on clusters of their own, 99.8 %; the bias "
        "reaches 98.5 %, the z-loss 94.4 %.",
    ),
    Story(
        "Too little of a cure (λ = .001)",
        {"strength": 0.001, "seed": 0},
        "In 300 steps of a thousandth the bias moves by at most .3, no match for a lead of 4: 81.8 %. The losses on "
        "the load do little, 85.4 % (Switch) and 86.1 % (importance). The z-loss does most now: 92.5 %.",
    ),
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
        "Balanced and worse (experts take gradient steps)",
        {"activation": "cubic", "expert_steps": "gradient", "balancing": "bias", "seed": 0},
        "Steps now grow with an expert's samples: 89.0 %. The bias evens out the load (equivalent to 7.1 "
        "experts), and accuracy falls to 85.7 %. The Switch and the importance loss even it out, too, and reach 99.0 % "
        "and 99.1 %.",
    ),
    Story(
        "Unequal clusters (ρ = 3, M = 4)",
        {"activation": "cubic", "lead": 0.0, "imbalance": 3.0, "experts": 4, "seed": 0},
        "The right load is uneven here, equivalent to 2.4 experts: without balancing 99.1 % are right. The "
        "importance loss evens it out, so that experts of rare clusters take samples of the common one: 97.6 %. With "
        "the bias: 95.5 %.",
    ),
    Story(
        "A shared expert (K_s = 1)",
        {"shared": 1, "seed": 0},
        "One more expert gets every sample and needs no router. The routed ones collapse less, to a load "
        "equivalent to 3.0 experts, and 94.9 % are right without any balancing (81.4 % without the shared expert).",
    ),
    Story(
        "Two experts for each sample (k = 2)",
        {"experts_per_sample": 2, "seed": 0},
        "Whatever expert 1 gets goes to a second expert, too: 95.4 % without any balancing, where one expert for "
        "each sample gives 81.4 %. All four ways to balance reach at least 99.6 %, although experts share clusters.",
    ),
    Story(
        "Twice the experts (M = 16)",
        {"experts": 16, "seed": 0},
        "More experts are no cure: a load equivalent to 1.2 of 16, 80.8 % right. With the importance loss it is "
        "equivalent to 10 experts after 300 steps (99.4 %); the bias has put 14.7 to work.",
    ),
)
