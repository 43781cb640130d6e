"""The cases of an exercise, and the mistake that explains a learner's results."""

from __future__ import annotations

import inspect
from collections.abc import Callable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from typing import Any

import numpy as np

RELATIVE, ABSOLUTE = 1e-5, 1e-6  # loose enough for float32, far below what any mistake changes


@dataclass(frozen=True)
class Case:
    """One call of the learner's function.

    Attributes:
      arguments: what it is called with (copies, so that it may change them).
      expected: what it must return.
      about: the call in words, such as "with scores (1, 3, 3) and l=2".
      mistakes: hint -> what the mistake behind that hint returns here, NaN where it stops Python. One that is not
        listed does no harm here.
    """

    arguments: tuple[Any, ...]
    expected: Any
    about: str
    mistakes: Mapping[str, Any] = field(default_factory=dict)


def one_only(of: str, first: Any, last: Any) -> dict[str, Any]:
    """Returns the mistakes of a function that uses one of several experts, samples ... alone.

    Args:
      of: what there are several of, such as "expert".
      first, last: its result if it uses the first of them alone, or the last.
    """
    return {
        f"This is the first {of} alone: use all of them. A `return` inside a loop ends it at the first.": first,
        f"This is the last {of} alone: use all of them. A `=` inside a loop keeps the last alone.": last,
    }


def hint_at(place: int, cases: Sequence[Case], answers: Sequence[Any], function: Callable[..., Any]) -> str:
    """Returns the hint at the mistake that explains a learner's results; empty if none does.

    Args:
      place: of the case whose result is wrong, in `cases`.
      cases: all of the exercise.
      answers: what the function returned for each, or the error that stopped it.
      function: the learner's own.
    """
    return _listed(place, cases, answers) or _common(place, cases, answers, _parameters(function))


def _listed(place: int, cases: Sequence[Case], answers: Sequence[Any]) -> str:
    """Returns the hint whose mistake gives the learner's results, in every case; empty if there is none."""
    for hint in cases[place].mistakes:
        if _agree(place, cases, answers, [case.mistakes.get(hint, case.expected) for case in cases]):
            return hint
    return ""


def _agree(place: int, cases: Sequence[Case], answers: Sequence[Any], results: Sequence[Any]) -> bool:
    """Whether answers are these results, in every case; NaN elsewhere than at `place` tells nothing."""
    return all(
        same(numbers_of(answer), numbers_of(result)) or (other != place and _tells_nothing(answer, result, case))
        for other, (case, answer, result) in enumerate(zip(cases, answers, results, strict=True))
    )


def _tells_nothing(answer: Any, result: Any, case: Case) -> bool:
    """Whether an answer is NaN or infinite where a finite number is right, or an error where the mistake has NaN."""
    found, mistaken, expected = (numbers_of(one) for one in (answer, result, case.expected))
    if found is None or mistaken is None or expected is None:
        return found is None and mistaken is not None and bool(np.isnan(mistaken).all())
    return bool(np.isfinite(expected).all() and not np.isfinite(found).all())


def _parameters(function: Callable[..., Any]) -> list[str]:
    """The names of a function's parameters; none for a function that does not tell."""
    try:
        parameters = inspect.signature(function).parameters.values()
    except (TypeError, ValueError):
        return []
    return [one.name for one in parameters if one.kind is one.POSITIONAL_OR_KEYWORD]


def _common(place: int, cases: Sequence[Case], answers: Sequence[Any], parameters: Sequence[str]) -> str:
    """Returns a hint at a mistake that any exercise can meet; empty if it is none of them."""
    for hint, results in _common_mistakes(cases, parameters):
        if _agree(place, cases, answers, results):
            return hint
    found = [numbers_of(answer) for answer in answers]
    if len(cases) > 1 and all(same(one, found[0]) for one in found):
        return "Your result is the same in every case: compute it from the arguments."
    return ""


def _common_mistakes(cases: Sequence[Case], parameters: Sequence[str]) -> Iterator[tuple[str, list[Any]]]:
    """Yields the mistakes that any exercise can meet: a hint, and the result in each case."""
    for position, name in enumerate(parameters[: min(len(case.arguments) for case in cases)]):
        hint = f"You return {name} as it was given: store what you compute, and return that."
        yield hint, [case.arguments[position] for case in cases]
    found = [numbers_of(case.expected) for case in cases]
    right = [one for one in found if one is not None]
    yield (
        "Your result is 0 everywhere: is what you compute ever put into it? Some functions return a new array and "
        "leave the old one as it is.",
        [np.zeros_like(one) for one in right],
    )
    yield "Your result is right but for its sign.", [-one for one in right]
    if all(one.ndim > 1 for one in right):
        yield "Your last two axes are exchanged.", [one.swapaxes(-1, -2) for one in right]
    if all(one.ndim > 0 for one in right):
        part = "row" if right[0].ndim > 1 else "number"
        for words, kept in (("first", slice(1)), ("last", slice(-1, None))):
            hint = f"Only the {words} {part} of your result is filled: does your loop reach the others, and keep them?"
            yield hint, [_only(one, kept) for one in right]


def _only(values: np.ndarray, kept: slice) -> np.ndarray:
    """Some rows of an array, and 0 in the others."""
    filled = np.zeros_like(values)
    filled[kept] = values[kept]
    return filled


def numbers_of(answer: Any) -> np.ndarray | None:
    """Returns an answer (a number, list, array or tensor) as an array of floats; None for anything else."""
    detached = answer.detach().cpu() if hasattr(answer, "detach") else answer
    try:
        return np.asarray(detached, dtype=np.float64)
    except (TypeError, ValueError):
        return None


def same(found: np.ndarray | None, expected: np.ndarray | None) -> bool:
    """Whether two arrays have one shape and the same numbers, up to float32's rounding."""
    if found is None or expected is None or found.shape != expected.shape:
        return False
    finite = expected[np.isfinite(expected)]
    scale = float(np.abs(finite).max(initial=0)) or 1.0
    return bool(np.allclose(found, expected, rtol=RELATIVE, atol=ABSOLUTE * scale + 1e-12))  # or 0, up to rounding
