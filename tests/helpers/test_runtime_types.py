"""Hints are checked while the rooms are tested."""

from __future__ import annotations

import jaxtyping
import numpy as np
import pytest
from beartype.roar import BeartypeCallHintViolation

from moe_lab.core import trials
from moe_lab.drawing import marks
from tools import runtime_types


def test_the_first_calls_of_a_function_are_checked_in_each_test():
    def plain(number: int) -> int:
        return number

    sparing = runtime_types.sparing(plain, runtime_types.checked(plain))
    for begin in range(2):
        if begin:
            runtime_types.new_test()
        with pytest.raises(BeartypeCallHintViolation):
            sparing("1")
        assert [sparing(2) for _ in range(runtime_types.CALLS_CHECKED - 1)] == [2] * 4
        assert sparing("1") == "1"


def test_a_wrong_type_fails():
    with pytest.raises(jaxtyping.TypeCheckError):
        trials.stream("0", 0, "labels")


def test_a_numpy_number_is_a_number():
    assert trials.stream(np.int64(3), 0, "labels").random() == trials.stream(3, 0, "labels").random()


def test_attributes_of_a_wrong_type_fail():
    with pytest.raises(jaxtyping.TypeCheckError):
        marks.Writing(0.0, 0.0, words="words of no form")
