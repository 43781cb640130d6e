"""What the tests of every Lab share: making small ones, waiting, moving, reading pixels."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any

import numpy as np
import pytest

from moe_lab_widgets import Lab
from moe_lab_widgets.drawing.picture import drawing_lock
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.engine import knobs
from tests.widgets.cases import Case

FAST = "as fast as it trains"
Make = Callable[..., Any]


@contextmanager
def making(case: Case) -> Iterator[Make]:
    """Makes Labs that are small unless told otherwise and run as fast as they can, and closes them.

    They measure as often as at other speeds, or their records would depend on how soon after its start a Lab is told.
    """
    made: list[Lab] = []

    def make(**values: Any) -> Lab:
        lab = case.kind(**{**case.small, **values})
        lab.controls.speed.value = FAST
        made.append(lab)
        return lab

    with case.short_runs(), pytest.MonkeyPatch.context() as patch:
        patch.setattr(knobs, "FEW_RECORDS", 10**6)
        patch.setattr(knobs, "PATIENT", 1.0)
        yield make
        for lab in made:
            lab.close()


def fixtures(case: Case) -> tuple[Any, Any]:
    """Returns the fixtures of a Lab's own tests: `make`, and `ended`, one finished run for tests that only read it."""

    @pytest.fixture(name="make")
    def make() -> Iterator[Make]:
        with making(case) as make:
            yield make

    @pytest.fixture(name="ended", scope="module")
    def ended() -> Iterator[Lab]:
        with making(case) as make:
            yield done(make())

    return make, ended


def bare(kind: Any) -> Any:
    """Returns a declared Lab without widgets and runs, to ask what it derives from values."""
    lab = kind.__new__(kind)
    lab.own = {}
    return lab


def tooltip(widget: Any) -> str:
    """Returns what a mouse over a setting says, in ipywidgets 8 and 7."""
    words: str = widget.tooltip if widget.has_trait("tooltip") else widget.description_tooltip
    return words


def done(lab: Any, **values: Any) -> Any:
    """Sets values, if any, and waits for the end of the run."""
    if values:
        lab.set(**values)
    assert lab.wait(120), "the run did not end within 120 seconds"
    assert lab.finished
    return lab


def shown(lab: Any) -> Any:
    """Waits until a run that is held has drawn what was asked for."""
    assert lab.wait(60)
    return lab


def another_picture(lab: Any, scale: float = 1.0, **values: Any) -> Any:
    """Returns another picture of a Lab, begun with the Lab's values and these."""
    before, lab.scale = lab.scale, scale
    picture = lab.make_picture(lab.values)
    lab.scale = before
    picture.set_view({knob.name: lab.values[knob.name] for knob in lab.knobs if knob.view_only})
    picture.begin({**lab.values, **values})
    return picture


def pixels(lab: Lab) -> np.ndarray:
    """What the picture holds, (height, width, 3)."""
    with drawing_lock:
        return lab.picture.pixels()[..., :3].copy()


def colours(lab: Lab) -> set[tuple[int, ...]]:
    """The colours of the live picture."""
    return {tuple(colour) for colour in pixels(lab).reshape(-1, 3)}


def move(lab: Lab, name: str, value: Any) -> None:
    """Moves a widget as a user does."""
    widget = lab.controls.seed if name == "seed" else lab.controls.knobs[name]
    widget.value = value


def drawn_as(lab: Any, panel: int, label: str) -> list[Any]:
    """Returns what a panel (counted from 0) draws of the present record under a label."""
    return [one for one in lab.picture.placed[panel].content if str(one.get_label()) == label]


def words_of(lab: Any, panel: int) -> list[str]:
    """Returns the words that a panel (counted from 0) writes of the present record."""
    return [word for one in lab.picture.placed[panel].content if isinstance(one, Sheet) for word in one.words]
