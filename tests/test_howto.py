"""The code of the how-to pages runs as it stands there, and prints what stands below it."""

from __future__ import annotations

import contextlib
import io
import re
import sys
import types
from pathlib import Path

import pytest

from tools.reference import reference_pages

ROOT = Path(__file__).resolve().parent.parent
PAGES = sorted((ROOT / "docs" / "howto").glob("*.md"))
MADE = {"gallery.md", "../claims.md", *(f"../{name}" for name in reference_pages(ROOT))}
BLOCK = re.compile(r"^```(python|text)\n(.*?)^```$", re.MULTILINE | re.DOTALL)


@pytest.mark.parametrize("page", PAGES, ids=lambda page: page.stem)
def test_the_code_of_a_page_prints_what_stands_below_it(page, monkeypatch, tmp_path):
    module = types.ModuleType(f"howto_{page.stem}")
    monkeypatch.setitem(sys.modules, module.__name__, module)
    monkeypatch.chdir(tmp_path)
    printed, ran = "", 0
    for kind, text in BLOCK.findall(page.read_text(encoding="utf-8")):
        if kind == "text":
            assert printed.strip() == text.strip()
            continue
        written = io.StringIO()
        with contextlib.redirect_stdout(written):
            exec(compile(text, f"<{page.name}>", "exec"), module.__dict__)
        printed, ran = written.getvalue(), ran + 1
    assert ran >= 2 or page.stem in ("cluster", "gallery")


def test_links_between_pages_lead_somewhere():
    for page in PAGES:
        for place in re.findall(r"\]\((?!https?:)([^)#]+)", page.read_text(encoding="utf-8")):
            inside = place.startswith("../")
            known = ROOT / "notebooks" / place[3:] if inside else page.parent / place
            assert known.exists() or place in MADE, (page.name, place)
