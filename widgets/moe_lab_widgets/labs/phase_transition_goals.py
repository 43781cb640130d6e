"""The phase-transition Lab's goals."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.map_marks import numbers_of
from moe_lab.drawing.words import say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.goal import Goal, Why
from moe_lab_widgets.labs.phase_transition_record import coverage_at, samples_needed
from moe_lab_widgets.labs.phase_transition_stories import JOINT


def at(rows: Tensor, per_expert: int) -> Tensor:
    """Returns the number of a row, NaN where there is no such l."""
    here = numbers_of(rows) == per_expert
    return torch.where(here.any(), torch.where(here, rows, 0).sum(), torch.nan)


def covered(now: MarkRecord, per_expert: int) -> Tensor:
    """Returns the median coverage at some l."""
    return at(coverage_at(now)[1][1], per_expert)


def needed(now: MarkRecord, per_expert: int) -> Tensor:
    """Returns the samples that some l needs."""
    return at(samples_needed(now), per_expert)


def most_from_3(now: MarkRecord) -> Tensor:
    """Returns the most samples that any l from 3 on needs; NaN where that is not known."""
    rows = samples_needed(now)
    return torch.where(numbers_of(rows) >= 3, rows, 0).amax()


START = {"trials": 10}

GOALS = (
    Goal(
        "Move the cliff of coverage, which is at l = 3, to l = 5.",
        reached=lambda now: (covered(now, 5) >= 0.95) & (covered(now, 4) <= 0.7),
        so_far=lambda now: say("Coverage at l = 4: {:.0%}, at l = 5: {:.0%}.", covered(now, 4), covered(now, 5)),
        start=START,
        solved_by={"distractors": 4},
        keeps=("trials", "noise", "source", "training"),
        why=Why(
            "What decides where the cliff is?",
            {
                "How many patches imitate o": "An expert must keep all distractors, which score higher than o, and o: "
                "l* is their number and one more.",
                "How many patches a sample has": "With 32 patches and two distractors the cliff stays at l = 3.",
                "How many samples there are": "Coverage is the same from one N to the next.",
            },
            measured=lambda start, end: (covered(start, 3) >= 0.95) & (covered(start, 2) <= 0.7),
        ),
        seen="Between l = 2 and l* not even the largest N is enough.",
    ),
    Goal(
        "Make one patch enough: 60 samples suffice at l = 1.",
        reached=lambda now: needed(now, 1) <= 60,
        so_far=lambda now: say("l = 1 needs {:.0f} samples (a dash: more than there are).", needed(now, 1)),
        start=START,
        solved_by={"distractors": 0},
        keeps=("trials", "noise", "source", "training"),
        why=Why(
            "Why is one patch enough now?",
            {
                "Nothing scores higher than o": "Without distractors the one patch that an expert keeps is o: l* = 1.",
                "The experts see all patches": "Each sees one, as before.",
                "Fewer samples are learned by heart": "The trainings are as long as they were.",
            },
            measured=lambda start, end: covered(end, 1) >= 0.95,
        ),
        seen="A larger l costs samples here: each further patch is one that can mislead.",
    ),
    Goal(
        "Make l matter little: 200 samples suffice at each l from 3 to 8.",
        reached=lambda now: most_from_3(now) <= 200,
        so_far=lambda now: say("Some l from 3 on needs {:.0f} samples.", most_from_3(now)),
        start=START,
        solved_by={"training": JOINT},
        keeps=("trials", "noise", "source", "distractors"),
        why=Why(
            "Routers and experts learn together now. Why does l = 1 never work?",
            {
                "The softmax over one patch is always 1": "So its router gets no gradient, and stays where it began.",
                "One patch is too little": "One patch is enough in separate training, where l* = 1.",
                "Two experts are too few": "More experts do not help: none of their routers learns at l = 1.",
            },
            measured=lambda start, end: ~needed(end, 1).isfinite(),
        ),
        seen="Trained together, a router follows what helps its expert, and not only what differs between classes.",
    ),
)
