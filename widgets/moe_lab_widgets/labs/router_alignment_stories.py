"""The router-alignment Lab's stories. Every number was measured with the story's own settings, 8 trials unless said."""

from __future__ import annotations

from typing import Any

from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs.router_alignment_runs import OWN_DEFAULTS, SYNTHETIC


def _synthetic(**values: Any) -> dict[str, Any]:
    return {"source": SYNTHETIC, **OWN_DEFAULTS[SYNTHETIC], "seed": 0, **values}


STORIES = (
    Story(
        "Routers find the digits",
        {"seed": 0},
        "Within 20 steps routers leave the middle and turn to the 6 or to the 7; after 100, the mixture is right in 96 "
        "% and the CNN, which must look at all 16 digits, in 87 %.",
    ),
    Story(
        "The paper's synthetic patches",
        _synthetic(),
        "Striped tiles imitate a class, but routers learn to tell them from o: accuracy 99 % against 88 %.",
    ),
    Story(
        "One patch gives a router no gradient (l = 1)",
        {"patches_per_expert": 1, "seed": 0},
        "The gate is the softmax of one value, always 1, so its slope is exactly 0 and no router ever moves: 63 % "
        "against the CNN's 87 %. Set l to 2 and they move.",
    ),
    Story(
        "Too few patches (l = 2, l* = 7)",
        _synthetic(patches_per_expert=2, experts=2, distractors=6, trials=16, seed=3),
        "With two experts and six distractors, both o reach an expert in only 3 of 16 trials; with l = l* = 7 in all "
        "16. The accuracy hides it (99 %, 100 %): one routed class is enough.",
    ),
    Story(
        "Drowned in noise",
        {"noise": 2.0, "seed": 0},
        "The digits can hardly be seen, routers wander, and both models end near 63 % although no training error is "
        "left: they learned the samples by heart.",
    ),
    Story(
        "Look-alike classes (δ_d = .8)",
        _synthetic(delta_d=0.8, gap=0.3),
        "o₁ and o₂ are nearly one pattern: the ellipse is thin and routers take both at first. Experts that see "
        "little else still tell them apart (100 %); the CNN does not (72 %).",
    ),
    Story(
        "Many distractors (12 of 16 patches)",
        _synthetic(distractors=12),
        "Twelve stripes of one side in every sample, and l = 6 is far below l* = 13, yet routers trained jointly find "
        "o in every trial: l* is enough, not necessary. 100 % against 82 %.",
    ),
    Story(
        "A needle in a haystack (n = 64)",
        _synthetic(patches=64),
        "One patch in 64 matters. The CNN stays at 63 %, the mixture reaches 100 %, though in trial 1 no expert ever "
        "receives o₁: knowing when o₂ is absent is enough.",
    ),
    Story(
        "One expert alone (k = 1)",
        {"experts": 1, "seed": 0},
        "A single router picks one class and misses the other (coverage near 0 %); with two classes that is enough "
        "for 93 %.",
    ),
    Story(
        "The CNN catches up with more samples",
        _synthetic(samples=1000, steps=1000),
        "Five times the samples: the mixture is done after 200 steps; the CNN gets to 96 %, where 200 samples gave 88 "
        "%. Routing saves samples, it does not do the impossible.",
    ),
)
