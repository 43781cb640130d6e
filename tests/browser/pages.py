"""Pages of the playground in Chromium, from a disk."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any
from urllib.parse import urlencode

from playwright.sync_api import BrowserContext, Page, expect

from moe_lab_widgets import pages

Open = Callable[..., Page]
FAILING_WORKER = """window.Worker = class extends EventTarget {
  postMessage({ id }) {
    const said = new MessageEvent("message", { data: { type: "failed", id, words: "no memory" } });
    setTimeout(() => { this.dispatchEvent(said); this.onmessage?.(said); });
  }
  terminate() {}
};"""
"""A script of a page whose workers fail at once."""


def written(lab: str, folder: Path) -> Path:
    """A page as `moe-lab playground --out` writes it."""
    return pages.write(lab, folder / "page.html", "https://course.example")


def fragment(lab: str, **values: Any) -> str:
    """What an address ends in that asks for values; nothing for none."""
    return f"#{urlencode({'lab': lab, **values})}" if values else ""


def words(page: Page, name: str) -> str:
    """The text of an element."""
    return page.locator(f"#{name}").text_content() or ""


@contextmanager
def pages_of(browser: Any, lab: str, path: Path, milliseconds: int) -> Iterator[Open]:
    """Yields what opens a page. Afterwards it must have asked for nothing elsewhere, and complained of nothing."""
    contexts: list[BrowserContext] = []
    complaints: list[str] = []

    def open_page(width: int = 1366, height: int = 768, script: str = "", calm: bool = False, **values: Any) -> Page:
        context = browser.new_context(
            viewport={"width": width, "height": height}, reduced_motion="reduce" if calm else "no-preference"
        )
        contexts.append(context)
        page: Page = context.new_page()
        page.set_default_timeout(milliseconds)
        if script:
            page.add_init_script(script)
        page.on("pageerror", lambda error: complaints.append(f"page error: {error}"))
        page.on("console", lambda said: complaints.append(said.text) if said.type in ("error", "warning") else None)
        page.on("request", lambda asked: complaints.append(asked.url) if _elsewhere(asked.url) else None)
        page.goto(f"{path.as_uri()}{fragment(lab, **values)}")
        expect(page.locator("#caption")).not_to_be_empty(timeout=milliseconds)
        return page

    yield open_page
    for context in contexts:
        context.close()
    assert complaints == []


def _elsewhere(url: str) -> bool:
    return not url.startswith(("file:", "blob:"))
