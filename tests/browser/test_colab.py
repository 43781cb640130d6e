"""Where a kernel can only answer, as on Colab: no thread draws, and messages are handled between cells.

By default this is JupyterLab without subshells. MOE_LAB_COLAB names the Python of an environment with Colab's own
versions (colab/requirements.txt): then the classic notebook of that environment is driven.
"""

from __future__ import annotations

import os
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from tests.browser.classic import ClassicPage
from tests.browser.conftest import Server, serving, shut_down_kernels
from tests.browser.driver import NotebookPage, write_notebook

pytestmark = pytest.mark.browser

PYTHON = os.environ.get("MOE_LAB_COLAB", "")
FOLDERS = [str(Path(__file__).with_name("colab")), str(Path(__file__).parents[1] / "widgets" / "engine")]
"""Where kernels find Colab's package and the small Lab."""
Opened = Callable[..., NotebookPage]


@pytest.fixture(scope="module")
def colab(server: Server, browser: Any, tmp_path_factory: pytest.TempPathFactory) -> Iterator[NotebookPage]:
    """A page on a server whose kernels take themselves for Colab's."""
    context = browser.new_context(viewport={"width": 1532, "height": 1100})
    if PYTHON:
        base = tmp_path_factory.mktemp("colab")
        with serving(base, "notebook", "NotebookApp", "NotebookApp", python=PYTHON) as classic:
            yield ClassicPage(context.new_page(), classic.address, classic.token, classic.folder)
            shut_down_kernels(classic, {"colab.ipynb"})
    else:
        yield NotebookPage(context.new_page(), server.address, server.token, server.folder)
        shut_down_kernels(server, {"colab.ipynb"})
    context.close()


@pytest.fixture
def opened(colab: NotebookPage) -> Opened:
    """Shows a Lab in the module's notebook, and waits for its first picture."""

    def open_lab(lab: str, **values: Any) -> NotebookPage:
        if not colab.name:
            _open(colab)
        _show(colab, lab, **values)
        colab.until(lambda: colab.text("caption") != "", "the Lab shows nothing")
        return colab

    return open_lab


def _open(colab: NotebookPage) -> None:
    """Opens an empty notebook."""
    write_notebook(colab.folder / "colab.ipynb", "", "")
    colab.open("colab.ipynb")
    if not PYTHON:  # a page may send each widget's messages to a thread of its own, which Colab has not
        kernel = "window.jupyterapp.shell.currentWidget.sessionContext.session.kernel"
        colab.page.evaluate(f"() => {{ {kernel}.commsOverSubshells = 'disabled' }}")


def _show(colab: NotebookPage, lab: str, **values: Any) -> None:
    """Shows a Lab in the first cell."""
    given = ", ".join(f"{name}={value!r}" for name, value in values.items())
    home = "tiny" if lab == "TinyLab" else "moe_lab_widgets"
    start = f"import sys; sys.path[:0] = {FOLDERS!r}\nimport google.colab.output\nfrom {home} import {lab}\n"
    close = "if 'lab' in globals(): lab.close()\n"
    colab.write_cells(f"{start}{close}lab = {lab}({given})\nlab", "")
    colab.start_all()
    colab.page.wait_for_timeout(200)
    colab.wait_idle()


def _fields(page: NotebookPage) -> tuple[str, str, bool]:
    """The caption, the state in the status line, and whether the play button says Pause."""
    return page.text("caption"), page.state(), page.button("Pause").count() > 0


def test_messages_wait_for_the_cell_and_no_thread_draws(opened: Opened) -> None:
    """What makes this place like Colab."""
    page = opened("TinyLab", epochs=20)
    page.wait_for_end()
    page.start_code("import threading, time\ntime.sleep(4)\nprint('gap:', lab.values['gap'])")
    page.page.wait_for_timeout(500)
    page.press("g", "ArrowRight", 3)
    page.wait_idle()
    assert page.printed("gap:") == ["gap: 2.0"], "the kernel hears of a slider while a cell runs"
    page.until(lambda: "gap=2.3" in page.code(), "the move was lost")
    page.run_code("print('threads:', [thread.name for thread in threading.enumerate() if 'moe' in thread.name])")
    assert page.printed("threads:") == ["threads: []"]


def test_a_run_goes_on_by_itself_and_stops_when_told(opened: Opened) -> None:
    page = opened("TinyLab", epochs=120, delay=30.0)
    page.until(lambda: page.step() > 5 and _fields(page)[1:] == ("training", True), "the run does not begin")
    page.page.wait_for_timeout(2000)
    assert _fields(page)[1:] == ("training", True)
    page.button("Pause").click()
    page.until(lambda: _fields(page)[1:] == ("paused", False), "Pause does nothing")
    step = page.step()
    assert step < 120
    page.page.wait_for_timeout(1500)
    assert page.step() == step and _fields(page)[1:] == ("paused", False)
    page.button("Step").click()
    page.until(lambda: page.step() == step + 1, "Step does nothing")
    page.button("Play").click()
    page.until(lambda: _fields(page)[1:] == ("training", True), "Play does nothing")
    page.until(lambda: page.step() == 120, "the last picture does not come")
    page.until(lambda: _fields(page)[1:] == ("finished", False), "the run does not end")
    page.check()


def test_a_moved_slider_starts_a_run_that_goes_on(opened: Opened) -> None:
    page = opened("TinyLab", epochs=200, delay=20.0)
    page.until(lambda: page.step() > 10, "the run does not begin")
    for _ in range(3):
        page.press("g", "ArrowRight", 3)
        page.until(lambda: page.step() < 10 or f"gap={page.readout('g'):.1f}" in page.code(), "the move was lost")
        page.until(lambda: page.step() > 10 and _fields(page)[1:] == ("training", True), "the new run does not go on")
    page.choose("speed", "as fast as it trains")
    page.until(lambda: page.step() == 200, "the last picture does not come")
    page.wait_for_end()
    assert f"gap={page.readout('g'):.1f}" in page.code()
    page.check()


def test_the_phase_map_fills_without_a_press_and_is_never_blank(opened: Opened) -> None:
    page = opened("PhaseTransitionLab", trials=10, distractors=0)
    page.until(lambda: _coloured(page) > 0, "the map stays empty")
    page.wait_for_end()
    page.page.wait_for_timeout(1500)  # the output is replaced once, by one that holds the picture too
    full = _coloured(page)
    assert full > 0.05
    page.press("n ·", "ArrowRight")
    wanted, least, end = f"patches={page.readout('n ·'):.0f}", full, time.monotonic() + 90
    while wanted not in page.code() or page.state() != "finished":
        assert time.monotonic() < end, "the map of the moved slider is never full"
        least = min(least, _coloured(page))
        page.page.wait_for_timeout(20)
    assert least > 0, "the map is blank while the first cells are computed"
    assert page.text("alert") == ""
    page.check()


def test_a_page_that_cannot_load_the_module_is_fed_as_well(colab: NotebookPage) -> None:
    """The latest PNG and its caption then, acknowledged by plain widgets."""
    if PYTHON:
        pytest.skip("the page of ipywidgets 7 shows no box with a widget that it cannot load; Colab's page does")
    page = colab.page
    page.route("**/anywidget/**", lambda route: route.abort())
    _open(colab)
    _show(colab, "TinyLab", epochs=60, delay=20.0)
    image = page.locator("img.widget-image, img.jupyter-widget-image").first
    image.wait_for()
    first = image.get_attribute("src")
    colab.until(lambda: colab.state() == "training", "the run does not begin")
    colab.until(lambda: image.get_attribute("src") != first, "the picture does not change")
    colab.wait_for_end()
    page.wait_for_timeout(1500)  # the output is replaced once, by one that holds the picture too
    assert colab.text("status").startswith("finished; showing step 60 of 60")
    colab.press("g", "ArrowRight", 2)
    colab.until(lambda: colab.state() == "training", "the slider starts no run")
    colab.wait_for_end()
    assert page.locator(".moe-lab-screen canvas").count() == 0
    page.unroute("**/anywidget/**")


def _coloured(page: NotebookPage) -> float:
    """The share of the picture that is neither grey nor white."""
    pixels = page.pixels().astype(int)
    return float((pixels.max(axis=2) - pixels.min(axis=2) > 60).mean())
