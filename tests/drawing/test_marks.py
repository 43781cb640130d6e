"""Words with numbers, and the arithmetic of marks."""

from __future__ import annotations

import numpy as np
import pytest
import torch

from moe_lab.drawing.marks import first_true, middle
from moe_lab.drawing.words import say, written

NAN = float("nan")


@pytest.mark.parametrize(
    ("form", "value", "words"),
    [
        ("{:.0f}", 2.5, "2"), ("{:.2f}", 1.386, "1.39"), ("{:,.0f}", 12345.0, "12,345"), ("{:.1%}", 0.9615, "96.2 %"),
        ("{:.0%}", 0.125, "12 %"), ("{:.1s}", 9.94, "9.9"), ("{:.1s}", 9.96, "10"), ("{:.1s}", 12.5, "12"),
        ("{:.1%}", NAN, "–"), ("{:.2f}", float("inf"), "–"), ("{:.1s}", -12.6, "-13"),
    ],
)  # fmt: skip
def test_numbers_are_written_in_the_form_that_is_asked_for(form: str, value: float, words: str) -> None:
    assert written(say(form, value)) == words
    assert written(say(f"a {form} b", torch.tensor(value, dtype=torch.float64))) == f"a {words} b"


def test_what_is_said_depends_on_when_and_goes_on_with_then() -> None:
    few, many = say("{:.0f} few", 1), say("many")
    for when, text in ((torch.tensor(True), "many"), (torch.tensor(0.0), "1 few"), (False, "1 few")):
        assert written(say("many", when=when, instead=few) + say(".")) == f"{text}."
    assert written(many + say("!", when=0) + few + say("?")) == "many1 few?"
    assert written(None) == written(say("a", when=False)) == ""


def test_the_median_leaves_out_trials_that_have_diverged() -> None:
    values = torch.tensor([[1.0, 2, 4], [3, NAN, 1], [NAN, torch.inf, 5], [NAN, NAN, NAN]], dtype=torch.float64)
    np.testing.assert_array_equal(middle(values), [2, 2, 5, NAN])
    random = torch.rand(7, 6, dtype=torch.float64)
    np.testing.assert_allclose(middle(random), np.median(random, axis=1), rtol=1e-15)


def test_the_first_that_is_true_is_counted_from_1() -> None:
    assert float(first_true(torch.tensor([False, True, True]))) == 2
