"""Words with numbers in them, which a page without Python can write for other numbers (`say`, `written`)."""

from __future__ import annotations

import re
from dataclasses import dataclass, replace

import torch
from torch import Tensor

Number = Tensor | float
"""A number, or a tensor that holds one."""

_NUMBER = re.compile(r"\{:(?:(,?)\.(\d)([fg%s])|names)\}")


@dataclass(frozen=True)
class Words:
    """Text in which numbers are written (see `say`)."""

    text: str
    numbers: tuple[Number, ...] = ()
    when: Number | None = None
    instead: Words | None = None
    then: Words | None = None

    def __add__(self, more: Words) -> Words:
        """Returns the words followed by others."""
        return replace(self, then=more if self.then is None else self.then + more)


NOTHING = Words("")
"""No words."""


def say(text: str, *numbers: Number, when: Number | None = None, instead: Words | None = None) -> Words:
    """Returns words with numbers in them.

    Args:
      text: with `{:.1f}` (digits after the point), `{:.0%}` (percent), `{:.1s}` (digits only below ten), `{:.2g}`
        (digits in all) or `{:,.0f}` (thousands apart) for each number; one that is NaN becomes a dash. `{:names}`
        stands for the numbers, from 1, of the things that are true: "1, 2 and 4".
      when: 0 where the text is not said.
      instead: what is said there; nothing by default.
    """
    return Words(text, numbers, when, instead)


def either(when: Number, words: Words, instead: Words) -> Words:
    """Returns words that are said, or others where `when` is 0; of both several may follow one another."""
    there = torch.as_tensor(when).bool()
    return say("", when=~there, instead=words) + say("", when=there, instead=instead)


def written(words: Words | None) -> str:
    """Returns words as text."""
    if words is None:
        return ""
    if words.when is not None and not float(words.when):
        text = written(words.instead)
    else:
        numbers = iter(words.numbers)
        text = _NUMBER.sub(lambda found: _written(next(numbers), found), words.text)
    return text + written(words.then)


def _written(value: Number, found: re.Match[str]) -> str:
    """Returns a number, or the names of things, in the form that was found."""
    if found[3]:
        return number(float(value), found[1], found[2], found[3])
    names = [str(place + 1) for place, true in enumerate(torch.as_tensor(value).tolist()) if true]
    return " and ".join(filter(None, (", ".join(names[:-1]), *names[-1:])))


def number(value: float, comma: str = "", digits: str = "0", kind: str = "f") -> str:
    """Returns a number in one of the forms of `say`."""
    if value != value or abs(value) == float("inf"):
        return "–"
    if kind == "s":
        return f"{value:.{digits if abs(value) < 10 - 0.5 / 10 ** int(digits) else 0}f}"
    if kind == "g":
        return f"{value:.{digits}g}"
    return f"{100 * value:.{digits}f} %" if kind == "%" else f"{value:{comma}.{digits}f}"
