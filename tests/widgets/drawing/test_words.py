"""Numbers in words: of nothing there is a dash, and what is not all or nothing is never called so."""

from __future__ import annotations

import numpy as np

from moe_lab_widgets.drawing.words import median, percent, short, two_digits

NAN = float("nan")


def test_a_median_is_that_of_the_trials_that_have_not_diverged() -> None:
    np.testing.assert_array_equal(median(np.array([[0.5, np.nan, 1.0], [np.nan] * 3])), [0.75, np.nan])
    np.testing.assert_array_equal(median(np.array([[1.0, 2.0, 9.0]])), [2.0])


def test_numbers_in_words() -> None:
    assert percent(0.996) == "100 %" and percent(0.9996, 1) == "100.0 %" and percent(0.9984, 1) == "99.8 %"
    assert two_digits(0.9376) == "0.94" and two_digits(5.13) == "5.1"
    assert short(1.0) == "100 %" and short(0.997) == "99.7 %" and short(0.004) == "0.4 %" and short(0.0) == "0 %"
    assert short(0.235) == "24 %"
    assert percent(NAN) == two_digits(NAN) == short(NAN) == "–"
