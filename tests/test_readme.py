"""The README's example runs and prints what the README says, and so do the examples of the papers' pages."""

from __future__ import annotations

import importlib
import re
from pathlib import Path

import pytest

from moe_lab.registry import CLAIMED, PAPERS
from moe_lab_widgets import RouterAlignmentLab
from tools import animation

ROOT = Path(__file__).resolve().parent.parent
README = (ROOT / "README.md").read_text(encoding="utf-8")
FOLDER = ROOT / "docs" / "papers"
UNCLAIMED = (FOLDER / "without_a_claim.md").read_text(encoding="utf-8")
PAGES = {
    path.stem: path.read_text(encoding="utf-8") for path in FOLDER.glob("[a-z]*.md") if path.stem != "without_a_claim"
}
NUMBER = re.compile(r"\d+\.\d+")
ROOM = re.compile(r"functions\sare\sin\s`(?:papers/)?(moe_lab\w*/[\w/]+)/`")


@pytest.fixture(scope="module")
def example() -> tuple[str, str]:
    """The example's code and its printed lines."""
    found = re.search(r"```python\n(.*?)```\n+```\n(.*?)```", README, re.S)
    assert found
    return found[1], found[2]


def test_the_moving_picture_says_what_the_lab_says():
    """In words: float32 rounding differs between machines, so that numbers and the caption's may."""
    lab = RouterAlignmentLab(**animation.SETTINGS)
    try:
        assert lab.wait(120)
        now = animation.frame(lab, len(lab.records) - 1).words[:-1]
        routers = lab.record["alignment"].shape[1]
    finally:
        lab.close()
    *shown, caption = animation.words_of()
    assert {re.sub(r"\d+", "#", words) for words in now} == {re.sub(r"\d+", "#", words) for words in shown}
    alt = " ".join(re.search(r"!\[(Ten seconds[^\]]*)\]", README)[1].split())
    assert set(re.findall(r"\d+ %", caption)) <= set(re.findall(r"\d+ %", alt))
    assert routers == 4 and "four routers" in alt


def test_example_prints_what_it_says(example, capsys):
    code, said = example
    exec(compile(code, "README.md", "exec"), {})
    printed = capsys.readouterr().out
    assert NUMBER.sub("#", printed) == NUMBER.sub("#", said)
    numbers = [float(text) for text in NUMBER.findall(said)]
    assert len(numbers) == 6
    # float32 rounding differs between machines; a lost percent would be a change.
    assert [float(text) for text in NUMBER.findall(printed)] == pytest.approx(numbers, abs=0.0101)


def test_it_fits_a_screen_and_a_half(example):
    assert len(README.splitlines()) <= 120 and len(example[0].splitlines()) <= 15


def test_named_files_and_commands_exist(root):
    for name in re.findall(r"\]\((?!https?:)([^)#]+)\)", README):
        assert (root / name).exists(), name
    targets = set(re.findall(r"^([a-z]+):", (root / "Makefile").read_text(), re.M))
    assert set(re.findall(r"`make (\w+)", README)) | set(re.findall(r"^make (\w+)$", README, re.M)) <= targets


def test_it_leads_to_a_page_for_each_paper():
    assert set(PAGES) == set(CLAIMED)
    assert [key for key in PAGES if f"(docs/papers/{key}.md)" not in README] == []
    assert [key for key in PAGES if f"({key}.md)" not in (ROOT / "docs/papers/README.md").read_text("utf-8")] == []


@pytest.mark.parametrize("key", PAPERS)
def test_every_function_of_a_page_exists(key):
    """Each table follows the sentence that names its room."""
    _, *parts = ROOM.split(PAGES[key])
    rooms = dict(zip(parts[::2], parts[1::2], strict=True))
    assert next(iter(rooms)).replace("/", ".") == f"moe_lab.{PAPERS[key].room}"
    for room, text in rooms.items():
        named = re.findall(r"`([a-z_]+)\.(\w+)[`(]", text)
        assert named
        assert [f"{room}.{module}.{name}" for module, name in named if not callable(found(room, module, name))] == []


def found(room: str, module: str, name: str) -> object:
    return getattr(importlib.import_module(f"{room.replace('/', '.')}.{module}"), name, None)


@pytest.mark.parametrize("key", PAGES)
def test_a_page_says_what_replicates(key):
    rows = re.findall(r"^\|.*\| (.+?) \|$", PAGES[key], re.M)
    assert [row for row in rows if re.match("Replicate|Does not replicate|Do not replicate", row)]


def test_links_of_the_papers_pages_lead_somewhere():
    for path in FOLDER.glob("*.md"):
        for name in re.findall(r"\]\((?!https?:)([^)#]+)\)", path.read_text(encoding="utf-8")):
            assert (FOLDER / name).exists(), f"{path.name}: {name}"


def test_statements_without_a_claim_are_listed_for_every_paper_with_a_reason():
    sections = dict(re.findall(r"^## \[[^]]+\]\((\w+)\.md\)\n(.*?)(?=^## |\Z)", UNCLAIMED, re.M | re.S))
    assert set(sections) == set(PAPERS)
    reasons = set(re.findall(r"^- \*([a-z ]+)\*:", UNCLAIMED, re.M))
    for key, text in sections.items():
        assert "(without_a_claim.md)" in PAGES[key]
        rows = re.findall(r"^\| (?!in the paper|---)(.+?) \| (.+?) \| (.+?) \|$", text, re.M)
        assert rows and len(rows) == text.count("\n|") - 2
        assert [row for row in rows if re.match(r"\*([a-z ]+)\*", row[2])[1] not in reasons] == []
