"""Every Lab where no thread can be started, as in a browser's Python: it trains inside the calls of its page."""

from __future__ import annotations

import threading
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from tests.helpers.page import tell
from tests.widgets.cases import Case
from tests.widgets.labs import Make, move


def refuse(thread: threading.Thread) -> None:
    raise RuntimeError("can't start new thread")


class Page:
    """Answers what a Lab sends, as a page does that takes every frame at once."""

    def __init__(self, lab: Any) -> None:
        self.lab = lab
        self.unheard: list[dict[str, Any]] = []
        lab.screen.page.send = lambda note, buffers=None: self.unheard.append(note)
        self.say(kind="hello", page="one", ratio=1, inflates=True, hidden=False)

    def say(self, **message: Any) -> None:
        tell(self.lab.screen.page, **message)

    def answer(self) -> None:
        """Answers until the Lab sends nothing more."""
        while self.unheard:
            note = self.unheard.pop()
            self.unheard.clear()
            if "frame" in note:
                self.say(kind="ack", frame=note["frame"])

    def ended(self) -> Any:
        """The Lab at the end of its run."""
        self.answer()
        assert self.lab.error is None and self.lab.finished
        return self.lab


def test_it_starts_is_moved_paused_scrubbed_and_exported(
    case: Case, make: Make, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    monkeypatch.setattr(threading.Thread, "start", refuse)
    lab = make()
    page = Page(lab)
    page.ended()
    before, (name, values) = lab.picture.pixels().copy(), case.drag
    for value in values:
        move(lab, name, value)
    assert page.ended().values[name] == values[-1]
    assert not np.array_equal(lab.picture.pixels(), before)
    lab.pause()
    lab.reset()
    page.answer()  # a slow machine begins the second run only then
    assert lab.record.step == 0 and lab.record.begun and not lab.playing
    lab.step()
    assert lab.record.step > 0
    lab.play()
    page.ended()
    lab.scrub(0)
    assert lab.record is lab.records[0]
    assert lab.export(tmp_path / "run").stat().st_size > 10_000
    lab.scrub(None)
    assert lab.wait(60) and lab.record is lab.records[-1]
