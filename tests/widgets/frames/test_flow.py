"""What is under way to a page is counted, so that the kernel never runs far ahead of it."""

from __future__ import annotations

from collections.abc import Callable

import ipywidgets
import pytest

from moe_lab_widgets.drawing.picture import Picture
from moe_lab_widgets.frames.flow import Flow
from moe_lab_widgets.frames.screen import PageWidget, Screen
from tests.helpers.page import tell


class Blank(Picture):
    """Shows nothing."""

    def update(self, record: None) -> None:
        pass


def test_frames_and_bytes_under_way_are_bounded() -> None:
    flow = Flow(frames=3, size=100)
    for size in (40, 40):
        assert flow.ready()
        flow.send(size)
    assert flow.ready()
    last = flow.send(40)
    assert not flow.ready(), "more than 100 bytes are under way"
    flow.heard(last - 1)
    assert flow.ready()
    flow.hidden = True
    assert not flow.ready(), "nobody sees the page"


def test_no_number_is_sent_twice() -> None:
    """A page copies the number back, and a number that is the same as before is no answer: the run would rest."""
    screen, sent = Screen(Blank(())), []
    number, _ = (one for one in screen.box.children if isinstance(one, ipywidgets.IntText))  # and its copy
    number.observe(lambda change: sent.append(change["new"]), "value")
    for frame, ticks in enumerate((3, 0, 1, 2, 0)):
        screen.show(None, frame, "", "", 5)
        for _ in range(ticks):
            screen.tick()
    assert sent == list(range(1, 12))
    screen.close()


def test_a_page_may_speak_while_the_cell_is_still_making_the_lab(monkeypatch: pytest.MonkeyPatch) -> None:
    class Hasty(PageWidget):
        """Its page says hello at once."""

        def on_msg(self, callback: Callable[..., None], remove: bool = False) -> None:
            super().on_msg(callback, remove)
            callback(self, {"kind": "hello", "page": "one", "ratio": 1, "inflates": True, "hidden": False}, [])

    monkeypatch.setattr("moe_lab_widgets.frames.screen.PageWidget", Hasty)
    screen, told = Screen(Blank(())), []
    assert not screen.live
    screen.listen(lambda what, *about: told.append(what))
    assert screen.live and told == ["redraw"]
    tell(screen.page, kind="ack", frame=0)
    assert told == ["redraw", "ready"]
    screen.close()
