"""Callbacks of widgets: errors are reported, and moves by the Lab itself are ignored."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from typing import Any


class OwnMoves(threading.local):
    """Marks, per thread, that the Lab itself moves its widgets, so that callbacks do not treat it as user input."""

    active = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        before, self.active = self.active, True
        try:
            yield
        finally:
            self.active = before


def guarded(
    callback: Callable[..., None], own_moves: OwnMoves, failed: Callable[[Exception], None]
) -> Callable[..., None]:
    """Returns the callback with its errors passed to `failed`, since ipywidgets would swallow them."""

    def safe(*arguments: Any) -> None:
        if own_moves.active:
            return
        try:
            callback(*arguments)
        except Exception as error:
            failed(error)

    return safe


def message(error: Exception) -> str:
    """Returns the sentence that a Lab shows for an error: the error's own where it is meant for readers."""
    if isinstance(error, (ValueError, FileNotFoundError, RuntimeError)) and str(error):
        return str(error)
    return f"This run stopped: {type(error).__name__}: {error}"
