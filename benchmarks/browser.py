"""RouterAlignmentLab in a real JupyterLab and Chromium: the delay of a slider, and the cost of drawing."""

from __future__ import annotations

import importlib.util
import json
import os
import shutil
import subprocess
import sys
import tempfile
from pathlib import Path
from typing import Any

from benchmarks.measure import Result

NAMES = (
    ("browser_first_frame", "ms"),
    ("browser_frames_per_second", "1/s"),
    ("browser_frames_at_default_speed", "1/s"),
    ("browser_drawing_cost", "%"),
    ("browser_opening", "s"),
    ("browser_first_picture", "s"),
    ("browser_first_picture_after_reading", "s"),
)


def run(tiny: bool = False) -> list[Result]:
    figures = in_browser("browser_session.py", tiny)
    if isinstance(figures, str):
        return [Result(name, None, unit, note=figures) for name, unit in NAMES]
    first, rate, paced, cost, opening, picture, read = (figures[name] for name, _ in NAMES)
    return [
        Result("browser_first_frame", first, "ms", note="median from key press to the first new frame"),
        Result("browser_frames_per_second", rate, "1/s", note="the default run, as fast as it trains"),
        Result("browser_frames_at_default_speed", paced, "1/s", note="easy to follow: 15 records a second"),
        Result("browser_drawing_cost", cost, "%", 25.0, note="more CPU time of the kernel than without frames"),
        Result("browser_opening", opening, "s", note="notebook 00 in JupyterLab, until its new kernel is idle"),
        Result("browser_first_picture", picture, "s", note="from Run All in notebook 00 to its first Lab"),
        Result("browser_first_picture_after_reading", read, "s", note="the same, 6 seconds after it opens"),
    ]


def in_browser(session: str, tiny: bool) -> dict[str, Any] | str:
    """Runs a session under pytest, which brings the server and the browser of the browser tests.

    Args:
      session: a file of this folder.
      tiny: whether it is to do everything once, for figures that mean nothing.

    Returns:
      What the session has written as JSON into the file that BROWSER_FIGURES names, or why there is nothing.
    """
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        return "Chromium is not installed"
    if importlib.util.find_spec("playwright") is None:
        return "Playwright is not installed"
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "browser.json"
        plugins = ("-q", "-p", "tests.conftest", "-p", "tests.browser.conftest")
        command = [sys.executable, "-m", "pytest", *plugins, "--timeout", "1800", f"benchmarks/{session}"]
        environment = {**os.environ, "BROWSER_FIGURES": str(found), "BROWSER_TINY": "1" if tiny else ""}
        ended = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
        if ended.returncode or not found.exists():
            print(ended.stdout, file=sys.stderr)
            return f"the session in the browser failed: {ended.stdout.strip().splitlines()[-1]}"
        figures: dict[str, Any] = json.loads(found.read_text())
        return figures
