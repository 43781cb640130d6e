"""What a Lab leaves in its notebook: the live widgets, and a picture for readers without a kernel.

The picture is an output of its own, hidden while the live Lab is there (see controls.py): if it were an alternative
form of the widgets' own output, updating it would rebuild the sliders while the user moves them. Where hiding does not
work (Colab, VS Code) it is such an alternative form, updated once, as long as no slider has been touched. A headless
notebook holds the picture alone: widgets of a kernel that has ended cannot be shown.
"""

from __future__ import annotations

import base64
import os
import weakref
from collections.abc import Callable
from typing import Any

from moe_lab_widgets.engine.threads import on_colab

_shown: weakref.WeakValueDictionary[tuple[str, str], NotebookOutput] = weakref.WeakValueDictionary()
"""The output of the Lab that each notebook cell shows, by cell and kind of Lab."""


def in_vs_code() -> bool:
    """Whether VS Code shows the notebook.

    It tells each kernel the notebook's path; the environment variable is missing where VS Code works on another
    machine, in a container or in WSL.
    """
    from IPython import get_ipython

    return "__vsc_ipynb_file__" in getattr(get_ipython(), "user_ns", {}) or "VSCODE_PID" in os.environ


class NotebookOutput:
    """The outputs of one Lab.

    Args:
      kind, title: of the Lab.
      headless: whether only the picture is shown.
      model_id: of the widget that holds all others.
      picture: returns the PNG and the caption of the record on show.
      close: closes the Lab.
    """

    def __init__(
        self,
        *,
        kind: str,
        title: str,
        headless: bool,
        model_id: str,
        picture: Callable[[], tuple[bytes, str]],
        close: Callable[[], None],
    ) -> None:
        self._kind, self._title, self._headless, self._model_id = kind, title, headless, model_id
        self._picture, self._close = picture, close
        self._handle: Any = None
        self._execution: int | None = None
        self.together = on_colab() or in_vs_code()
        """Whether widgets and picture share one output."""

    def show(self) -> None:
        """Displays the Lab in the cell that is being executed."""
        from IPython.display import display

        self._close_earlier()
        if not self._headless and not self.together:
            display(self._widgets(), raw=True)
        self._handle = display(self._kept(), raw=True, display_id=True)

    def refresh(self) -> None:
        """Updates the picture that the notebook keeps."""
        if self._handle is not None:
            self._handle.update(self._kept(), raw=True)

    def _kept(self) -> dict[str, Any]:
        """The output with the picture."""
        png, words = self._picture()
        still = {"image/png": base64.b64encode(png).decode(), "text/plain": words}
        return {**self._widgets(), **still} if self.together and not self._headless else still

    def _widgets(self) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self._model_id}
        return {"application/vnd.jupyter.widget-view+json": view, "text/plain": self._title}

    def _close_earlier(self) -> None:
        """Closes the Lab that an earlier execution of this cell showed, with its thread and records."""
        from IPython import get_ipython

        shell: Any = get_ipython()
        parent = shell.kernel.get_parent() if hasattr(shell, "kernel") else {}
        cell = (parent.get("metadata") or {}).get("cellId")
        if cell is None:
            return
        self._execution = shell.execution_count
        key = (cell, self._kind)
        before = _shown.get(key)
        if before is not None and before is not self and before._execution != self._execution:
            before._close()
        _shown[key] = self
