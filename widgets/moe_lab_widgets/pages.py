"""Pages that train in a browser: each is one HTML file that needs nothing else, and asks the network for nothing."""

from __future__ import annotations

from pathlib import Path

from moe_lab.registry import PAGES
from moe_lab_widgets.engine.files import with_suffix, write_whole
from moe_lab_widgets.live.page import page as page


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
