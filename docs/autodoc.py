"""Turns docstrings, which are plain text with `code`, into what Sphinx's autodoc reads without misunderstanding."""

import re
from typing import Any

_CODE = re.compile(r"`([^`]+)`")
_SECTIONS = ("Args", "Attributes", "Parameters", "Settings", "Returns", "Yields", "Raises", "References")


def plain(lines: list[str]) -> list[str]:
    """The lines with code as literals, and nothing else that has a meaning in reStructuredText."""
    made, example = [], False
    for line in lines:
        example = line.lstrip().startswith(">>>") or (example and bool(line.strip()))
        made.append(line if example else _escaped(line))
    return made


def _escaped(line: str) -> str:
    """A line of text: code stays code, every other mark is a letter."""
    parts = _CODE.split(line)
    for place, part in enumerate(parts):
        parts[place] = f"``{part}``" if place % 2 else re.sub(r"([\\*|`])|(\w_)(?=\W|$)", _escape, part)
    return re.sub(r"``(?=\w)", r"``\\ ", re.sub(r"(?<=\w)``", "``", "".join(parts))) if len(parts) > 1 else parts[0]


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2][:-1]}\\_"


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain(lines)


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process, priority=100)  # before napoleon reads the sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
