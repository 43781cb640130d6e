"""PhaseTransitionLab in a real JupyterLab: the map fills, sliders restart it, the time slider goes back."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from tests.browser.driver import NotebookPage

pytestmark = pytest.mark.browser

LAB = """
from moe_lab_widgets import PhaseTransitionLab
lab = PhaseTransitionLab({values})
lab
"""
MAP = (slice(84, 380), slice(66, 534))
"""Rows and columns of the map in the picture."""


def _trainings(page: NotebookPage) -> tuple[int, int]:
    """(ended, all) as the status line says."""
    words = page.text("status").split(" trainings")[0].split(" of ")
    return (int(words[0]), int(words[1])) if len(words) == 2 else (0, 0)


def _coloured(page: NotebookPage) -> float:
    """The share of the map's pixels that are teal: cells with successes."""
    shown = page.pixels()[MAP].astype(int)
    return float((shown[..., 1] - shown[..., 0] > 15).mean())


def test_the_map_fills_and_every_slider_starts_it_again(opened: Callable[..., NotebookPage]) -> None:
    page = opened(trials=5, distractors=0)
    page.until(lambda: _trainings(page)[0] > 0, "nothing has run")
    page.until(lambda: _trainings(page)[0] > 200, "the map does not fill")
    assert _coloured(page) > 0.1
    for label, distance in (("n", 60), ("noise", 40), ("n", -80)):
        before, value = page.pixels(), page.value(label)
        page.drag(label, distance)
        page.wait_for_change(before)
        assert np.sign(page.value(label) - value) == np.sign(distance)
        page.until(lambda: "training" in page.text("status"), "no run after the drag")
    page.until(lambda: _trainings(page)[0] == _trainings(page)[1] > 0, "the map is never full", 120)
    assert "samples suffice" in page.text("caption") or "no l succeeds" in page.text("caption")
    page.check()


def test_the_time_slider_goes_back_and_a_wrong_value_is_said(opened: Callable[..., NotebookPage]) -> None:
    page = opened(trials=5, patches=6, distractors=0)
    page.until(lambda: "ended" in page.text("status"), "the map is never full", 120)
    full = _coloured(page)
    before = page.pixels()
    page.drag("time", -200)
    page.wait_for_change(before)
    page.until(lambda: _coloured(page) < 0.8 * full, "an earlier map should be emptier")
    before = page.pixels()
    page.press("l", "End")  # l*-1 = 6 distractors, more than n - 1
    page.until(lambda: "distractors must be at most patches (n) - 1" in page.text("alert"), "the rule is not said")
    assert np.array_equal(page.pixels(), before), "the last good picture stays"
    page.press("l", "Home")
    page.until(lambda: page.text("alert") == "" and "ended" in page.text("status"), "no recovery", 120)
    assert _coloured(page) == pytest.approx(full, abs=0.02)
    page.check()
