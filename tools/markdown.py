"""Markdown that a tool writes."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
"""The head of a page whose tables need the room of the list of contents."""


def escaped(text: str) -> str:
    """The text with nothing in it that Markdown would read as a sign."""
    return "".join(f"\\{letter}" if letter in "\\*_$<>[]{}|`#~" else letter for letter in " ".join(text.split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    lines = [heads, ["---"] * len(heads), *([escaped(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
