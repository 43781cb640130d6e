"""The specialization Lab's goals."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Why


def right(now: MarkRecord, name: str) -> Tensor:
    """Returns the median accuracy of a mixture; NaN where it is not trained."""
    if name not in now.names:
        return torch.tensor(torch.nan, dtype=torch.float64)
    return median_of(now, "test_accuracy", name)


def both(now: MarkRecord) -> Words:
    words = " and ".join(f"{name}: {{:.1%}}" for name in now.names)
    return say(f"So far {words}.", *(right(now, name) for name in now.names))


def largest(now: MarkRecord) -> Tensor:
    """Returns the largest share of the test samples that an expert gets, the median over the trials."""
    load = now.last("dispatch").sum(1)  # (trial, expert)
    return middle(load.amax(1) / load.sum(1))


def entropy(now: MarkRecord) -> Tensor:
    """Returns the median entropy of the mixture under study."""
    return median_of(now, "dispatch_entropy")


GOALS = (
    Goal(
        "Make the linear experts win, by 5 points.",
        reached=lambda now: right(now, "linear") >= right(now, "cubic") + 0.05,
        so_far=both,
        solved_by={"experts": 2},
        keeps=("activation", "noise", "trials", "samples"),
        why=Why(
            "Why do cubic experts do worse than linear ones now?",
            {
                "Each would have to serve several clusters": "A cube rewards an expert for one strong signal. With "
                "fewer experts than clusters that is too few.",
                "Cubic experts learn too slowly": "With eight experts they are done after 100 steps.",
                "Their router does not learn": "It learns: each cluster still goes mostly to one expert.",
            },
            measured=lambda start, end: (entropy(start) < 0.3) & (entropy(end) > 0.6),
        ),
        seen="The entropy cannot fall to 0: two experts have four clusters between them. Linear experts share anyway.",
    ),
    Goal(
        "Send all test samples to one of the eight experts.",
        reached=lambda now: largest(now) > 0.99,
        so_far=lambda now: say("The busiest expert gets {:.0%}.", largest(now)),
        solved_by={"router_learning_rate": 0.0},
        keeps=("experts", "trials", "activation", "clusters"),
        why=Why(
            "Why does one expert get everything, though its router prefers nobody?",
            {
                "All scores are equal, and the first wins": "Scores stay 0. In training noise deals the samples out; "
                "in the test there is none, and of equal scores the first is taken.",
                "The first expert has learned most": "Noise deals out the samples in training, so all learn alike.",
                "The router has collapsed": "It has not moved at all.",
            },
            measured=lambda start, end: end.last("dispatch")[..., 1:].sum() == 0,
        ),
        seen="Every expert has learned a bit of everything, and only one is asked.",
    ),
    Goal(
        "Make linear experts divide the clusters: an entropy below 0.6.",
        reached=lambda now: entropy(now) < 0.6,
        so_far=lambda now: say("The entropy of linear experts: {:.2f}.", entropy(now)),
        start={"activation": "linear"},
        solved_by={"load_balancing": 0.05},
        keeps=("activation", "clusters", "trials", "noise"),
        why=Why(
            "What made them divide the clusters?",
            {
                "A loss for uneven loads": "Experts that get too little are given samples that others would keep, and "
                "clusters are what can be dealt out as a whole.",
                "Stronger signals": "The signals are as they were.",
                "The experts' shape": "They are linear as before. By themselves they share everything.",
            },
            measured=lambda start, end: largest(end) < largest(start),
        ),
        seen="Cubic experts hardly need such a loss.",
    ),
)
