"""Hundreds of hasty changes in every Lab: nothing breaks, nothing is left dead, nothing is left behind."""

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

from moe_lab_widgets import Lab
from tests.helpers.effort import THOROUGH
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, done, pixels

WARM_UP, ROUNDS, CHANGES = 100, 3, 300 if THOROUGH else 80
MOST_GROWTH = 15e6 if THOROUGH else 8e6
"""Bytes per round. A leak grows in every round; an allocator that keeps what one large run took does not."""


@pytest.fixture
def draws() -> Iterator[random.Random]:
    yield random.Random(0)


def choices(widget: Any) -> list[Any]:
    """What a drop-down offers, without its words."""
    return [one[1] if isinstance(one, tuple) else one for one in getattr(widget, "options", ())]


def other_value(widget: Any, draws: random.Random) -> Any:
    """A value that the widget allows."""
    if hasattr(widget, "options"):
        return draws.choice(choices(widget))
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
        for option in choices(widget):
            lab.set(**{**values, name: option})
            with contextlib.suppress(ValueError):  # a combination that the Lab refuses
                lab.wait(120)


def resident() -> int:
    """Bytes in memory, once all that is not needed is given back."""
    gc.collect()
    if sys.platform == "linux":
        ctypes.CDLL("libc.so.6").malloc_trim(0)
    return int(psutil.Process().memory_info().rss)


@one_case_in(3)
def test_some_hasty_changes_leave_a_lab_that_works(make: Make, draws: random.Random, case: Case) -> None:
    lab = make()
    shake(lab, 30, draws)
    done(lab, **{**case.defaults, **case.small})
    assert lab.error is None and lab.controls.message.value == ""
    np.testing.assert_array_equal(pixels(lab), pixels(done(make())))


@one_case_in(11)
@pytest.mark.slow
def test_many_changes(case: Case, make: Make, draws: random.Random) -> None:
    before = set(threading.enumerate())
    errors: list[Exception | None] = []
    begun: list[float] = []
    lab: Lab = make()
    start = lab.start

    def counted(values: dict[str, Any]) -> Iterator[Any]:
        begun.append(time.monotonic())
        return start(values)

    lab.start = counted  # type: ignore[method-assign]
    lab.controls.message.observe(lambda change: errors.append(lab.error), "value")
    small = {**case.defaults, **case.small}
    shake(lab, WARM_UP, draws)
    visit(lab, small)
    done(lab, **small)
    weights = [resident()]
    for _ in range(ROUNDS):
        shake(lab, CHANGES, draws)
        done(lab, **small)
        weights.append(resident())
    hear(lab, draws)
    done(lab, **{**small, "seed": 1})
    old, picture = lab.record, pixels(lab)
    done(lab, **small)
    assert lab.record is not old and lab.record is lab.records[-1]
    assert np.abs(pixels(lab).astype(int) - picture).max() > 0
    growth = min(np.diff(weights))
    lab.close()
    assert len(begun) > 5, "hardly a run was begun: nothing was shaken"
    strange = [error for error in errors if error and (not isinstance(error, ValueError) or "got" not in str(error))]
    assert not strange, strange
    assert growth < MOST_GROWTH, f"at least {growth / 1e6:.0f} MB more after every {CHANGES} changes"
    left = set(threading.enumerate()) - before
    assert not left, left
