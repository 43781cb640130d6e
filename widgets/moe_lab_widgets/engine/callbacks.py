"""Callbacks that cannot fail unseen."""

from __future__ import annotations

import functools
import threading
from collections.abc import Callable
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moe_lab_widgets.engine.wiring import Wiring


def safely(callback: Callable[..., None]) -> Callable[..., None]:
    """A callback whose errors are shown and kept, since whoever calls it would swallow them."""

    @functools.wraps(callback)
    def safe(lab: Wiring, *arguments: Any) -> None:
        if lab._own.active:
            return
        try:
            callback(lab, *arguments)
        except Exception as error:
            lab._runner.error = error
            lab.failed(error)
            if lab.headless:
                raise

    return safe


class Own(threading.local):
    """True on a thread while the Lab itself moves its widgets, so that it does not take that for the student's hand."""

    active = False
