"""Turns docstrings, which are plain text with `code`, into what Sphinx's autodoc reads without misunderstanding.

Functions and classes end with a link to the notebook that explains them.
"""

import re
from typing import Any

from moe_lab.core.signatures import notebook_sentence
from moe_lab.registry import notebook_of

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
        if place % 2:
            parts[place] = f"``{part}``" + ("\\ " if re.match(r"\w", parts[place + 1]) else "")  # as in `Run`s
        else:
            parts[place] = re.sub(r"([\\*|`])|(\w_)(?=\W|$)", _escape, part)
    return "".join(parts)


def _escape(found: re.Match[str]) -> str:
    return f"\\{found[1]}" if found[1] else f"{found[2][:-1]}\\_"


def linked(lines: list[str], name: str) -> list[str]:
    """The lines about what has this full name, ending with a link to its notebook where `help` has a sentence."""
    one = notebook_of(name)
    if one is None:
        return lines
    link = f"See :doc:`notebook {one.number}, {one.title} </{one.stem}>`."
    return [*(line for line in lines if line != notebook_sentence(name)), "", link, ""]


def _process(app: Any, what: str, name: str, obj: Any, options: Any, lines: list[str]) -> None:
    lines[:] = plain(lines)
    if what in ("function", "class"):
        lines[:] = linked(lines, f"{obj.__module__}.{obj.__qualname__}")


def setup(app: Any) -> dict[str, bool]:
    app.connect("autodoc-process-docstring", _process, priority=100)  # before napoleon reads the sections
    return {"parallel_read_safe": True, "parallel_write_safe": True}
