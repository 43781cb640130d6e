"""The pruning Lab's stories. Numbers were measured with each story's own settings: medians of 8 trials."""

from __future__ import annotations

from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs.pruning_record import BRANCHES, RANDOM, TOKENS_CHOOSE, recipe

STORIES = (
    Story(
        "The quiet experts",
        {"rho": 0.8, "seed": 0},
        "Two routers of each half grow by 3.8, above the theory's 2.41; the other sixteen stay where they were. "
        "Pruning those sixteen leaves 100 % right, and a fifth of the memory and of the FLOPs. Chosen at random, "
        "sixteen would leave 54 %.",
    ),
    Story(
        "Router norm misleads",
        {"criterion": "router-magnitude", "rho": 0.5, "seed": 0},
        "Now the longest routers stay. They were long before training and learned nothing here (compare the two "
        "rows of bars): 50 % right, no better than guessing. This checkpoint is chosen so that large says nothing.",
    ),
    Story(
        "Importance misleads",
        {"criterion": "importance-score", "rho": 0.2, "seed": 0},
        "Importance counts tokens won. One token decides the class, so an expert that carries it wins "
        "few: with a fifth of the experts gone, 53 % are right.",
    ),
    Story(
        "Large but quiet: when router norm is right",
        {"criterion": "router-magnitude", "others_norm": 2.0, "rho": 0.8, "seed": 0},
        "The same with short routers elsewhere (norm 2 instead of 12): the routers that grew are now the longest "
        "too, and router norm keeps 100 % at every ρ. The contrast before was a choice.",
    ),
    Story(
        "Fine-tuning rescues",
        {"steps": 40, "fine_tune": True, "rho": 0.3, "seed": 0},
        "Stopped after 40 steps, with 66 % right. Routers have hardly grown, but the order is there: pruned by it "
        "69 % (dotted), and 60 steps of fine-tuning what is left bring every trial to 100 %.",
    ),
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
        "Tokens choose",
        {"routing": TOKENS_CHOOSE, **recipe("planted", TOKENS_CHOOSE), "rho": 0.8, "seed": 0},
        "Each token picks two experts. One expert of each class wins the race (Δ about 4), even of the two planted "
        "ones. Routers stay after pruning, so that gates do not change: memory falls to 24 %, FLOPs to 44 %.",
    ),
    Story(
        "Pruning heals",
        {"routing": TOKENS_CHOOSE, **recipe("planted", TOKENS_CHOOSE), "others_neurons": 0.2, "rho": 0.8, "seed": 0},
        "Others with large neurons drown the one token that decides: 56 % right in the worst trial. They are the "
        "ones that the norm change prunes, and without them that trial reaches 100 %.",
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
    Story(
        "One token an expert (l = 1)",
        {"top": 1, "seed": 0},
        "The softmax over one token is 1, so that routers have no slope and cannot move: Δ = 0 for all, and the "
        "criterion is undefined. Neuron change still works: 100 %.",
    ),
)
