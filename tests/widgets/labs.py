"""What the tests of every Lab share: making small ones, waiting, moving, looking."""

from __future__ import annotations

import io
import threading
from collections.abc import Callable, Iterator, Mapping
from contextlib import contextmanager
from typing import Any, TypeVar

import numpy as np
from PIL import Image

from moe_lab_widgets import Lab

FAST = "as fast as it trains"
AnyLab = TypeVar("AnyLab", bound=Lab)


@contextmanager
def making(kind: type[AnyLab], small: Mapping[str, Any]) -> Iterator[Callable[..., AnyLab]]:
    """Makes Labs that are small unless told otherwise and run as fast as they can, and closes them."""
    made: list[AnyLab] = []

    def make(**values: Any) -> AnyLab:
        lab = kind(**{**small, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def ended(lab: AnyLab, seconds: float) -> AnyLab:
    """Waits for the end of the run."""
    assert lab.wait(seconds), f"the run did not end within {seconds:g} seconds"
    assert lab.finished
    return lab


def shown(lab: AnyLab) -> AnyLab:
    """Waits until a run that is held has drawn what was asked for."""
    assert lab.wait(60)
    return lab


def pixels(lab: Lab) -> np.ndarray:
    """What the live picture shows."""
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: Lab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value


def check_that_closing_leaves_nothing(kind: type[AnyLab], small: Mapping[str, Any]) -> None:
    """No thread and no widget is left of a Lab that was closed while it ran."""
    before = set(threading.enumerate())
    lab = kind(**small)
    assert set(threading.enumerate()) > before
    lab.close()
    assert set(threading.enumerate()) <= before
    assert lab.picture.image.comm is None
