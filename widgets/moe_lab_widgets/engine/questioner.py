"""Asks before a run what will be seen, takes an answer or what is drawn on the picture, and judges it at the end."""

from __future__ import annotations

import math
from collections.abc import Callable, Mapping, Sequence
from typing import Any

from moe_lab.drawing.words import written
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.goal import (
    BACK,
    COMPARE,
    DRAW,
    JUST_RUN,
    MOVED,
    NOT_JUDGED,
    Question,
)
from moe_lab_widgets.frames.screen import Screen


class Questioner:
    """The question of a Lab, from before the run of some settings to the verdict on that run.

    Args:
      question: what is asked.
      values: the settings that it is asked about.
      say: writes a line, with answers.
      screen: shows the picture, on which levels may be drawn.
      play: starts a run that is held.
      back: takes settings, and holds their run at step 0.
    """

    def __init__(
        self,
        question: Question,
        values: Mapping[str, Any],
        say: Callable[..., None],
        screen: Screen,
        play: Callable[[], None],
        back: Callable[[Mapping[str, Any]], None],
    ) -> None:
        self.question = question
        self._values = dict(values)
        self._say, self._screen, self._play, self._back = say, screen, play, back
        self._offered: Sequence[str] = ()
        self._predicted: int | None = None
        self._drawn: list[float | None] = []
        self._closed = self._left = False
        """Whether a run has begun, with a prediction or without; whether a slider has been moved since a prediction."""

    def reset(self) -> None:
        """Asks anew."""
        self._predicted, self._drawn, self._closed, self._left = None, [], False, False

    def moved(self, values: Mapping[str, Any]) -> None:
        """A setting was moved: a question that is still open is of the new ones, a prediction was of the old ones."""
        if not self._closed:
            self._values = dict(values)
        elif self._predicted is not None or self._drawn:
            self._left = True
            self._screen.show_sketch(None)
            self._offer(MOVED, BACK)

    def look(self, now: MarkRecord, ended: bool) -> None:
        """Asks before the first step, and judges at the end what was predicted.

        Args:
          now: the record on show.
          ended: whether it is the last one of a run that has come to its end.
        """
        if self._left:
            return
        if not self._closed and bool(now.first) and not ended:
            self._ask()
        elif not self._closed:  # a later record, by Step, or the last one of a run that has been left
            self._screen.show_sketch(None)
            self._offer("")
        elif ended:
            self._offer(self._verdict(now))

    def _ask(self) -> None:
        question, sketch = self.question, self.question.sketch
        if any(level is not None for level in self._drawn):
            assert sketch is not None
            self._offer(sketch.told(self._drawn), COMPARE, JUST_RUN)
        else:
            self._offer(question.asks, *question.answers, *([DRAW] if sketch else []), JUST_RUN)
        self._screen.show_sketch(sketch, self._drawn, is_open=True)

    def _verdict(self, now: MarkRecord) -> str:
        if self._predicted is not None:
            return self.question.verdict(self._predicted, now)
        if not self._drawn:
            return ""
        if math.isnan(float(self.question.right(now))):
            return NOT_JUDGED
        assert self.question.sketch is not None
        seen = written(self.question.seen(now))
        told, close = self.question.sketch.told(self._drawn), self.question.sketch.judged(self._drawn, now)
        return " ".join(filter(None, (told, close, f"{seen[0].upper()}{seen[1:]}.")))

    def played(self) -> None:
        """The run goes on, whether or not something was predicted."""
        if not self._closed:
            self._drawn = []
            self._close()

    def drawn(self, levels: Sequence[float | None]) -> None:
        """Takes what was drawn on the picture: a level for each mark, None for one that was not moved."""
        if not self._closed:
            self._drawn = list(levels)
            self._ask()

    def answer(self, number: int) -> None:
        """Takes one of the answers that were offered; most start the run."""
        answer = self._offered[number]
        if answer == DRAW:
            self._screen.focus_sketch()
        elif answer == BACK:
            self.reset()
            self._back(self._values)
        else:
            self._drawn = self._drawn if answer == COMPARE else []
            answers = self.question.answers
            self._predicted = answers.index(answer) if answer in answers else None
            self._close()
            self._play()

    def _close(self) -> None:
        """A run begins: what was predicted is told, and what was drawn stays on the picture."""
        self._closed = True
        question, drawn = self.question, self._drawn
        self._screen.show_sketch(question.sketch if drawn else None, drawn)
        if drawn and question.sketch is not None:
            self._offer(question.sketch.told(drawn))
        else:
            self._offer("" if self._predicted is None else f"{question.asks} {question.answers[self._predicted]}")

    def _offer(self, words: str, *answers: str) -> None:
        self._offered = answers
        self._say(words, answers)
