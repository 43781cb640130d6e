"""What is imported before a run begins, and before the first picture: both are waited for."""

from __future__ import annotations

import subprocess
import sys

from moe_lab.registry import LABS, NOTEBOOKS, PAPERS, ROOMS

ANALYSIS = {"xarray", "pandas", "scipy", "sklearn", "seaborn", "h5py", "joblib", "pooch"}
"""Imported where results are collected, fitted or saved; each takes a fraction of a second to three."""
DRAWING = {"matplotlib", "IPython", "ipywidgets", "anywidget"}
EXTRA = {notebook.number for notebook in NOTEBOOKS if notebook.extra}
"""Notebooks that wait for an extra's library, which loads most of these."""

SCRIPT = """
import importlib, sys

def say(name):
    print(name, *sorted({heavy} & set(sys.modules)), flush=True)

for name in {modules}:
    importlib.import_module(name)
    say(name)

import torch
from moe_lab_widgets import RouterAlignmentLab

torch.set_num_threads(1)
lab = RouterAlignmentLab(playing=False)
lab.wait()
lab.png()
say("picture")
lab.close()
"""


def test_neither_a_room_nor_a_first_picture_imports_what_it_does_not_need() -> None:
    rooms = sorted({f"moe_lab.{room}" for room in (*ROOMS, *(paper.room for paper in PAPERS.values()))})
    labs = [f"moe_lab_widgets.{lab.module}" for lab in LABS if lab.notebook not in EXTRA]
    labs.append("moe_lab_widgets.prediction")  # and with it every check of an exercise
    script = SCRIPT.format(modules=[*rooms, *labs], heavy=ANALYSIS | DRAWING)
    done = subprocess.run([sys.executable, "-c", script], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    loaded = {name: set(heavy) for name, *heavy in map(str.split, done.stdout.splitlines())}
    assert list(loaded) == [*rooms, *labs, "picture"] and "moe_lab.patch_routing" in rooms
    assert {name: loaded[name] for name in rooms} == {name: set() for name in rooms}
    assert {name: heavy & ANALYSIS for name, heavy in loaded.items()} == {name: set() for name in loaded}
