"""Writes a page of the playground, which trains in the browser, and opens it. It needs no kernel and no network."""

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


def open_page(phases: bool = False, out: Path | None = None) -> str:
    """Writes a page, whole or not at all, and opens it in a browser unless a path is given.

    Args:
      phases: whether it is the map of l and N, in place of router alignment.
      out: the file to write, or a folder; None for the present folder, which every browser may read.

    Returns:
      What to tell the user.

    Raises:
      RuntimeError: the widgets are not installed, or the file cannot be written.
    """
    if absent := [name for name in NEEDED if importlib.util.find_spec(name) is None]:
        raise OperationError(f"the playground needs {' and '.join(absent)}: install with  {how_to_install('lab')}")
    bundle = importlib.import_module("moe_lab_widgets.playground.bundle")
    lab = list(PAGES)[1 if phases else 0]
    path: Path = bundle.write(lab, Path() if out is None else out)
    opened = out is None and webbrowser.open(path.resolve().as_uri())
    where = "is open in your browser" if opened else "opens in any browser"
    return f"{path.resolve()} {where}, and needs nothing else."
