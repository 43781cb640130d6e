"""The one style in which every picture is made and drawn, whatever style its user has set in matplotlib.

matplotlib keeps its settings (`rcParams`) once for all threads. Its `rc_context` on the thread of a Lab would change
the figures that a cell draws meanwhile, and could give back settings that are no longer the user's. Within
`fixed_style()` matplotlib's defaults hold for the present thread alone; what is set there, by `rc_context` too, ends
with it.
"""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from functools import wraps
from typing import Any, ParamSpec, TypeVar

import matplotlib
from matplotlib import RcParams

Arguments = ParamSpec("Arguments")
Result = TypeVar("Result")

_user: RcParams = matplotlib.rcParams
"""The settings of all threads: modules of matplotlib hold this very object."""


class _Own(threading.local):
    """The settings of this thread; None where the user's hold."""

    style: dict[str, Any] | None = None


_own = _Own()


class _ThreadedSettings(RcParams):
    """matplotlib's settings, which look different to a thread within `fixed_style()`."""

    def _here(self, key: Any) -> dict[str, Any] | None:
        """Returns where this thread has a setting of its own; None if it has none."""
        return _own.style if self is _user and _own.style is not None and key in _own.style else None

    def _get(self, key: Any) -> Any:
        here = self._here(key)
        return super()._get(key) if here is None else here[key]

    def _set(self, key: Any, val: Any) -> None:
        here = self._here(key)
        if here is None:
            super()._set(key, val)
        else:
            here[key] = val

    def _update_raw(self, other_params: Any) -> None:
        if self is not _user or _own.style is None:
            super()._update_raw(other_params)
            return
        for key, value in dict.items(other_params):  # what a `rc_context` within the style gives back
            self._set(key, value)


_DEFAULTS: dict[str, Any] = {
    str(key): value for key, value in dict.items(matplotlib.rcParamsDefault) if not key.startswith("backend")
}
"""matplotlib's own settings, without the backend: where figures appear is no style."""


@contextmanager
def fixed_style() -> Iterator[None]:
    """Has matplotlib's defaults in place of the user's settings, on this thread and within the context."""
    if type(_user) is RcParams:
        _user.__class__ = _ThreadedSettings  # rcParams cannot be replaced: all of matplotlib has imported it
    before = _own.style
    if before is None:
        _own.style = dict(_DEFAULTS)
    try:
        yield
    finally:
        _own.style = before


def in_fixed_style(draw: Callable[Arguments, Result]) -> Callable[Arguments, Result]:
    """Returns a function that draws within `fixed_style()`."""

    @wraps(draw)
    def drawn(*arguments: Arguments.args, **named: Arguments.kwargs) -> Result:
        with fixed_style():
            return draw(*arguments, **named)

    return drawn
