"""A Lab over 2 Mbit/s and 80 ms: it answers at once, stops when told, and outlives what happens to pages."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from functools import partial
from typing import Any

import numpy as np
import pytest

from tests.browser.conftest import Server, notebook_page
from tests.browser.driver import NotebookPage
from tests.browser.events import connected, heap, hide, restart_kernel, views
from tests.browser.link import Link
from tests.browser.watch import Watch
from tests.helpers.effort import QUIET, only_thorough

pytestmark = pytest.mark.browser

Opened = Callable[..., NotebookPage]
LAB, VALUES = "RouterAlignmentLab", {"source": "synthetic", "noise": 0.5}
SHORT = {"epochs": 50, "delay": 20.0}
MOST = 1000 if QUIET else 3000
"""Milliseconds until a slider is answered; pictures that wait in a queue would take half a minute."""


@pytest.fixture(scope="module")
def notebook(server: Server, browser: Any, link: Link) -> Iterator[NotebookPage]:
    """A page that finds the server at the other end of the link."""
    yield from notebook_page(server, browser, link.address)


@pytest.fixture
def slow(link: Link) -> Iterator[Callable[[], Link]]:
    """Makes the link slow from now on, until the test ends: opening a page is not what is measured."""

    def limit() -> Link:
        link.rate, link.delay = 250_000, 0.04
        return link

    yield limit
    link.rate, link.delay = None, 0.0
    link.mend()


def _end_of(page: NotebookPage, value: str, earlier: int) -> Any:
    """The picture of the end of a run after an earlier one; the code has its value before there is a picture of it."""
    page.until(lambda: value in page.code() and page.run() > earlier and page.step() == 50, f"no end of {value}")
    page.wait_for_end()
    page.page.wait_for_timeout(500)
    return page.pixels()


def test_a_hidden_page_gets_nothing_and_is_right_when_it_comes_back(opened: Opened, slow: Callable[[], Link]) -> None:
    page = opened("TinyLab", epochs=100, delay=50.0)
    link = slow()
    page.choose("speed", "as fast as it trains")
    page.button("Reset").click()
    hide(page)

    def quiet() -> bool:
        passed = link.down.passed
        page.page.wait_for_timeout(1500)
        return link.down.passed - passed < 30_000

    page.until(quiet, "frames go to a page that nobody sees", 15)  # what was under way comes first
    hide(page, False)
    page.wait_for_end()
    page.until(lambda: page.step() == 100, "the counter is not that of the end")
    last = page.pixels()
    page.press("time", "ArrowLeft")
    page.wait_for_change(last)
    page.press("time", "End")
    page.until(lambda: np.array_equal(page.pixels(), last), "the picture was not that of the end")
    page.check()


def test_the_right_picture_comes_soon_after_a_long_move(opened: Opened, slow: Callable[[], Link]) -> None:
    page = opened(LAB, **VALUES)
    slow()
    watch = Watch(page, "noise")
    watch.begin()
    for _ in range(20):
        for key in ("ArrowLeft", "ArrowRight"):
            page.press("noise", key)
            page.page.wait_for_timeout(80)
    page.press("noise", "ArrowRight")  # to a value that it has not had
    assert watch.time_to_right(lambda: page.readout("noise")) < MOST
    assert len(watch.paints()) > 8, "pictures must come while the slider moves, too"
    page.check()


def test_nothing_comes_a_second_after_a_pause(opened: Opened, slow: Callable[[], Link]) -> None:
    page = opened(LAB, **VALUES)
    link = slow()
    page.button("Reset").click()
    page.page.wait_for_timeout(2000)
    watch = Watch(page, "noise")
    watch.begin()
    page.button("Pause").click()
    page.page.wait_for_timeout(1000)
    before = len(watch.paints())
    page.page.wait_for_timeout(3000)  # the frames that the page lacks come meanwhile, for the time slider
    assert page.state() == "paused"
    assert len(watch.paints()) == before
    passed = link.down.passed
    page.page.wait_for_timeout(2000)
    assert link.down.passed - passed < 10_000, "the server still sends"
    page.button("Play").click()
    page.until(lambda: len(watch.paints()) > before, "Play does nothing")
    page.check()


def test_a_cut_connection_recovers(opened: Opened, slow: Callable[[], Link]) -> None:
    page = opened("TinyLab", **SHORT)
    link = slow()
    said = page.page.locator(".jp-Dialog").filter(has_text="Server Connection Error")
    page.page.add_locator_handler(said, lambda dialog: dialog.locator("button").last.click())
    link.cut()
    page.until(lambda: not connected(page), "the page does not notice the cut")
    page.press("g", "ArrowRight", 2)
    page.page.wait_for_timeout(500)
    link.mend()
    page.until(lambda: connected(page), "the page does not connect again", 90)
    page.press("g", "ArrowRight", 2)
    page.until(lambda: f"gap={page.readout('g'):.1f}" in page.code(), "the run is not the slider's")
    before = page.pixels()
    page.wait_for_change(before)
    page.choose("speed", "as fast as it trains")
    page.wait_for_end()


def test_a_second_view_and_a_second_page_show_the_same(opened: Opened, slow: Callable[[], Link], browser: Any) -> None:
    page = opened("TinyLab", "display(lab.controls.box)", **SHORT)
    page.until(lambda: len(views(page)) == 2, "there is no second view")
    page.save()
    other = NotebookPage(page.page.context.new_page(), page.address, page.token, page.folder)
    other.open(page.name)
    other.until(lambda: views(other) != [], "the second page shows no picture")
    slow()
    for moved, follows, key, value in ((page, other, "ArrowRight", "gap=2.1"), (other, page, "ArrowLeft", "gap=2.0")):
        earlier = moved.run()
        moved.press("g", key)
        last, run = _end_of(moved, value, earlier), moved.run()
        follows.until(partial(lambda page, run: page.run() == run, follows, run), "a page does not follow the other")
        follows.until(partial(lambda page, last: np.array_equal(page.pixels(), last), follows, last), "they differ")
    page.until(lambda: np.array_equal(*views(page)), "the second view shows something else")
    other.page.close()
    page.check()


def test_a_reopened_notebook_and_a_restarted_kernel(opened: Opened) -> None:
    page = opened("TinyLab", **SHORT)
    earlier = page.run()
    page.press("g", "ArrowRight", 3)
    last, value = _end_of(page, "gap=2.3", earlier), page.readout("g")
    page.save()
    page.open(page.name)
    page.until(lambda: views(page) != [], "the reopened notebook shows no picture")
    page.until(lambda: np.array_equal(page.pixels(), last), "the reopened notebook shows something else")
    assert page.readout("g") == value
    page.press("g", "ArrowLeft")
    page.wait_for_change(last)
    restart_kernel(page)
    page.start_all()
    page.page.wait_for_timeout(200)
    page.wait_idle()
    page.image.wait_for()
    page.press("g", "ArrowRight")
    page.until(lambda: f"gap={page.readout('g'):.1f}" in page.code(), "the run is not the slider's")
    # JupyterLab itself stumbles over what was under way when the kernel ended.
    theirs = ("Kernel message validation", "Canceled future")
    assert [said for said in page.complaints if not any(words in said for words in theirs)] == []


@only_thorough("takes minutes")
def test_a_thousand_moves_leave_no_memory_behind(opened: Opened) -> None:
    page = opened("TinyLab", epochs=30)
    random = np.random.default_rng(2)

    def move(times: int) -> tuple[float, float]:
        """Moves sliders, then returns the megabytes of the kernel and of the page."""
        for _ in range(times):
            label = ["g", "lr", "steps", "pause"][random.integers(4)]
            key = ["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home"][random.integers(5)]
            page.press(label, key)
            page.page.wait_for_timeout(float(random.choice([0, 5, 30])))
        page.press("pause", "Home")
        page.press("steps", "Home")
        page.wait_for_end()
        page.run_code("import gc, psutil; gc.collect(); print('MB:', psutil.Process().memory_info().rss / 1e6)")
        kernel = float(re.findall(r"[\d.]+", page.printed("MB:")[-1])[0])
        return kernel, heap(page) / 1e6

    move(200)  # caches fill
    before = move(200)
    after = move(600)
    assert after[0] - before[0] < 15 and after[1] - before[1] < 8, f"kernel and page in MB: {before}, then {after}"
    page.press("g", "Home")
    last = page.pixels()
    page.press("g", "End")
    page.wait_for_change(last)
    page.check()
