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

from benchmarks.measure import Result

NAMES = (("browser_first_frame", "ms"), ("browser_frames_per_second", "1/s"), ("browser_drawing_cost", "%"))


def run() -> list[Result]:
    """Runs `browser_session.py` under pytest, which brings the server and the browser of the browser tests."""
    if shutil.which("chromium") is None and shutil.which("chromium-browser") is None:
        return _nothing("Chromium is not installed")
    if importlib.util.find_spec("playwright") is None:
        return _nothing("Playwright is not installed")
    root = Path(__file__).parents[1]
    with tempfile.TemporaryDirectory() as folder:
        found = Path(folder) / "browser.json"
        command = [
            sys.executable,
            "-m",
            "pytest",
            "-q",
            "-p",
            "tests.browser.conftest",
            "benchmarks/browser_session.py",
        ]
        environment = {**os.environ, "BROWSER_FIGURES": str(found)}
        session = subprocess.run(command, cwd=root, env=environment, stdout=subprocess.PIPE, text=True)
        if session.returncode or not found.exists():
            print(session.stdout, file=sys.stderr)
            return _nothing(f"the session in the browser failed: {session.stdout.strip().splitlines()[-1]}")
        figures = json.loads(found.read_text())
    first, rate, cost = (figures[name] for name, _ in NAMES)
    return [
        Result("browser_first_frame", first, "ms", 120.0, note="median from key press to the first new frame"),
        Result("browser_frames_per_second", rate, "1/s", 10.0, "at least", note="while training"),
        Result("browser_drawing_cost", cost, "%", 25.0, note="more CPU time of the kernel than without frames"),
    ]


def _nothing(why: str) -> list[Result]:
    return [Result(name, None, unit, note=why) for name, unit in NAMES]
