"""The router-alignment Lab's stories. Every number was measured with the story's own settings, 8 trials unless said."""

from __future__ import annotations

from typing import Any

from moe_lab_widgets.engine.story import Story
from moe_lab_widgets.labs.router_alignment_runs import OWN_DEFAULTS, SYNTHETIC


def _synthetic(**values: Any) -> dict[str, Any]:
    return {"source": SYNTHETIC, **OWN_DEFAULTS[SYNTHETIC], "seed": 0, **values}


STORIES = (
    Story(
        "The paper's synthetic patches",
        _synthetic(),
        "Striped tiles imitate a class, but routers learn to tell them from o: accuracy 99 % against 88 %.",
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
)
