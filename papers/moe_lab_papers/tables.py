"""Tables of claims: as wide as the terminal, and elsewhere, as in a file or a pipe, one claim a line."""

from __future__ import annotations

import re

from rich.box import SIMPLE_HEAD
from rich.table import Table

from moe_lab.core.console import PlainConsole

_ANY_WIDTH = 10_000


def console() -> PlainConsole:
    """Returns a console that breaks lines in a terminal alone."""
    made = PlainConsole()
    return made if made.is_terminal else PlainConsole(width=_ANY_WIDTH)


def table(where: PlainConsole, headings: tuple[str, ...], title: str = "") -> Table:
    """Returns an empty table; its first column is for ids."""
    live = where.is_terminal
    made = Table(
        title=title or None, title_justify="left", box=SIMPLE_HEAD if live else None, pad_edge=live, header_style=""
    )
    made.add_column(headings[0], style="bold", min_width=width_of_ids(where.width) if live else None)
    for heading in headings[1:]:
        made.add_column(heading, overflow="fold")
    return made


def named(where: PlainConsole, identity: str) -> str:
    """Returns an id as its column shows it."""
    return folded(identity, width_of_ids(where.width)) if where.is_terminal else identity


def width_of_ids(width: int) -> int:
    """Returns the width that a terminal leaves its column of ids."""
    return max(18, width // 4)


def folded(name: str, width: int) -> str:
    """Breaks an id into lines of at most `width`, after a slash or hyphen where it has one in time."""
    lines = [""]
    for part in re.findall(r"[^/-]*[/-]?", name):
        if len(lines[-1] + part) > width and lines[-1]:
            lines.append("")
        lines[-1] += part
    return "\n".join(lines)
