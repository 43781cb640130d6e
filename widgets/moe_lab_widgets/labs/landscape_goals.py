"""The landscape Lab's question and goals."""

from __future__ import annotations

from torch import Tensor

from moe_lab.drawing.words import Words, say
from moe_lab.recovery.landscape.stuck import STUCK_ERROR
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of
from moe_lab_widgets.engine.goal import Goal, Sketch, Why, comparison, ends_of


def found(now: MarkRecord, name: str) -> Tensor:
    """Returns in how many trials a loss has found the regressors."""
    return (now.last("regressor_error", name) <= STUCK_ERROR).sum()


def counts(now: MarkRecord) -> Words:
    words = "L₄ has found them in {:.0f} of {:.0f} trials, ℓ₂ in {:.0f}."
    return say(words, found(now, "L4"), now.values.number("trials"), found(now, "l2"))


def minima(now: MarkRecord) -> Tensor:
    """Returns (trial, expert) the lengths of the rows where L4 is least (`losses.lengths`)."""
    return now.last("plane_lengths", "L4")


def length(now: MarkRecord) -> Tensor:
    """Returns the length of the longest row that L4 has now."""
    return now.last("rows", "L4").square().sum(2).sqrt().amax()


GOALS = (
    Goal(
        "Make L₄ fail in every trial, although its minima are the true regressors.",
        reached=lambda now: (found(now, "L4") == 0) & (minima(now) > 0).all(),
        so_far=counts,
        solved_by={"ridge": 0.05},
        keeps=("trials", "experts", "steps", "noise"),
        why=Why(
            "The minima are right, and no trial gets there. Why?",
            {
                "δ alone acts outside the span of the regressors": "What the start has there shrinks as "
                "exp(−δ η step). A small δ takes very many steps.",
                "It is stuck in a false valley": "L₄ has none: all of its valleys are true solutions.",
                "δ makes the rows vanish": "That takes a δ of 4 λ p and more.",
            },
            measured=lambda start, end: (found(start, "L4") == start.values.number("trials")) & (length(end) > 0.5),
        ),
        seen="A small weight can decide how long a descent takes.",
    ),
    Goal(
        "Make A = 0 the minimum of L₄.",
        reached=lambda now: length(now) < 0.05,
        so_far=lambda now: say("The longest row of A: {:.2f}.", length(now)),
        solved_by={"ridge": 4.0},
        keeps=("trials", "experts", "steps", "noise"),
        why=Why(
            "Where does the border lie?",
            {
                "Where δ outweighs the penalty λ": "From δ = 4 λ p on a row gains nothing from being there: the pull "
                "towards 0 is stronger than what λ pays for its second moment.",
                "Where steps become too long": "Steps as long as these descend well with a smaller δ.",
                "Where noise outweighs the signal": "Noise on y is as before.",
            },
            measured=lambda start, end: (minima(start) > 0).all() & (minima(end) == 0).any(),
        ),
        seen="A penalty that is too strong hides what it should bring out.",
    ),
    Goal(
        "With 4 experts, let L₄ find all regressors in 4 of 5 trials.",
        reached=lambda now: found(now, "L4") >= 4,
        so_far=counts,
        start={"experts": 4},
        solved_by={"penalty": 2.0},
        keeps=("trials", "experts", "noise", "dimension"),
        why=Why(
            "Why must λ grow with the number of experts?",
            {
                "Each expert is chosen less often": "λ is multiplied by an expert's share p, which is a quarter now.",
                "There are more minima": "All of them are true solutions, however many there are.",
                "ℓ₂ is stuck more often": "What ℓ₂ does has no effect on L₄.",
            },
            measured=lambda start, end: found(start, "L4") < found(end, "L4"),
        ),
        seen="ℓ₂ has false valleys, and more of them with every expert.",
    ),
)

QUESTION = comparison(
    "Before it runs: which loss will find the regressors in more trials?",
    ("L₄", "the squared error ℓ₂", "both in equally many"),
    lambda now: (found(now, "L4"), found(now, "l2")),
    apart=0.5,
    found=("L₄ finds them more often", "ℓ₂ finds them more often", "both find them equally often"),
    numbers=": L₄ in {:.0f} trials, ℓ₂ in {:.0f}",
    sketch=Sketch(
        1,
        ("L₄", "ℓ₂"),
        ("model", "other"),
        ends_of(lambda now: (median_of(now, "regressor_error", "L4"), median_of(now, "regressor_error", "l2"))),
        near=2.0,
        percent=False,
        log=True,
    ),
)
