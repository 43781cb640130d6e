"""What a student predicts is drawn on the picture, with the pointer and with keys, and judged at the end of the run."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from moe_lab_widgets.engine.goal import BACK, COMPARE, DRAW, MOVED
from tests.browser.driver import NotebookPage

pytestmark = pytest.mark.browser

Opened = Callable[..., NotebookPage]


def place_of(page: NotebookPage) -> tuple[float, float, float]:
    """Where the first mark is on the screen, and where the picture begins."""
    found: list[Any] = []

    def there() -> bool:  # marks are drawn anew where a level is heard
        boxes = [page.page.locator(f".moe-lab-sketch{one}").first.bounding_box() for one in (" circle.halo", "")]
        found[:] = [box for box in boxes if box is not None]
        return len(found) == 2

    page.until(there, "there is no mark")
    halo, picture = found
    return halo["x"] + halo["width"] / 2, halo["y"] + halo["height"] / 2, picture["y"]


def test_levels_are_drawn_compared_and_gone_with_other_settings(opened: Opened) -> None:
    page = opened("RouterAlignmentLab", ask=True, steps=20, trials=2)
    marks = page.page.locator(".moe-lab-sketch g")
    page.until(lambda: marks.count() == 2, "there are no marks")
    x, y, top = place_of(page)
    page.page.mouse.move(x, y)
    page.page.mouse.down()
    page.page.mouse.move(x, y - 40, steps=4)
    page.page.mouse.up()
    page.until(lambda: page.button(COMPARE).count() == 1, "what was drawn is not heard")
    told = page.page.locator(".moe-lab-goal p")
    assert told.inner_text().startswith("You drew ") and "for the CNN" not in told.inner_text()
    drawn = float(marks.first.get_attribute("aria-valuenow") or "nan")
    _, after, above = place_of(page)
    assert drawn > 0.75 and after - above == pytest.approx(y - 40 - top, abs=3), "it is where the pointer left it"
    marks.first.focus()
    page.page.keyboard.press("Tab")
    page.page.keyboard.press("ArrowUp")
    page.until(lambda: "for the CNN" in told.inner_text(), "keys do not move a mark")
    page.button(COMPARE).click()
    page.wait_for_end()
    page.until(lambda: "more often" in told.inner_text() or "about as often" in told.inner_text(), "no verdict")
    assert marks.count() == 0 and page.page.locator(".moe-lab-sketch line").count() == 2, "dotted lines stay"
    page.press("l ·", "ArrowRight")
    page.until(lambda: MOVED in told.inner_text(), "it does not say that the question was of other settings")
    assert page.page.locator(".moe-lab-sketch").count() == 0
    page.button(BACK).click()
    page.until(lambda: page.button(DRAW).count() == 1 and page.readout("l ·") == 4, "there is no way back")
    page.button(DRAW).click()
    page.until(lambda: marks.first.evaluate("node => node === document.activeElement"), "keys do not reach the marks")
    page.check()
