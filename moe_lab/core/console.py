"""The console of every command: text is printed as it is, so that a user's folder may be called `out[v2]`."""

from __future__ import annotations

from typing import Any

from rich.console import Console
from rich.progress import TextColumn
from rich.status import Status
from rich.text import Text


class PlainConsole(Console):
    """Prints text, cells and titles of tables, and what it says of work in progress without reading markup in them.

    Styles are given as `rich.text.Text`.
    """

    def __init__(self, **options: Any) -> None:
        super().__init__(**{"markup": False, "emoji": False, "highlight": False, **options})

    def status(self, status: Any, **options: Any) -> Status:
        """Shows a spinner beside a text; rich reads markup in it whatever the console's settings."""
        return super().status(Text(status) if isinstance(status, str) else status, **options)


class PlainColumn(TextColumn):
    """A column of a progress bar, whose text is not read as markup either."""

    def __init__(self, text_format: str, **options: Any) -> None:
        super().__init__(text_format, **{"markup": False, **options})
