"""The pruning Lab's stories. Numbers were measured with each story's own settings: medians of 8 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs.pruning_record import BRANCHES, RANDOM, recipe

STORIES = (
    Story(
        "Fine-tuning rescues under the true hinge",
        {"loss": "hinge", "fine_tune": True, "rho": 0.6, "seed": 0},
        "The true hinge stops learning once samples are right, so the signal stays small against the others' noise:"
        " 100 % before pruning, 58 % after it, 100 % again after 60 steps. Here each pruned layer is tuned on its "
        "own.",
    ),
    Story(
        "Pruned one too many",
        {"criterion": "neuron-magnitude", "rho": 0.4, "shown": 2, "seed": 0},
        "Trial 2. At ρ = 0.3 it is 100 % right; one more expert of each half, and nobody is left who carries o₁ or "
        "o₂: 48 %. Tick fine-tune: nothing comes back, since no router that is left keeps these tokens.",
    ),
    Story(
        "A random start, and the assumption fails",
        {"start": RANDOM, **recipe(RANDOM, "expert-choice"), "rho": 0.7, "shown": 8, "seed": 0},
        "From tiny random weights one to six routers grow. In trial 8 no expert has found o₁, which the theory takes "
        "for granted: 56 % right before pruning. Trial 1 lacks it too, and gets by up to ρ = 0.6. In the others 100 % "
        "stay at every ρ.",
    ),
    Story(
        "Pre-trained branches",
        {"start": BRANCHES, **recipe(BRANCHES, "expert-choice"), "rho": 0.7, "seed": 0},
        "Four branches of experts were pre-trained on a task each; one task is trained on. Its specialists' routers"
        " grow, and 100 % stay at every ρ. By router norm too: here the specialists' routers are the longest.",
    ),
)
