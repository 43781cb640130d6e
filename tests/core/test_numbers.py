"""What users give as arrays: the same numbers in every form, or a sentence that says what it was and where."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.errors import InputError
from moe_lab.core.numbers import check_finite, finite_array, integer_array, numbers_of
from tests.helpers.strange import NO_NUMBERS, OF_THE_SAME_NUMBERS, Strange

X = np.array([[0.0, 1.0], [2.0, -3.0]])


@pytest.mark.parametrize("form", OF_THE_SAME_NUMBERS)
def test_every_form_of_the_numbers_is_the_same_array(form: str) -> None:
    given_ = OF_THE_SAME_NUMBERS[form](X)
    found = finite_array("x", given_)
    np.testing.assert_array_equal(found, X)
    assert found.dtype == np.float64 and found.flags.c_contiguous and found.flags.writeable
    found[:] = 9
    np.testing.assert_array_equal(finite_array("x", given_), X)  # a copy: what the user gave is left alone


def sentence(rule: str) -> str:
    """A rule as a pattern: only .* is one."""
    return f"^x must {re.escape(rule)}".replace(r"\.\*", ".*")


@pytest.mark.parametrize("form", NO_NUMBERS)
def test_what_is_no_array_of_finite_numbers_is_named(form: str) -> None:
    make, rule = NO_NUMBERS[form]
    with pytest.raises(InputError, match=sentence(rule)) as raised:
        finite_array("x", make(np.abs(X)))
    assert "\n" not in str(raised.value) and len(str(raised.value)) <= 300


def test_a_number_is_an_array_without_axes() -> None:
    for number in (-0.0, np.float64(0), torch.tensor(0)):
        assert isinstance(found := finite_array("x", number), np.ndarray) and found.shape == ()
        assert not np.signbit(found)
    with pytest.raises(InputError, match=r"^x must hold finite numbers: got x=-inf$"):
        finite_array("x", -np.inf)


@pytest.mark.parametrize("value", [None, "abc", {1, 2}, len, iter([1]), Strange(), [Strange()], object()])
def test_what_is_no_array_is_named(value: Any) -> None:
    with pytest.raises(InputError, match=r"^x must (be an array of numbers|hold numbers): got "):
        numbers_of("x", value)


def test_nan_may_stay_where_it_may_be() -> None:
    np.testing.assert_array_equal(numbers_of("x", [[np.nan, np.inf]]), [[np.nan, np.inf]])


def test_numbers_that_are_not_finite_are_counted() -> None:
    gates = torch.tensor([[0.5, np.nan, np.nan, np.inf]]).bfloat16()
    with pytest.raises(InputError, match=r"^gates must hold finite numbers: got 2 NaN and 1 infinite, .* at \(0, 1\)$"):
        check_finite("gates", gates)


@pytest.mark.parametrize(
    ("values", "got"), [([0, 0.5], "0.5 at (1,)"), ([0, 2**40], "1.09951e+12 at (1,)"), ([[1], [2]], "shape=(2, 1)")]
)
def test_whole_numbers_are_asked_for_by_name(values: Any, got: str) -> None:
    with pytest.raises(InputError, match=re.escape(f"y must be an array (samples,) of whole numbers: got {got}")):
        integer_array("y", values)
