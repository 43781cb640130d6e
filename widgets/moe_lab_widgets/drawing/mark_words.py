"""Words that the marks of several Labs have in common."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from moe_lab.drawing.marks import middle
from moe_lab.drawing.words import NOTHING, Words, either, say
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once
from moe_lab_widgets.drawing.trials import MOST_LINES, SPREAD_WORDS


def trial_words(trial: int, values: MarkValues) -> Words:
    """Returns a trial, counted from 0, in words: "trial 1 of 8"."""
    trials = values.number("trials")
    return say("trial {:.0f} of {:,.0f}", trial + 1, trials, when=trials > 1, instead=say("the one trial"))


def trial_on_show(values: MarkValues) -> Tensor:
    """Returns the trial on show, counted from 0."""
    return values.number("shown").minimum(values.number("trials")) - 1


def whole_passes(values: MarkValues, batch_size: int) -> Tensor:
    """Returns the most steps that a run can take: whole passes over the data, at least as many as the slider says."""
    epoch = (values.number("samples").clamp(min=1) / batch_size).ceil()
    return epoch * (values.number("steps") / epoch).ceil().clamp(min=1)


@once
def median_of(now: MarkRecord, measure: str, name: str | None = None) -> Tensor:
    """Returns the median over the trials of what was measured last, of the first run where none is named."""
    return middle(now.last(measure, name))


def larger(one: Tensor, other: Tensor, apart: float) -> Tensor:
    """Returns which of two numbers is larger: 0 the first, 1 the other, 2 neither by more than `apart`; NaN of NaN."""
    near = (one - other).abs() <= apart + 1e-9  # shares often differ by just as much, and a page rounds otherwise
    answer = torch.where(near, 2.0, (other > one).to(torch.float64))
    return torch.where((one - other).isfinite(), answer, torch.nan)


def of_three(which: Tensor, one: Words, other: Words, neither: Words) -> Words:
    """Returns words for what `larger` has found."""
    return either(which == 2, neither, either(which == 0, one, other))


def spread_note(now: MarkRecord) -> Words:
    """Returns the sentence that explains the density of many trials; empty where there is none."""
    trials = now.values.number("trials")
    return say(SPREAD_WORDS.format(trials="{:,.0f}"), trials, when=trials > MOST_LINES)


def short(share: Tensor) -> Words:
    """Returns a share in whole percents, but never a rounded 100 % or 0 %; a dash where it is not known."""
    percents = 100 * share
    whole = (percents == 0) | (percents == 100) | ((percents >= 0.5) & (percents < 99.5))
    return say("{:.0%}", share, when=whole, instead=say("{:.1%}", share))


def named(place: Tensor, names: Sequence[str]) -> Words:
    """Returns the name at a place, counted from 0; nothing where there is none."""
    words = NOTHING
    for number, name in reversed(list(enumerate(names))):
        words = say(name, when=place == number, instead=words)
    return words
