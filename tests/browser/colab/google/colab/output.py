"""What anywidget asks of Colab: to load widgets of third parties, which Jupyter does anyway."""

from __future__ import annotations

from types import SimpleNamespace

enabled = False
_widgets = SimpleNamespace(_installed_url=None)


def enable_custom_widget_manager() -> None:
    global enabled
    enabled = True
