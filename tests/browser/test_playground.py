"""The page of router alignment in Chromium, from a disk: it trains the Lab's run and says what the Lab says."""

from __future__ import annotations

import dataclasses
import re
import secrets
from collections.abc import Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from axe_playwright_python.sync_playwright import Axe
from playwright.sync_api import Locator, Page, expect

from moe_lab.patch_routing import train_batch
from moe_lab_widgets import RouterAlignmentLab
from moe_lab_widgets.labs.router_alignment_runs import OWN_DEFAULTS
from moe_lab_widgets.playground.texts import BOTH
from tests.browser.pages import FAILING_WORKER, Open, pages_of, words, written
from tests.widgets.labs import FAST, done

pytestmark = pytest.mark.browser
WIDTHS = (320, 390, 600, 800, 1024, 1366, 1920)
SMALL = {"steps": 20, "trials": 2, "samples": 40}
SECONDS = 60_000
CARRIED = BOTH["CARRIED"]
HIGH = 95
"""Of a row of patches in its canvas, pixels."""


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written("RouterAlignmentLab", tmp_path_factory.mktemp("playground"))


@pytest.fixture
def show(browser: Any, path: Path) -> Iterator[Open]:
    with pages_of(browser, "RouterAlignmentLab", path, SECONDS) as opened:
        yield opened


def ended(page: Page) -> Page:
    """The page when its run, as fast as it trains, has ended."""
    page.select_option("#speed", label=FAST)
    expect(page.locator("#play")).to_have_text("Replay", timeout=SECONDS)
    return page


def run(page: Page) -> Page:
    """The page when the run has ended that nobody has predicted anything of."""
    page.click("#play")
    return ended(page)


def step_of(page: Page) -> int:
    return int((page.locator("#at").text_content() or "").split()[0])


# ---- the same run as the Lab's ----


class Exact(RouterAlignmentLab):  # type: ignore[misc, valid-type]
    """The Lab trained in float64, as the page trains: rounding decides a few samples where that is in float32."""

    declaration = dataclasses.replace(
        RouterAlignmentLab.declaration,
        runs=lambda values: {
            name: run.replace(precision="float64") for name, run in RouterAlignmentLab.declaration.runs(values).items()
        },
        begin=lambda run, kept: train_batch([run]),
    )


def captions(values: dict[str, Any]) -> tuple[str, str, int]:
    """What the library says at the beginning and at the end of a run, and the step at which it ends."""
    lab = Exact(**values)
    try:
        lab.controls.speed.value = FAST
        done(lab)
        return lab.caption(lab.records[0]), lab.caption(lab.record), int(lab.record.step)
    finally:
        lab.close()


def drawn(draw: np.random.Generator, **values: Any) -> dict[str, Any]:
    """Settings of a small run at random, on the sliders."""
    source = str(draw.choice(["digits", "synthetic"]))
    patches = int(draw.integers(4, 25))
    return {
        **OWN_DEFAULTS[source],
        "source": source,
        "patches": patches,
        "patches_per_expert": int(draw.integers(1, min(patches, 8) + 1)),
        "experts": int(draw.choice([1, 2, 4, 5, 8])),
        "samples": 20 * int(draw.integers(1, 6)),
        "noise": round(0.05 * int(draw.integers(0, 21)), 2),
        "distractors": int(draw.integers(0, min(patches - 1, 6) + 1)),
        "steps": 20 * int(draw.integers(1, 4)),
        "trials": int(draw.integers(1, 5)),
        "seed": int(draw.integers(0, 1000)),
        **values,
    }


@pytest.mark.parametrize(
    "values",
    [{}, {}, {}, {"trials": 14, "steps": 20}, {"source": "digits", "samples": 20, "steps": 400, "noise": 0.0}],
)
def test_the_caption_is_the_librarys(show: Open, values: dict[str, Any]) -> None:
    begun = secrets.randbelow(10**6)
    chosen = drawn(np.random.default_rng(begun), **values)
    said = f"drawn with {begun}: {chosen}"
    first, last, step = captions(chosen)
    page = show(**chosen)
    assert words(page, "caption") == first, said
    page.click("#play")
    ended(page)
    assert (words(page, "caption"), step_of(page)) == (last, step), said


def test_an_address_and_a_line_of_python_are_those_of_the_labs_link(show: Open) -> None:
    lab = RouterAlignmentLab(playing=False, source="synthetic", delta_d=0.25, gap=0.5, experts=8, seed=7, **SMALL)
    try:
        link = lab.link()
        page = show(**lab.values)
        assert words(page, "python") == link.code
        page.goto(f"{page.url.partition('#')[0]}#{link.address.partition('#')[2]}")
        assert words(page, "python") == link.code, "the Lab's own link opens the same"
    finally:
        lab.close()


def test_what_the_page_lacks_it_says_and_shows_the_nearest(show: Open) -> None:
    page = show(source="mnist", samples=333, own="mixture")
    assert page.locator("#knob-source").input_value() == "digits" and "samples=340&" in page.url
    see = words(page, "see")
    assert "MNIST" in see and "mixture of your own" in see and "samples (N) = 333" in see


# ---- knobs ----


def slider(page: Page, name: str) -> Locator:
    return page.locator(f"#knob-{name}")


def test_sliders_move_by_keyboard_and_offer_only_what_fits(show: Open) -> None:
    page = show(calm=True, **SMALL)
    slider(page, "experts").focus()
    seen = []
    for key in ("Home", *["ArrowRight"] * 4):
        page.keyboard.press(key)
        seen.append(slider(page, "experts").get_attribute("aria-valuetext"))
    assert seen == ["1", "2", "4", "5", "8"]  # the divisors of m = 40
    assert page.locator("#tip-experts").is_visible() and "experts=8" in page.url
    page.keyboard.press("Escape")
    expect(page.locator("#tip-experts")).to_be_hidden()
    slider(page, "patches_per_expert").focus()
    page.keyboard.press("End")
    slider(page, "patches").focus()
    page.keyboard.press("Home")
    assert slider(page, "patches_per_expert").get_attribute("aria-valuetext") == "4"
    lowered = "patches_per_expert (l) is now 4: patches_per_expert (l) must be at most patches (n)."
    expect(page.locator("#see")).to_have_text(lowered)
    page.keyboard.press("End")
    assert slider(page, "patches_per_expert").get_attribute("aria-valuetext") == "16"
    expect(page.locator("#see")).to_be_empty()


TYPED = {"0,7": "0.70", " .5 ": "0.50", "1e0": "1.00", "2": "2.00"}
UNREAD = ("0,7,1", "0.7abc", "1.000,5", "1/2", "--1")


def test_what_is_typed_is_read_whole_or_not_at_all(show: Open) -> None:
    page = show(calm=True, **SMALL)
    box = page.locator(".knob:has(#knob-noise) input[inputmode=decimal]")
    for text, shown in TYPED.items():
        box.fill(text)
        box.press("Enter")
        expect(box).to_have_value(shown)
        assert slider(page, "noise").get_attribute("aria-valuetext") == shown
        expect(page.locator("#see")).to_be_empty()
    for text in UNREAD:
        box.fill(text)
        box.press("Enter")
        expect(page.locator("#see")).to_have_text(f"noise stays at 2: it must be a number: got '{text}'")
        expect(box).to_have_value("2.00")
    box.fill("0,72")
    box.press("Enter")
    nearest = "This page has no noise = 0.72. It shows 0.7, which is the nearest."
    expect(page.locator("#see")).to_have_text(nearest)
    seed = page.locator("#knob-seed")
    for text in ("1,5", "2.5", "1,000", "7x"):
        seed.fill(text)
        seed.press("Enter")
        expect(page.locator("#see")).to_have_text(f"seed stays at 0: it must be a whole number: got '{text}'")
        expect(seed).to_have_value("0")
    seed.fill("1e3")
    seed.press("Enter")
    expect(seed).to_have_value("1000")
    assert "seed=1000" in page.url


def test_defaults_follow_the_source_and_what_was_moved_stays(show: Open) -> None:
    page = show(calm=True)
    assert slider(page, "delta_d").is_disabled() and "Greyed out" in words(page, "tip-delta_d")
    slider(page, "samples").fill("2")  # the place of N = 60
    page.select_option("#knob-source", "synthetic")
    assert slider(page, "delta_d").is_enabled()
    assert (
        "patches_per_expert=6&" in page.url and "samples=60&noise=0.3&" in page.url and page.url.endswith("steps=200")
    )


def test_a_moved_slider_restarts_a_run_that_has_ended(show: Open) -> None:
    page = run(show(**SMALL))
    before = words(page, "caption")
    slider(page, "seed").fill("5")
    page.keyboard.press("Enter")
    expect(page.locator("#caption")).not_to_have_text(before)
    ended(page)
    assert "seed=5" in page.url and step_of(page) == 20


# ---- the run ----


def test_it_asks_first_and_can_be_held_stepped_and_looked_back_at(show: Open) -> None:
    page = show(samples=100, steps=100, trials=2)
    page.wait_for_timeout(300)
    assert step_of(page) == 0 and page.locator("#question").is_visible()
    page.get_by_role("button", name="Just run it").click()
    expect(page.locator("#at")).not_to_have_text("0 of 100")
    page.click("#play")
    page.wait_for_timeout(300)  # the record that was under way still comes
    held = step_of(page)
    page.wait_for_timeout(300)
    assert step_of(page) == held < 100 and page.locator("#play").text_content() == "Play"
    page.click("#step")
    expect(page.locator("#at")).not_to_have_text(f"{held} of 100")
    page.locator("#scrub").fill("0")
    expect(page.locator("#at")).to_have_text("0 of 100")
    page.click("#play")
    assert step_of(ended(page)) == 100
    assert words(page, "see") == "", "nothing was predicted"
    page.click("#reset")
    expect(page.locator("#at")).to_have_text("0 of 100")


@pytest.mark.parametrize("answer", ["the mixture", "the CNN"])
def test_a_prediction_starts_the_run_and_is_judged_at_its_end(show: Open, answer: str) -> None:
    page = show(calm=True, samples=60, steps=60, trials=3)
    page.get_by_role("button", name=answer, exact=True).click()
    ended(page)
    see = words(page, "see")
    assert see.startswith(("As you predicted, ", f"You predicted: {answer}. But ")) and see.count(" %") == 2
    assert page.locator("#question").is_hidden() and page.evaluate("() => document.activeElement.id") == "play"


def test_a_story_asks_first_and_tells_what_to_see_at_its_end(show: Open) -> None:
    page = show(calm=True, **SMALL)
    story = RouterAlignmentLab.stories[0]
    page.select_option("#menu", label=story.name)
    expect(page.locator("#question")).to_be_visible()
    assert words(page, "see") == "" and "source=synthetic" in page.url
    page.click("#play")
    ended(page)
    assert words(page, "see") == story.what_to_see
    slider(page, "patches_per_expert").focus()
    page.keyboard.press("ArrowRight")
    assert page.locator("#menu option:checked").text_content() == "(my own settings)"


def test_without_workers_the_page_itself_trains(show: Open) -> None:
    page = run(show(script="delete window.Worker;", **SMALL))
    assert step_of(page) == 20 and "right in" in words(page, "caption")


def test_an_old_browser_is_told_what_it_lacks(browser: Any, path: Path) -> None:
    page = browser.new_page()
    page.add_init_script("delete window.ResizeObserver;")
    page.goto(path.as_uri())
    assert page.locator("#old").is_visible() and page.locator("#page").is_hidden()
    page.close()


def test_an_engine_that_fails_is_told_of(browser: Any, path: Path) -> None:
    page = browser.new_page()
    page.add_init_script(FAILING_WORKER)
    page.goto(path.as_uri())
    expect(page.get_by_role("alert")).to_contain_text(
        "Training has stopped, because something failed in this page: no mem"
    )
    page.close()


def test_an_expert_is_followed_by_the_pointer_and_its_numbers_stand_in_tables(show: Open) -> None:
    page = run(show(**SMALL))
    patches = page.locator("canvas").nth(1)
    patches.hover(position={"x": 60, "y": 70})
    expect(page.locator("#tip")).to_contain_text("class +, expert 1, patch ")
    page.mouse.move(2, 2)
    page.locator("#numbers summary").click()
    tables = page.locator("#tables table")
    expect(tables).to_have_count(4)
    assert [tables.nth(place).locator("tbody tr").count() for place in range(tables.count())] == [4, 1, 4, 1]
    assert tables.nth(0).locator("th").first.text_content() == "cos(w, o₁)"


def test_a_patch_can_be_carried_elsewhere_and_is_kept_as_before(show: Open) -> None:
    page = run(show(**SMALL))
    canvas, tip = page.locator("#panels canvas").nth(1), page.locator("#tip")
    caption, box = words(page, "caption"), canvas.bounding_box()
    assert box is not None and "Drag a patch" in words(page, "tip")

    def patches() -> list[tuple[float, str]]:
        """What lies along a row of class +: where, and in which words."""
        found: list[tuple[float, str]] = []
        for across in range(20, int(box["width"]), 6):
            page.mouse.move(box["x"] + across, box["y"] + HIGH)
            said = words(page, "tip")
            if said.startswith("class +") and (not found or found[-1][1] != said):
                found.append((box["x"] + across + 2, said))
        return found

    before = patches()
    at = next(place for place, (_, said) in enumerate(before) if "o₁" in said)
    to = 0 if at else 3
    page.mouse.move(before[at][0], box["y"] + HIGH)
    page.mouse.down()
    page.mouse.move(before[to][0], box["y"] + HIGH, steps=8)
    page.mouse.up()
    assert words(page, "see") == CARRIED.format(place=to + 1)
    after = patches()
    expert, kept = re.findall(r"(.*), patch \d+, o₁: (.*)", before[at][1])[0]
    assert after[to][1] == f"{expert}, patch {to + 1}, o₁: {kept}"
    others = [said.split(": ")[1] for place, (_, said) in enumerate(before) if place != at]
    assert [said.split(": ")[1] for place, (_, said) in enumerate(after) if place != to] == others
    page.mouse.move(after[to][0], box["y"] + HIGH)
    canvas.press("Shift+ArrowRight")
    assert tip.text_content() == f"{expert}, patch {to + 2}, o₁: {kept}"
    assert words(page, "caption") == caption, "only the picture has changed"
    page.click("#reset")
    expect(page.locator("#see")).to_be_empty()


def test_a_digit_can_be_drawn_in_a_patch_and_is_judged_by_every_expert(show: Open) -> None:
    page = run(show(**SMALL))
    canvas, see, tip = page.locator("#panels canvas").nth(1), page.locator("#see"), page.locator("#tip")
    before, said = picture(canvas), re.compile(r"Your drawing in class \+ is kept by (no expert|expert)")
    canvas.hover(position={"x": 60, "y": HIGH})
    expect(tip).to_contain_text("class +, expert")
    canvas.click(position={"x": 60, "y": HIGH})
    pad = page.get_by_role("group", name=re.compile(r"Class \+, patch \d+"))
    cells = pad.locator("canvas")
    expect(cells).to_be_focused()
    pad.get_by_role("button", name="Empty").click()
    expect(see).to_contain_text(said)
    emptied, box = picture(canvas), cells.bounding_box()
    assert box is not None and emptied != before
    page.mouse.move(box["x"] + 90, box["y"] + 10)
    page.mouse.down()
    page.mouse.move(box["x"] + 90, box["y"] + 160, steps=8)
    page.mouse.up()
    page.wait_for_timeout(300)
    drawn = picture(canvas)
    assert drawn != emptied, "a stroke of the pointer is a 1"
    cells.focus()
    for key in ("ArrowLeft", "Space"):
        page.keyboard.press(key)
    page.wait_for_timeout(300)
    assert picture(canvas) != drawn, "so is a key"
    assert not [one["id"] for one in Axe().run(page).response["violations"]], "axe finds nothing wrong with the pad"
    page.keyboard.press("Escape")
    assert pad.count() == 0
    expect(canvas).to_be_focused()
    page.locator("#scrub").focus()
    page.keyboard.press("Home")
    expect(page.locator("#at")).to_contain_text("0 of")
    expect(see).to_contain_text(said)
    page.click("#reset")
    expect(see).to_be_empty()


def picture(canvas: Any) -> str:
    return str(canvas.evaluate("(one) => one.toDataURL()"))


@pytest.mark.parametrize("width", [390, 1366])
def test_axe_finds_nothing_wrong(show: Open, width: int) -> None:
    page = show(width=width, **SMALL)
    page.locator("#numbers summary").click()
    page.locator("#about summary").click()
    expect(page.locator("#tables table")).to_have_count(4)
    found = Axe().run(page, options={"resultTypes": ["violations"]}).response
    assert len(found["passes"]) > 30, "axe-core has not looked"
    assert [rule["id"] for rule in found["violations"]] == []


# ---- sizes ----


def test_nothing_scrolls_sideways_and_the_picture_fits_a_projector(show: Open) -> None:
    page = run(show(source="synthetic", experts=8, **SMALL))
    page.locator("#more").click()
    for width in WIDTHS:
        page.set_viewport_size({"width": width, "height": 768})
        assert page.evaluate("() => document.documentElement.scrollWidth") <= width, width
    page = run(show(**SMALL))
    bottom = "() => Math.round(document.getElementById('caption').getBoundingClientRect().bottom)"
    assert page.evaluate(bottom) <= 768
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_timeout(100)
    small = "() => [...document.querySelectorAll('.bar button')].filter((one) => one.offsetHeight < 36).length"
    wide = "() => [...document.querySelectorAll('canvas')].every((one) => one.offsetWidth > 340)"
    assert page.evaluate(small) == 0 and page.evaluate(wide)
