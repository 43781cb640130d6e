"""Both pages of the playground in Firefox, from a disk: they say what the library says, and ask for nothing."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moe_lab_widgets import PhaseTransitionLab
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.playground.declared import complete
from tests.browser import test_playground as alignment
from tests.browser import test_playground_map as phases
from tests.browser.pages import fragment, written
from tests.helpers.firefox import FirefoxPage, firefox_page

pytestmark = pytest.mark.browser
RIGHT = "\ue014"
"""The key that moves a slider up, as WebDriver names it."""


@pytest.fixture(scope="module")
def page(tmp_path_factory: pytest.TempPathFactory) -> Iterator[FirefoxPage]:
    with firefox_page(tmp_path_factory.mktemp("firefox")) as opened:
        yield opened
        assert [one for one in opened.requests if not one.startswith(("file:", "blob:", "data:"))] == []
        assert opened.complaints == []


def said(page: FirefoxPage, name: str) -> str:
    return str(page.evaluate(f"document.getElementById('{name}').textContent"))


def show(page: FirefoxPage, lab: str, ending: str, folder: Path, width: int = 1366) -> None:
    made = written(lab, folder)
    page.open("about:blank")  # another fragment alone would not load the page anew
    page.open(f"{made.as_uri()}{ending}", width)
    page.until("document.getElementById('caption').textContent", "the page says nothing")


def test_a_run_is_the_librarys(page: FirefoxPage, tmp_path: Path) -> None:
    begun = secrets.randbelow(10**6)
    values = alignment.drawn(np.random.default_rng(begun))
    show(page, "RouterAlignmentLab", fragment("RouterAlignmentLab", **values), tmp_path)
    page.evaluate("document.getElementById('play').click()")
    page.until("document.getElementById('play').textContent.includes('Replay')", f"the run does not end: {values}")
    _, last, step = alignment.captions(values)
    assert (said(page, "caption"), said(page, "at").split()[0]) == (last, str(step)), f"drawn with {begun}: {values}"
    page.evaluate("document.getElementById('knob-noise').focus()")
    page.press(RIGHT)
    assert f"noise={values['noise'] + 0.05:.4g}" in page.evaluate("location.hash")


def test_another_lab_trains(page: FirefoxPage, tmp_path: Path) -> None:
    show(page, "SpecializationLab", fragment("SpecializationLab", steps=50, trials=2, samples=200), tmp_path)
    page.evaluate("document.getElementById('play').click()")
    page.until("document.getElementById('play').textContent.includes('Replay')", "the run does not end")
    assert said(page, "at") == "50 of 50" and "Median entropy: " in said(page, "caption")


def test_a_map_is_the_librarys(page: FirefoxPage, tmp_path: Path) -> None:
    begun = secrets.randbelow(10**6)
    values = phases.drawn(np.random.default_rng(begun), **phases.SMALL)
    show(page, "PhaseTransitionLab", fragment("PhaseTransitionLab", **values), tmp_path)
    page.evaluate("document.getElementById('play').click()")
    page.until("document.getElementById('play').textContent.includes('Replay')", f"the map does not end: {values}")
    now = Record({ONLY: (phases.librarys(values),)}, complete(PhaseTransitionLab, values), (ONLY,))
    assert said(page, "caption") == PhaseTransitionLab.declaration.caption(now), f"drawn with {begun}: {values}"


@pytest.mark.parametrize("lab", ["RouterAlignmentLab", "PhaseTransitionLab"])
@pytest.mark.parametrize("width", [390, 1366])
def test_nothing_scrolls_sideways(page: FirefoxPage, lab: str, width: int, tmp_path: Path) -> None:
    show(page, lab, "", tmp_path, width)
    assert page.evaluate("document.documentElement.scrollWidth") <= width
