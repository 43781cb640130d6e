"""What `browser.py` measures, run by pytest with the fixtures of tests/browser."""

from __future__ import annotations

import json
import os
import shutil
import statistics
import time
from itertools import pairwise
from pathlib import Path

import pytest

from tests.browser.driver import NotebookPage, write_notebook

LAB = """
from moe_lab_widgets import RouterAlignmentLab
lab = RouterAlignmentLab(steps=1000)
lab
"""
# Training with frames and without, in turns; CPU time of the whole kernel, so that messages count too.
BEGIN = """
import time
lab._runner.set_pace(0.0)
lab._runner.pace.frames = {frames}
begin = time.process_time()
lab.set(steps=200, noise={noise})
"""


# A picture as PNG, or as frames: a kernel that runs later cells hears only afterwards that the page can replay frames.
PICTURE = """() => document.querySelector(".moe-lab-screen[data-shown]")
  || [...document.querySelectorAll(".moe-lab-picture img")].some((image) => image.naturalWidth > 1)"""
PAUSE = 500  # milliseconds between two frames that are not of one run
TINY = bool(os.environ.get("BROWSER_TINY"))
WELCOME = Path(__file__).parents[1] / "notebooks" / "00_start_here.ipynb"


@pytest.mark.parametrize("reading", [0, 6])
def test_first_picture(notebook: NotebookPage, reading: int) -> None:
    """Notebook 00 with a kernel of its own, until its first Lab's first picture: at once, or after so many seconds."""
    name = f"{reading}_{WELCOME.name}"
    shutil.copy(WELCOME, notebook.folder / name)
    begin = time.monotonic()
    notebook.open(name)
    opened = time.monotonic()
    notebook.page.wait_for_timeout(1000 * reading)
    started = time.monotonic()
    notebook.start_all()
    notebook.page.wait_for_function(PICTURE)
    picture = time.monotonic() - started
    if reading:
        _add(browser_first_picture_after_reading=picture)
    else:
        _add(browser_opening=opened - begin, browser_first_picture=picture)


def test_session(notebook: NotebookPage) -> None:
    write_notebook(notebook.folder / "speed.ipynb", LAB, "")
    notebook.open("speed.ipynb")
    notebook.run_all()
    notebook.image.wait_for()
    notebook.page.wait_for_timeout(1500)
    waits = [
        notebook.time_to_frame("noise", "ArrowRight" if turn % 2 else "ArrowLeft") for turn in range(3 if TINY else 21)
    ]

    notebook.press("noise", "ArrowRight")
    notebook.page.wait_for_timeout(500)
    paced = _rate(notebook, 3000)
    notebook.run_code("lab.controls.speed.value = 'as fast as it trains'; lab.set(steps=100, noise=0.7)")
    rate = _rate(notebook, 2000)  # the Lab's default run of 100 steps, from the start

    figures = {
        "browser_first_frame": statistics.median(waits[1:]),
        "browser_frames_per_second": rate,
        "browser_frames_at_default_speed": paced,
    }
    turns = [[_seconds(notebook, frames, turn) for frames in (30.0, 0.01)] for turn in range(1 if TINY else 5)]
    figures["browser_drawing_cost"] = 100 * (statistics.median(a / b for a, b in turns) - 1)
    _add(**figures)


def _add(**figures: float) -> None:
    path = Path(os.environ["BROWSER_FIGURES"])
    known = json.loads(path.read_text()) if path.exists() else {}
    path.write_text(json.dumps({**known, **figures}))


def _rate(notebook: NotebookPage, window: float) -> float:
    """Frames per second over some milliseconds, or until the run has ended; what it left out comes a second later."""
    notebook.count_frames()
    notebook.page.wait_for_timeout(window)
    frames = notebook.frames()
    ended = next((place for place, (at, later) in enumerate(pairwise(frames)) if later - at > PAUSE), len(frames) - 1)
    return 1000 * ended / (frames[ended] - frames[0])


def _seconds(notebook: NotebookPage, frames: float, turn: int) -> float:
    """CPU seconds of the kernel for one run at full speed with so many frames per second at most."""
    notebook.run_code(BEGIN.format(frames=frames, noise=0.1 + turn / 10))
    notebook.wait_for_end()
    notebook.run_code("print('used', time.process_time() - begin)")
    return float(notebook.printed("used")[-1].split()[1])
