"""Judges an exercise: compares the learner's function with known cases, and gives a hint where it is wrong.

A check never raises on a wrong, unfinished or crashing answer, so a notebook runs from top to bottom whatever its
exercise cells hold. Each case lists the results of typical mistakes: a function that gives those of one of them in
every case gets its hint. One case alone would not do: in a small one two mistakes can give the same number. Another
wrong answer gets a second hint, the formula and where the result is off, and only the next one is told the right
result.
"""

from __future__ import annotations

import copy
import html
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import Any, Literal

import numpy as np

from moe_lab.exercises.cases import ABSOLUTE, RELATIVE, Case, hint_at, numbers_of, same

State = Literal["right", "wrong", "open"]

_MARKS = {"right": ("✓", "Right.", "#0B5F5A"), "wrong": ("✗", "Not yet.", "#AA3377"), "open": ("…", "", "#7A808C")}
_TIERS = 3  # of hints: the mistake, the formula with where the result is off, the right result
_wrong_results: dict[str, list[bytes]] = {}
"""The latest different wrong results of each exercise in this process, which decide how much the next hint says."""
_IMPORTS = {"np": "import numpy as np", "numpy": "import numpy", "torch": "import torch"}
_OF_TORCH = re.compile(r"Tensor|numpy\.ndarray, dim=|unexpected keyword argument '(dim|descending|keepdim)'")
"""What Python says where a learner calls torch's functions with NumPy arrays, or NumPy's as if they were torch's."""


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
        return ruled(f"{head} {text}", colour)


def ruled(shown: str, colour: str) -> str:
    """Returns HTML with a coloured rule at its left, as all answers to a learner look."""
    return f"<div style='border-left:4px solid {colour};padding:2px 10px;max-width:60em'>{shown}</div>"


def judge(
    exercise: str,
    function: object,
    cases: Sequence[Case],
    praise: str,
    formula: str,
    not_finite: str = "",
) -> Verdict:
    """Calls the learner's function with every case and returns the verdict.

    Args:
      exercise: the exercise's name.
      function: the learner's own; anything else gets an explanation.
      cases: simple ones first, because the first failure is the one explained.
      praise: what to remember, once all are right.
      formula: of the result, for the second hint.
      not_finite: a hint for NaN or infinity where a finite number is expected.
    """
    if function is None:
        return _open(exercise)
    if not callable(function):
        return Verdict(exercise, "wrong", f"The check takes your function itself, {exercise}, without brackets.")
    answers: list[Any] = []
    for case in cases:
        answers.append(_answer(function, case))
        if answers[0] is None:
            return _open(exercise)
    for place, (case, answer) in enumerate(zip(cases, answers, strict=True)):
        if isinstance(answer, Exception):
            reason = f"{type(answer).__name__}: {answer}" if str(answer) else type(answer).__name__
            told = f"Your function stopped {case.about}: {reason}"
            return Verdict(exercise, "wrong", " ".join(filter(None, (told, _advice(answer, case.arguments)))))
        if not same(numbers_of(answer), numbers_of(case.expected)):
            hint = hint_at(place, cases, answers, function)
            trouble = _trouble(answer, case, hint, formula, not_finite)
            return Verdict(exercise, "wrong", _so_far(exercise, answer, trouble))
    return Verdict(exercise, "right", praise)


def _answer(function: Callable[..., Any], case: Case) -> Any:
    """What the learner's function returns for a case, or the error that stopped it."""
    try:
        with np.errstate(all="ignore"):
            return function(*copy.deepcopy(case.arguments))
    except Exception as error:  # a learner's error is explained, not passed on
        return error


def _advice(error: Exception, arguments: Sequence[Any]) -> str:
    """Returns advice on an error with a known cause: a missing import, or torch used on NumPy arrays."""
    if isinstance(error, NameError) and error.name in _IMPORTS:
        return f"The name {error.name} is not imported: write `{_IMPORTS[error.name]}` above your function."
    arrays = any(isinstance(one, np.ndarray) for one in arguments)
    missing = isinstance(error, AttributeError) and isinstance(error.obj, np.ndarray)
    if arrays and (missing or (isinstance(error, TypeError) and _OF_TORCH.search(str(error)))):
        return "The arguments are NumPy arrays, not torch tensors: use NumPy's functions, with axis= in place of dim=."
    return ""


def _so_far(exercise: str, answer: Any, hints: Sequence[str]) -> str:
    """Returns as many hints as there were different wrong results; the same cell run again gets no new one."""
    found = numbers_of(answer)
    result, earlier = b"" if found is None else found.tobytes(), _wrong_results.setdefault(exercise, [])
    if result not in earlier:
        earlier.append(result)
        del earlier[:-_TIERS]
    told = list(hints[: len(earlier)])
    if len(told) < len(hints):
        told.append("Change your function and run the cell again: the next hint says more.")
    return " ".join(told)


def _open(exercise: str) -> Verdict:
    told = "Not yet answered: your function returns None. Fill it in, `return` its result, and run the cell again."
    return Verdict(exercise, "open", told)


def _trouble(answer: Any, case: Case, hint: str, formula: str, not_finite: str) -> Sequence[str]:
    """Returns hints on a wrong answer, each more explicit than the one before.

    `hint` is at the mistake that explains it, if one does.
    """
    if answer is None:
        return [f"Your function returns None {case.about}: is there a path without a return?"]
    found, expected = numbers_of(answer), numbers_of(case.expected)
    if found is None or expected is None:
        return [f"Your function must return numbers: got {type(answer).__name__} {case.about}."]
    result = f"Your result {case.about} is {show(found)}."
    if hint:
        return [f"{hint} {result}", *_answers(found, expected, formula)]
    if found.shape != expected.shape:
        wanted = f"an array of shape {expected.shape}" if expected.shape else "one number"
        given = f"shape {found.shape}" if found.shape else "one number"
        return [f"Your function must return {wanted} {case.about}: got {given}."]
    if np.isfinite(expected).all() and not np.isfinite(found).all():
        return [f"Your result has NaN or infinity in it {case.about}. {not_finite}".strip()]
    return [result, *_answers(found, expected, formula)]


def _answers(found: np.ndarray, expected: np.ndarray, formula: str) -> list[str]:
    """The formula with where a result is off, and the right result."""
    right = f"It should be {show(expected)}."
    return [f"{_place(found, expected)} The formula: {formula}.", right]


def _place(found: np.ndarray, expected: np.ndarray) -> str:
    """Where a result is off, and in which direction."""
    if found.shape != expected.shape:
        return f"It should have the shape {expected.shape}." if expected.shape else "It should be one number."
    scale = float(np.abs(expected[np.isfinite(expected)]).max(initial=0)) or 1.0
    off = ~np.isclose(found, expected, rtol=RELATIVE, atol=ABSOLUTE * scale, equal_nan=True)
    first = tuple(int(place) for place in np.argwhere(off)[0])
    size = "too large" if found[first] > expected[first] else "too small"
    if np.isnan(found[first]) or np.isnan(expected[first]):
        size = "NaN" if np.isnan(found[first]) else "not NaN"
    if not expected.shape:
        return f"That is {size}."
    place = ", ".join(str(index) for index in first)
    return f"{off.sum()} of {off.size} numbers are off; the first is at [{place}], which is {size}."


def show(array: Any) -> str:
    """Formats an array as one short line."""
    numbers = np.asarray(array, dtype=np.float64)
    if numbers.size > 24:
        return f"an array of shape {numbers.shape} with mean {numbers.mean():.4g}"
    small = np.abs(numbers[np.isfinite(numbers)]).max(initial=0) < 0.001

    def written(number: Any) -> str:
        value = float(number)
        return f"{value:.3g}" if small else f"{round(value, 3) + 0.0:g}"  # no "-0" and no "1."

    text = np.array2string(numbers, formatter={"float_kind": written}, separator=", ", max_line_width=10_000)
    return " ".join(text.split())
