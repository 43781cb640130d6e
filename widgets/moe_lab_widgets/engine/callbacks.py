"""Callbacks of widgets: on which thread they come, errors are reported, and moves by the Lab itself are ignored.

Three threads use the widgets of a Lab: cells run in the main one, the run has its own (runner.py), and JupyterLab sends
what its user does to a *subshell*, one more thread of the kernel, which need not wait for the cells.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import partial, wraps
from typing import Any, ParamSpec, TypeVar

import ipywidgets as w

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

widgets_lock = threading.RLock()
"""Held while a message of a page is taken, and while a Lab moves what a page moves too: traitlets are not made for two
threads on one widget, and a knob, the knobs that follow it and the run belong together. Never take it with
`drawing_lock` held: a callback that holds this one waits for that one."""


def alone(method: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Returns the method with `widgets_lock` held while it runs."""

    @wraps(method)
    def held(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with widgets_lock:
            return method(*arguments, **named)

    return held


def heard_at_once(widget: w.Widget) -> None:
    """Receives the messages of pages to a widget, and to all in it, while cells run, where the page has a subshell.

    A page names the shell that shall take a message. ipykernel 7.4 takes the shell from which the widget was last
    written to instead: for one that a cell has made the main shell, where messages wait until all cells have run. Here
    the page's choice stands. Other packages' widgets keep ipykernel's rule: their callbacks may rely on it.
    """
    comm: Any = widget.comm
    if hasattr(comm, "_reply_subshell_for"):
        comm._reply_subshell_for = lambda data, chosen: chosen
    comm.handle_msg = partial(_take, widget, comm)
    for child in getattr(widget, "children", ()):
        heard_at_once(child)


def _take(widget: Any, comm: Any, message: dict[str, Any]) -> None:
    """Takes a message of a page.

    In the main thread IPython's events go with it. Elsewhere they must not: at "post_execute" matplotlib's inline
    backend shows and closes all figures, those too that a cell is still drawing.
    """
    with widgets_lock:
        if threading.current_thread() is threading.main_thread():
            type(comm).handle_msg(comm, message)
        else:
            widget._handle_msg(message)


class OwnMoves(threading.local):
    """Marks, per thread, that the Lab itself moves its widgets, so that callbacks do not treat it as user input."""

    active = False

    @contextmanager
    def __call__(self) -> Iterator[None]:
        with widgets_lock:
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
            with widgets_lock:  # a cell may move a widget too
                callback(*arguments)
        except Exception as error:
            failed(error)

    return safe


def message(error: Exception) -> str:
    """Returns the sentence that a Lab shows for an error: the error's own where it is meant for readers."""
    if isinstance(error, (ValueError, FileNotFoundError, RuntimeError)) and str(error):
        return str(error)
    return f"This run stopped: {type(error).__name__}: {error}"
