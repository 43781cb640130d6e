"""What a Lab asks: a question before a run, and goals, which it sees from its records that somebody has reached."""

from __future__ import annotations

import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from moe_lab.drawing.words import Words, say
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import larger, of_three

MOST_ANSWERS, MOST_PREDICTIONS = 3, 5
"""To the question of a goal that is reached; to that before a run."""
REACHED, NOT_SO, RIGHT = "✓ Reached.", "✗ Not so.", "✓"
KEEP = "✗ That would do, but the goal leaves {knobs} as it was. Put it back."
"""What is said where a run reaches a goal with settings that the goal does not leave free."""
COUNT = "goals {done} of {all}"
JUST_RUN = "Just run it"
PREDICTED, PREDICTED_ELSE = "As you predicted, {seen}.", "You predicted: {answer}. But {seen}."
NOT_JUDGED = "The prediction cannot be judged, because a model's loss became infinite in every trial."


@dataclass(frozen=True)
class Question:
    """What a Lab asks before a run, of any values: each answer starts the run, and its end judges it.

    Attributes:
      asks: the question.
      answers: what may be answered, at most five.
      right: takes the last record, returns the number of the right answer, from 0; NaN where it cannot be told.
      seen: takes the same, returns what was seen, in words that follow "As you predicted, ".
    """

    asks: str
    answers: Sequence[str]
    right: Callable[[MarkRecord], Any]
    seen: Callable[[MarkRecord], Words]


def comparison(
    asks: str,
    answers: Sequence[str],
    pair: Callable[[MarkRecord], tuple[Tensor, Tensor]],
    apart: float,
    found: tuple[str, str, str],
    numbers: str,
) -> Question:
    """Returns the question which of two numbers will be larger.

    Args:
      pair: takes a record, returns the two.
      apart: how near they are called about the same.
      found: what is said where the first is larger, where the second is, and where neither is.
      numbers: how the two are told after that, with a form for each (see `say`).
    """

    def right(now: MarkRecord) -> Tensor:
        one, other = (number.to(torch.float64) for number in pair(now))
        return larger(one, other, apart)

    def seen(now: MarkRecord) -> Words:
        one, other, neither = map(say, found)
        return of_three(right(now), one, other, neither) + say(numbers, *pair(now))

    return Question(asks, answers, right, seen)


@dataclass(frozen=True)
class Why:
    """The question that follows a goal that is reached.

    Attributes:
      asks: the question.
      answers: what may be answered, the right answer first, with what is said of each.
      measured: takes the last records of the goal's start and of its solution, returns whether what is said of the
        right answer is so; for tests.
    """

    asks: str
    answers: Mapping[str, str]
    measured: Callable[[MarkRecord, MarkRecord], Any]

    @property
    def right(self) -> str:
        """The right answer."""
        return next(iter(self.answers))

    @property
    def offered(self) -> list[str]:
        """The answers in the order in which they are shown, which is that of nothing."""
        return sorted(self.answers, key=lambda answer: zlib.crc32(answer.encode()))


@dataclass(frozen=True)
class Goal:
    """Something to bring about. `reached` and `so_far` are functions of a record on tensors, as marks are.

    Attributes:
      asks: what, in one sentence.
      reached: takes the last record of a run, returns whether it is reached.
      so_far: takes any record, returns the numbers that matter.
      solved_by: values, besides those of the start, that reach it on every seed.
      why: what is asked then.
      seen: what there was to see, said after the right answer.
      start: values of the run that it begins with; the others take their defaults.
      keeps: knobs that must stay as they are at the start.
    """

    asks: str
    reached: Callable[[MarkRecord], Any]
    so_far: Callable[[MarkRecord], Words]
    solved_by: Mapping[str, Any]
    why: Why
    seen: str
    start: Mapping[str, Any] = field(default_factory=dict)
    keeps: Sequence[str] = ()

    @property
    def name(self) -> str:
        """What a menu calls it."""
        return self.asks

    @property
    def values(self) -> Mapping[str, Any]:
        """The values that differ from the defaults at its start."""
        return self.start
