"""Errors of several methods on a logarithmic axis, as marks: trials, medians, how trials have ended, a table of counts.

Shapes: R records, T trials.
"""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Curves, Ends, Mark, Points, Writing, middle
from moe_lab.drawing.words import NOTHING, Number, Words, either, say
from moe_lab_widgets.drawing.mark_record import MarkValues
from moe_lab_widgets.drawing.trials import MOST_LINES

HEADS = {"✓ found": "found", "✗ stuck": "failure", "▽ falling": "muted"}
"""The columns of counts, and their styles."""
LINE, UNDER = 17, 60
"""Pixels: a row of the table of counts, and its distance from the axis above."""


class Errors(NamedTuple):
    """The errors of one method.

    Attributes:
      name, style: of the method.
      steps: (R,) NaN for records to come.
      values: (R, T).
      last: (T,) of the last record.
      found: (T,) which trials have found what they look for.
      stuck, falling: (T,) which have not, and will not or still may.
      known: whether that can be told yet.
    """

    name: str
    style: str
    steps: Float[Tensor, " R"]
    values: Float[Tensor, "R T"]
    last: Float[Tensor, " T"]
    found: Bool[Tensor, " T"]
    stuck: Bool[Tensor, " T"]
    falling: Bool[Tensor, " T"]
    known: Tensor


def count_heads(names: Sequence[tuple[str, str]], x: float, low: Number, left: float, wide: float) -> list[Mark]:
    """Returns the names of rows and columns of the table of counts under the axes.

    Args:
      names: of the methods, with their styles.
      x, low: the lower left corner of the axes, in data.
      left: pixels from there to the first column of counts.
      wide: pixels of a column.
    """
    rows: list[Mark] = [
        Writing(x, low, say(name), style, align="right", bold=True, size=9.5, right=left - 7, down=_down(row))
        for row, (name, style) in enumerate(names)
    ]
    heads: list[Mark] = [
        Writing(x, low, say(words), style, size=9.5, right=left + (column + 0.5) * wide, down=UNDER - 0.5 * LINE)
        for column, (words, style) in enumerate(HEADS.items())
    ]
    return rows + heads


def _down(row: int) -> float:
    return UNDER + (row + 0.5) * LINE


def error_marks(
    methods: Sequence[Errors],
    limits: tuple[float, float] | tuple[Tensor, Tensor],
    firm: Tensor,
    x: float,
    left: float,
    wide: float,
) -> list[Mark]:
    """Returns trials, medians, marks of stuck and falling trials, and counts.

    Errors beyond the limits are drawn at the edge.

    Args:
      firm: the trial whose line is drawn more firmly, counted from 0.
      x, left, wide: as for `count_heads`.
    """
    low, high = (torch.as_tensor(limit, dtype=torch.float64) for limit in limits)
    drawn: list[Mark] = []
    for one in reversed(methods):
        shown = one.values.clamp(low, high)
        drawn.append(Curves(one.steps, first_trial(shown, firm), one.style, one.name))
        at = one.steps.nan_to_num(-torch.inf).amax().expand_as(one.last)
        for which, shape, style, words in (
            (one.stuck, "cross", "failure", "stuck"),
            (one.falling, "hollow", one.style, "still falling"),
        ):
            heights = torch.where(which & one.known, one.last.clamp(low, high), torch.nan)
            drawn.append(Points(at, heights, style, shape, f"{one.name}, {words}", MOST_LINES))
    for row, one in enumerate(methods):
        for column, count in enumerate(counts(one)):
            right = left + (column + 0.5) * wide
            drawn.append(Writing(x, limits[0], count, bold=True, right=right, down=_down(row)))
    return drawn


def first_trial(values: Float[Tensor, "R T"], trial: Tensor) -> Float[Tensor, "R T"]:
    """Returns trials of which one has changed places with the first."""
    places = torch.arange(values.shape[1])
    order = torch.where(places == 0, trial, torch.where(places == trial, 0, places)).to(torch.int64)
    return values.gather(1, order.expand_as(values))


def counts(one: Errors) -> tuple[Words, Words, Words]:
    """Returns how many trials have found it, are stuck and are falling."""
    unknown = say("–")
    stuck, falling = (say("{:.0f}", which.sum(), when=one.known, instead=unknown) for which in (one.stuck, one.falling))
    return say("{:.0f}", one.found.sum()), stuck, falling


def median_ends(methods: Sequence[Errors], words: Sequence[str], more: Sequence[tuple[Tensor, str, str]] = ()) -> Ends:
    """Returns the names of the medians at their ends.

    Args:
      words: what stands at each end, with a form for the number.
      more: further heights with their words and styles.
    """
    heights = [middle(one.last) for one in methods] + [height for height, _, _ in more]
    texts = [*words, *(text for _, text, _ in more)]
    styles = [one.style for one in methods] + [style for _, _, style in more]
    said = [say(text, height) for text, height in zip(texts, heights, strict=True)]
    return Ends(heights, said, styles, apart=0.15 if more else 0.14)


def lines_in_words(values: MarkValues) -> Words:
    """Returns what lines and bands stand for, for a panel's note."""
    trials = values.number("trials")
    several = say(
        "median, half, 90 % of {:,.0f}; thin: trial shown", trials, when=trials > MOST_LINES,
        instead=say("thick: median of {:.0f} trials; firm: trial shown", trials),
    )  # fmt: skip
    return say("the one trial", when=trials == 1, instead=several)


def fates_in_words(methods: Sequence[Errors]) -> Words:
    """Returns a sentence on how many trials of two methods are stuck, and still fall; empty where it cannot be told."""
    first, second = methods
    known = first.known & second.known
    stuck, falling = [first.stuck.sum(), second.stuck.sum()], [first.falling.sum(), second.falling.sum()]
    trials = torch.tensor(float(len(first.found)))
    moving = [say(" (and still falling in {:.0f})", count, when=count > 0) for count in falling]
    several = (
        say(f" {first.name[0].upper()}{first.name[1:]} is stuck in ")
        + _count(stuck[0])
        + say(" of {:.0f} trials", trials, when=trials > 1)
        + moving[0]
        + say(f", {second.name} in ")
        + _count(stuck[1])
        + moving[1]
        + say(".")
    )
    some = either(sum([*stuck, *falling]) == 0, say(" No trial is stuck."), several)
    return either(known, some, NOTHING)


def _count(number: Tensor) -> Words:
    return say("{:.0f}", number, when=number > 0, instead=say("none"))
