"""Judges an exercise: compares the learner's function with known cases, and gives a hint where it is wrong.

A check never raises on a wrong, unfinished or crashing answer, so a notebook runs from top to bottom whatever its
exercise cells hold. Each case lists the results of typical mistakes: an answer that equals one of them gets its hint.
"""

from __future__ import annotations

import copy
import html
from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any, Literal

import numpy as np

State = Literal["right", "wrong", "open"]

_MARKS = {"right": ("✓", "Right.", "#0B5F5A"), "wrong": ("✗", "Not yet.", "#AA3377"), "open": ("…", "", "#7A808C")}
_RELATIVE, _ABSOLUTE = 1e-5, 1e-6  # loose enough for float32, far below what any mistake changes


@dataclass(frozen=True)
class Verdict:
    """The result of a check. It is true when the answer is right, and displays itself at the end of a cell.

    Attributes:
      exercise: the exercise's name, as "top_l".
      state: "right", "wrong", or "open" where nothing was answered yet.
      message: the explanation, in plain sentences.
    """

    exercise: str
    state: State
    message: str

    def __bool__(self) -> bool:
        return self.state == "right"

    def __repr__(self) -> str:
        mark, word, _ = _MARKS[self.state]
        return " ".join(part for part in (mark, f"{self.exercise}:", word, self.message) if part)

    def _repr_html_(self) -> str:
        mark, word, colour = _MARKS[self.state]
        text = html.escape(self.message).replace("\n", "<br>")
        head = f"<b style='color:{colour}'>{mark} {html.escape(self.exercise)}: {word}</b>"
        return f"<div style='border-left:4px solid {colour};padding:2px 10px;max-width:60em'>{head} {text}</div>"


@dataclass(frozen=True)
class Case:
    """One call of the learner's function.

    Attributes:
      arguments: what it is called with (copies, so that it may change them).
      expected: what it must return.
      about: the call in words, such as "with scores (1, 3, 3) and l=2".
      mistakes: hint -> what the mistake behind that hint returns here.
    """

    arguments: tuple[Any, ...]
    expected: Any
    about: str
    mistakes: Mapping[str, Any] = field(default_factory=dict)


def judge(
    exercise: str,
    function: object,
    cases: Sequence[Case],
    praise: str,
    not_finite: str = "",
) -> Verdict:
    """Calls the learner's function with every case and returns the verdict.

    Args:
      exercise: the exercise's name.
      function: the learner's own; anything else gets an explanation.
      cases: simple ones first, because the first failure is the one explained.
      praise: what to remember, once all are right.
      not_finite: a hint for NaN or infinity where a finite number is expected.
    """
    if function is None:
        return _open(exercise)
    if not callable(function):
        return Verdict(exercise, "wrong", f"The check takes your function itself, {exercise}, without brackets.")
    for position, case in enumerate(cases):
        try:
            with np.errstate(all="ignore"):
                answer = function(*copy.deepcopy(case.arguments))
        except Exception as error:  # a learner's error is explained, not passed on
            reason = f"{type(error).__name__}: {error}" if str(error) else type(error).__name__
            return Verdict(exercise, "wrong", f"Your function stopped {case.about}: {reason}")
        if answer is None and position == 0:
            return _open(exercise)
        trouble = _trouble(answer, case, not_finite)
        if trouble:
            return Verdict(exercise, "wrong", trouble)
    return Verdict(exercise, "right", praise)


def _open(exercise: str) -> Verdict:
    return Verdict(exercise, "open", "Not yet answered: your function returns None. Fill it in and run the cell again.")


def _trouble(answer: Any, case: Case, not_finite: str) -> str:
    """What is wrong with an answer, in words; empty when it is right."""
    if answer is None:
        return f"Your function returns None {case.about}: is there a path without a return?"
    found, expected = _numbers(answer), _numbers(case.expected)
    if found is None or expected is None:
        return f"Your function must return numbers: got {type(answer).__name__} {case.about}."
    if _same(found, expected):
        return ""
    for hint, mistaken in case.mistakes.items():
        if _same(found, _numbers(mistaken)):
            return f"{hint} ({_say(case, found, expected)})"
    if found.shape != expected.shape:
        wanted = f"an array of shape {expected.shape}" if expected.shape else "one number"
        given = f"shape {found.shape}" if found.shape else "one number"
        return f"Your function must return {wanted} {case.about}: got {given}."
    if np.isfinite(expected).all() and not np.isfinite(found).all():
        return f"Your result has NaN or infinity in it {case.about}. {not_finite}".strip()
    return _say(case, found, expected, start="Your")


def _numbers(answer: Any) -> np.ndarray | None:
    """An answer (a number, list, array or tensor) as an array of floats; None for anything else."""
    detached = answer.detach().cpu() if hasattr(answer, "detach") else answer
    try:
        return np.asarray(detached, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def _same(found: np.ndarray | None, expected: np.ndarray | None) -> bool:
    if found is None or expected is None or found.shape != expected.shape:
        return False
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0)) or 1.0
    return bool(np.allclose(found, expected, rtol=_RELATIVE, atol=_ABSOLUTE * scale))


def _say(case: Case, found: np.ndarray, expected: np.ndarray, start: str = "your") -> str:
    """The two results side by side."""
    return f"{start} result {case.about} is {show(found)}; it should be {show(expected)}"


def show(array: Any) -> str:
    """Formats an array as one short line."""
    numbers = np.asarray(array, dtype=np.float64)
    if numbers.size > 24:
        return f"an array of shape {numbers.shape} with mean {numbers.mean():.4g}"
    text = np.array2string(numbers, precision=3, suppress_small=True, separator=", ", max_line_width=10_000)
    return " ".join(text.split())
