"""A page, a cell and the run use one Lab at once, each on a thread of its own, as in JupyterLab."""

from __future__ import annotations

import random
import subprocess
import sys
import threading
import time
from collections.abc import Callable, Iterator
from typing import Any

import pytest

from moe_lab_widgets import predict
from moe_lab_widgets.by_hand.table import RoutingTable
from moe_lab_widgets.drawing.picture import drawing_lock
from moe_lab_widgets.engine import callbacks, lab
from moe_lab_widgets.engine.controls import FASTEST
from tests.helpers.page import send, tell
from tests.widgets.engine.tiny import TinyLab

MOVES = 200


class InOrder:
    """`widgets_lock`, which fails where a thread that draws asks for it: another may hold it and wait to draw."""

    def __init__(self) -> None:
        self.lock, self.wrong = threading.RLock(), 0

    def __enter__(self) -> None:
        self.wrong += drawing_lock.mine() and not self.lock._is_owned()  # type: ignore[attr-defined]
        self.lock.acquire()

    def __exit__(self, *error: object) -> None:
        self.lock.release()


@pytest.fixture
def in_order(monkeypatch: pytest.MonkeyPatch) -> Iterator[None]:
    watched = InOrder()
    for module in (callbacks, lab):
        monkeypatch.setattr(module, "widgets_lock", watched)
    yield
    assert watched.wrong == 0, "widgets_lock was taken with drawing_lock held"


def elsewhere(work: Callable[[], None]) -> tuple[threading.Thread, list[BaseException]]:
    """Starts a thread, and returns it with what will have gone wrong there."""
    wrong: list[BaseException] = []

    def kept() -> None:
        try:
            work()
        except BaseException as error:
            wrong.append(error)

    thread = threading.Thread(target=kept, name="subshell")
    thread.start()
    return thread, wrong


@pytest.fixture(autouse=True)
def _nothing_swallowed(caplog: pytest.LogCaptureFixture) -> Iterator[None]:
    """ipywidgets logs the errors of callbacks, and goes on."""
    yield
    said = [record.getMessage() for record in caplog.get_records("call")]
    assert not any("Exception" in words for words in said), said


@pytest.mark.usefixtures("in_order")
def test_two_hundred_moves_of_a_page_beside_a_cell_that_moves_the_lab() -> None:
    made = TinyLab(epochs=20)
    controls, draws = made.controls, random.Random(3)

    def page() -> None:
        for move in range(MOVES):
            send(controls.knobs["gap"], value=round(draws.uniform(0, 4), 1))
            send(controls.knobs["samples"], value=draws.randrange(20, 200, 20))
            if move % 10 == 0:
                send(controls.pin, value=move % 20 == 0)
                send(controls.menu, index=draws.randrange(3))
            if move % 7 == 0:
                tell(controls.play if move % 2 else controls.reset, event="click")
            if move % 20 == 0:
                time.sleep(0.02)
        send(controls.menu, index=0)
        send(controls.knobs["gap"], value=1.7)

    thread, wrong = elsewhere(page)
    try:
        turn = 0
        while thread.is_alive():
            turn += 1
            made.set(epochs=10 + 10 * (turn % 2))
            made.scrub(0 if turn % 3 else None)
            made.pin() if turn % 2 else made.unpin()
            assert made.png() and made.link() and isinstance(made.records, list)
        thread.join()
        assert not wrong and turn > 5
        made.play()
        assert made.wait(60) and made.finished and made.error is None
        assert made.values["gap"] == controls.knobs["gap"].value == 1.7
        assert {name: widget.value for name, widget in controls.knobs.items()} == {
            name: value for name, value in made.values.items() if name != "seed"
        }
        assert made.code(made.values) in controls.code.value.replace("&#x27;", "'").replace("&quot;", '"')
        assert [record.step for record in made.records] == list(range(made.values["epochs"] + 1))
    finally:
        made.close()


SCRIPT = """import time
import torch
from tests.widgets.engine.tiny import TinyLab

class Slow(TinyLab):
    def start(self, values):
        for snapshot in super().start(values):
            yield snapshot
            weights, end = torch.randn(200, 200, requires_grad=True), time.monotonic() + 2.5
            while time.monotonic() < end:
                (weights @ weights).sum().backward()

lab = Slow()
while not lab.records:
    time.sleep(0.01)
"""
"""It ends while a step of a second and more is under way, whose thread torch would abort the process in."""


def test_a_script_that_ends_while_a_lab_trains_says_nothing() -> None:
    ended = subprocess.run([sys.executable, "-c", SCRIPT], capture_output=True, text=True, timeout=120, check=False)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")


def test_a_wait_is_not_ended_by_a_page_that_says_that_the_lab_is_away(monkeypatch: pytest.MonkeyPatch) -> None:
    """A cell that waits uses the Lab, and then it trains, on screen or not, whichever of the two comes first."""
    monkeypatch.setattr(TinyLab, "speed", FASTEST)
    for _ in range(20):
        made = TinyLab(epochs=10)
        thread, wrong = elsewhere(lambda made=made: tell(made.screen.page, kind="away"))
        try:
            assert made.wait(60) and made.finished and not wrong
        finally:
            thread.join()
            made.close()


def test_the_page_chooses_the_shell_for_our_widgets_and_no_others() -> None:
    """Where ipykernel would take the shell that wrote last; in the main thread IPython hears of it as ever."""
    import ipywidgets as w
    from ipykernel.comm.comm import BaseComm

    class Kernelless(BaseComm):
        def publish_msg(self, *arguments: Any, **named: Any) -> None:
            self._reply_subshell_id = None  # the main shell wrote last

    slider, other = w.IntSlider(), w.IntSlider()
    for one in (slider, other):
        one.comm = Kernelless(target_name="jupyter.widget")
    callbacks.heard_at_once(w.VBox([slider]))
    assert slider.comm._reply_subshell_for({}, "chosen by the page") == "chosen by the page"
    assert other.comm._reply_subshell_for({}, "chosen by the page") is None


def test_figures_of_a_running_cell_are_left_alone(monkeypatch: pytest.MonkeyPatch) -> None:
    """IPython's "post_execute", at which matplotlib shows and closes all figures, goes with the main thread alone."""
    import IPython

    heard: list[str] = []

    class Shell:
        class events:  # noqa: N801
            trigger = heard.append

    asked, table = predict("Which?", ["one", "other"]), RoutingTable([[1, 2], [3, 4]])
    asked._ipython_display_()
    box = asked.box
    assert box is not None
    monkeypatch.setattr(IPython, "get_ipython", Shell)
    send(table.entries[0][0], value=5)
    assert heard == ["pre_execute", "post_execute"] and table.powers[0, 0] == 5
    thread, wrong = elsewhere(lambda: (send(table.entries[0][0], value=6), send(box.children[1], index=1)))  # type: ignore[func-returns-value, arg-type, return-value]
    thread.join()
    assert not wrong and len(heard) == 2 and table.powers[0, 0] == 6 and asked.chosen == "b"
    table.close()
