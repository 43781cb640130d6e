"""The gridlock Lab's question and goals."""

from __future__ import annotations

from torch import Tensor

from moe_lab.drawing.marks import middle, picked
from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Sketch, Why, comparison, ends_of
from moe_lab_widgets.labs.gridlock_record import BEST, JOINT, SPECTRAL, power
from moe_lab_widgets.labs.gridlock_record import whole as found_all


def whole(now: MarkRecord, name: str) -> Tensor:
    """Returns in how many trials a method has found all regressors."""
    return found_all(now, name).sum()


def error(now: MarkRecord, name: str) -> Tensor:
    return median_of(now, "error", name)


def best(now: MarkRecord) -> Tensor:
    """Returns the error that EM from the true parameters leaves."""
    return median_of(now, "error", BEST)


def with_the_best(now: MarkRecord) -> Words:
    words = "All are found by spectral + EM in {:.0f} of {:.0f} trials. Its error is {:.1s}, from the truth {:.1s}."
    trials = now.values.number("trials")
    return say(words, whole(now, SPECTRAL), trials, error(now, SPECTRAL), best(now))


def counts(now: MarkRecord) -> Words:
    words = "All are found by spectral + EM in {:.0f} of {:.0f} trials, by joint EM in {:.0f}."
    return say(words, whole(now, SPECTRAL), now.values.number("trials"), whole(now, JOINT))


def start_of_em(now: MarkRecord) -> Tensor:
    """Returns the worst |cos| of a regressor after the power iterations, the median over the trials."""
    steps, fits = now.curve("regressor_fit", SPECTRAL)
    last = (steps <= power(now.values)).sum() - 1
    return middle(picked(fits, last))


GOALS = (
    Goal(
        "Let joint EM find all regressors in every trial.",
        reached=lambda now: whole(now, JOINT) == now.values.number("trials"),
        so_far=counts,
        solved_by={"experts": 4, "dimension": 12},
        keeps=("trials", "iterations", "activation", "samples"),
        why=Why(
            "Why does joint EM need no help now?",
            {
                "With few experts random starts are good enough": "Stuck are starts in which two estimates share one "
                "expert, and another serves two. With four experts that is rare.",
                "The spectral start helps it": "Both run apart, on the same samples.",
                "There are more samples": "There are as many as before.",
            },
            measured=lambda start, end: whole(start, JOINT) < start.values.number("trials"),
        ),
        seen="A better start matters where EM gets stuck.",
    ),
    Goal(
        "Make the spectral start fail, too, with 8 linear experts and the moments of P3(y).",
        reached=lambda now: whole(now, SPECTRAL) == 0,
        so_far=with_the_best,
        solved_by={"samples": 2000},
        keeps=("trials", "iterations", "activation", "experts", "third", "noise", "regressors", "dimension"),
        why=Why(
            "From the true parameters EM stays much nearer to them. What is missing?",
            {
                "A good start": "The samples tell the experts well enough. But the tensor of so few is mostly noise, "
                "and EM from a poor start does not get there.",
                "Iterations of EM": "It has converged, far from the truth.",
                "Samples for EM itself": "From the truth EM stays near it, on the very same samples.",
            },
            measured=lambda start, end: best(end) < 0.6 * error(end, SPECTRAL),
        ),
        seen="The samples know more than either start finds.",
    ),
    Goal(
        "Hide the experts: let spectral + EM find all 8 of them in one trial at most.",
        reached=lambda now: whole(now, SPECTRAL) <= 1,
        so_far=counts,
        solved_by={"third": "y"},
        keeps=("trials", "experts", "activation", "samples", "noise", "dimension", "regressors"),
        why=Why(
            "The samples are the same. What hides the experts?",
            {
                "Moments of y mix experts and gates": "P₃(y) is made such that the gates cancel. In the moments of y "
                "itself they do not.",
                "y is noisier than P₃(y)": "It is a power of the same y, with the same noise.",
                "The tensor is larger": "It has as many numbers.",
            },
            measured=lambda start, end: (start_of_em(start) > 0.6) & (start_of_em(end) < 0.6),
        ),
        seen="The polynomial is what makes a tensor of the experts alone.",
    ),
)

QUESTION = comparison(
    "Before it runs: which method will find all regressors in more trials?",
    ("spectral + EM", "joint EM from random starts", "both in equally many"),
    lambda now: (whole(now, SPECTRAL), whole(now, JOINT)),
    apart=0.5,
    found=("spectral + EM does", "joint EM does", "both find them equally often"),
    numbers=": spectral + EM in {:.0f} trials, joint EM in {:.0f}",
    sketch=Sketch(
        1,
        ("spectral + EM", "joint EM"),
        ("model", "other"),
        ends_of(lambda now: (error(now, SPECTRAL), error(now, JOINT))),
        near=2.0,
        percent=False,
        log=True,
    ),
)
