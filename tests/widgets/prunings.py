"""What the tests of the pruning Lab share."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from PIL import Image

from moe_lab_widgets import PruningLab
from moe_lab_widgets.pruning_prune import View
from moe_lab_widgets.pruning_record import Frame, live
from moe_lab_widgets.pruning_settings import KNOBS, LOOKS, recipe, run_of

FAST = "as fast as it trains"
SMALL: dict[str, Any] = {
    **{"trials": 2, "steps": 30, "experts": 8, "patterns": 100, "tokens": 40},
    **{"tuning_steps": 20, "router_learning_rate": 0.1},
}
DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}
Make = Callable[..., PruningLab]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes Labs that run as fast as they can, and closes them."""
    made: list[PruningLab] = []

    def make(**values: Any) -> PruningLab:
        lab = PruningLab(**{**SMALL, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def done(lab: PruningLab) -> PruningLab:
    """Waits for the end of the run."""
    assert lab.wait(120), "the run did not end within two minutes"
    assert lab.finished
    return lab


def pixels(lab: PruningLab) -> np.ndarray:
    """What the live picture shows."""
    return np.asarray(Image.open(io.BytesIO(lab.picture.image.value)).convert("RGB"))


def move(lab: PruningLab, name: str, value: Any) -> None:
    """As a hand moves the widget."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value


def view_of(values: dict[str, Any]) -> View:
    return View(**{name: values[name] for name in LOOKS})


def frames(**values: Any) -> tuple[list[Frame], dict[str, Any]]:
    """All records of a run with the Lab's defaults for its start and routing, and its values."""
    start, routing = values.get("start", DEFAULTS["start"]), values.get("routing", DEFAULTS["routing"])
    every = {**DEFAULTS, **recipe(start, routing), **values}
    return list(live(run_of(every), lambda: view_of(every))), every
