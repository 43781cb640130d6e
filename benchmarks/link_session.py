"""What `link.py` measures, run by pytest with the fixtures of tests/browser."""

from __future__ import annotations

import json
import os
import statistics
import time
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.conftest import Server, notebook_page
from tests.browser.driver import NotebookPage, write_notebook
from tests.browser.link import Link
from tests.browser.watch import Watch

LAB = """
from moe_lab_widgets import RouterAlignmentLab
lab = RouterAlignmentLab(source="synthetic", noise=0.5)
lab
"""
TINY = bool(os.environ.get("BROWSER_TINY"))
SLIDER, ROUND_TRIP, MOVING = "noise", 0.08, 1.0 if TINY else 20.0
RATES = {"free": None, "20": 20, "5": 5, "2": 2}
"""Mbit/s by the name that the figures of a link bear."""


@pytest.fixture(scope="module")
def notebook(server: Server, browser: Any, link: Link) -> Iterator[NotebookPage]:
    """A page that finds the server at the other end of the link."""
    yield from notebook_page(server, browser, link.address)


def test_session(notebook: NotebookPage, link: Link) -> None:
    write_notebook(notebook.folder / "link.ipynb", LAB)
    notebook.open("link.ipynb")
    figures = {}
    for name, mbit in list(RATES.items())[: 1 if TINY else None]:
        link.rate, link.delay = None, 0.0
        notebook.run_all()
        notebook.page.wait_for_timeout(1500)
        link.rate, link.delay = (mbit * 125_000 if mbit else None), ROUND_TRIP / 2
        figures[name] = measure(notebook, link)
        Path(os.environ["BROWSER_FIGURES"]).write_text(json.dumps(figures))


def measure(page: NotebookPage, link: Link) -> dict[str, float]:
    """Every figure of one link."""
    watch = Watch(page, "noise")
    page.slider(SLIDER)  # scrolls once, before times are taken
    fresh = statistics.median(fresh_move(page, link, watch) for _ in range(1 if TINY else 5))
    page.button("Play").click()
    frames = while_training(page, link, watch)
    moved = after_moving(page, watch)
    return {"fresh_ms": fresh, **frames, "moved_ms": moved, **after_pause(page, link, watch)}


def quiet(page: NotebookPage, link: Link, timeout: float = 120) -> None:
    """Waits until nothing has come for a second and a half."""
    end, seen, since = time.monotonic() + timeout, -1, time.monotonic()
    while time.monotonic() - since < 1.5:
        assert time.monotonic() < end, "the link is never quiet"
        if link.down.passed > seen + 2000:  # a status message now and then is not a picture
            seen, since = link.down.passed, time.monotonic()
        page.page.wait_for_timeout(50)


def fresh_move(page: NotebookPage, link: Link, watch: Watch) -> float:
    """Milliseconds from a key press to the right picture when nothing else is under way: the run is held."""
    if page.button("Pause").count():
        page.button("Pause").click()
    quiet(page, link)
    watch.begin()
    page.press(SLIDER, "ArrowRight")
    return watch.time_to_right(lambda: page.readout(SLIDER))


def while_training(page: NotebookPage, link: Link, watch: Watch, seconds: float = 4) -> dict[str, float]:
    """Frames and bytes while a run goes on, after a second for the link to fill."""
    page.button("Reset").click()
    page.page.wait_for_timeout(1000)
    watch.begin()
    bytes_before, begun = link.down.passed, time.monotonic()
    page.page.wait_for_timeout(1000 * seconds)
    count, passed, took = len(watch.paints()), link.down.passed - bytes_before, time.monotonic() - begun
    return {"frames": count / took, "bytes": passed / took, "frame_bytes": passed / max(count, 1)}


def after_moving(page: NotebookPage, watch: Watch) -> float:
    """Milliseconds from the last key press of a long move to the right picture."""
    watch.begin()
    end = time.monotonic() + MOVING
    while time.monotonic() < end:
        for key in ("ArrowLeft", "ArrowRight"):
            page.press(SLIDER, key)
            page.page.wait_for_timeout(80)
    page.press(SLIDER, "ArrowRight")  # to a value that it has not had: no other run is taken for this one's
    return watch.time_to_right(lambda: page.readout(SLIDER), 180)


def after_pause(page: NotebookPage, link: Link, watch: Watch) -> dict[str, float]:
    """How many pictures come after Pause was pressed while training, and the milliseconds until the last of them."""
    page.button("Reset").click()
    page.page.wait_for_timeout(3000)
    watch.begin()
    page.button("Pause").click()
    quiet(page, link)
    late = [paint.time - watch.moved() for paint in watch.paints() if paint.time > watch.moved()]
    return {"paused_frames": len(late), "paused_ms": max(late, default=0.0)}
