"""What the tests of the pruning Lab share."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moe_lab_widgets import PruningLab
from moe_lab_widgets.pruning.record import Frame, LiveRun, view_of
from moe_lab_widgets.pruning.settings import KNOBS, recipe, run_of
from tests.widgets.labs import ended, making

SMALL: dict[str, Any] = {
    **{"trials": 2, "steps": 30, "experts": 8, "patterns": 100, "tokens": 40},
    **{"tuning_steps": 20, "router_learning_rate": 0.1},
}
DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in KNOBS} | {"seed": 0}
__all__ = ["view_of"]
Make = Callable[..., PruningLab]


@pytest.fixture
def make() -> Iterator[Make]:
    with making(PruningLab, SMALL) as make:
        yield make


def done(lab: PruningLab) -> PruningLab:
    """Waits for the end of the run."""
    return ended(lab, 120)


def frames(**values: Any) -> tuple[list[Frame], dict[str, Any]]:
    """All records of a run with the Lab's defaults for its start and routing, and its values."""
    start, routing = values.get("start", DEFAULTS["start"]), values.get("routing", DEFAULTS["routing"])
    every = {**DEFAULTS, **recipe(start, routing), **values}
    return list(LiveRun(run_of(every), lambda: view_of(every)).frames()), every
