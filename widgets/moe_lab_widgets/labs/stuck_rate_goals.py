"""The stuck-rate Lab's question and goals."""

from __future__ import annotations

from torch import Tensor

from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.goal import Goal, Sketch, Why, comparison
from moe_lab_widgets.labs.stuck_rate_record import EXPERTS, found_at, stuck, stuck_by_experts, stuck_in_all


def of_five(now: MarkRecord) -> Words:
    return say("5 experts, 1000 samples: random {:.0%}, spectral {:.0%}.", *found_at(now, 5, 1000))


def worst(now: MarkRecord) -> Tensor:
    """Returns the largest share of random starts that are stuck in a cell."""
    return stuck(now)[0].nan_to_num().amax()


GOALS = (
    Goal(
        "Let random starts find 5 experts as often as the spectral start, with 1000 samples.",
        reached=lambda now: found_at(now, 5, 1000)[0] >= found_at(now, 5, 1000)[1],
        so_far=of_five,
        solved_by={"noise": 0.5},
        keeps=("trials", "dimension", "step"),
        why=Why(
            "Why does the spectral start lose its lead with more noise?",
            {
                "Its moments are noisier": "It reads the regressors from third powers of y, which noise blurs most.",
                "EM is slower": "It has as many iterations, and random starts find more than before.",
                "Random starts begin nearer": "They begin at the same places.",
            },
            measured=lambda start, end: found_at(end, 5, 1000)[1] < found_at(start, 5, 1000)[1],
        ),
        seen="A good start needs samples of its own.",
    ),
    Goal(
        "Let 17 % of all spectral starts on the map be stuck.",
        reached=lambda now: stuck_in_all(now)[1] >= 0.17 - 1e-9,
        so_far=lambda now: say(
            "Stuck on the whole map: {:.0%} of the random starts, {:.0%} of the spectral ones.", *stuck_in_all(now)
        ),
        solved_by={"dimension": 12},
        keeps=("trials", "iterations", "noise", "regressors", "step"),
        why=Why(
            "What do longer inputs change?",
            {
                "More numbers come from as many samples": "Each regressor and each gate is longer, and the moments are "
                "noisier.",
                "There are more experts": "There are as many as before.",
                "EM has fewer iterations": "It has as many as before.",
            },
            measured=lambda start, end: stuck_in_all(end)[0] > stuck_in_all(start)[0],
        ),
        seen="What counts is the number of samples for each number that is learned. Random starts suffer, too.",
    ),
    Goal(
        "Let at most one random start in five be stuck, and one in ten find 6 experts with 1000 samples.",
        reached=lambda now: (worst(now) <= 0.2) & (found_at(now, 6, 1000)[0] <= 0.1),
        so_far=lambda now: say("At most {:.0%} are stuck in a cell.", worst(now)),
        solved_by={"iterations": 20},
        keeps=("trials", "dimension", "noise"),
        why=Why(
            "Hardly any is stuck, and hardly any has found 6 experts. What are they?",
            {
                "Still moving": "20 iterations are too few. Stuck is who no longer moves.",
                "Diverged": "No number has become infinite.",
                "At the truth": "Then they would be found.",
            },
            measured=lambda start, end: worst(start) > 0.5,
        ),
        seen="Whether a start is stuck can only be said of one that has come to rest.",
    ),
)

QUESTION = comparison(
    "Before it runs: on the whole map, which starts will be stuck more often?",
    ("random starts", "spectral starts", "both about equally often (within 5 points)"),
    lambda now: (stuck_in_all(now)[0], stuck_in_all(now)[1]),
    apart=0.05,
    found=("random starts are", "spectral starts are", "both are about equally often"),
    numbers=": {:.0%} of the random ones, {:.0%} of the spectral ones",
    sketch=Sketch(
        2,
        [f"random starts at k = {count}" for count in EXPERTS],
        ["failure"] * len(EXPERTS),
        lambda now: stuck_by_experts(now)[0],
        near=0.1,
        rows=EXPERTS,
    ),
)
