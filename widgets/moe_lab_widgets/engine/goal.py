"""What a Lab asks: a question before a run, and goals, which it sees from its records that somebody has reached."""

from __future__ import annotations

import math
import zlib
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import torch
from torch import Tensor

from moe_lab.core.config import require
from moe_lab.drawing.words import Words, say, written
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.mark_words import larger, of_three

MOST_ANSWERS, MOST_PREDICTIONS = 3, 5
"""To the question of a goal that is reached; to that before a run."""
REACHED, NOT_SO, RIGHT = "✓ Reached.", "✗ Not so.", "✓"
KEEP = "✗ That would do, but the goal leaves {knobs} as it was. Put it back."
"""What is said where a run reaches a goal with settings that the goal does not leave free."""
COUNT = "goals {done} of {all}"
JUST_RUN, DRAW, COMPARE = "Just run it", "Draw it", "Play, and compare"
PREDICTED, PREDICTED_ELSE = "As you predicted, {seen}.", "You predicted: {answer}. But {seen}."
NOT_JUDGED = "The prediction cannot be judged, because a model's loss became infinite in every trial."
DREW, FOR, MARKS = "You drew {levels}.", "{level} for {name}", "{count} marks"
CLOSE, FAR, SOME_CLOSE = "That is close.", "That is not close.", "{close} of {all} are close."
MOST_TOLD = 3
"""Levels that are told one by one."""
MOVED = "You moved a slider; your prediction was for the settings before."
BACK = "Back to the question"
OF_QUESTIONS = {
    **{"JUST_RUN": JUST_RUN, "DRAW": DRAW, "COMPARE": COMPARE, "DREW": DREW, "FOR": FOR, "MARKS": MARKS},
    **{"PREDICTED": PREDICTED, "PREDICTED_ELSE": PREDICTED_ELSE, "NOT_JUDGED": NOT_JUDGED},
    **{"CLOSE": CLOSE, "FAR": FAR, "SOME_CLOSE": SOME_CLOSE, "MOVED": MOVED, "BACK": BACK},
}
"""The words with which a page asks a question (playground/question.js)."""


@dataclass(frozen=True)
class Sketch:
    """Marks on the picture that are dragged before a run to where numbers will end.

    Attributes:
      panel, axes: along whose vertical axis they are dragged; both count from 0.
      names: what each stands for, as in "the mixture".
      styles: how each is drawn, as curves are.
      ends: takes the last record, returns the numbers (names,); none that is finite where one cannot be told.
      near: how far from its number a level may be that is called close; the larger by the smaller where `log`.
      rows: where each lies on the vertical axis, if they are dragged along the horizontal one.
      percent: whether levels are told in percent.
      log: whether the axis is logarithmic.
    """

    panel: int
    names: Sequence[str]
    styles: Sequence[str]
    ends: Callable[[MarkRecord], Tensor]
    near: float
    axes: int = 0
    rows: Sequence[float] = ()
    percent: bool = True
    log: bool = False

    def told(self, drawn: Sequence[float | None]) -> str:
        """Returns what was drawn, in words."""
        there = [(name, level) for name, level in zip(self.names, drawn, strict=False) if level is not None]
        if len(there) > MOST_TOLD:
            return DREW.format(levels=MARKS.format(count=len(there)))
        words = [FOR.format(level=self.written(level), name=name) for name, level in there]
        return DREW.format(levels=" and ".join(filter(None, (", ".join(words[:-1]), words[-1]))))

    def written(self, level: float) -> str:
        """Returns a level as it is written beside its mark."""
        if self.percent:
            return f"{100 * level:.0f} %"
        return f"{level:.0f}" if abs(level) >= 20 else f"{float(f'{level:.2g}'):g}"

    def judged(self, drawn: Sequence[float | None], now: MarkRecord) -> str:
        """Returns how many of the levels are close, in words; empty where none can be told."""
        pairs = [(one, end) for one, end in zip(drawn, self.ends(now).tolist(), strict=False) if one is not None]
        close = [self._close(one, end) for one, end in pairs if math.isfinite(end)]
        if not close:
            return ""
        return CLOSE if all(close) else SOME_CLOSE.format(close=sum(close), all=len(close)) if any(close) else FAR

    def _close(self, level: float, end: float) -> bool:
        return max(level, end) <= self.near * min(level, end) if self.log else abs(level - end) <= self.near


@dataclass(frozen=True)
class Question:
    """What a Lab asks before a run, of any values: each answer starts the run, and its end judges it.

    Attributes:
      asks: the question.
      answers: what may be answered, at most five.
      right: takes the last record, returns the number of the right answer, from 0; NaN where it cannot be told.
      seen: takes the same, returns what was seen, in words that follow "As you predicted, ".
      sketch: what may be drawn on the picture instead.

    Raises:
      ValueError: there are fewer answers than two, or more than five.
    """

    asks: str
    answers: Sequence[str]
    right: Callable[[MarkRecord], Any]
    seen: Callable[[MarkRecord], Words]
    sketch: Sketch | None = None

    def __post_init__(self) -> None:
        rule = f"a question must have from two to {MOST_PREDICTIONS} answers, each a button"
        require(2 <= len(self.answers) <= MOST_PREDICTIONS, rule, answers=len(self.answers))

    def plain(self) -> dict[str, Any]:
        """Returns what a page is told of it (playground/question.js)."""
        names = ("panel", "axes", "names", "styles", "near", "rows", "percent", "log")
        drawn = None if self.sketch is None else {name: getattr(self.sketch, name) for name in names}
        return {"asks": self.asks, "answers": list(self.answers), "sketch": drawn}

    def told(self, now: MarkRecord) -> dict[str, Any]:
        """Returns what a page judges by, from the last record of a run (playground/question.js)."""
        ends = [] if self.sketch is None else self.sketch.ends(now).tolist()
        right, *ends = (one if math.isfinite(one) else None for one in (float(self.right(now)), *ends))
        return {"right": right, "seen": written(self.seen(now)), "ends": ends}

    def verdict(self, answer: int, now: MarkRecord) -> str:
        """Returns what is said of an answer, given by its number, at the end of a run."""
        right, seen = float(self.right(now)), written(self.seen(now))
        if math.isnan(right):
            return NOT_JUDGED
        return (PREDICTED if right == answer else PREDICTED_ELSE).format(seen=seen, answer=self.answers[answer])


def ends_of(pair: Callable[[MarkRecord], tuple[Tensor, Tensor]]) -> Callable[[MarkRecord], Tensor]:
    """Returns the two numbers of a comparison as the ends of a sketch."""
    return lambda now: torch.stack([number.to(torch.float64) for number in pair(now)])


def comparison(
    asks: str,
    answers: Sequence[str],
    pair: Callable[[MarkRecord], tuple[Tensor, Tensor]],
    apart: float,
    found: tuple[str, str, str],
    numbers: str,
    sketch: Sketch | None = None,
) -> Question:
    """Returns the question which of two numbers will be larger.

    Args:
      pair: takes a record, returns the two.
      apart: how near they are called about the same.
      found: what is said where the first is larger, where the second is, and where neither is.
      numbers: how the two are told after that, with a form for each (see `say`).
      sketch: what may be drawn on the picture instead.
    """

    def right(now: MarkRecord) -> Tensor:
        one, other = (number.to(torch.float64) for number in pair(now))
        return larger(one, other, apart)

    def seen(now: MarkRecord) -> Words:
        one, other, neither = map(say, found)
        return of_three(right(now), one, other, neither) + say(numbers, *pair(now))

    return Question(asks, answers, right, seen, sketch)


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
