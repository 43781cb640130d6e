"""RouterAlignmentLab in a real JupyterLab: dragged, switched from digits to patterns, and asked for the impossible."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from tests.browser.driver import QUIET, NotebookPage

pytestmark = pytest.mark.browser

LAB = """
from moe_lab_widgets import RouterAlignmentLab
lab = RouterAlignmentLab({values})
lab
"""
SMALL = {"trials": 2, "steps": 40}


def _ended(page: NotebookPage) -> None:
    page.until(lambda: "ended" in page.text("status"), "the run did not end")


def test_drag_drag_again_and_switch_the_patches(opened: Callable[..., NotebookPage]) -> None:
    page = opened(**SMALL)
    _ended(page)
    assert page.pixels().shape == (448, 1100, 3)
    assert "Step 40 of 40" in page.text("caption")
    for distance in (40, -30, 60):
        before, value = page.pixels(), page.value("n,")
        page.drag("n,", distance)
        page.wait_for_change(before)
        assert np.sign(page.value("n,") - value) == np.sign(distance)
        _ended(page)
        page.until(lambda: f"patches={page.value('n,'):.0f}" in page.code(), "the run is not the slider's last value")
    page.choose("patches are", "synthetic")
    page.until(lambda: "PatternTask(" in page.code(), "the patches did not change")
    _ended(page)
    for label in ("gap", "δ_d", "N,"):
        before = page.pixels()
        page.drag(label, -20)
        page.wait_for_change(before)
        _ended(page)
    page.check()


def test_an_impossible_wish_is_explained_and_the_picture_stays(opened: Callable[..., NotebookPage]) -> None:
    page = opened(**SMALL)
    _ended(page)
    before = page.pixels()
    page.press("k,", "ArrowLeft")
    page.until(lambda: "must be divisible by experts (k)" in page.text("alert"), "the error is not shown")
    assert "got m=40, k=3" in page.text("alert")
    np.testing.assert_array_equal(page.pixels(), before)
    page.press("k,", "ArrowLeft")
    page.until(lambda: page.text("alert") == "", "the error stays")
    page.wait_for_change(before)
    _ended(page)
    page.check()


def test_stories_and_moves_while_cells_run(opened: Callable[..., NotebookPage]) -> None:
    page = opened("import time\nfor _ in range(30): time.sleep(0.1)", trials=2)
    page.choose("story", "One patch gives a router no gradient (l = 1)")
    page.until(lambda: "have not moved at all" in page.text("caption"), "the story does not run")
    assert page.page.get_by_text("its slope is exactly 0").count() == 1
    page.start_all()  # the Lab anew, then a cell that keeps the kernel busy for three seconds
    page.page.wait_for_timeout(1500)
    page.press("l,", "ArrowLeft")
    page.wait_idle()
    page.until(lambda: f"patches_per_expert={page.value('l,'):.0f}" in page.code(), "the move was lost")
    before = page.pixels()
    page.drag("noise", 40)
    page.wait_for_change(before)
    page.check()


def test_twenty_random_moves(opened: Callable[..., NotebookPage]) -> None:
    page = opened("import threading, gc", **SMALL)
    random = np.random.default_rng(3)
    for move in range(20):
        label = ["l,", "k,", "n,", "N,", "noise", "m,", "T,"][random.integers(7)]
        key = ["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home"][random.integers(5)]
        if move in (6, 12):
            page.choose("patches are", "synthetic" if move == 6 else "digits")
        page.press(label, key, int(random.integers(1, 4)))
        page.page.wait_for_timeout(float(random.choice([0, 5, 60])))
    page.choose("story", "Routers find the digits")
    page.until(lambda: page.text("alert") == "" and "CNN 87 %" in page.text("caption"), "the Lab is dead")
    before = page.pixels()
    page.press("n,", "ArrowRight")
    page.wait_for_change(before)
    page.check()


def test_slider_to_picture_and_frame_rate(
    opened: Callable[..., NotebookPage], record_property: Callable[[str, Any], None]
) -> None:
    """The targets hold on a quiet machine (MOE_LAB_TIMING=1); among other work only gross delays fail."""
    page = opened(steps=1000, samples=200)
    waits: dict[str, list[float]] = {}
    for source in ("digits", "synthetic"):
        page.choose("patches are", source)
        page.page.wait_for_timeout(1500)
        for label in ("l,", "n,"):
            for move in range(8 if QUIET else 3):
                page.page.wait_for_timeout(300)
                wait = page.time_to_frame(label, "ArrowRight" if move % 2 else "ArrowLeft")
                waits.setdefault(f"{source} {label[0]}", []).append(wait)
    medians = {name: round(float(np.median(times))) for name, times in waits.items()}
    page.choose("story", "The CNN catches up with more samples")  # a run of 5 s
    page.until(lambda: "Step 20 of 1000" in page.text("caption") or page.step() > 20, "the story does not run")
    page.count_frames()
    page.page.wait_for_timeout(3000)
    rate = len(page.frames()) / 3
    record_property("slider_to_frame_ms", str(medians))
    record_property("frames_per_second", rate)
    print(f"slider to first frame, median ms: {medians}; {rate:.1f} frames/s")
    assert np.median([wait for times in waits.values() for wait in times]) <= (120 if QUIET else 1500)
    assert rate >= (10 if QUIET else 2)
