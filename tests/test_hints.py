"""The hints of the exercises are true: each mistake is run, and no two of them look alike to a check."""

from __future__ import annotations

import copy
import functools
import inspect
import itertools
import math
import sys

import numpy as np
import pytest

from moe_lab import exercises
from moe_lab.exercises.cases import Case, numbers_of, one_only, same
from moe_lab.exercises.verdict import judge
from tests.solutions.every import CHECKS, SOLUTIONS, WRONG_OF

WRONG = [(name, hint, answer) for name, answers in WRONG_OF.items() for hint, answer in answers.items()]


@functools.cache
def cases_of(name):
    """The cases of an exercise, as its check gives them to `judge`."""
    module, seen = sys.modules[CHECKS[name].__module__], []

    def listening(exercise, function, cases, *words, **more):
        seen.append(cases)
        return judge(exercise, function, cases, *words, **more)

    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(module, "judge", listening)
        CHECKS[name](SOLUTIONS[name])
    return seen[0]


def hints_of(name):
    """The hints of an exercise at mistakes of its own."""
    return {hint for case in cases_of(name) for hint in case.mistakes}


def results_of(name, answer):
    """What a function returns in every case of an exercise; None where Python stops it."""
    results = []
    for case in cases_of(name):
        try:
            with np.errstate(all="ignore"):
                results.append(numbers_of(answer(*copy.deepcopy(case.arguments))))
        except (ArithmeticError, LookupError, TypeError, ValueError):
            results.append(None)
    return results


def alike(one, other):
    return all((a is b is None) or same(a, b) for a, b in zip(one, other, strict=True))


def like(name, changed):
    """A function with the parameters of an exercise, which changes the right result: changed(arguments, result)."""

    @functools.wraps(SOLUTIONS[name])
    def answer(*arguments):
        return changed(arguments, np.asarray(SOLUTIONS[name](*copy.deepcopy(arguments)), dtype=float))

    return answer


def filled_alone(place):
    def changed(arguments, result):
        filled = np.zeros_like(result)
        filled[place] = result[place]
        return filled

    return changed


COMMON = {
    "Your result is 0 everywhere": lambda arguments, result: np.zeros_like(result),
    "right but for its sign": lambda arguments, result: -result,
    "last two axes are exchanged": lambda arguments, result: result.swapaxes(-1, -2),
    "first row of your result": filled_alone(slice(1)),
    "last row of your result": filled_alone(slice(-1, None)),
    "same in every case": lambda arguments, result: 1.0,
}
"""Mistakes that any exercise can meet, by the hint for those to whom the exercise says nothing more."""
SAID_BY_THE_EXERCISE = {"chosen", "gates", "is_turned", "regressors_from", "sgd_step"}
"""Exercises with a hint of their own at zeros or at an argument, whose mistake is just that."""


@pytest.mark.parametrize(("name", "hint", "answer"), WRONG, ids=[f"{name}-{hint}" for name, hint, _ in WRONG])
def test_a_mistake_gets_its_hint(name, hint, answer):
    verdict = CHECKS[name](answer)
    assert verdict.state == "wrong"
    assert hint in verdict.message
    listed = [one for one in hints_of(name) if hint in one]
    assert len(listed) < 2 and verdict.message.startswith(tuple(listed) or ""), "a hint of one mistake alone"


@pytest.mark.parametrize("name", CHECKS)
class TestHintsAreTrue:
    """A hint is given where a function's results are those of its mistake, so each mistake is run, by other code."""

    def test_every_listed_mistake_is_run(self, name):
        runs = WRONG_OF[name]
        untested = {hint: [one for one in runs if one in hint] for hint in hints_of(name)}
        assert {hint: found for hint, found in untested.items() if len(found) != 1} == {}

    def test_no_two_mistakes_and_no_mistake_and_the_solution_give_the_same_numbers(self, name):
        runs = WRONG_OF[name]
        found = {"the solution": results_of(name, SOLUTIONS[name])}
        found |= {hint: results_of(name, answer) for hint, answer in runs.items()}
        pairs = itertools.combinations(found, 2)
        assert [pair for pair in pairs if alike(found[pair[0]], found[pair[1]])] == []

    def test_an_argument_returned_as_it_was_given_is_named(self, name):
        """Also where the result was computed and not kept."""
        for place, parameter in enumerate(inspect.signature(SOLUTIONS[name]).parameters):
            answer = like(name, lambda arguments, result, place=place: arguments[place])
            if all(numbers_of(case.arguments[place]) is not None for case in cases_of(name)):
                self.gets(name, answer, f"You return {parameter} as it was given")

    @pytest.mark.parametrize("hint", COMMON)
    def test_a_common_mistake_is_told(self, name, hint):
        axes = np.ndim(cases_of(name)[0].expected)
        if axes >= (2 if "axes" in hint else 1 if "row" in hint else 0):
            self.gets(name, like(name, COMMON[hint]), hint if axes > 1 else hint.replace("row", "number"))

    @staticmethod
    def gets(name, answer, hint):
        """The common hint, or another that is as true: its mistake gives the same in all cases."""
        found, cases = results_of(name, answer), cases_of(name)
        if alike(found, results_of(name, SOLUTIONS[name])):
            return  # such as one row alone where every case has one
        own = [one for one in hints_of(name) if alike(found, [
            numbers_of(case.mistakes.get(one, case.expected)) for case in cases
        ])]  # fmt: skip
        assert not own or name in SAID_BY_THE_EXERCISE or "sign" in hint or "axes" in hint, own
        common = [one for one, changed in COMMON.items() if alike(found, results_of(name, like(name, changed)))]
        said = CHECKS[name](answer)
        assert said.state == "wrong"
        assert said.message.startswith(tuple(own)) if own else any(one in said.message for one in [hint, *common])


def test_a_mistake_that_one_case_cannot_tell_from_another_is_told_by_the_others():
    """One expert alone gives 5/6 on the tiny model, as does a ReLU after the sum over the patches."""
    tiny = tuple(exercises.TINY.values())
    alone = WRONG_OF["output"]["first expert alone"]
    assert alone(*tiny) == pytest.approx(WRONG_OF["output"]["ReLU after summing"](*tiny)) == pytest.approx(5 / 6)
    assert exercises.check_output(alone).message.startswith("This is the first expert alone")


def test_a_result_that_is_a_mistake_in_one_case_only_gets_no_hint_at_it():
    cases = [Case((n,), n, f"for {n}", {"You add one.": n + 1, **one_only("part", n / 2, n / 3)}) for n in (2, 6)]
    found = {hint: judge("same", wrong, cases, "", "").message for hint, wrong in {
        "You add one.": lambda n: n + 1,
        "Your result for 2 is 3.": lambda n: 3 if n == 2 else 8,
        "This is the first part alone": lambda n: n / 2,
        "This is the last part alone": lambda n: n / 3 if n == 2 else math.nan,
    }.items()}  # fmt: skip
    assert [said.startswith(hint) for hint, said in found.items()] == [True] * 4, found
