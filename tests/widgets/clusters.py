"""What the tests of the specialisation Lab share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab_widgets import SpecializationLab

FAST = "as fast as it trains"
SMALL = {"trials": 2, "steps": 20, "samples": 200}
Make = Callable[..., SpecializationLab]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes Labs that run as fast as they can, and closes them."""
    made: list[SpecializationLab] = []

    def make(**values: Any) -> SpecializationLab:
        lab = SpecializationLab(**{**SMALL, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def done(lab: SpecializationLab) -> SpecializationLab:
    """Waits for the end of the run."""
    assert lab.wait(120), "the run did not end within two minutes"
    assert lab.finished
    return lab


def pixels(lab: SpecializationLab) -> np.ndarray:
    """What the live picture shows."""
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: SpecializationLab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value
