"""Numbers and lists in words."""

from __future__ import annotations

import numpy as np

from moe_lab.core.words import counted, series, span


def test_counts_lists_and_ranges() -> None:
    assert [counted(1), counted(3), counted(2, "digit")] == ["1 trial", "3 trials", "2 digits"]
    assert [series("a"), series("ab"), series(iter("abc"))] == ["a", "a and b", "a, b and c"]
    assert span([0.9611, np.nan, 0.9749]) == "0.961 to 0.975"
    assert [span([-0.0], "{:.2f}"), span([50.04, 50.01], "{:.1f}", " %"), span([np.nan])] == [
        "0.00",
        "50.0 %",
        "diverged",
    ]
