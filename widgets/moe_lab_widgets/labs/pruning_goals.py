"""The pruning Lab's question and goals."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle, picked
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.goal import Goal, Sketch, Why, comparison, ends_of
from moe_lab_widgets.labs.pruning_record import TOKENS_CHOOSE, recipe
from moe_lab_widgets.labs.pruning_seen import RANDOM, chosen, gone, lost, outcome, threshold
from moe_lab_widgets.labs.pruning_words import least


def medians(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the median accuracies before pruning and after, NaN while nothing is pruned."""
    found = outcome(now)
    return middle(found.whole), middle(found.plain)


def worst(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the accuracies of the worst trials before pruning and after, NaN while nothing is pruned."""
    found = outcome(now)
    return least(found.whole), least(found.plain)


def before_and_after(now: MarkRecord) -> Words:
    return say("Before pruning: {:.0%}, after: {:.0%}.", *medians(now))


def tuned(now: MarkRecord) -> Tensor:
    """Returns the median accuracy after fine-tuning, NaN while nothing is pruned; that after pruning without it."""
    return middle(outcome(now).tuned)


def early(now: MarkRecord) -> Words:
    words = "Before pruning: {:.0%}, after: {:.0%}, after fine-tuning: {:.0%}."
    return say(words, *medians(now), tuned(now))


def grown(now: MarkRecord) -> Tensor:
    """Returns the largest growth of a router, as a part of the theory's 1.5 log l."""
    return now.last("norm_change").nan_to_num().amax() / threshold(now.values)


def losses(now: MarkRecord) -> Tensor:
    """Returns in how many trials a class has lost all experts that carry its pattern."""
    return lost(now).any(1).sum()


GOALS = (
    Goal(
        "Prune 16 of 20 experts by router norm, and keep 99 %.",
        reached=lambda now: medians(now)[1] >= 0.99,
        so_far=before_and_after,
        start={"criterion": "router-magnitude", "rho": 0.8},
        solved_by={"others_norm": 2.0},
        keeps=("criterion", "rho", "experts", "trials", "fine_tune", "routing"),
        why=Why(
            "Why did the router's norm mislead before?",
            {
                "Unimportant routers were long before training": "Long said nothing of what was learned. With short "
                "ones elsewhere, the routers that grew are the longest, too.",
                "Norms do not grow in training": "Those that matter grew by 3.8.",
                "Long routers have small neurons": "The criterion looks at routers alone.",
            },
            measured=lambda start, end: losses(start) > 0 and losses(end) == 0,
        ),
        seen="The change of the norm does not depend on how a checkpoint was made.",
    ),
    Goal(
        "Stop training when at most 85 % are right, and get 98 % by pruning and fine-tuning.",
        reached=lambda now: (medians(now)[0] <= 0.85) & (tuned(now) >= 0.98),
        so_far=early,
        start={"rho": 0.3, "fine_tune": True},
        solved_by={"steps": 30},
        keeps=("criterion", "rho", "fine_tune", "tuning_steps", "trials", "loss", "start"),
        why=Why(
            "No router has grown much by then. Why does Δ choose the right experts nonetheless?",
            {
                "It is the order that counts": "The routers that matter have grown by more than the others, if only by "
                "little. Which they are shows long before the layer is good.",
                "Fine-tuning brings lost experts back": "What is pruned stays pruned; but no carrier was.",
                "Any experts would do": "Choose at random, and some trials lose all that carry a pattern.",
            },
            measured=lambda start, end: losses(end) == 0 and grown(end) < 1,
        ),
        seen="So one can prune early, and spend the time on what is left.",
    ),
    Goal(
        "Raise the accuracy of the worst trial by pruning, by 20 points.",
        reached=lambda now: worst(now)[1] >= worst(now)[0] + 0.2,
        so_far=lambda now: say("The worst trial before pruning: {:.0%}, after: {:.0%}.", *worst(now)),
        start={"routing": TOKENS_CHOOSE, **recipe("planted", TOKENS_CHOOSE), "steps": 300},
        solved_by={"others_neurons": 0.5},
        keeps=("trials", "fine_tune", "criterion", "routing", "steps"),
        why=Why(
            "How can fewer experts be right more often?",
            {
                "What goes is noise": "The large neurons of others drown the one token that decides. Their routers "
                "did not grow, so Δ prunes them.",
                "Pruning trains what is left": "Nothing is trained anew unless fine-tuning is chosen.",
                "Fewer experts learn less by heart": "Every step has fresh samples, so nothing is learned by heart.",
            },
            measured=lambda start, end: losses(end) == 0 and worst(start)[0] > worst(end)[0],
        ),
        seen="Pruning heals where what is superfluous does harm.",
    ),
)


def against_chance(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns the median accuracies after pruning by the criterion on show and at random, both without fine-tuning."""
    plain = picked(now.last("pruned_accuracy"), gone(now.values), -1)  # (trial, criterion)
    by_chance = picked(plain, torch.tensor(float(RANDOM)), 1)
    return middle(picked(plain, chosen(now.values), 1)), middle(by_chance)


QUESTION = comparison(
    "Before it runs: pruned how will the layer be right more often?",
    ("by the criterion on show", "at random", "about equally often (within 2 points)"),
    against_chance,
    apart=0.02,
    found=("the criterion does", "chance does", "both keep about as many"),
    numbers=": {:.0%} by the criterion, {:.0%} at random",
    sketch=Sketch(1, ("the criterion", "chance"), ("ink", "muted"), ends_of(against_chance), near=0.05),
)
