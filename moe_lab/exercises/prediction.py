"""Predictions: a question is answered before a cell runs, the answer is kept, and compared with what was seen.

`moe_lab_widgets.predict` shows the answers as radio buttons; this needs no widgets.
"""

from __future__ import annotations

import html
import math
import string
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

from moe_lab.core.arguments import checked
from moe_lab.core.config import require
from moe_lab.course.copies import PREDICTION
from moe_lab.exercises.verdict import ruled

_kept: dict[str, str] = {}
"""The letter that was chosen for each question in this process, so that a cell that runs again forgets nothing."""


@dataclass(frozen=True)
class Comparison:
    """What was predicted beside what was seen. It displays itself at the end of a cell.

    Attributes:
      question: as it was asked.
      chosen: the answer that was chosen, "" for none.
      seen: the answer that came true.
      why: in a sentence.
    """

    question: str
    chosen: str
    seen: str
    why: str = ""

    @property
    def sentence(self) -> str:
        """Both answers, and the reason."""
        if not self.chosen:
            said = f"You made no prediction; it was “{self.seen}”."
        elif self.chosen == self.seen:
            said = f"You predicted “{self.chosen}”, and you were right."
        else:
            said = f"You predicted “{self.chosen}”; it was “{self.seen}”. Take a minute: why?"
        return f"{said} {self.why}".rstrip()

    def __repr__(self) -> str:
        return self.sentence

    def _repr_mimebundle_(self, **kwargs: Any) -> dict[str, Any]:
        shown = ruled(f"<i>{html.escape(self.question)}</i><br>{html.escape(self.sentence)}", "#7A808C")
        record = {"question": self.question, "chosen": self.chosen, "seen": self.seen}
        return {"text/plain": self.sentence, "text/html": shown, PREDICTION: record}


class Prediction:
    """A question with answers a, b, c ... to choose from.

    Args:
      question: in a sentence.
      options: two to six answers; as a mapping, each with the number that it stands for.
      answer: the letter that is chosen.

    Raises:
      ValueError: too few or too many options, or answer is none of their letters.
    """

    @checked
    def __init__(self, question: str, options: Sequence[str] | Mapping[str, float], answer: str | None = None) -> None:
        require(2 <= len(options) <= 6, "a prediction must have two to six options", options=list(options))
        self.question = question
        self.options: Mapping[str, str] = dict(zip(string.ascii_lowercase, options, strict=False))
        self._numbers = list(options.values()) if isinstance(options, Mapping) else None
        if answer is not None:
            self.choose(answer)

    @property
    def chosen(self) -> str:
        """The letter that was chosen; "" for none."""
        letter = _kept.get(self.question, "")
        return letter if letter in self.options else ""

    @checked
    def choose(self, letter: str) -> None:
        """Keeps an answer.

        Raises:
          ValueError: there is no such letter.
        """
        require(letter in self.options, f"answer must be one of {', '.join(self.options)}", answer=letter)
        _kept[self.question] = letter

    @checked
    def seen(self, outcome: str | float, why: str = "") -> Comparison:
        """Compares the answer with what was seen.

        Args:
          outcome: a letter; or a number, for the option whose number is nearest (in ratio, where all are positive).
          why: the reason, in a sentence.

        Raises:
          ValueError: there is no such letter, or the options have no numbers.
        """
        letter = outcome if isinstance(outcome, str) else self._nearest(float(outcome))
        require(letter in self.options, f"outcome must be one of {', '.join(self.options)}", outcome=letter)
        return Comparison(self.question, self.options.get(self.chosen, ""), self.options[letter], why)

    def _nearest(self, number: float) -> str:
        rule = "outcome must be a letter, unless the options are a mapping to numbers, and a finite number then"
        require(self._numbers is not None and math.isfinite(number), rule, outcome=number)
        known = list(self._numbers or ())
        ratio = min(*known, number) > 0
        gaps = [abs(math.log(one / number) if ratio else one - number) for one in known]
        return list(self.options)[gaps.index(min(gaps))]

    def __repr__(self) -> str:
        lines = [f"{letter}) {text}" for letter, text in self.options.items()]
        state = f"Your prediction: {self.chosen}" if self.chosen else "Your prediction: none yet"
        return "\n".join([self.question, *lines, state])

    def _repr_html_(self) -> str:
        items = "".join(f"<li>{html.escape(text)}</li>" for text in self.options.values())
        return f"<p>{html.escape(self.question)}</p><ol type='a'>{items}</ol>"


@checked
def predict(question: str, options: Sequence[str] | Mapping[str, float], answer: str | None = None) -> Prediction:
    """Asks for a prediction without widgets: shows the options, and takes the answer's letter.

    >>> from moe_lab.exercises import predict
    >>> asked = predict("Which router turns first?", ["the largest", "the smallest"], answer="b")
    >>> asked.seen("a", "Its gate moves most.")
    You predicted “the smallest”; it was “the largest”. Take a minute: why? Its gate moves most.
    """
    return Prediction(question, options, answer)
