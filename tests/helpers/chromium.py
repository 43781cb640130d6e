"""The browser of the tests."""

from __future__ import annotations

import os
import shutil

import pytest

CHROMIUM_FLAGS = (
    "--headless",
    "--no-sandbox",
    "--disable-gpu",
    "--disable-quic",
    "--no-first-run",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--force-color-profile=srgb",
)


def chromium() -> str:
    """Debian's Chromium. Without one the tests are skipped on a laptop, but fail in CI, where nobody would notice."""
    found = shutil.which("chromium") or shutil.which("chromium-browser")
    if found is None:
        sentence = "the browser tests need Chromium: apt-get install chromium"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return found
