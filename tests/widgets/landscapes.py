"""What the tests of the landscape Lab share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab_widgets import LandscapeLab

FAST = "as fast as it trains"
SMALL = {"dimension": 5, "batch": 64, "steps": 100, "trials": 2}
Make = Callable[..., LandscapeLab]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes Labs whose runs are short and as fast as they can, and closes them."""
    made: list[LandscapeLab] = []

    def make(**values: Any) -> LandscapeLab:
        lab = LandscapeLab(**{**SMALL, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def done(lab: LandscapeLab) -> LandscapeLab:
    """Waits for the end of the run."""
    assert lab.wait(120), "the run did not end within two minutes"
    assert lab.finished
    return lab


def shown(lab: LandscapeLab) -> LandscapeLab:
    """Waits until a run that is held has drawn what was asked for."""
    assert lab.wait(60)
    return lab


def pixels(lab: LandscapeLab) -> np.ndarray:
    """What the live picture shows."""
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: LandscapeLab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value
