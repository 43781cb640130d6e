"""The page's side of the pictures: one ES module, without a build step."""

from __future__ import annotations

from functools import cache
from pathlib import Path

_FOLDER = Path(__file__).parent / "page"


@cache
def player_source() -> str:
    """The part that shows a recorded run without a kernel."""
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in ("replay.js", "player.js"))


@cache
def module_source() -> str:
    """The whole module."""
    return player_source() + "\n" + (_FOLDER / "screen.js").read_text(encoding="utf-8")
