"""Recorded runs without a kernel, in Chromium: exported pages from a disk."""

from __future__ import annotations

import base64
import gzip
import io
import json
import re
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page

from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab_widgets import RouterAlignmentLab, play
from moe_lab_widgets.engine.goal import COMPARE, DRAW, PREDICTED_ELSE
from tests.widgets.labs import FAST, done

pytestmark = pytest.mark.browser
SMALL = {"steps": 20, "trials": 2, "samples": 40}


def page_of_a_short_run(path: Path, **how: Any) -> Path:
    lab = RouterAlignmentLab(**SMALL)
    try:
        lab.controls.speed.value = FAST
        return done(lab).export(path, **how)
    finally:
        lab.close()


@pytest.fixture(scope="module")
def exported(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a short run."""
    return page_of_a_short_run(tmp_path_factory.mktemp("exported") / "run.html")


@pytest.fixture(scope="module")
def asking(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """The page of a short run that opens with its question."""
    return page_of_a_short_run(tmp_path_factory.mktemp("asking") / "run.html", ask=True)


@pytest.fixture
def show(browser: Any) -> Iterator[Callable[..., Page]]:
    """Opens a page from the disk. Afterwards it must have asked for nothing elsewhere, and complained of nothing."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(path: Path, width: int = 1366, height: int = 768, fragment: str = "", **options: Any) -> Page:
        context = browser.new_context(viewport={"width": width, "height": height}, **options)
        contexts.append(context)
        page = context.new_page()
        page.on("pageerror", lambda error: complaints.append(f"page error: {error}"))
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: complaints.append(asked.url) if _elsewhere(asked.url) else None)
        page.goto(f"{path.as_uri()}#{fragment}" if fragment else path.as_uri())
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _elsewhere(url: str) -> bool:
    return not url.startswith(("file:", "data:", "blob:"))


def painted(page: Page) -> np.ndarray:
    """The pixels of the first canvas, (height, width, 3)."""
    return pixels(page.locator("canvas").first.evaluate("(canvas) => canvas.toDataURL('image/png')"))


def pixels(address: str) -> np.ndarray:
    """The pixels of a PNG in a data: URL."""
    return np.asarray(Image.open(io.BytesIO(base64.b64decode(address.partition(",")[2]))).convert("RGB"))


def place(page: Page) -> int:
    """Which frame is on show, counted from 0."""
    return int(page.locator(".moe-lab-screen").first.get_attribute("data-record") or -1)


def caption(page: Page) -> str:
    return page.locator(".moe-lab-caption").first.inner_text()


def judged(page: Page) -> str:
    """What a page that asks says at the end of its run."""
    page.wait_for_function(
        "() => { const [button, time] = document.querySelectorAll('.moe-lab-play, .moe-lab-time input');"
        " return time.value === time.max && button.textContent.includes('Play'); }"
    )
    return page.locator(".moe-lab-question + p").inner_text()


def run_of(path: Path) -> dict[str, Any]:
    """The recording in an exported page."""
    found = re.search(r'class="moe-lab-run">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    plain: dict[str, Any] = json.loads(found[1])
    return plain


def test_pulls_play_and_step_in_a_page_that_is_too_narrow_for_a_lab(show: Callable[..., Page], tmp_path: Path) -> None:
    played = play(router_pulls(JointMoE(experts=4), PatternTask(), samples=40, steps=5))
    page = show(played.save(tmp_path / "pulls.html"), 930)
    page.locator("canvas").wait_for()
    assert caption(page) == played.recording.captions[-1] and page.locator("canvas").count() == 1
    end = painted(page)
    page.get_by_role("slider").press("Home")
    page.get_by_role("slider").press("ArrowRight")
    assert caption(page) == played.recording.captions[1] and (painted(page) != end).any()
    page.locator(".moe-lab-play").click()
    page.wait_for_function("document.querySelector('.moe-lab-screen').dataset.record == 5")
    np.testing.assert_array_equal(painted(page), end)
    page.set_viewport_size({"width": 390, "height": 844})
    page.wait_for_function("document.querySelectorAll('canvas').length === 4")
    assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the whole page scrolls sideways"


class TestExported:
    def test_it_plays_scrubs_tells_and_copies(self, show: Callable[..., Page], exported: Path) -> None:
        page, captions = show(exported, permissions=["clipboard-read"]), run_of(exported)["captions"]
        page.locator("canvas").wait_for()
        assert place(page) == len(captions) - 1 and caption(page) == captions[-1]
        end = painted(page)
        assert end.shape[:2] == (448, 1100), "the picture is not shown pixel by pixel"
        page.get_by_role("slider").press("Home")
        assert place(page) == 0 and caption(page) == captions[0] and (painted(page) != end).any()
        page.get_by_role("slider").press("ArrowRight")
        assert place(page) == 1
        page.locator(".moe-lab-play").click()
        page.wait_for_function(f"document.querySelector('.moe-lab-screen').dataset.record == {len(captions) - 1}")
        np.testing.assert_array_equal(painted(page), end)
        page.get_by_text("Code of this run").click()
        page.get_by_role("button", name="Copy as code").click()
        page.get_by_text("copied").wait_for()
        assert page.evaluate("navigator.clipboard.readText()") == run_of(exported)["code"]
        live = page.get_by_role("link", name="this run, live in the browser").get_attribute("href") or ""
        assert "/playground.html#lab=RouterAlignmentLab&" in live and "steps=20" in live and "device" not in live

    def test_it_asks_first_and_judges_at_the_end(self, show: Callable[..., Page], asking: Path) -> None:
        page, run = show(asking), run_of(asking)
        asked, told = run["question"]["asked"], run["question"]["told"]
        question = page.locator(".moe-lab-question")
        question.get_by_text(asked["asks"]).wait_for()
        assert place(page) == 0 and page.locator("img").count() == 0, "the end is not seen before the question"
        wrong = next(place for place in range(len(asked["answers"])) if place != told["right"])
        question.get_by_role("button", name=asked["answers"][wrong]).press("Enter")
        assert judged(page) == PREDICTED_ELSE.format(answer=asked["answers"][wrong], seen=told["seen"])
        assert question.is_hidden() and page.locator(".moe-lab-sketch").count() == 0, "nothing was drawn"

    def test_what_is_drawn_on_it_with_keys_is_judged_and_stays(self, show: Callable[..., Page], asking: Path) -> None:
        page, run = show(asking, reduced_motion="reduce"), run_of(asking)
        question, mark = page.locator(".moe-lab-question"), page.get_by_role("slider", name="your prediction").first
        question.get_by_role("button", name=DRAW).press("Enter")
        page.keyboard.press("PageUp")
        drawn = mark.get_attribute("aria-valuetext")
        page.set_viewport_size({"width": 1000, "height": 768})
        assert mark.get_attribute("aria-valuetext") == drawn, "what was drawn stays when the window is another size"
        question.get_by_role("button", name=COMPARE).press("Enter")
        sentence = judged(page)
        seen = run["question"]["told"]["seen"]
        assert sentence.startswith(f"You drew {drawn} for the mixture. That is ")
        assert sentence.endswith(f"{seen[0].upper()}{seen[1:]}.")
        assert mark.count() == 0 and page.locator(".moe-lab-sketch line").count() == 2, "it cannot be moved any more"

    def test_it_shows_the_picture_that_agg_draws(self, show: Callable[..., Page], exported: Path) -> None:
        page = show(exported)
        page.locator("canvas").wait_for()
        still = re.search(r'src="(data:image/png[^"]*)"', exported.read_text(encoding="utf-8"))
        assert still is not None
        difference = np.abs(pixels(still[1])[:440].astype(int) - painted(page)[:440])
        assert difference.mean() < 1.5 and (difference > 100).mean() < 0.005

    def test_without_a_script_it_is_a_picture_with_words(self, show: Callable[..., Page], exported: Path) -> None:
        page, run = show(exported, java_script_enabled=False), run_of(exported)
        image = page.locator("img")
        assert image.get_attribute("alt") == run["captions"][-1] and image.bounding_box()["width"] == 1100  # type: ignore[index]
        text = page.locator("body").inner_text()
        assert (
            run["captions"][-1] in text
            and "maximum number of SGD steps" in text
            and run["code"].splitlines()[0] in text
        )
        assert page.locator("canvas").count() == 0 and not page.get_by_role("button", name="Copy").is_visible()

    def test_on_a_phone_panels_are_stacked_and_can_be_read(self, show: Callable[..., Page], exported: Path) -> None:
        page = show(exported, 390, 844, device_scale_factor=2)
        page.locator("canvas").first.wait_for()
        spans = run_of(exported)["stage"]["spans"]
        boxes = [one.bounding_box() for one in page.locator("canvas").all()]
        assert len(boxes) == len(spans) == 3
        smallest = 9.5 * 100 / 72  # the height of the smallest words in the picture, see moe_lab/drawing/theme.py
        bottom = 0.0
        for box, (left, right) in zip(boxes, spans, strict=True):
            assert box is not None and box["y"] >= bottom - 1, "panels stand side by side"
            assert box["width"] / (right - left) * smallest >= 11
            bottom = box["y"] + box["height"]
        assert page.evaluate("document.documentElement.scrollWidth <= innerWidth"), "the whole page scrolls sideways"
        texts = "[...document.body.querySelectorAll('p, dt, dd, button, output, summary, pre, span, h1')]"
        assert page.evaluate(f"Math.min(...{texts}.map((one) => parseFloat(getComputedStyle(one).fontSize)))") >= 11
        assert page.locator(".moe-lab-caption").evaluate("(one) => one.scrollHeight <= one.clientHeight"), (
            "words are cut"
        )
        page.set_viewport_size({"width": 1366, "height": 768})
        page.wait_for_function("document.querySelectorAll('canvas').length === 1")
        assert painted(page).shape[:2] == (896, 2200)

    def test_damaged_recordings_are_refused_in_words(
        self, show: Callable[..., Page], exported: Path, tmp_path: Path
    ) -> None:
        """Bytes are changed before compression, so that no checksum helps; and after it."""
        whole, run = exported.read_text(encoding="utf-8"), run_of(exported)
        frames, random = gzip.decompress(base64.b64decode(run["frames"])), np.random.default_rng(0)
        page = show(exported)
        page.locator("canvas").wait_for()
        broken = []
        for packed in (False, True):
            for _ in range(6):
                damaged = bytearray(gzip.compress(frames, 1) if packed else frames)
                for at in random.integers(0, len(damaged), random.integers(1, 20)):
                    damaged[at] = random.integers(256)
                broken.append(base64.b64encode(damaged if packed else gzip.compress(bytes(damaged), 1)).decode())
        refused = 0
        for number, packed_frames in enumerate(broken):
            path = tmp_path / f"{number}.html"
            path.write_text(whole.replace(run["frames"], packed_frames), encoding="utf-8")
            page.goto(path.as_uri())
            page.wait_for_function(
                "document.querySelector('canvas') || document.querySelector('.moe-lab-trouble')", timeout=20_000
            )
            if page.locator("canvas").count():
                for key in ("Home", "PageUp", "End"):
                    page.get_by_role("slider").press(key)
                page.locator(".moe-lab-play").click()
            else:
                assert page.locator("img").is_visible(), "the still picture has gone"
            words = page.locator(".moe-lab-status").inner_text()
            refused += words.startswith("This run cannot be shown")
            page.get_by_text("Code of this run").click()
            assert page.get_by_role("button", name="Copy as code").is_visible(), "the page is dead"
        assert refused >= 6, "damage that a checksum finds must be refused"
