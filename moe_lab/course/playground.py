"""Writes a page that trains in the browser, and opens it. It needs no kernel and no network."""

from __future__ import annotations

import importlib
import importlib.util
import webbrowser
from pathlib import Path

from moe_lab.core.errors import OperationError
from moe_lab.core.installing import how_to_install
from moe_lab.registry import PAGES

NEEDED = ("ipywidgets", "anywidget")
"""What the Labs need, whose declarations the page is made of."""


def open_page(lab: str | None = None, out: Path | None = None) -> str:
    """Writes a page, whole or not at all, and opens it in a browser unless a path is given.

    Args:
      lab: the name of a Lab, also without "Lab" and in small letters; router alignment by default.
      out: the file to write, or a folder; None for the present folder, which every browser may read.

    Returns:
      What to tell the user.

    Raises:
      ValueError: no Lab with a page has this name.
      RuntimeError: the widgets are not installed, or the file cannot be written.
    """
    if absent := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise OperationError(f"the playground needs {' and '.join(absent)}: install with  {how_to_install('lab')}")
    known = {_plain(name): name for name in PAGES}
    name = next(iter(PAGES)) if lab is None else known.get(_plain(lab), lab)
    path: Path = importlib.import_module("moe_lab_widgets.pages").write(name, Path() if out is None else out)
    opened = out is None and webbrowser.open(path.resolve().as_uri())
    where = "is open in your browser" if opened else "opens in any browser"
    return f"{path.resolve()} {where}, and needs nothing else."


def _plain(name: str) -> str:
    return name.replace("-", "").replace("_", "").lower().removesuffix("lab")
