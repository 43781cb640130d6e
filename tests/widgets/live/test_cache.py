"""What was recorded is kept for as long as the code is the same, and made where it cannot be kept."""

from __future__ import annotations

from pathlib import Path

import pytest

from moe_lab_widgets.live import cache


@pytest.fixture
def folder(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    monkeypatch.setenv("MOE_LAB_CACHE", str(tmp_path))
    return tmp_path / "pages"


def test_is_made_once_for_one_code(folder: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    made = []

    def make() -> str:
        made.append("é")
        return "é"

    assert [cache.cached("Some", make) for _ in range(2)] == ["é", "é"] and len(made) == 1
    first = set(folder.glob("*.json"))
    monkeypatch.setattr(cache, "_sources", lambda: "other")
    assert cache.cached("Some", make) == "é" and len(made) == 2
    assert len(first) == 1 and set(folder.glob("*.json")) == {folder / "Some-other.json"}


def test_the_hash_is_of_the_code(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "some.py").write_text("a = 1")
    monkeypatch.setattr(cache, "HOMES", (tmp_path,))
    hashes = []
    for text in ("a = 1", "a = 2", "a = 1"):
        (tmp_path / "some.py").write_text(text)
        hashes.append(cache._sources.__wrapped__())
    assert hashes[0] == hashes[2] != hashes[1]


def test_is_made_where_nothing_can_be_kept(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_CACHE", "/proc/nowhere")
    assert cache.cached("Some", lambda: "made") == "made"
