"""The landscape Lab's stories. Numbers were measured with each story's own settings; errors are medians of 5 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story

STORIES = (
    Story(
        "ℓ₂ gets stuck",
        {"seed": 3},
        "Five unlucky starts: the squared error is stuck in 5 of 5 trials, at an error of 0.55, and L₄ in none "
        "(0.00022). All of L₄'s valleys are true solutions; half of those of ℓ₂ are not.",
    ),
    Story(
        "Small batches (B = 64)",
        {"batch": 64, "seed": 0},
        "Labels to the fourth power have heavy tails: with 64 samples a step in place of 1024, L₄ still finds the "
        "regressors in 5 of 5 trials, but its error is 0.0020, five times as large.",
    ),
    Story(
        "Small batches, small steps (figure 4)",
        {"batch": 128, "dimension": 5, "rate": 0.001, "ridge": 0.5, "steps": 3000, "seed": 0},
        "The paper's batch of 128 with its learning rate of .001 is steady and slow: after 3000 steps L₄ has found 0 "
        "of 5, error 0.14, and 4 are still falling. It takes four times as many. Try η = .02.",
    ),
    Story(
        "Gates that are not orthogonal",
        {"gating": "random", "seed": 0},
        "The theorem wants gates orthogonal to all regressors; for two experts L₄ does not need it (5 of 5, 0.00038). "
        "ℓ₂ is stuck in 2 of 5 trials.",
    ),
)
