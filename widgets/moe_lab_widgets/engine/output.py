"""What a Lab leaves in its notebook: the live widgets, and a picture for readers without a kernel.

The picture is an output of its own, which the live Lab hides (see controls.py): were it a second form of the widgets'
own output, then bringing it up to date would build the sliders anew, under the student's hand. Where hiding does not
work (Colab, VS Code) it is that second form, brought up to date once, while nobody has touched a slider. A headless
notebook holds the picture alone: widgets of a kernel that has ended cannot be shown.
"""

from __future__ import annotations

import base64
import os
import sys
import weakref
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moe_lab_widgets.engine.wiring import Wiring

_shown: weakref.WeakValueDictionary[tuple[str, str], Wiring] = weakref.WeakValueDictionary()
"""The Lab that each notebook cell shows, by cell and kind of Lab."""


class NotebookOutput:
    """The outputs of one Lab."""

    def __init__(self, lab: Wiring) -> None:
        self._lab = lab
        self._handle: Any = None
        self._run: int | None = None
        self.together = "google.colab" in sys.modules or "VSCODE_PID" in os.environ
        """Whether widgets and picture share one output."""

    def show(self) -> None:
        """Shows the Lab in the cell that runs."""
        from IPython.display import display

        self._close_earlier()
        if self._lab.headless:
            self._handle = display(self._still(), raw=True, display_id=True)
        elif self.together:
            self._handle = display({**self._view(), **self._still()}, raw=True, display_id=True)
        else:
            display(self._view(), raw=True)
            self._handle = display(self._still(), raw=True, display_id=True)

    def refresh(self) -> None:
        """Brings the picture that the notebook keeps up to date."""
        if self._handle is not None:
            bundle = {**self._view(), **self._still()} if self.together else self._still()
            self._handle.update(bundle, raw=True)

    def _view(self) -> dict[str, Any]:
        view = {"version_major": 2, "version_minor": 0, "model_id": self._lab.controls.box.model_id}
        return {"application/vnd.jupyter.widget-view+json": view, "text/plain": self._lab.title}

    def _still(self) -> dict[str, Any]:
        words = "" if self._lab.record is None else self._lab.caption(self._lab.record)
        return {"image/png": base64.b64encode(self._lab.png()).decode(), "text/plain": words}

    def _close_earlier(self) -> None:
        """Running a cell again closes the Lab that it showed before, or its thread and records would stay for ever."""
        from IPython import get_ipython

        shell: Any = get_ipython()
        parent = shell.kernel.get_parent() if hasattr(shell, "kernel") else {}
        cell = (parent.get("metadata") or {}).get("cellId")
        if cell is None:
            return
        self._run = shell.execution_count
        key = (cell, type(self._lab).__name__)
        before = _shown.get(key)
        if before is not None and before.output is not self and before.output._run != self._run:
            before.close()
        _shown[key] = self._lab
