"""Knobs that only change how a run is viewed at: they draw again and do not train again, unless the Lab has more."""

from __future__ import annotations

import functools
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import numpy as np
import pytest
from matplotlib.axes import Axes

from moe_lab.core.snapshots import Snapshot
from moe_lab_widgets import LabKnob, Panel, Story
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.record import ONLY, Record
from tests.widgets.engine.tiny import PARTS, draw_accuracy, furnish_accuracy, run, shown, tiny

ZOOM = LabKnob(name="zoom", symbol="z", meaning="how near", default=1, slider=(1, 9, 1), view_only=True)
EXTRA = LabKnob(name="extra", meaning="records to add at the end", default=0, slider=(0, 9, 1), view_only=True)


def draw_near(ax: Axes, now: Record) -> None:
    draw_accuracy(ax, now)
    ax.axhline(0.5, linewidth=now.values["zoom"])


def viewing(begun: list[str]) -> type[Lab]:
    """Returns a Lab with view-only knobs, which notes the runs and the further records that it begins."""

    @functools.wraps(run)
    def train(**values: Any) -> Iterator[Snapshot]:
        begun.append(threading.current_thread().name)
        return run(**values)

    def more(now: Record) -> Iterator[Snapshot] | None:
        missing = now.values["epochs"] + 1 + now.values["extra"] - len(now.shots[ONLY])
        return added(now.of(), missing) if missing > 0 else None

    def added(record: Snapshot, count: int) -> Iterator[Snapshot]:
        for _ in range(count):
            begun.append("more")
            yield record

    return tiny(
        train,
        name="ViewingLab",
        knobs=(*PARTS["knobs"], ZOOM, EXTRA),
        stories=(
            Story("Near", {"zoom": 9}, "Only the view changes."),
            Story("Apart", {"gap": 4.0}, "It trains again."),
        ),
        panels=(Panel("Accuracy", draw_near, furnish_accuracy),),
        more=more,
        code=lambda values: f"train()  # zoom={values['zoom']}",
    )


Make = Callable[..., Any]


@pytest.fixture
def make() -> Iterator[Make]:
    made: list[Lab] = []

    def make(**values: Any) -> Lab:
        begun: list[str] = []
        lab: Any = viewing(begun)(**{"epochs": 10, **values})
        lab.begun = begun
        lab.controls.speed.value = "as fast as it trains"
        made.append(lab)
        return lab

    yield make
    for lab in made:
        lab.close()


def _zoom(lab: Any) -> int:
    """What the picture shows is drawn with."""
    return shown(lab)[-1].values["zoom"]


def _done(lab: Any) -> Any:
    assert lab.wait(60)
    return lab


def _moved(lab: Any, name: str, value: Any) -> Any:
    lab.controls.knobs[name].value = value
    return _done(lab)


def test_a_view_draws_the_record_at_hand_and_trains_nothing(make: Make) -> None:
    lab = _done(make())
    before, records, begun = lab.screen.image.value, lab.records, list(lab.begun)
    _moved(lab, "zoom", 5)
    assert lab.begun == begun and lab.finished
    assert all(one is other for one, other in zip(lab.records, records, strict=True))
    assert _zoom(lab) == 5 and lab.screen.image.value != before
    assert lab.values["zoom"] == 5
    assert "# zoom=5" in lab.controls.code.value
    assert shown(lab)[-1].shots is lab.record.shots, "the record stays as it is; its values are those of the view"


def test_a_scrubbed_picture_stays_where_it_is(make: Make) -> None:
    lab = _done(make())
    lab.scrub(3)
    _done(lab)
    _moved(lab, "zoom", 4)
    assert lab.record is lab.records[3] and _zoom(lab) == 4


def test_every_other_knob_starts_the_run_again_with_the_view_that_is_on(make: Make) -> None:
    lab = _done(make())
    _moved(lab, "zoom", 3)
    begun = len(lab.begun)
    _moved(lab, "gap", 3.0)
    assert len(lab.begun) == begun + 1 and _zoom(lab) == 3
    lab.set(zoom=2, gap=1.0)
    assert len(_done(lab).begun) == begun + 2 and _zoom(lab) == 2
    lab.set(zoom=7, gap=1.0)  # gap is there already
    assert len(_done(lab).begun) == begun + 2 and _zoom(lab) == 7
    lab.set(gap=1.0)
    assert len(_done(lab).begun) == begun + 3, "asked for by name, it runs again, as ever"


def test_a_story_that_changes_views_alone_trains_nothing(make: Make) -> None:
    lab = _done(make(epochs=40))
    begun = len(lab.begun)
    lab.controls.menu.value = "Near"
    assert len(_done(lab).begun) == begun and _zoom(lab) == 9
    lab.controls.menu.value = "Apart"
    assert len(_done(lab).begun) == begun + 1 and _zoom(lab) == 1


def test_an_ended_run_goes_on_where_a_view_asks_for_more(make: Make) -> None:
    lab = _done(make())
    records = len(lab.records)
    _moved(lab, "extra", 3)
    assert lab.begun[-3:] == ["more"] * 3 and lab.begun.count("more") == 3
    assert len(lab.records) == records + 3 and lab.finished
    _moved(lab, "extra", 2)
    assert lab.begun.count("more") == 3, "there is nothing more to do"
    assert lab.controls.play.description == "Play"


def test_a_view_while_it_trains_does_not_disturb_the_run(make: Make) -> None:
    lab = make(delay=5.0, epochs=30)
    while len(lab.records) < 5:
        time.sleep(0.005)
    lab.controls.knobs["zoom"].value = 6
    _done(lab)
    assert len(lab.begun) == 1 or lab.begun[0] == lab.begun[-1]
    assert lab.records[-1].step == 30 and _zoom(lab) == 6
    steps = [record.step for record in lab.records]
    np.testing.assert_array_equal(steps, np.arange(31))


def test_a_view_at_a_held_run_is_drawn(make: Make) -> None:
    lab = make(playing=False)
    _done(lab)
    assert len(lab.records) == 1
    _moved(lab, "zoom", 8)
    assert _zoom(lab) == 8 and len(lab.records) == 1


def test_a_view_at_a_run_that_failed_tries_it_again(make: Make) -> None:
    lab = make(trouble="error")
    with pytest.raises(OSError, match="on fire"):
        lab.wait(20)
    begun = len(lab.begun)
    lab.controls.knobs["zoom"].value = 2
    with pytest.raises(OSError, match="on fire"):
        lab.wait(20)
    assert len(lab.begun) == begun + 1


def test_a_file_that_cannot_be_written_is_no_reason_to_train_again(make: Make) -> None:
    lab = _done(make())
    lab.controls.file.value = "/nowhere/at/all"
    lab.controls.save_picture.click()
    begun = len(lab.begun)
    lab.controls.knobs["zoom"].value = 2
    assert lab.wait(20)
    assert len(lab.begun) == begun and _zoom(lab) == 2


def test_headless_a_view_is_drawn_inside_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    noted: list[str] = []
    lab = viewing(noted)(epochs=5)
    try:
        begun = len(noted)
        lab.set(zoom=4, extra=2)
        assert noted[begun:] == ["more", "more"] and _zoom(lab) == 4
    finally:
        lab.close()
