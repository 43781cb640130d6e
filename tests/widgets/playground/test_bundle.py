"""A page of the playground is one small file that asks the network for nothing; modules that do not fit are named."""

from __future__ import annotations

import gzip
import re
import shutil
import subprocess
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path

import pytest

from moe_lab.registry import PAGES
from moe_lab_widgets import pages
from moe_lab_widgets.live.page import page as live_page
from moe_lab_widgets.playground import bundle
from moe_lab_widgets.playground.modules import Modules

MOST_BYTES = {
    "PatchMapLab": 155_000,
    "RouterAlignmentLab": 145_000,
    "PhaseTransitionLab": 135_000,
    "RoutingChoicesLab": 135_000,
    "GridlockLab": 105_000,
    "BalanceLab": 98_000,
}
"""Of a page that is sent compressed: of those with most recordings, or digits; of others 92,000."""
needs_node = pytest.mark.skipif(shutil.which("node") is None, reason="node is not installed")
page = pytest.mark.parametrize("lab", PAGES)


class Parts(HTMLParser):
    """The tags of a page, and its scripts."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.tags: list[tuple[str, dict[str, str | None]]] = []
        self.scripts: list[str] = []
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        self.tags.append((tag, dict(attrs)))

    def handle_data(self, data: str) -> None:
        if self.tags and self.tags[-1][0] == "script" and data.strip():
            self.scripts.append(data)


@page
def test_a_page_is_small_and_loads_nothing(lab: str) -> None:
    text = pages.page(lab)
    assert len(gzip.compress(text.encode())) <= MOST_BYTES.get(lab, 92_000)
    parts = Parts(text)
    policies = [own["content"] for tag, own in parts.tags if own.get("http-equiv") == "Content-Security-Policy"]
    assert policies == [bundle.POLICY]
    assert policies[0].startswith("default-src 'none'")
    places = [own.get("src") or own.get("href") or "" for tag, own in parts.tags if tag != "a"]
    assert all(not place or place.startswith(("data:", "#")) for place in places), places
    assert len(parts.scripts) == 3
    assert not re.search(r"\bfetch\(|XMLHttpRequest|@import|url\((?!data:)", text)


@page
@needs_node
def test_the_script_can_be_parsed(lab: str, tmp_path: Path) -> None:
    (tmp_path / "page.js").write_text(Parts(pages.page(lab)).scripts[-1], encoding="utf-8")
    done = subprocess.run(["node", "--check", str(tmp_path / "page.js")], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr


@page
def test_links_lead_to_the_course(lab: str) -> None:
    found = bundle.links(lab, "https://example.org/course/")
    assert all(one["address"].startswith("https://example.org/course/") for one in found)
    others = [other for other in PAGES if other != lab]
    assert {one["address"].rpartition("/")[2] for one in found} >= {"course.html", *(PAGES[other] for other in others)}
    assert next(one["address"] for one in bundle.links(lab, ".")) == "./course.html"
    assert '<noscript><a href="./course.html">The course</a>' in pages.page(lab, "."), "without a script, too"


def test_without_a_site_a_page_leads_nowhere(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(bundle, "own_site", lambda: ".")
    assert bundle.links("RouterAlignmentLab") == []


def test_a_page_is_written_whole_under_its_name_or_another(tmp_path: Path) -> None:
    assert pages.write("RouterAlignmentLab", tmp_path) == tmp_path / "playground.html"
    mine = pages.write("PhaseTransitionLab", tmp_path / "mine.html", "https://example.org")
    assert mine.read_text(encoding="utf-8") == live_page("PhaseTransitionLab", "https://example.org")
    assert pages.write("RouterAlignmentLab", tmp_path / "mine") == tmp_path / "mine.html"
    assert {path.name for path in tmp_path.iterdir()} == {"playground.html", "mine.html"}
    with pytest.raises(FileNotFoundError, match="the folder of a file to save must exist"):
        pages.write("RouterAlignmentLab", tmp_path / "no folder" / "page.html")


def test_another_lab_has_no_page() -> None:
    with pytest.raises(ValueError, match=r"the Labs with a page are RouterAlignmentLab, .*: got 'ModelPruningLab'"):
        pages.page("ModelPruningLab")


# ---- how modules become one script ----

A = '/** Why. */\nexport const HALF = 0.5; // of one\n'  # fmt: skip
B = 'import { HALF } from "./a.js";\n\n/**\n * What.\n * @returns {number}\n */\nexport function twice() {\n  // why\n'
B += '  const words = "/* kept */ // kept";\n  return words.length * HALF;\n}\n'
C = 'import {\n  twice,\n} from "./b.js";\nimport { HALF } from "./a.js";\n\n'
C += "export class Engine {\n  four = 4 * HALF;\n}\n"


def test_modules_follow_one_another_without_comments_and_indentation() -> None:
    made = Modules({"a": A, "b": B, "c": C})
    assert made.needed("c") == ["a", "b", "c"]
    assert made.bundled("c") == (
        "const HALF = 0.5; // of one\nfunction twice() {\n"
        'const words = "/* kept */ // kept";\nreturn words.length * HALF;\n}\nclass Engine {\nfour = 4 * HALF;\n}\n'
    )


def wrong() -> Iterator[tuple[dict[str, str], str]]:
    imports = 'import { HALF } from "./a.js";\n'
    yield {"a": A, "c": f"{imports}const HALF = 1;\n"}, "c.js and a.js of the playground both define HALF"
    yield {"a": 'import { X } from "./c.js";\nexport const HALF = 1;\n', "c": imports}, "c -> a -> c"
    yield {"c": 'import a from "./a.js";\n'}, r"cannot have this line of c\.js: import a from"
    yield {"c": 'export { Engine };\n'}, r"cannot have this line of c\.js: export \{ Engine \};"  # fmt: skip
    yield {"c": "const { a, b } = Math;\n"}, "one name at a time"


@pytest.mark.parametrize(("modules", "sentence"), list(wrong()))
def test_modules_that_do_not_fit_are_named(modules: dict[str, str], sentence: str) -> None:
    with pytest.raises(RuntimeError, match=sentence):
        Modules(modules).bundled("c")


@pytest.mark.parametrize("lab", ["RouterAlignmentLab", "PhaseTransitionLab"])
def test_no_string_ends_the_script(lab: str) -> None:
    *_, script = Parts(live_page(lab, "https://example.org/</script>/</SCRIPT /<!--/< /script")).scripts
    assert r"https://example.org/\x3C/script>/\x3C/SCRIPT /\x3C!--/< /script" in script
    assert not re.search(r"</script|<!--", script, re.IGNORECASE)
