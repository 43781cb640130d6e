"""Brings every pair in step, runs the notebooks and stores their outputs:  python -m tools.notebooks [NAME ...]

The outputs hold nothing that differs from run to run, so that a second run changes no file. `pytest notebooks` checks
that a run still gives them (see conftest.py).
"""

from __future__ import annotations

import argparse
import os
import sys
import time
from pathlib import Path

from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.badges import stamp_notebooks
from tools.guide import stamp_guide
from tools.outputs import ENVIRONMENT, keep_same_pictures, tidy_notebook
from tools.pairs import ROOT, bring_in_step, read, write

MOST_BYTES = 1_500_000
"""Of a stored notebook; GitHub shows larger ones badly."""


def executed(path: Path) -> NotebookNode:
    """Runs a notebook and returns it with the outputs that are stored.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = read(path)
    NotebookClient(notebook, timeout=900, resources={"metadata": {"path": str(path.parent)}}).execute()
    return tidy_notebook(notebook)


def store(path: Path) -> None:
    """Runs a notebook and stores its outputs; pictures that look as before stay as they are.

    Raises:
      ValueError: the file would be larger than `MOST_BYTES`.
    """
    before, after = read(path), executed(path)
    for old, new in zip(before.cells, after.cells, strict=True):
        if new.cell_type == "code":
            keep_same_pictures(old.outputs, new.outputs)
    write(path, after)
    if (size := path.stat().st_size) > MOST_BYTES:
        raise ValueError(f"a stored notebook must be at most {MOST_BYTES} bytes: got {size} ({path.name})")


def main(arguments: list[str] | None = None) -> int:
    parser = argparse.ArgumentParser(prog="python -m tools.notebooks", description="Runs notebooks, stores outputs.")
    parser.add_argument("names", nargs="*", help="notebooks, such as 02_router_alignment; all if not given")
    given = parser.parse_args(arguments)
    names = [Path(name).stem for name in given.names]
    os.environ.update(ENVIRONMENT)
    stamp_notebooks(ROOT)
    stamp_guide(ROOT)
    for path in bring_in_step(ROOT, names):
        start = time.perf_counter()
        store(path)
        seconds, size = time.perf_counter() - start, path.stat().st_size
        print(f"{path.name}: {seconds:.0f} s, {size / 1000:.0f} kB", flush=True)
    return 0


if __name__ == "__main__":
    sys.exit(main())
