"""Helpers for the Markdown that the tools write."""

from __future__ import annotations

from collections.abc import Iterable, Sequence

WIDE = "---\nhtml_theme.sidebar_secondary.remove: true\n---\n"
"""The head of a page whose tables need the width of the table of contents."""


def escaped(text: str) -> str:
    """Escapes everything that Markdown would interpret."""
    return "".join(f"\\{letter}" if letter in "\\*_$<>[]{}|`#~" else letter for letter in " ".join(text.split()))


def table(heads: Sequence[str], rows: Iterable[Sequence[str]]) -> str:
    """A table of plain text."""
    lines = [heads, ["---"] * len(heads), *([escaped(text) for text in row] for row in rows)]
    return "\n".join(f"| {' | '.join(line)} |" for line in lines)
