"""Whether a Lab may have a thread of its own. All that differs without one asks here, once, as the Lab is made."""

from __future__ import annotations

import os
import sys
import threading


def headless() -> bool:
    """Whether the environment asks for runs inside the cell, which leave a picture alone (MOE_LAB_HEADLESS)."""
    return os.environ.get("MOE_LAB_HEADLESS", "") not in ("", "0")


def on_colab() -> bool:
    """Whether Colab runs the kernel, where messages of a thread reach the page only while a cell runs."""
    return "google.colab" in sys.modules


def available() -> bool:
    """Whether a thread can be started, and its messages reach the page.

    A thread is tried, because none can be started in a browser's Python or where a machine's limit is reached.
    """
    if headless() or on_colab():
        return False
    tried = threading.Thread(target=lambda: None, name="moe-lab try", daemon=True)
    try:
        tried.start()
    except RuntimeError:
        return False
    tried.join()
    return True
