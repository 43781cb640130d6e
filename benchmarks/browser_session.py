"""What `browser.py` measures, run by pytest with the fixtures of tests/browser."""

from __future__ import annotations

import json
import os
import re
import statistics
from pathlib import Path

from tests.browser.driver import NotebookPage, write_notebook

LAB = """
from moe_lab_widgets import RouterAlignmentLab
lab = RouterAlignmentLab(steps=1000)
lab
"""
# Training with frames and without, in turns; CPU time of the whole kernel, so that messages count too.
COST = """
import time
lab.close()
def seconds(frames):
    class Quiet(RouterAlignmentLab):
        pass
    Quiet.frames = frames
    begin = time.process_time()
    one = Quiet(steps=200)
    one._runner.set_tempo(0.0, frames)
    one.wait(60)
    used = time.process_time() - begin
    one.close()
    return used
turns = [(seconds(15.0), seconds(0.01)) for _ in range(5)]
print("turns", turns)
"""


def test_session(notebook: NotebookPage) -> None:
    write_notebook(notebook.folder / "speed.ipynb", LAB)
    notebook.open("speed.ipynb")
    notebook.run_all()
    notebook.image.wait_for()
    notebook.page.wait_for_timeout(1500)
    waits = [notebook.time_to_frame("noise", "ArrowRight" if turn % 2 else "ArrowLeft") for turn in range(21)]

    notebook.press("noise", "ArrowRight")
    notebook.page.wait_for_timeout(500)
    notebook.count_frames()
    notebook.page.wait_for_timeout(3000)
    frames = notebook.frames()
    rate = 1000 * (len(frames) - 1) / (frames[-1] - frames[0])

    figures = {"browser_first_frame": statistics.median(waits[1:]), "browser_frames_per_second": rate}
    write_notebook(notebook.folder / "cost.ipynb", LAB, COST)
    notebook.open("cost.ipynb")
    notebook.run_all(timeout=300)
    output = notebook.page.locator(".jp-OutputArea-output pre").last.inner_text()
    numbers = [float(number) for number in re.findall(r"\d+\.\d+", output)]
    with_frames, without = numbers[0::2], numbers[1::2]
    figures["browser_drawing_cost"] = 100 * (
        statistics.median(a / b for a, b in zip(with_frames, without, strict=True)) - 1
    )
    Path(os.environ["BROWSER_FIGURES"]).write_text(json.dumps(figures))
