"""The embedded digits are scikit-learn's, unchanged but for their scale."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest
from sklearn.datasets import load_digits

from moe_lab.datasets import digits


@pytest.mark.parametrize("file", [digits.FILE, Path("a version that keeps it elsewhere")])
def test_they_are_scikit_learns_digits_from_zero_to_one(file: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(digits, "FILE", file)
    loaded = digits.load()
    original = load_digits()
    np.testing.assert_array_equal(loaded.images * 16, original.data)
    np.testing.assert_array_equal(loaded.labels, original.target)
    assert loaded.images.shape == (1797, 64) and loaded.images.dtype == np.float64 and loaded.side == 8
    assert loaded.images.min() == 0 and loaded.images.max() == 1
    assert loaded.labels.dtype == np.int64 and loaded.is_test is None


def test_every_digit_is_there_often_enough_to_divide() -> None:
    counts = np.bincount(digits.load().labels)
    assert counts.tolist() == [178, 182, 177, 183, 181, 182, 181, 179, 174, 180]


def test_a_caller_may_change_its_copy() -> None:
    first = digits.load()
    first.images[:] = 0
    assert digits.load().images.max() == 1
