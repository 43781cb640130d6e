"""What the router-alignment Lab says of a record."""

from __future__ import annotations

import torch
from torch import Tensor

from moe_lab.drawing.words import Words, either, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import median_of, spread_note
from moe_lab_widgets.labs.router_alignment_runs import SYNTHETIC, names_of

SHOWN = 0
"""The trial whose routers and patches are drawn, counted from 0."""
POINTS_AT = 0.7
"""The least cosine (45 degrees) at which the caption says that a router looks for a pattern."""
COVERED = 0.6
"""Coverage of a class below which the caption reports a failure."""
RARE = 0.005
"""Coverage below which the caption says that no expert receives a pattern."""
HIGH = 0.75
"""Accuracy from which on the caption says that one pattern is enough."""


def caption(now: MarkRecord) -> Words:
    names, cover = names_of(now.values["source"]), now.last("coverage")[SHOWN]
    received = say(
        f"Some expert receives {names[0]} in {{:.0%}} of its samples, {names[1]} in {{:.0%}}", cover[0], cover[1]
    )
    mixture, cnn = (median_of(now, "test_accuracy", name) for name in now.names)
    right = say("The mixture is right in {:.0%}, the CNN in {:.0%}.", mixture, cnn)
    enough = say("One is enough for a high accuracy: {:.0%}, CNN {:.0%}.", mixture, cnn)
    fails = (now.ended | (now.step >= now.total / 2)) & (cover.nan_to_num(1.0).amin() < COVERED)
    several, count = _both(now)
    both = (
        f"oth {'patterns' if now.values['source'] == SYNTHETIC else 'digits'} are found in {{:.0f}} of {{:,.0f}} trials"
    )
    counted = count, now.values.number("trials")
    failure = _rarely(names, cover) + say(f"; b{both}", *counted, when=several)
    found = either(fails, failure, either(several, say(f"B{both}", *counted), received))
    later = _directions(now, names) + say(". ") + found + say(". ")
    later += either(fails & (mixture > HIGH), enough, right) + spread_note(now)
    return either(now.first, say("The routers are random. ") + received + say("."), later)


def _rarely(names: list[str], cover: Tensor) -> Words:
    """Returns which pattern its best expert seldom receives, of two the rarer one."""
    cover = cover.nan_to_num(torch.inf)
    each = [
        say(
            f"No expert receives {name}", when=share < RARE,
            instead=say(f"An expert receives {name} in only {{:.0%}}", share),
        )
        for name, share in zip(names, cover, strict=True)
    ]  # fmt: skip
    return either(cover[0] <= cover[1], *each)


def _both(now: MarkRecord) -> tuple[Tensor, Tensor]:
    """Returns whether several trials have ended, and in how many of them experts receive both patterns."""
    count = (now.last("coverage").amin(1) >= COVERED).sum()
    return now.ended & (now.values.number("trials") > 1), count


def _directions(now: MarkRecord, names: list[str]) -> Words:
    """Returns which routers look for which pattern."""
    cosines = now.last("alignment")[SHOWN].nan_to_num(-2.0)  # (expert, class)
    first = cosines[:, 0] >= cosines[:, 1]
    near = cosines.amax(1) >= POINTS_AT
    sides = first & near, ~first & near
    alone, also = [], []
    for which, name in zip(sides, names, strict=True):
        one = which.sum() == 1
        many = say(f"Routers {{:names}} look for {name}", which)
        alone.append(say(f"Router {{:names}} looks for {name}", which, when=one, instead=many))
        many = say(f", routers {{:names}} for {name}", which)
        also.append(say(f", router {{:names}} for {name}", which, when=one, instead=many))
    nobody = say(f"No router looks for {names[0]} or {names[1]}")
    some, others = (which.any() for which in sides)
    with_first = alone[0] + either(others, also[1], say(f", none for {names[1]}"))
    without = either(others, alone[1] + say(f", none for {names[0]}"), nobody)
    return either(moved(now) == 0, say("The routers have not moved at all"), either(some, with_first, without))


def moved(now: MarkRecord) -> Tensor:
    """Returns the largest change of any router's cosines since the start."""
    return (now.last("alignment") - now.curve("alignment")[1][0]).nan_to_num().abs().amax()
