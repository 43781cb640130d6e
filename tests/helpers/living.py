"""What the kernel holds."""

from __future__ import annotations

import ipywidgets
from ipywidgets.widgets import widget


def living_widgets() -> set[str]:
    """The identifiers of all widgets that are not closed."""
    return set(widget._instances if hasattr(widget, "_instances") else ipywidgets.Widget.widgets)  # ipywidgets 8, or 7
