"""Imports what every Lab needs while a student still reads: an extension of the kernels that `moe-lab lab` starts.

The imports take two seconds, most of them torch's. The kernel does them on a thread as soon as it runs; a cell that is
run earlier waits for their end, so that no module is imported by two threads at once.
"""

from __future__ import annotations

import importlib
import threading
from typing import Any

NEEDED = ("moe_lab_widgets.engine.lab", "xarray")
"""These two import torch, matplotlib, ipywidgets and pandas."""


def load_ipython_extension(shell: Any) -> None:
    """Called by IPython when a kernel starts with `--ext=moe_lab.core.preload`."""
    loading = threading.Thread(target=_load, name="moe-lab preload", daemon=True)
    loading.start()
    shell.events.register("pre_run_cell", lambda _: loading.join())


def _load() -> None:
    try:
        for name in NEEDED:
            importlib.import_module(name)
    except RuntimeError as error:
        if "shutdown" not in str(error):  # of a kernel that is closed meanwhile, where threads cannot begin any more
            raise
