"""Recorded Labs as pages in Chromium, from a disk: sliders, keys, pointer, stories, links, sizes, and what they say."""

from __future__ import annotations

import dataclasses
import re
from collections.abc import Iterator
from pathlib import Path

import pytest
from playwright.sync_api import Page, expect

from moe_lab_widgets import SpecializationLab
from moe_lab_widgets.live import documents
from moe_lab_widgets.live.page import page as live_page
from moe_lab_widgets.playground.declared import defaults_of
from tests.browser.pages import Open, pages_of, words, written
from tests.widgets.labs import FAST, done

pytestmark = pytest.mark.browser
LAB = "SpecializationLab"
WIDTHS = (390, 768, 1366, 1920)
SMALL = {"steps": 50, "trials": 2, "samples": 200}
SECONDS = 60_000


@pytest.fixture(scope="module")
def path(tmp_path_factory: pytest.TempPathFactory) -> Path:
    return written(LAB, tmp_path_factory.mktemp("live"))


@pytest.fixture
def show(browser: object, path: Path) -> Iterator[Open]:
    with pages_of(browser, LAB, path, SECONDS) as opened:
        yield opened


class Exact(SpecializationLab):  # type: ignore[misc, valid-type]
    """The Lab trained in float64, as the page trains."""

    declaration = dataclasses.replace(
        SpecializationLab.declaration,
        runs=lambda values: {
            name: run.replace(precision="float64") for name, run in SpecializationLab.declaration.runs(values).items()
        },
    )


def ended(page: Page) -> Page:
    """The page when its run, as fast as it trains, has ended."""
    page.select_option("#speed", label=FAST)
    expect(page.locator("#play")).to_have_text("Replay", timeout=SECONDS)
    return page


def run(page: Page) -> Page:
    """The page when the run has ended that nobody has predicted anything of."""
    page.click("#play")
    return ended(page)


def test_it_says_what_the_lab_says(show: Open) -> None:
    page = run(show(**SMALL, seed=5))
    lab = Exact(**SMALL, seed=5)
    try:
        lab.controls.speed.value = FAST
        done(lab)
        assert words(page, "caption") == lab.caption(lab.record)
    finally:
        lab.close()
    assert words(page, "at") == "50 of 50"


def test_it_asks_and_each_answer_starts_the_run_which_is_judged(show: Open) -> None:
    page = show(**SMALL)
    assert words(page, "at") == "0 of 50"
    page.get_by_role("button", name="the linear experts").click()
    ended(page)
    assert "have divided the clusters" in words(page, "see") and words(page, "see").startswith("You predicted: ")


@pytest.mark.parametrize("worker", ["", "delete window.Worker;"], ids=["worker", "no worker"])
def test_a_slider_by_keys_begins_another_run(show: Open, worker: str) -> None:
    page = show(script=worker, **SMALL)
    page.focus("#knob-experts")
    page.keyboard.press("ArrowRight")
    run(page)
    assert "of 9 experts carry" in words(page, "caption")
    assert "experts=9" in page.evaluate("location.hash") and "experts=9" in words(page, "python")
    assert "clusters" not in page.evaluate("location.hash")  # an address has what differs


COUNT = """window.begun = 0;
const Plain = window.Worker;
window.Worker = class extends Plain {
  constructor(address) {
    super(address);
    this.addEventListener("message", ({ data }) => { window.begun += data.type === "begun"; });
  }
};"""
DRAG = """(knob) => {
  for (let turn = 0; turn < 30; turn++) {
    knob.value = String(turn % 2 ? Number(knob.max) : 0);
    knob.dispatchEvent(new Event("input"));
  }
}"""


def test_of_a_slider_that_is_dragged_only_the_last_value_is_waited_for(show: Open) -> None:
    page = show(script=COUNT, **SMALL)
    before = page.evaluate("window.begun")
    page.locator("#knob-experts").evaluate(DRAG)
    run(page)
    most = next(knob for knob in SpecializationLab.knobs if knob.name == "experts").slider[1]
    assert f"experts={most}" in words(page, "python") and f"of {most} experts" in words(page, "caption")
    assert 1 <= page.evaluate("window.begun") - before <= 3, "thirty moves, and hardly a run that nobody sees"


def test_values_that_do_not_fit_are_lowered_and_the_rule_is_said(show: Open) -> None:
    page = show(**SMALL, dimension=8, clusters=8)
    assert page.locator("#knob-clusters + *").count() and page.evaluate("location.hash").find("clusters=8") < 0
    assert "must be at least 2 clusters" in words(page, "see")


def test_a_step_at_a_time_and_back(show: Open) -> None:
    page = show(calm=True, **SMALL)
    for _ in range(3):
        before = words(page, "at")
        page.click("#step")
        expect(page.locator("#at")).not_to_have_text(before)
    page.focus("#scrub")
    page.keyboard.press("ArrowLeft")
    expect(page.locator("#at")).to_have_text(before)


def test_a_pointer_reads_a_cell_and_numbers_stand_in_tables(show: Open) -> None:
    page = run(show(**SMALL))
    page.locator("canvas").first.hover(position={"x": 120, "y": 50})
    assert words(page, "tip").startswith("cluster 1, expert 1: ")
    page.click("#numbers summary")
    expect(page.locator("#tables table").first).to_be_visible()
    assert page.locator("#tables table").first.locator("tr").count() == 5


def test_a_story_is_told_when_its_run_has_ended(show: Open) -> None:
    page = show(calm=True)
    page.select_option("#menu", label=SpecializationLab.stories[1].name)
    expect(page.locator("#question")).to_be_visible()
    assert words(page, "see") == ""
    story = SpecializationLab.stories[1]
    assert page.locator("#menu option:checked").text_content() == story.name
    defaults = {"seed": 0, **{knob.name: knob.default for knob in SpecializationLab.knobs}}
    for name, value in story.values.items():
        assert f"{name}={value}" in page.evaluate("location.hash") or value == defaults[name]


def test_a_goal_is_sought_with_sliders_seen_by_the_page_and_asked_about(show: Open) -> None:
    goal = SpecializationLab.declaration.goals[0]
    page = show(calm=True)
    assert words(page, "goals") == f"goals 0 of {len(SpecializationLab.declaration.goals)}"
    page.select_option("#menu", label=goal.asks)
    expect(page.locator("#sought")).to_contain_text(goal.asks)
    expect(page.locator("#question")).to_be_hidden()
    page.locator("#knob-experts").evaluate(
        "(slider) => { slider.value = '2'; slider.dispatchEvent(new Event('input')); }"
    )
    expect(page.locator("#sought")).to_contain_text(goal.why.asks, timeout=60_000)
    wrong = next(answer for answer in goal.why.offered if answer != goal.why.right)
    page.get_by_role("button", name=wrong, exact=True).click()
    expect(page.locator("#sought")).to_contain_text(goal.why.answers[wrong])
    assert page.get_by_role("button", name=wrong, exact=True).is_disabled()
    page.get_by_role("button", name=goal.why.right, exact=True).click()
    assert words(page, "sought").endswith(goal.seen) and words(page, "goals").startswith("goals 1 of ")
    assert page.locator("#menu option:checked").text_content() == f"✓ {goal.asks}"
    page.reload()
    expect(page.locator("#goals")).to_contain_text("goals 1 of ")  # the browser keeps it
    page.evaluate("() => localStorage.setItem('moe_lab goals', JSON.stringify({ BalanceLab: ['one', 'two'] }))")
    page.reload()
    expect(page.locator("#goals")).to_have_text(re.compile(r"goals 0 of \d, 2 in the course"))


def test_an_exported_page_begins_with_the_labs_values(browser: object, tmp_path: Path) -> None:
    lab = SpecializationLab(experts=5, seed=4, playing=False)
    try:
        path = lab.export(tmp_path / "mine.html", live=True)
    finally:
        lab.close()
    with pytest.raises(ValueError, match=r"the values that it begins with: Other activations need Python\."):
        live_page(LAB, values={**defaults_of(SpecializationLab), "activation": "tanh"})
    with pages_of(browser, LAB, path, SECONDS) as opened:
        page = opened()
        assert page.evaluate("location.hash") == f"#lab={LAB}&experts=5&seed=4"


@pytest.mark.parametrize("width", WIDTHS)
def test_it_fits_every_width(show: Open, width: int) -> None:
    page = run(show(width=width, height=768 if width > 400 else 844, **SMALL))
    assert page.evaluate("document.documentElement.scrollWidth - innerWidth") <= 0
    if width >= 1366:
        box = page.locator("#caption").bounding_box()
        assert box is not None and box["y"] + box["height"] <= 768 + 20


@pytest.mark.parametrize("lab", [lab for lab in documents.of_runs() if lab not in (LAB, "RouterAlignmentLab")])
def test_every_other_lab_opens_and_trains(browser: object, tmp_path: Path, lab: str) -> None:
    with pages_of(browser, lab, written(lab, tmp_path), SECONDS) as opened:
        assert words(run(opened(steps=20, trials=2, samples=100)), "caption")


def test_what_is_drawn_on_the_picture_is_judged_and_gone_with_other_settings(show: Open) -> None:
    page = show(**SMALL)
    page.get_by_role("button", name="Draw it").click()
    page.keyboard.press("PageUp")
    page.keyboard.press("PageUp")
    expect(page.locator("#asked")).to_contain_text("You drew ")
    page.get_by_role("button", name="Play, and compare").click()
    ended(page)
    assert words(page, "see").startswith("You drew ") and "have divided the clusters" in words(page, "see")
    assert "close." in words(page, "see") and page.locator(".moe-lab-sketch line").count() == 2
    experts = page.locator("#knob-experts")
    experts.focus()
    page.keyboard.press("ArrowRight")
    expect(page.locator("#asked")).to_contain_text("You moved a slider")
    assert page.locator(".moe-lab-sketch").count() == 0
    page.get_by_role("button", name="Back to the question").click()
    expect(page.locator("#question").get_by_role("button")).to_have_count(5)
    assert words(page, "at") == "0 of 50" and words(page, "see") == ""
