"""Numbers typed in a Lab and in the table of scores: read whole, with a comma as a point, or refused in words."""

from __future__ import annotations

from collections.abc import Callable

import pytest
from playwright.sync_api import expect

from tests.browser.driver import NotebookPage, write_notebook

pytestmark = pytest.mark.browser

Opened = Callable[..., NotebookPage]
READ = {"0,7": 0.7, "1.25": 1.25, "0,123": 0.123, ",5": 0.5, "1e0": 1.0}
"""What is typed for the gap of the blobs, and what it is."""
UNREAD = ("0,7,1", "0.7abc", "1.000,5", "1/2")


def test_a_sliders_number_is_read_whole_or_not_at_all(opened: Opened) -> None:
    page = opened("TinyLab", epochs=10)
    page.wait_for_end()
    for text, value in READ.items():
        page.type("g ·", text)
        page.until(lambda value=value: page.readout("g ·") == value, f"{text} does not lead to {value}")
        page.until(lambda value=value: page.ask("lab.values['gap']") == str(value), f"{text} does not run")
        assert page.said() == ""
    for text in UNREAD:
        page.type("g ·", text)
        said = f"gap (g) stays at 1.0: it must be a number: got '{text}'"
        page.until(lambda said=said: page.said() == said, f"not said of {text}")
        assert page.readout("g ·") == 1.0 and page.ask("lab.values['gap']") == "1.0"
    page.type("g ·", "\u22120,5")
    page.until(
        lambda: page.said() == "gap (g) is now 0.0: its slider goes from 0 to 4", "not said of what is too small"
    )
    for text in ("1,5", "1,000", "25.5", "7x"):
        page.type("N", text)
        said = f"samples (N) stays at 80: it must be a whole number: got '{text}'"
        page.until(lambda said=said: page.said() == said, f"not said of {text}")
        assert page.readout("N") == 80
    seed = page.page.locator(".moe-lab-seed input")
    for text in ("1,5", "2.7"):
        seed.fill("")
        seed.press_sequentially(text)
        seed.press("Enter")
        said = f"seed stays at 0: it must be a whole number: got '{text}'"
        page.until(lambda said=said: page.said() == said, f"not said of {text}")
        expect(seed).to_have_value("0")
    seed.fill("")
    seed.press_sequentially("1e1")
    seed.press("Enter")
    page.until(lambda: page.ask("lab.values['seed']") == "10", "the seed is read in part")
    seed.press("ArrowUp")
    page.until(lambda: page.ask("lab.values['seed']") == "11", "an arrow key does not move the seed")
    page.check()


def test_a_slider_tells_its_number_as_it_is_written(opened: Opened) -> None:
    page = opened("TinyLab", epochs=10, gap=0.0)
    page.wait_for_end()
    handle = page.slider("g ·")
    for shown in ("0.1", "0.2", "0.3", "0.4"):
        page.press("g ·", "ArrowRight")
        page.until(lambda shown=shown: handle.get_attribute("aria-valuetext") == shown, f"not {shown}")
    page.type("g ·", "0,125")
    page.until(lambda: handle.get_attribute("aria-valuetext") == "0.125", "a typed number is rounded")
    page.check()


def test_a_score_is_read_whole_or_not_at_all(notebook: NotebookPage) -> None:
    write_notebook(notebook.folder / "typed.ipynb", "")
    notebook.open("typed.ipynb")
    notebook.run_code("from moe_lab_widgets import RoutingTable\ntable = RoutingTable([[1, 2], [3, 4]])\ntable")
    page, said = notebook.page, notebook.page.locator(".moe-lab-caption")
    cell, noise = (page.get_by_label(label, exact=True) for label in ("expert 1, patch 1", "noise of switch"))
    expect(cell).to_have_attribute("type", "text")
    for place, text, stays, kind in (
        (cell, "2,5", "1", "a whole number"), (cell, "3x", "1", "a whole number"), (noise, "0,2,5", "0.0", "a number"),
    ):  # fmt: skip
        place.fill("")
        place.press_sequentially(text)
        place.press("Enter")
        label = "expert 1, patch 1" if place is cell else "noise of switch"
        words = f"{label} stays at {stays}: it must be {kind}: got '{text}'."
        notebook.until(lambda words=words: words in said.inner_text(), f"not said: {words}")
        expect(place).to_have_value(stays.removesuffix(".0"))
    noise.fill("")
    noise.press_sequentially("0,25")
    noise.press("Enter")
    notebook.until(lambda: notebook.ask("table.noise.value") == "0.25", "a comma is no point")
    cell.fill("7")
    notebook.until(lambda: notebook.ask("int(table.powers[0, 0])") == "7", "a number is not heard as it is typed")
    notebook.check()
