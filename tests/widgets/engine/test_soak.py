"""A thousand hasty changes in every Lab: nothing breaks, nothing is left dead, nothing is left behind."""

from __future__ import annotations

import contextlib
import ctypes
import gc
import random
import sys
import threading
import time
from collections.abc import Iterator
from typing import Any

import numpy as np
import psutil
import pytest

import moe_lab_widgets
from moe_lab_widgets import Lab
from moe_lab_widgets.gridlock import settings as gridlock_settings
from moe_lab_widgets.landscape import settings as landscape_settings
from moe_lab_widgets.phase_transition import settings as phase_settings
from tests.widgets.labs import FAST, pixels

SMALL: dict[str, dict[str, Any]] = {
    "RouterAlignmentLab": {"trials": 2, "steps": 20, "samples": 50},
    "PhaseTransitionLab": {"trials": 5, "patches": 5},
    "SpecializationLab": {"trials": 2, "steps": 50, "samples": 200},
    "PruningLab": {"trials": 2, "steps": 30, "experts": 8, "patterns": 100, "tokens": 40, "tuning_steps": 20},
    "GridlockLab": {"experts": 3, "dimension": 6, "samples": 600, "trials": 2, "iterations": 24},
    "LandscapeLab": {"dimension": 5, "batch": 64, "steps": 100, "trials": 2},
}
"""Settings with which a whole run takes no time, Lab by Lab."""
WARM_UP, CHANGES, MOST_GROWTH = 100, 1000, 50e6
NAMES = [name for name in dir(moe_lab_widgets) if name.endswith("Lab") and name != "Lab"]


@pytest.fixture(autouse=True)
def _short_runs(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(gridlock_settings, "POWER_ITERATIONS", 4)
    monkeypatch.setattr(gridlock_settings, "EVERYTHING_ITERATIONS", 5)
    monkeypatch.setattr(landscape_settings, "RECORDS", 20)
    for key in phase_settings.SAMPLES:
        monkeypatch.setitem(phase_settings.SAMPLES, key, (20, 60))  # type: ignore[arg-type]


@pytest.fixture
def draws() -> Iterator[random.Random]:
    yield random.Random(0)


def other_value(widget: Any, draws: random.Random) -> Any:
    """A value that the widget allows."""
    if hasattr(widget, "options"):
        return draws.choice(widget.options)
    if isinstance(widget.value, bool):
        return not widget.value
    if not hasattr(widget, "step") or widget.step is None:
        return draws.randint(0, 50)
    value = widget.min + widget.step * draws.randint(0, round((widget.max - widget.min) / widget.step))
    return min(value, widget.max)


def shake(lab: Lab, times: int, draws: random.Random) -> None:
    """Moves one widget after the other without a wait, but for a breath now and then."""
    widgets = {**lab.controls.knobs, "seed": lab.controls.seed}
    for _ in range(times):
        widget = widgets[draws.choice(list(widgets))]
        widget.value = draws.randint(0, 99) if widget is lab.controls.seed else other_value(widget, draws)
        if draws.random() < 0.1:
            time.sleep(draws.uniform(0, 0.1))


def hear(lab: Lab, draws: random.Random) -> None:
    """Every slider still moves what it is for."""
    for name, widget in lab.controls.knobs.items():
        widget.value = other_value(widget, draws)
        assert lab.values[name] == pytest.approx(widget.value), f"the slider of {name} is dead"


def visit(lab: Lab, values: dict[str, Any]) -> None:
    """A run with each of the choices that there are, so that what is loaded once is there before memory is weighed."""
    for name, widget in lab.controls.knobs.items():
        for option in getattr(widget, "options", ()):
            lab.set(**{**values, name: option})
            with contextlib.suppress(ValueError):  # a combination that the Lab refuses
                lab.wait(120)


def settle(lab: Lab, values: dict[str, Any]) -> None:
    """Brings a Lab to small settings and waits for the end of their run."""
    lab.set(**values)
    assert lab.wait(120), "the run did not end"
    assert lab.finished and lab.error is None


def resident() -> int:
    """Bytes in memory, once all that is not needed is given back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


@pytest.mark.slow
@pytest.mark.parametrize("name", NAMES)
def test_a_thousand_changes(name: str, draws: random.Random) -> None:
    before = set(threading.enumerate())
    errors: list[Exception] = []
    begun: list[float] = []
    lab: Lab = getattr(moe_lab_widgets, name)(**SMALL[name])
    begin, fail = lab.begin, lab.failed

    def counted() -> Iterator[Any]:
        begun.append(time.monotonic())
        return begin()

    def failed(error: Exception) -> None:
        errors.append(error)
        fail(error)

    lab.begin, lab.failed = counted, failed  # type: ignore[method-assign]
    try:
        lab.controls.speed.value = FAST
        small = {**{knob.name: knob.default for knob in lab.knobs}, "seed": 0, **SMALL[name]}
        shake(lab, WARM_UP, draws)
        visit(lab, small)
        settle(lab, small)
        start = resident()
        shake(lab, CHANGES - WARM_UP, draws)
        hear(lab, draws)
        settle(lab, {**small, "seed": 1})
        old, picture = lab.record, pixels(lab)
        settle(lab, small)
        assert lab.record is not old and lab.record is lab.records[-1]
        assert np.abs(pixels(lab).astype(int) - picture).max() > 0
        growth = resident() - start
    finally:
        lab.close()
    assert len(begun) > 5, "hardly a run was begun: nothing was shaken"
    strange = [error for error in errors if not isinstance(error, ValueError) or "got" not in str(error)]
    assert not strange, strange
    assert growth < MOST_GROWTH, f"{growth / 1e6:.0f} MB more after {CHANGES - WARM_UP} changes"
    left = set(threading.enumerate()) - before
    assert not left, left


def test_every_lab_is_shaken() -> None:
    assert set(NAMES) == set(SMALL)
