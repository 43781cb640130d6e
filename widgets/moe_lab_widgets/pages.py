"""Pages that train in a browser: each is one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

from pathlib import Path

from moe_lab.core.errors import InputError
from moe_lab.registry import PAGES
from moe_lab_widgets.engine.files import with_suffix, write_whole
from moe_lab_widgets.live.page import page as live_page


def page(lab: str, site: str | None = None) -> str:
    """Returns the page of a Lab as one HTML file. Recording a Lab can take a minute, once in a process.

    Args:
      lab: its name.
      site: where the course's pages are, to which it links; the repository's own pages when None.

    Raises:
      ValueError: the Lab has no page.
      RuntimeError: the page's files cannot be put together: see the message.
    """
    if lab not in PAGES:
        raise InputError(f"the Labs with a page are {', '.join(PAGES)}: got {lab!r}")
    return live_page(lab, site)


def write(lab: str, path: Path | str, site: str | None = None) -> Path:
    """Writes a page, whole or not at all; into a folder under its name on the site. Returns the file's path.

    Raises:
      ValueError: the Lab has no page.
      FileNotFoundError, RuntimeError: the file cannot be written.
    """
    text = page(lab, site)
    path = Path(path)
    path = path / PAGES[lab] if path.is_dir() else with_suffix(path, ".html", ".htm")
    return write_whole(path, text.encode())
