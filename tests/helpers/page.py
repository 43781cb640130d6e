"""What a page says to widgets, as ipykernel passes it on."""

from __future__ import annotations

from typing import Any


def send(widget: Any, **state: Any) -> None:
    """The page has changed values of a widget."""
    data = {"method": "update", "state": state, "buffer_paths": []}
    widget.comm.handle_msg({"content": {"data": data}, "buffers": []})


def tell(widget: Any, **content: Any) -> None:
    """The page says what changes no value."""
    widget.comm.handle_msg({"content": {"data": {"method": "custom", "content": content}}, "buffers": []})
