"""The page's side of the pictures, without a build step: an ES module, and a script for recorded runs."""

from __future__ import annotations

import re
from functools import cache
from pathlib import Path

from moe_lab_widgets.playground.modules import Modules

_FOLDER = Path(__file__).parent / "page"
_TYPED, _SKETCH = "../../playground/typed.js", "../../playground/sketch.js"
"""How typed numbers are read, and what is drawn on a picture, in the playground's pages too."""


def _text(*names: str) -> str:
    return "\n".join((_FOLDER / name).read_text(encoding="utf-8") for name in names)


@cache
def module_source() -> str:
    """Returns the module that shows a live Lab."""
    return _text(_TYPED, _SKETCH, "replay.js", "player.js", "around.js", "screen.js")


@cache
def tended_source() -> str:
    """Returns the module that looks after a box of controls without a picture."""
    return _text(_TYPED, "around.js", "tended.js")


@cache
def recorded_source() -> str:
    """Returns the script that shows recorded runs without a kernel.

    It is no module, which a page opened from a disk may not fetch.
    """
    inside = re.sub(r"^export ", "", _text("replay.js", "player.js", "recorded.js"), flags=re.MULTILINE)
    question = f"const Question = (() => {{\n{Modules({}).bundled('question')}return Question;\n}})();\n"
    return f'(() => {{\n"use strict";\n{question}{inside}}})();\n'


@cache
def recorded_style() -> str:
    """Returns the style of what `recorded_source` shows."""
    return _text("recorded.css")
