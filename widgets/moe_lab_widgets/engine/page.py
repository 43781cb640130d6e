"""What a Lab brings to the page beside widgets: a stylesheet, names for screen readers, and keys that stay in it."""

from __future__ import annotations

from pathlib import Path

import anywidget
import ipywidgets
import traitlets

_HERE = Path(__file__).parent
_STYLE = (_HERE / "lab.css").read_text(encoding="utf-8")


class PageHelper(anywidget.AnyWidget):  # type: ignore[misc]
    """Runs lab.js in the box that holds it. It shows nothing."""

    _esm = (_HERE / "lab.js").read_text(encoding="utf-8")
    title = traitlets.Unicode().tag(sync=True)


def helpers(title: str) -> list[ipywidgets.DOMWidget]:
    """Returns the invisible widgets that a Lab's box must hold."""
    hidden = {"display": "none"}
    return [ipywidgets.HTML(f"<style>{_STYLE}</style>", layout=hidden), PageHelper(title=title, layout=hidden)]
