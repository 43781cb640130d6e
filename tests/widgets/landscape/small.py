"""What the tests of the landscape Lab share."""

from __future__ import annotations

from collections.abc import Callable, Iterator

import pytest

from moe_lab_widgets import LandscapeLab
from moe_lab_widgets.landscape import settings
from tests.widgets.labs import ended, making, move, pixels, shown

__all__ = ["FEW", "SMALL", "Make", "done", "make", "move", "pixels", "shown"]
SMALL = {"dimension": 5, "batch": 64, "steps": 100, "trials": 2}
FEW = 20
"""Records of a run in these tests."""
Make = Callable[..., LandscapeLab]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes Labs whose runs are short and as fast as they can, and closes them."""
    monkeypatch.setattr(settings, "RECORDS", FEW)
    monkeypatch.setattr(LandscapeLab, "fast_frames", 1.0)
    with making(LandscapeLab, SMALL) as make:
        yield make


def done(lab: LandscapeLab) -> LandscapeLab:
    """Waits for the end of the run."""
    return ended(lab, 120)
