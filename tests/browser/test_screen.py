"""The Labs on real screens: a laptop with and without the file browser, a narrow window, a zoomed one, a projector."""

from __future__ import annotations

import re
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from typing import Any

import pytest
from axe_playwright_python.sync_playwright import Axe

from tests.browser.driver import NotebookPage, write_notebook
from tests.browser.labs import LABS, LabOnPage
from tests.helpers.effort import one_in

pytestmark = pytest.mark.browser

Opened = Callable[..., NotebookPage]


@dataclass(frozen=True)
class Screen:
    """A window in CSS pixels.

    Attributes:
      zoom: of the browser.
      files: whether the file browser is open.
      whole: whether main settings, picture, time slider and caption must be visible together.
    """

    width: int
    height: int
    zoom: float = 1.0
    files: bool = False
    whole: bool = True


LAPTOP, LAPTOP_FILES = Screen(1366, 768), Screen(1366, 768, files=True)
NARROW, ZOOMED = Screen(800, 768), Screen(911, 512, zoom=1.5, whole=False)
PROJECTOR = Screen(1920, 1080)

FAULTS = """(whole) => {
  const lab = document.querySelector('.moe-lab'), faults = [];
  lab.scrollIntoView({block: 'start'});
  const shown = (selector) => [...lab.querySelectorAll(selector)].filter((node) => node.offsetWidth > 0);
  const words = (node) => node.getAttribute('aria-label') || node.textContent.trim() || node.className;
  const pane = document.querySelector('.jp-WindowedPanel-outer').getBoundingClientRect();
  for (const track of shown('.slider-container, .moe-lab-time input'))
    if (track.clientWidth < 120) faults.push(`a track is ${track.clientWidth} px wide`);
  const head = lab.querySelector('.moe-lab-head');
  if (head && head.scrollWidth > head.clientWidth) faults.push('settings lie beyond the edge');
  const parts = shown('button, select, input, .widget-readout, .slider-container, .widget-label,' +
                      'canvas, .moe-lab-caption, .moe-lab-stage > .widget-html, h3');
  const boxes = parts.map((node) => node.getBoundingClientRect());
  parts.forEach((node, i) => {
    const box = boxes[i];
    if (box.left < pane.left || box.right > pane.right + 1) faults.push(`${words(node)} is cut off`);
    parts.slice(i + 1).forEach((other, j) => {
      const second = boxes[i + 1 + j];
      const wide = Math.min(box.right, second.right) - Math.max(box.left, second.left);
      const high = Math.min(box.bottom, second.bottom) - Math.max(box.top, second.top);
      if (wide > 1 && high > 1 && !node.contains(other)) faults.push(`${words(node)} overlaps ${words(other)}`);
    });
  });
  const main = [lab.querySelector('.moe-lab-head'), ...shown('canvas, .moe-lab-time, .moe-lab-caption')];
  if (whole && Math.max(...main.map((node) => node.getBoundingClientRect().bottom)) > pane.bottom)
    faults.push('not all is on one screen');
  return faults;
}"""


@pytest.fixture(autouse=True)
def window(notebook: NotebookPage) -> Iterator[Callable[[Screen], None]]:
    """Gives the page another size; afterwards it has its own again."""
    session = notebook.page.context.new_cdp_session(notebook.page)

    def resize(screen: Screen) -> None:
        size = {"width": screen.width, "height": screen.height, "deviceScaleFactor": screen.zoom, "mobile": False}
        session.send("Emulation.setDeviceMetricsOverride", size)
        side = "expandLeft" if screen.files else "collapseLeft"
        notebook.page.evaluate(f"() => window.jupyterapp.shell.{side}()")
        notebook.page.wait_for_timeout(300)  # JupyterLab lays its panels out anew

    yield resize
    session.send("Emulation.clearDeviceMetricsOverride")
    session.detach()


def picture_box(page: NotebookPage) -> dict[str, float]:
    """The place of the picture in the Lab, and its size."""
    box, lab = (page.page.locator(selector).bounding_box() for selector in (".moe-lab-screen canvas", ".moe-lab"))
    assert box is not None and lab is not None
    return {**box, "x": box["x"] - lab["x"], "y": box["y"] - lab["y"]}


def complaints(page: NotebookPage) -> list[Any]:
    """What axe-core finds wrong with the Lab and calls serious or critical."""
    found = Axe().run(page.page, context=".moe-lab").response
    assert len(found["passes"]) > 5, "axe-core has not looked"
    return [
        (rule["id"], rule["nodes"][0]["html"])
        for rule in found["violations"]
        if rule["impact"] in ("serious", "critical")
    ]


@pytest.mark.parametrize("of", one_in(11, LABS), ids=lambda of: of.name)
def test_all_of_a_lab_is_on_one_screen_and_can_be_used_by_everybody(
    opened: Opened, window: Callable[[Screen], None], of: LabOnPage
) -> None:
    page = opened(of.name, ask=True, **of.small)
    page.until(lambda: page.button("Just run it").count() == 1, "it does not ask")
    for screen in (LAPTOP, LAPTOP_FILES):
        window(screen)
        assert page.page.evaluate(FAULTS, screen.whole) == [], f"with its question, {screen}"
    page.button("Just run it").click()
    page.wait_for_end()
    page.choose("goal", max(of.lab.stories, key=lambda story: len(story.what_to_see)).name)
    for screen in (LAPTOP, LAPTOP_FILES, NARROW, ZOOMED):
        window(screen)
        assert page.page.evaluate(FAULTS, screen.whole) == [], screen
        assert page.clipped() == [], screen
        box = picture_box(page)
        assert box["width"] / box["height"] == pytest.approx(1100 / 448, rel=0.01), screen
        assert box["width"] >= {LAPTOP: 1000, LAPTOP_FILES: 850}.get(screen, 600), screen
    window(LAPTOP)
    said = page.page.locator(".moe-lab-stage > .widget-html").last
    assert said.evaluate("node => node.scrollHeight <= node.clientHeight"), "the longest sentence fits its place"
    page.button("More settings").click()
    every = len(of.lab.knobs) + 1  # and the device
    page.until(lambda: page.page.locator(".moe-lab-knob:visible").count() == every, "some settings stay hidden")
    assert page.page.evaluate(FAULTS, False) == [] and page.clipped() == []
    assert complaints(page) == []
    page.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    page.page.wait_for_timeout(500)
    assert complaints(page) == [], "in the dark theme"
    page.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    page.check()


@pytest.mark.parametrize("of", one_in(11, LABS, 2), ids=lambda of: of.name)
def test_a_projector_shows_it_large(opened: Opened, window: Callable[[Screen], None], of: LabOnPage) -> None:
    page = opened(of.name, **of.small, projector=True)
    window(PROJECTOR)
    page.wait_for_end()
    assert page.page.evaluate(FAULTS, True) == [] and page.clipped() == []
    assert picture_box(page)["width"] >= 1450
    head = page.page.locator(".moe-lab-head")
    assert head.evaluate("node => node.offsetHeight") < 140, "at most two rows of controls"
    for selector, least in (
        (".widget-label", 17),
        ("button", 19),
        (".moe-lab-screen .moe-lab-caption", 22),
        ("select", 19),
    ):
        size = page.page.locator(f".moe-lab {selector}").first.evaluate("node => getComputedStyle(node).fontSize")
        assert float(re.sub("px", "", size)) >= least, selector


def test_a_projector_of_a_laptop_s_size_shows_it_no_smaller(opened: Opened, window: Callable[[Screen], None]) -> None:
    widths = []
    for projector in (False, True):
        page = opened("RouterAlignmentLab", trials=2, steps=20, projector=projector)
        window(LAPTOP)
        page.wait_for_end()
        assert page.page.evaluate(FAULTS, True) == [], projector
        widths.append(picture_box(page)["width"])
    assert widths[1] >= widths[0] >= 1000


def test_a_full_screen_is_filled_and_left_with_escape(opened: Opened, window: Callable[[Screen], None]) -> None:
    page = opened("RouterAlignmentLab", trials=2, steps=20)
    window(LAPTOP)
    page.wait_for_end()
    before = picture_box(page)
    page.page.get_by_role("button", name="Full screen").click()
    page.until(lambda: picture_box(page)["width"] > 1.1 * before["width"], "the picture has not grown")
    seen = "node => node.getBoundingClientRect().bottom <= innerHeight"
    for part in ("canvas", ".moe-lab-time", ".moe-lab-caption"):
        assert page.page.locator(f".moe-lab-stage {part}").first.evaluate(seen), part
    page.press("k ·", "ArrowRight")
    page.until(lambda: "experts=" in page.code() and page.state() == "finished", "a slider does not work there")
    page.page.evaluate("() => document.exitFullscreen()")  # as Escape does, which a test cannot press outside the page
    page.until(lambda: picture_box(page) == before, "the picture has not come back")
    page.check()


NAMELESS = """() => {
  const controls = ':is(button, select, input, textarea, .noUi-handle, .widget-readout)';
  return [...document.querySelectorAll(`.moe-lab ${controls}`)]
    .filter((node) => !node.hidden && !node.closest('.moe-lab-shown > .widget-text'))  // which acknowledge PNGs, unseen
    .filter((node) => !(node.closest('[title]')?.title.length > 3)).map((node) => node.outerHTML);
}"""


@pytest.mark.parametrize("of", one_in(11, LABS, 3), ids=lambda of: of.name)
def test_every_control_has_a_tooltip_and_none_says_null(opened: Opened, of: LabOnPage) -> None:
    page = opened(of.name, **of.small)
    page.until(lambda: page.page.evaluate(NAMELESS) == [], "a control has no tooltip")
    null = "document.querySelectorAll('[title=null], [aria-label=null], [placeholder=null]').length"
    assert page.page.evaluate(null) == 0


def test_nothing_jumps_and_a_picture_of_other_settings_is_dimmed(opened: Opened) -> None:
    page = opened("TinyLab", epochs=20)
    page.wait_for_end()
    opacity = "node => Number(getComputedStyle(node).opacity)"
    picture, place = page.image, picture_box(page)
    page.choose("story", "Far apart")
    page.until(lambda: "reaches 100 %" in page.said(), "the story does not say what to see")
    assert picture_box(page) == place
    page.press("N", "End")
    page.until(lambda: page.said() == "", "the story's sentence stays")
    page.press("N", "ArrowLeft")
    page.until(lambda: "multiple of 4" in page.text("alert"), "the error is not shown")
    assert picture.evaluate(opacity) < 0.5, "at once"
    assert picture_box(page) == place
    page.press("N", "Home")
    page.wait_for_end()
    page.run_code("lab.caption = lambda record: 'A long caption. ' * 60; lab.trouble = lab.caption; lab.reset()")
    page.until(lambda: "A long" in page.text("alert") and "A long" in page.text("caption"), "nothing is said at length")
    page.wait_for_end()
    assert picture_box(page) == place and page.page.evaluate(FAULTS, False) == []
    page.until(lambda: picture.evaluate(opacity) == 1, "the new picture is dimmed")
    page.press("pause", "End")  # a run whose first picture comes at once
    page.until(lambda: page.state() == "training", "it does not run")
    assert picture.evaluate(opacity) > 0.9, "no flicker"
    page.check()


def test_keys_stay_in_the_lab_and_the_buttons_come_first(opened: Opened) -> None:
    page = opened("TinyLab", epochs=20)
    page.wait_for_end()
    cells = "() => window.jupyterapp.shell.currentWidget.content.widgets.length"
    before = page.page.evaluate(cells)
    for control in (page.slider("g"), page.button("Step"), page.page.get_by_label("what goes wrong")):
        control.focus()
        for key in ("a", "b", "d", "d", "x", "Shift+Enter"):
            page.page.keyboard.press(key)
        assert page.page.evaluate(cells) == before, "a key has changed the notebook's cells"
    page.page.locator(".jp-Cell").first.click(position={"x": 5, "y": 5})
    page.page.locator(".moe-lab-stage button").first.focus()
    assert page.page.evaluate("() => document.activeElement.textContent") == "Play"
    for _ in range(3):  # Step, Reset, and then what they move through
        page.page.keyboard.press("Tab")
    assert page.page.evaluate("() => document.activeElement.ariaLabel").startswith("time")
    page.page.keyboard.press("Control+s")
    page.until(lambda: page.page.locator(".jp-mod-dirty").count() == 0, "Ctrl+S must save the notebook")
    page.check()


def test_a_typed_value_that_does_not_fit_goes_to_one_that_does(opened: Opened) -> None:
    page = opened("RouterAlignmentLab", trials=2, steps=40)
    page.wait_for_end()
    unread = "experts (k) stays at 8: it must be a whole number: got 'x'"
    for text, value, words in (("5", 5, ""), ("7", 8, "got m=40, k=7"), ("x", 8, unread), ("2", 2, "")):
        page.type("k ·", text)
        page.until(lambda value=value: page.readout("k ·") == value, f"typing {text} does not lead to {value}")
        page.until(lambda words=words: words in page.said(), f"not said: {words}")
        page.page.wait_for_timeout(400)
    page.type("noise", "0.45")
    page.until(lambda: page.readout("noise") == 0.45 and "noise=0.45" in page.code(), "the typed number does not run")
    assert page.text("alert") == ""
    page.check()


def test_the_table_of_scores_is_edited_with_the_keyboard(
    notebook: NotebookPage, window: Callable[[Screen], None]
) -> None:
    write_notebook(notebook.folder / "table.ipynb", "")
    notebook.open("table.ipynb")
    table = "from moe_lab.exercises import TABLE\nfrom moe_lab_widgets import RoutingTable\n"
    notebook.run_code(f"{table}table = RoutingTable(TABLE.T)\ntable")
    page, said = notebook.page, notebook.page.locator(".moe-lab-caption")
    first = page.get_by_label("expert 1, patch 1", exact=True)
    first.wait_for()
    assert "Expert choice drops patch 4." in said.inner_text()
    first.focus()
    for _ in range(3):
        page.keyboard.press("Tab")
    assert page.evaluate("document.activeElement.labels[0].textContent") == "expert 1, patch 4"
    page.keyboard.type("4")
    notebook.until(lambda: "Expert choice uses every patch" in said.inner_text(), "a typed number is not routed")
    page.keyboard.press("ArrowDown")
    notebook.until(lambda: "Expert choice drops patch 4." in said.inner_text(), "an arrow key is not heard")
    assert notebook.ask("int(table.powers[0, 3])") == "3"
    for screen in (LAPTOP, LAPTOP_FILES, NARROW):
        window(screen)
        assert page.evaluate(FAULTS, False) == [] and notebook.clipped() == [], screen
    assert complaints(notebook) == []
    notebook.command("apputils:change-theme", {"theme": "JupyterLab Dark"})
    page.wait_for_timeout(500)
    assert complaints(notebook) == [], "in the dark theme"
    notebook.command("apputils:change-theme", {"theme": "JupyterLab Light"})
    notebook.check()
