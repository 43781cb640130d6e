"""The playground's pages in Chromium, from a disk: the first trained picture, steps per second, the map, and sizes."""

from __future__ import annotations

import gzip
import importlib.util
import json
import shutil
import tempfile
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from benchmarks.measure import Result
from moe_lab_widgets import pages

NAMES = (
    ("playground_first_trained", "ms"),
    ("playground_steps_digits", "1/s"),
    ("playground_steps_synthetic", "1/s"),
    ("playground_map_first_row", "s"),
    ("playground_map", "s"),
)
WATCH = """(() => {
  window.seen = [];
  addEventListener("DOMContentLoaded", () => {
    const place = document.getElementById("NAME");
    new MutationObserver(() => seen.push([performance.now(), parseInt(place.textContent)]))
      .observe(place, { childList: true, characterData: true, subtree: true });
  });
})();"""
"""Notes when a text that begins with a number changes: milliseconds since the page was asked for, and the number."""


def run(tiny: bool = False) -> list[Result]:
    """With `tiny`, small runs and a small map."""
    sizes = [
        Result(
            f"playground_size_{name}", len(gzip.compress(pages.page(lab).encode())) / 1000, "KB", 170.0,
            note="compressed",
        )
        for lab, name in (("RouterAlignmentLab", "alignment"), ("PhaseTransitionLab", "phase"))
    ]  # fmt: skip
    chromium = shutil.which("chromium") or shutil.which("chromium-browser")
    if chromium is None or importlib.util.find_spec("playwright") is None:
        return [*sizes, *(Result(name, None, unit, note="needs Chromium and Playwright") for name, unit in NAMES)]
    small = {"steps": 20, "trials": 2, "samples": 40} if tiny else {}
    own = {"patches": 4, "distractors": 1, "trials": 5} if tiny else {}
    with ThreadPoolExecutor(1) as apart:  # Playwright refuses a thread in which a loop of asyncio runs, as in tests
        digits, synthetic, trainings = apart.map(
            lambda asked: watched(chromium, *asked),
            (
                ("RouterAlignmentLab", "at", "0", {"source": "digits", **small}),
                ("RouterAlignmentLab", "at", "0", {"source": "synthetic", **small}),
                ("PhaseTransitionLab", "at", None, {"source": "synthetic", **own}),
            ),
        )
    row = next(at for at, done in trainings if done >= (20 if tiny else 40))
    trained = next(at for at, step in digits if step > 0)
    return [
        *sizes,
        Result(NAMES[0][0], trained, "ms", note="from the address to the first record after step 0, digits"),
        Result(
            NAMES[1][0], pace(digits), "1/s", note="the default run of 8 trials of both models, every step recorded"
        ),
        Result(NAMES[2][0], pace(synthetic), "1/s", note="the same on synthetic patches, every second step recorded"),
        Result(NAMES[3][0], row / 1000, "s", note="all l at one N"),
        Result(NAMES[4][0], trainings[-1][0] / 1000, "s", note="the Lab's default map, 1,280 trainings"),
    ]


def pace(seen: list[list[float]]) -> float:
    """Returns the steps per second between the first record and the last."""
    (begun, first), (ended, last) = seen[0], seen[-1]
    return 1000 * (last - first) / (ended - begun)


def watched(chromium: str, lab: str, name: str, speed: str | None, values: dict[str, Any]) -> list[list[float]]:
    """Opens a page, lets its run come to its end, and returns when a number that it shows changed, and to what.

    Args:
      name: the id of the element that shows it.
      speed: the pause between records that is chosen, if there is a choice.
      values: that the address asks for.
    """
    from playwright.sync_api import expect, sync_playwright

    with tempfile.TemporaryDirectory() as folder, sync_playwright() as playwright:
        file = pages.write(lab, Path(folder) / "page.html")
        browser = playwright.chromium.launch(executable_path=chromium, args=["--no-sandbox"])
        page = browser.new_page(viewport={"width": 1366, "height": 768})
        page.add_init_script(WATCH.replace("NAME", name))
        page.goto(f"{file.as_uri()}#{urlencode({'lab': lab, **values})}")
        if speed is not None:
            page.select_option("#speed", speed)
        page.click("#play")
        expect(page.locator("#play")).to_have_text("Replay", timeout=600_000)
        seen: list[list[float]] = json.loads(page.evaluate("JSON.stringify(seen)"))
        browser.close()
    return seen
