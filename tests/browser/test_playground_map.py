"""The map page of the playground in Chromium, from a disk: cell by cell the library's map, and the Lab's sentences."""

from __future__ import annotations

import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from urllib.parse import parse_qsl

import numpy as np
import pytest
from playwright.sync_api import Page, expect

from moe_lab.core.grid import Table
from moe_lab.recovery.gridlock.stuck import stuck_rate
from moe_lab.recovery.gridlock.verdicts import FOUND
from moe_lab_widgets import PhaseTransitionLab, StuckRateLab
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import phase_transition as of
from moe_lab_widgets.labs import stuck_rate as stuck_of
from moe_lab_widgets.labs.phase_transition_stories import JOINT, NOISE, SEPARATE, SYNTHETIC
from moe_lab_widgets.playground.declared import complete
from tests.browser.pages import FAILING_WORKER, Open, pages_of, words, written

pytestmark = pytest.mark.browser
WIDTHS = (320, 390, 600, 800, 1024, 1366, 1920)
SMALL = {"patches": 4, "distractors": 1, "trials": 5}
"""Values whose map is small: four l, five trainings per cell."""
SECONDS = 120_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written("PhaseTransitionLab", tmp_path_factory.mktemp("playground"))


@pytest.fixture
def show(browser: Any, path: Path) -> Iterator[Open]:
    with pages_of(browser, "PhaseTransitionLab", path, SECONDS) as opened:
        yield opened


def ended(page: Page) -> Page:
    """The page when its map is full."""
    expect(page.locator("#play")).to_have_text("Replay", timeout=SECONDS)
    return page


def run(page: Page) -> Page:
    """The page when the map is full that nobody has predicted anything of."""
    page.click("#play")
    return ended(page)


def table(page: Page) -> list[list[str]]:
    """The table of the map: titles, then a row for every l, the largest first."""
    if not page.evaluate("() => document.getElementById('numbers').open"):
        page.locator("#numbers summary").click()
    page.wait_for_timeout(100)
    read = "(rows) => rows.map((row) => [...row.cells].map((cell) => cell.textContent))"
    return page.eval_on_selector_all("#tables table:first-child tr", read)  # type: ignore[no-any-return]


# ---- the library's map ----


def librarys(values: dict[str, Any]) -> Table:
    """The full map of the library, trained in float64, as the page trains; its numbers as the Lab has them."""
    rows = of.phase_tables(
        of.task_of(values),
        of.model_of(values),
        *of.grid_of(values),
        values["trials"],
        values["seed"],
        test_samples=of.TEST_SAMPLES[values["source"]],
        precision="float64",
        device="cpu",
    )
    *_, last = rows
    last.values = {name: value.astype(np.float32).astype(float) for name, value in last.values.items()}
    return last


def drawn(draw: np.random.Generator, **values: Any) -> dict[str, Any]:
    """Settings of a small map at random, on the sliders."""
    source = str(values.get("source", draw.choice([SYNTHETIC, "digits"])))
    patches = int(draw.integers(4, 9))
    return {
        "source": source,
        "training": str(draw.choice([SEPARATE, JOINT])),
        "experts": int(draw.choice([1, 2, 4])),
        "patches": patches,
        "distractors": int(draw.integers(0, min(patches - 1, 4) + 1)),
        "gap": 0.5,
        "delta_d": 0.1,
        "noise": NOISE[source],
        "delta_r": 0.6,
        "trials": 5,
        "seed": int(draw.integers(0, 1000)),
        **values,
    }


@pytest.mark.parametrize("values", [{"source": SYNTHETIC, "training": SEPARATE}, {"training": JOINT}])
def test_a_map_is_the_librarys_cell_by_cell_and_in_words(show: Open, values: dict[str, Any]) -> None:
    begun = secrets.randbelow(10**6)
    values = drawn(np.random.default_rng(begun), **values)
    said = f"drawn with {begun}: {values}"
    expected = librarys(values)
    page = run(show(**values))
    titles, *rows = table(page)
    assert titles[1:] == [f"N = {count}" for count in expected["samples"]]
    right = expected["success"].sum(-1).astype(int)
    for row, found in zip(reversed(range(len(right))), rows, strict=True):
        assert found[0] == f"l = {row + 1}"
        assert found[1:] == [f"{count}/{expected.trials}" for count in right[row]], f"{said}: {found[0]}"
    now = Record({ONLY: (expected,)}, complete(PhaseTransitionLab, values), (ONLY,))
    assert words(page, "caption") == PhaseTransitionLab.declaration.caption(now), said
    assert words(page, "at") == f"{expected['done'].size} of {expected['done'].size} trainings"


def test_an_address_and_a_line_of_python_are_those_of_the_labs_link(show: Open) -> None:
    lab = PhaseTransitionLab(playing=False, training=JOINT, experts=2, noise=0.5, seed=7, **SMALL)
    try:
        link = dict(parse_qsl(lab.link().address.partition("#")[2]))
        page = show(calm=True, **lab.values)
        shown = dict(parse_qsl(page.url.partition("#")[2]))
        assert shown.items() <= link.items() and shown.keys() >= {"training", "experts", "patches", "noise", "seed"}
        assert "PhaseTransitionLab(training='joint', experts=2, patches=4, " in words(page, "python")
    finally:
        lab.close()


def test_what_the_page_lacks_it_says_and_shows_the_nearest(show: Open) -> None:
    page = show(calm=True, source="mnist", patches=100)
    assert page.locator("#knob-source").input_value() == "digits"
    see = words(page, "see")
    assert "MNIST" in see and "patches (n) = 100" in see


# ---- the map while it fills ----


def test_a_first_look_comes_first_and_can_be_held(show: Open) -> None:
    page = show(**{**SMALL, "trials": 10})
    page.click("#play")
    expect(page.locator("#caption")).to_contain_text("A first look: 5 trainings in each cell, now with N = ")
    page.click("#play")
    expect(page.locator("#play")).to_have_text("Play")
    expect(page.locator("#caption")).not_to_contain_text("now with")  # what was under way has ended
    held = words(page, "at")
    page.wait_for_timeout(400)
    assert words(page, "at") == held
    ends = {cell.partition("/")[2] for row in table(page)[1:] for cell in row[1:]}
    assert ends <= {"", "1", "2", "3", "4", "5"}, "more than the first look before all cells have it"
    run(page)
    page.locator("#scrub").focus()
    page.keyboard.press("Home")
    expect(page.locator("#caption")).to_contain_text("Nothing has run yet")


def test_a_moved_slider_begins_another_map_with_the_one_before_behind_it(show: Open) -> None:
    page = show(**SMALL)
    corner = """() => {
      const canvas = document.querySelector("canvas");
      const copy = new OffscreenCanvas(canvas.width, canvas.height).getContext("2d");
      copy.drawImage(canvas, 0, 0);
      return [...copy.getImageData(canvas.width - 143, canvas.height - 77, 1, 1).data];
    }"""
    red, green, *_ = page.evaluate(corner)
    assert green <= red, "nothing has run: hatching on paper"
    run(page)
    page.locator("#knob-distractors").focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#at")).to_contain_text("of 160 trainings")
    assert page.locator("#knob-distractors").input_value() == "2"
    page.click("#play")
    red, green, *_ = page.evaluate(corner)
    assert green > red, "the map before is not behind this one"
    assert page.locator("#menu option:checked").text_content() == "(my own settings)"
    page.click("#play")
    assert "l* = 3" in words(ended(page), "caption")


@pytest.mark.parametrize("answer", ["l = 1", "l = 2 or 3"])
def test_a_prediction_starts_the_map_and_is_judged_at_its_end(show: Open, answer: str) -> None:
    page = show(**SMALL)
    page.wait_for_timeout(300)
    assert words(page, "at").startswith("0 of "), "nothing runs before it is asked to"
    page.get_by_role("button", name=answer, exact=True).click()
    assert page.evaluate("() => document.activeElement.id") == "play"
    see = words(ended(page), "see")
    assert see.startswith(("As you predicted, ", f"You predicted: {answer}. But ")), see
    assert "samples, the fewest, are enough at l = " in see and page.locator("#question").is_hidden()


def test_a_pinned_map_stays_beside_the_next_one(show: Open) -> None:
    page = run(show(**SMALL))
    page.click("#pin")
    expect(page.locator("#pin")).to_have_attribute("aria-pressed", "true")
    page.locator("#knob-noise").focus()
    page.keyboard.press("ArrowRight")
    ended(page)
    assert words(page, "alarm") == ""


# ---- reading it ----


def test_cells_are_read_by_pointer_and_by_keyboard(show: Open) -> None:
    page = run(show(**SMALL))
    tip = words(page, "tip")
    rows = table(page)[1:]
    page.locator("canvas").first.focus()
    for key in ("ArrowDown", "ArrowDown", "ArrowRight"):
        page.keyboard.press(key)
    right, _, done = rows[1][2].partition("/")
    share = f"{100 * int(right) / int(done):.0f} %"
    expect(page.locator("#tip")).to_have_text(f"l = 3, N = 60: {share}, {right} of {done} trainings")
    box = page.locator("canvas").first.bounding_box()
    assert box is not None
    page.mouse.move(box["x"] + 90, box["y"] + box["height"] - 85)
    right, _, done = rows[-1][1].partition("/")
    share = f"{100 * int(right) / int(done):.0f} %"
    expect(page.locator("#tip")).to_have_text(f"l = 1, N = 40: {share}, {right} of {done} trainings")
    page.mouse.move(2, 2)
    expect(page.locator("#tip")).to_have_text(tip)


# ---- where it runs ----


def test_without_workers_the_page_itself_trains(show: Open) -> None:
    page = run(show(script="delete window.Worker;", **SMALL))
    assert words(page, "at") == "160 of 160 trainings"


def test_an_engine_that_fails_is_told_of(browser: Any, path: Path) -> None:
    page = browser.new_page()
    page.add_init_script(FAILING_WORKER)
    page.goto(path.as_uri())
    expect(page.get_by_role("alert")).to_contain_text("Training has stopped, because something failed in this page: no")
    page.close()


def test_nothing_scrolls_sideways_and_the_caption_stands_on_the_first_screen(show: Open) -> None:
    page = run(show(**SMALL))
    page.locator("#more").click()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 768})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, width
    page = run(show(**SMALL))
    assert page.evaluate("() => document.getElementById('caption').getBoundingClientRect().bottom") <= 768
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    small = "() => [...document.querySelectorAll('.bar button')].filter((one) => one.offsetHeight < 36).length"
    assert page.evaluate(small) == 0 and page.evaluate("() => document.querySelector('canvas').offsetWidth") > 340


# ---- the maps of stuck starts ----


def test_two_maps_fill_side_by_side(browser: Any, tmp_path: Path) -> None:
    """That of random starts is the library's cell by cell; that of spectral ones, which rounding can move, nearly."""
    seed = secrets.randbelow(10**6)
    values = {"dimension": 4, "trials": 5, "iterations": 40, "seed": seed}
    path = written("StuckRateLab", tmp_path)
    with pages_of(browser, "StuckRateLab", path, SECONDS) as opened:
        page = opened(**values)
        page.get_by_role("button", name="random starts", exact=True).click()
        see = words(ended(page), "see")
        assert see.startswith(("As you predicted, ", "You predicted: random starts. But ")), see
        assert words(page, "at") == "120 of 120 trainings"
        page.locator("#numbers summary").click()
        maps, *others = [[row.split("\t") for row in one.splitlines()[1:]] for one in tables(page)]
        assert len(others) == 2 and [row[0] for row in maps[1:]] == ["k = 4", "k = 3", "k = 2"]
        for width in (390, 1366, 1920):
            page.set_viewport_size({"width": width, "height": 768})
            assert page.evaluate("() => document.documentElement.scrollWidth") <= width, width
    given = stuck_of.given_of(complete(StuckRateLab, values)) | {"device": "cpu"}
    full = stuck_rate(**given).transpose("algorithm", "k", "samples", "trial")
    counts = (full["regressor_fit"] >= FOUND).sum("trial").values
    assert [row[1:] for row in maps[1:]] == [[f"{count}/5" for count in row] for row in counts[0, ::-1]], f"seed {seed}"
    spectral = [[int(cell.partition("/")[0]) for cell in row[1:]] for row in others[0][1:]]
    assert np.abs(np.array(spectral) - counts[1, ::-1]).sum() <= 3, f"seed {seed}"


def tables(page: Page) -> list[str]:
    """The tables of numbers, their cells divided by tabs."""
    page.wait_for_timeout(100)
    return page.locator("#tables table").all_inner_texts()  # type: ignore[no-any-return]
