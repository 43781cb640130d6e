"""What the phase-transition Lab says of a record."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.map_marks import numbers_of
from moe_lab.drawing.marks import first_true
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab_widgets.drawing.map_record import ended
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.labs.phase_transition_record import (
    best,
    complete,
    coverage_at,
    l_star,
    samples_needed,
)
from moe_lab_widgets.labs.phase_transition_stories import JOINT

ANSWERS = ("l = 1", "l = 2 or 3", "l = 4 or 5", "l = 6 or more", "no l succeeds")
"""What may be answered to the question."""
FIRST_TRAININGS = 5
"""Trainings of every grid point that run first."""
COVERED = 0.8
"""Coverage of the worse class up to which a caption mentions that one right expert is enough."""


def trained(values: MarkValues) -> Words:
    """Returns what the numbers of the map are."""
    training, trials = values["training"], values.number("trials")
    experts = say("k = {:.0f}", values.number("experts")) if training == JOINT else Words("one expert per class")
    reach = say("): % of {:.0f} trainings that reach 95 % test accuracy\n", trials)
    small = say(f"small cell: {FIRST_TRAININGS} have run; ", when=trials > FIRST_TRAININGS)
    return Words(f"{training} training (") + experts + reach + small + Words("pale: the map before")


def caption(now: MarkRecord) -> Words:
    """Returns the sentence below the picture."""
    count, trials, whole = ended(now), now.values.number("trials"), complete(now)
    cells = torch.ones_like(count).sum()
    empty = say("Nothing has run yet. The map has {:.0f} cells of {:.0f} trainings each.", cells, trials)
    first = trials.clamp(max=float(FIRST_TRAININGS))
    looking = count.amin() < first
    per_expert, samples = _running(now)
    look = say("A first look: {:.0f} trainings in each cell", first) + say(
        ", now with N = {:.0f}", samples, when=samples > 0
    )
    done = say("{:.0f} of {:.0f} cells are done", whole.sum().to(torch.float64), cells) + say(
        ", now l = {:.0f} with N = {:.0f}", per_expert, samples, when=samples > 0
    )
    fewest, which = best(now)
    found = say(
        " So far {:.0f} samples are enough at l = {:names}.", fewest, which,
        when=fewest < torch.inf, instead=Words(" So far no l succeeds in 90 % of its trainings."),
    )  # fmt: skip
    so_far = either(looking, look, done) + Words(".") + found + below(now)
    return either(whole.all(), needs(now) + below(now), either(count.sum() > 0, so_far, empty))


def _running(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns l and N of the first cell that runs, of the smallest N; 0 where none does."""
    active = now.last("active") > 0
    columns = active.any(0)
    counts = now.last("samples")
    samples = torch.where(columns, counts, torch.inf).amin()
    rows = (active & (counts == samples)).any(1)
    return first_true(rows), torch.where(columns.any(), samples, 0.0)


def needs(now: MarkRecord) -> Words:
    """Returns a sentence on the samples that suffice on the full map, and those that the largest l needs."""
    (fewest, which), needed = best(now), samples_needed(now)
    star, most = l_star(now.values), now.last("samples")[-1]
    at_star = NOTHING if star is None else say(" (l* = {:.0f})", star)
    last = needed[-1]
    rows = numbers_of(needed)[-1]
    largest = say("; l = {:.0f} needs more than {:.0f}", rows, most, when=last == torch.inf) + say(
        "; l = {:.0f} needs {:.0f}", rows, last, when=last.isfinite() & (last != fewest)
    )
    enough = say("{:.0f} samples are enough at l = {:names}", fewest, which) + at_star + largest
    none = say("No l succeeds in 90 % of its trainings with up to {:.0f} samples", most) + at_star
    return either(fewest < torch.inf, enough, none) + Words(".")


def below(now: MarkRecord) -> Words:
    """Returns a sentence on coverage below l*, or at the smallest and the largest l where l* is not known."""
    levels, star = coverage_at(now)[1][1], l_star(now.values)
    rows = numbers_of(levels)
    if star is None:
        ends = rows[0], rows[-1]
        shares = levels[0], levels[-1]
        words = " Coverage is {:.0%} at l = {:.0f} and {:.0%} at l = {:.0f}."
        return say(words, shares[0], ends[0], shares[1], ends[1], when=shares[0].isfinite())
    known = levels.isfinite() & (rows < star)
    most = torch.where(known, levels, -1.0).amax()
    where = first_true(known & (levels == most))
    needed = samples_needed(now)
    chance = known & (levels <= COVERED) & needed.isfinite()
    lucky = say(", but one right expert is enough for l = {:names}", chance, when=complete(now).all() & chance.any())
    rise = say(" Below l* = {:.0f} coverage is {:.0%} at l = 1, but {:.0%} at l = {:.0f}", star, levels[0], most, where)
    at_most = say(" Below l* = {:.0f} coverage is at most {:.0%}", star, most)
    told = either((most > COVERED) & (where > 1), rise, at_most) + lucky + Words(".")
    return either(known.any(), told, NOTHING)


def lost(now: MarkRecord) -> Words:
    """Returns a sentence on trainings that diverged; empty where none has."""
    which = (now.last("done") > 0) & ~now.last("coverage").isfinite()
    count = which.sum().to(torch.float64)
    one = Words("In 1 training the loss became infinite; they count as failures.")
    several = say("In {:.0f} trainings the loss became infinite; they count as failures.", count)
    return either(count > 0, either(count == 1, one, several), NOTHING)


# ---- the question ----


def right_answer(now: MarkRecord) -> Tensor:
    """Returns the number of the answer (from 0) with the smallest l to which the fewest samples are enough."""
    fewest, which = best(now)
    row = first_true(which)
    number = (row >= 2).to(torch.float64) + (row >= 4) + (row >= 6)
    return torch.where(fewest < torch.inf, number, float(len(ANSWERS) - 1))


def seen(now: MarkRecord) -> Words:
    """Returns what the full map shows, after "As you predicted, "."""
    fewest, which = best(now)
    none = Words("no l succeeds in 90 % of its trainings")
    return say(
        "{:.0f} samples, the fewest, are enough at l = {:names}", fewest, which, when=fewest < torch.inf, instead=none
    )
