"""What the tests of the gridlock Lab share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moe_lab_widgets import GridlockLab
from moe_lab_widgets.gridlock import settings
from tests.widgets.labs import ended, making, move, pixels, shown

__all__ = ["AFTER", "POWER", "SMALL", "Make", "done", "make", "move", "pixels", "shown"]
SMALL = {"experts": 3, "dimension": 6, "samples": 600, "trials": 2, "iterations": 24}
POWER, AFTER = 4, 5
"""Iterations of the power method for each regressor, and of EM for everything after it, in these tests."""
Make = Callable[..., GridlockLab]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes Labs whose runs are short and as fast as they can, and closes them."""
    monkeypatch.setattr(settings, "POWER_ITERATIONS", POWER)
    monkeypatch.setattr(settings, "EVERYTHING_ITERATIONS", AFTER)
    monkeypatch.setattr(GridlockLab, "fast_frames", 1.0)
    with making(GridlockLab, SMALL) as make:
        yield make


def done(lab: GridlockLab) -> GridlockLab:
    """Waits for the end of the run."""
    return ended(lab, 120)
