"""Recorded Labs without a kernel, in Chromium: an exported page from a disk, and pages of the site."""

from __future__ import annotations

import base64
import gzip
import importlib.util
import io
import json
import re
from collections.abc import Callable, Iterator
from dataclasses import replace
from pathlib import Path
from typing import Any

import numpy as np
import pytest
from PIL import Image
from playwright.sync_api import BrowserContext, Page

from moe_lab.core.installing import how_to_install
from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.patch_routing.pulls import router_pulls
from moe_lab.registry import LABS
from moe_lab_widgets import RouterAlignmentLab, play
from moe_lab_widgets.frames.document import part
from moe_lab_widgets.frames.module import recorded_source
from moe_lab_widgets.frames.recording import Recording
from tests.helpers.effort import only_thorough
from tests.widgets.labs import FAST, done
from tools import recorded_pages, recordings, site
from tools.recorded_pages import Recorded

pytestmark = pytest.mark.browser
SMALL = {"steps": 20, "trials": 2, "samples": 40}
FEW = {**SMALL, "source": "synthetic", "steps": 10}
NOISE_OF_THE_THEME = "theme mode"
"""What the site's theme says on the console of a page opened from a disk."""


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
    assert [one for one in complaints if NOISE_OF_THE_THEME not in one] == []


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


def run_of(path: Path) -> dict[str, Any]:
    """The recording in an exported page."""
    found = re.search(r'class="moe-lab-catalogue">(.*?)</script>', path.read_text(encoding="utf-8"), re.DOTALL)
    assert found is not None
    plain: dict[str, Any] = json.loads(found[1])["runs"][0]["run"]
    return plain


def recorded_address(path: Path, lab: Any) -> str:
    """The address of a page of recorded runs that the link to a Lab would be if no page trained its run."""
    return f"{path.as_uri()}#{lab.link().address.partition('#')[2]}"


@pytest.fixture(scope="module")
def recorded() -> tuple[recordings.Show, dict[str, Recording]]:
    """A story and four settings of two sliders of a Lab, and their recordings."""
    lab, axes, few = "RouterAlignmentLab", {"noise": (0.0, 2.0), "experts": (1, 4)}, FEW
    story = recordings.Run(lab, recordings.complete(lab, {**few, "noise": 1.0, "seed": 3}), 10, "the story", "Look.")
    shown, found = recordings.Show(lab, (story,), axes, recordings.grid_of(lab, axes, **few)), {}
    for run in shown.runs:
        made = RouterAlignmentLab(**run.values)
        made.controls.speed.value = FAST
        found[run.key] = done(made).recording(3)
        made.close()
    return shown, found


@pytest.fixture(scope="module")
def linked(recorded: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, str]:
    """A page with three runs and what links to them from a Lab begin with; the Lab of the link has other values."""
    (show, found), runs = recorded, []
    for run in (show.grid[place] for place in ((0, 0), (1, 0), (1, 1))):
        runs.append({"name": run.key, "see": "look", "run": found[run.key].plain(), "values": run.values})
    shown = part(runs[0]["run"], "data:,", {"lab": "RouterAlignmentLab", "runs": runs})
    path = tmp_path_factory.mktemp("linked") / "labs.html"
    path.write_text(f"<meta charset=utf-8><link rel=icon href='data:,'>{shown}<script>{recorded_source()}</script>")
    asked = RouterAlignmentLab(**FEW, noise=1.8, experts=4, playing=False)
    address = recorded_address(path, asked)
    asked.close()
    return path, address


def test_an_address_opens_the_nearest_recorded_run(show: Callable[..., Page], linked: tuple[Path, str]) -> None:
    path, address = linked
    page = show(path)
    page.locator("canvas").wait_for()
    assert page.get_by_label("Run:").input_value() == "0"
    page.goto(address)
    page.get_by_text("This is the recorded run nearest to the link. look").wait_for()
    assert page.get_by_label("Run:").input_value() == "2"
    page.wait_for_function("document.querySelector('.moe-lab-values dl').textContent.match(/experts4/)")
    page.goto(address.replace("noise=1.8", "noise=2.0"))
    page.get_by_text("This is the run of the link. look").wait_for()
    page.get_by_label("Run:").select_option("1")
    page.get_by_text("link").wait_for(state="detached")
    page.goto(address.replace("RouterAlignmentLab", "PruningLab"))
    page.reload()
    page.locator("canvas").wait_for()
    assert page.get_by_label("Run:").input_value() == "0", "another Lab's link"


@pytest.fixture(scope="module")
def grid(recorded: Any, tmp_path_factory: pytest.TempPathFactory) -> tuple[Path, dict[tuple[int, int], list[str]], str]:
    """The site's part of a Lab with a story and sliders, its captions by the sliders' places, and the story's last."""
    folder, (shown, found) = tmp_path_factory.mktemp("grid"), recorded
    for key, recording in found.items():
        (folder / f"{key}.png").write_bytes(recording.still)
        (folder / f"{key}.json").write_text(json.dumps(recording.plain()))
    page = Recorded({shown.lab: shown}, folder)
    page.write(folder / "recordings")
    html = page.html(shown.lab, "note")
    (folder / "labs.html").write_text(f"<meta charset=utf-8><link rel=icon href='data:,'>{html}")
    said = {key: list(recording.captions) for key, recording in found.items()}
    (story,) = shown.stories
    return folder / "labs.html", {place: said[run.key] for place, run in shown.grid.items()}, said[story.key][-1]


class TestLinkToSliders:
    """Links of a Lab to a page whose sliders snap to a grid of recorded runs, which it loads one by one."""

    def link(self, path: Path, **values: Any) -> str:
        lab = RouterAlignmentLab(**{**FEW, **values}, playing=False)
        try:
            return recorded_address(path, lab)
        finally:
            lab.close()

    def opened(self, page: Page, words: str, last: str) -> None:
        """Waits until the page says how near the run is, and shows its end."""
        page.get_by_text(words).wait_for()
        page.locator(".moe-lab-screen .moe-lab-caption").get_by_text(last, exact=True).wait_for()

    def test_the_nearest_cell_opens_with_its_sliders(self, show: Callable[..., Page], grid: Any) -> None:
        path, said, story = grid
        page = show(path)
        page.get_by_role("button", name="Play the recorded run").wait_for()
        page.goto(self.link(path, noise=1.9, experts=4))
        self.opened(page, "This is the recorded run nearest to the link.", said[1, 1][-1])
        assert page.get_by_label("Run:").input_value() == "grid"
        noise, experts = (page.get_by_role("slider", name=re.compile(name)) for name in ("^noise", "^k · experts"))
        assert [one.get_attribute("aria-valuetext") for one in (noise, experts)] == ["2.00", "4"]
        assert page.get_by_role("button", name="Play the recorded run").count() == 0
        page.goto(self.link(path, noise=0.1, experts=1))
        self.opened(page, "This is the recorded run nearest to the link.", said[0, 0][-1])
        assert [one.get_attribute("aria-valuetext") for one in (noise, experts)] == ["0.00", "1"]
        page.goto(self.link(path, noise=2.0, experts=1))
        self.opened(page, "This is the run of the link.", said[1, 0][-1])
        experts.press("End")
        self.opened(page, "Recorded: the sliders snap to the settings that were recorded", said[1, 1][-1])
        assert "of the link" not in page.locator(".moe-lab-choice").inner_text()
        page.goto(self.link(path, noise=1.0, seed=3))
        self.opened(page, "This is the run of the link. Look.", story)
        assert page.get_by_label("Run:").input_value() == "0" and not noise.is_visible()

    def test_a_fresh_page_opens_it_and_passes_over_what_it_does_not_know(
        self, show: Callable[..., Page], grid: Any
    ) -> None:
        path, said, _ = grid
        address = self.link(path, noise=0.0, experts=4) + "&a_knob_of_a_later_version=7"
        page = show(path, fragment=address.partition("#")[2])
        self.opened(page, "This is the run of the link.", said[0, 1][-1])
        assert page.get_by_label("Run:").input_value() == "grid"
        page.get_by_role("slider", name=re.compile("^time")).press("Home")
        assert caption(page) == said[0, 1][0]


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
        question = page.locator(".moe-lab-question")
        question.get_by_text(run["question"]["asks"]).wait_for()
        assert place(page) == 0 and page.locator("img").count() == 0, "the end is not seen before the question"
        chosen = run["question"]["answers"][1]
        question.get_by_role("button", name=chosen["words"]).press("Enter")
        page.wait_for_function(
            f"document.querySelector('.moe-lab-screen').dataset.record == {len(run['captions']) - 1}"
        )
        assert question.inner_text() == chosen["verdict"] and question.get_by_role("button").count() == 0

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


needs_sphinx = pytest.mark.skipif(
    any(importlib.util.find_spec(name) is None for name in ("sphinx", "myst_nb", "sphinx_book_theme")),
    reason=f"Sphinx is not installed: {how_to_install('site')}",
)


@pytest.fixture(scope="module")
def built(tmp_path_factory: pytest.TempPathFactory) -> Path:
    """A site with one recorded Lab, and no live one: two short stories, and four settings of two sliders."""
    folder = tmp_path_factory.mktemp("site")
    stories = tuple(
        recordings.Run(RouterAlignmentLab.__name__, recordings.complete("RouterAlignmentLab", values), 10, name, "See.")
        for name, values in (("first", SMALL), ("second", {**SMALL, "experts": 2}))
    )
    axes = {"patches_per_expert": (1, 4), "noise": (0.0, 2.0)}
    show = recordings.Show("RouterAlignmentLab", stories, axes, recordings.grid_of("RouterAlignmentLab", axes, **SMALL))
    recordings.record_all(show.runs, folder / "cache", workers=1)
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(recorded_pages, "LABS", [replace(lab, page="") for lab in LABS])
        site.build(site.ROOT, folder / "site", recorded=Recorded({show.lab: show}, folder / "cache"))
    return folder / "site"


@needs_sphinx
@pytest.mark.slow
@only_thorough("takes minutes")
class TestSite:
    def test_stories_and_sliders_change_the_picture(self, show: Callable[..., Page], built: Path) -> None:
        page = show(built / "labs.html")
        asked: list[str] = []
        page.on("request", lambda one: asked.append(one.url))
        assert page.locator(".moe-lab-recorded img").is_visible() and page.locator("canvas").count() == 0
        page.get_by_role("button", name="Play the recorded run").click()
        self.wait_for_end(page)
        first = painted(page)
        assert len(asked) == 1, "only the run that is chosen is fetched"
        page.get_by_label("Run:").select_option("second")
        page.wait_for_function("document.querySelector('.moe-lab-values dl').textContent.includes('k · experts2')")
        self.wait_for_end(page)
        second = painted(page)
        assert (first != second).any() and not page.locator(".moe-lab-sliders input").first.is_visible()
        page.get_by_label("Run:").select_option("Move the sliders")
        noise = page.get_by_role("slider", name=re.compile("^noise"))
        assert noise.get_attribute("aria-valuetext") == "0.00"
        self.wait_for_end(page)
        before = painted(page)
        noise.press("End")
        page.wait_for_function("document.querySelector('.moe-lab-values dl').textContent.match(/noise[^0-9]*2.00/)")
        assert (painted(page) != before).any() and place(page) > 0
        assert "Recorded" in page.locator(".moe-lab-choice").inner_text()

    def test_a_missing_file_is_a_sentence_and_the_next_choice_works(
        self, show: Callable[..., Page], built: Path
    ) -> None:
        page = show(built / "labs.html")
        catalogue = json.loads(page.locator(".moe-lab-catalogue").text_content() or "")
        file = built / catalogue["runs"][0]["file"]
        script = file.read_text(encoding="utf-8")
        file.write_text("", encoding="utf-8")
        try:
            page.get_by_role("button", name="Play the recorded run").click()
            page.get_by_text("This run cannot be shown").wait_for()
        finally:
            file.write_text(script, encoding="utf-8")
        page.get_by_label("Run:").select_option("second")
        self.wait_for_end(page)
        assert page.locator(".moe-lab-status").inner_text() == ""

    def test_a_phone_can_choose_and_read(self, show: Callable[..., Page], built: Path) -> None:
        page = show(built / "labs.html", 390, 844, device_scale_factor=2)
        page.get_by_label("Run:").select_option("Move the sliders")
        page.locator("canvas").first.wait_for()
        assert page.locator("canvas").count() == 3
        for place in ("select", ".moe-lab-sliders input >> nth=0", ".moe-lab-time"):
            box = page.locator(f".moe-lab-recorded {place}").bounding_box()
            assert box is not None and box["x"] >= 0 and box["x"] + box["width"] <= 390, place

    def test_pages_are_small_before_a_run_is_chosen(self, show: Callable[..., Page], built: Path) -> None:
        for path in (built / "labs.html", built / "02_router_alignment.html"):
            asked: list[str] = []
            page = show(built / "course.html")
            page.on("request", lambda one, asked=asked: asked.append(one.url))
            page.goto(path.as_uri(), wait_until="networkidle")
            files = {re.split("[?#]", one.removeprefix("file://"))[0] for one in asked if "data:" not in one}
            sizes = [Path(file).stat().st_size for file in files]
            assert sum(sizes) < 2_000_000, path.name

    @staticmethod
    def wait_for_end(page: Page) -> None:
        """Waits until a run has been played to its end."""
        page.locator("canvas").first.wait_for()
        page.wait_for_function(
            """() => {
              const time = document.querySelector(".moe-lab-time input");
              return time.value === time.max && document.querySelector(".moe-lab-status").textContent === "";
            }"""
        )
