"""What the tests of the gridlock Lab share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab_widgets import GridlockLab, gridlock_settings

FAST = "as fast as it trains"
SMALL = {"experts": 3, "dimension": 6, "samples": 600, "trials": 2, "iterations": 24}
POWER, AFTER = 4, 5
"""Iterations of the power method for each regressor, and of EM for everything after it, in these tests."""
Make = Callable[..., GridlockLab]


@pytest.fixture
def make(monkeypatch: pytest.MonkeyPatch) -> Iterator[Make]:
    """Makes Labs whose runs are short and as fast as they can, and closes them."""
    monkeypatch.setattr(gridlock_settings, "POWER_ITERATIONS", POWER)
    monkeypatch.setattr(gridlock_settings, "EVERYTHING_ITERATIONS", AFTER)
    made: list[GridlockLab] = []

    def make(**values: Any) -> GridlockLab:
        lab = GridlockLab(**{**SMALL, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def done(lab: GridlockLab) -> GridlockLab:
    """Waits for the end of the run."""
    assert lab.wait(120), "the run did not end within two minutes"
    assert lab.finished
    return lab


def shown(lab: GridlockLab) -> GridlockLab:
    """Waits until a run that is held has drawn what was asked for."""
    assert lab.wait(60)
    return lab


def pixels(lab: GridlockLab) -> np.ndarray:
    """What the live picture shows."""
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: GridlockLab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value
