"""Brings every pair in step, runs every notebook, and stores its last picture:  python -m tools.notebooks [NAME ...]

The .py twin is the source. A stored notebook has no output but its last picture, no time stamps and the same cell names
every time, so that running it again changes nothing but what changed.
"""

from __future__ import annotations

import base64
import io
import os
import subprocess
import sys
import time
from pathlib import Path
from typing import Any

import matplotlib.image
import nbformat
import numpy as np
from nbclient import NotebookClient
from nbformat import NotebookNode

from tools.badges import ROOT, repository, stamp_notebooks
from tools.guide import stamp_guide

# A picture that differs by less than this (mean, of 255) from the stored one is the same: a digit of a status line.
SAME = 0.5


def bring_in_step(root: Path, names: list[str] | None = None) -> list[Path]:
    """Writes the cells of every .py twin into its .ipynb, whose outputs stay. Returns the .ipynb files."""
    sources = [path for path in sorted((root / "notebooks").glob("*.py")) if not names or path.stem in names]
    pairs = [path.with_suffix(".ipynb") for path in sources]
    for source, pair in zip(sources, pairs, strict=True):
        command = [sys.executable, "-m", "jupytext", "--quiet", "--to", "ipynb", "--update", str(source)]
        subprocess.run(command, check=True)
        notebook = nbformat.read(pair, as_version=4)
        _write(pair, _tidy(notebook, last_picture(notebook)))
    return pairs


def execute(path: Path) -> None:
    """Runs a notebook and stores its last picture, unless the stored one looks the same.

    Raises:
      nbclient.exceptions.CellExecutionError: a cell failed.
    """
    notebook = nbformat.read(path, as_version=4)
    before = last_picture(notebook)
    NotebookClient(notebook, timeout=600, resources={"metadata": {"path": str(path.parent)}}).execute()
    after = last_picture(notebook)
    if before and after and before[0] == after[0] and _look_the_same(before[1], after[1]):
        after = before
    _write(path, _tidy(notebook, after))


def last_picture(notebook: NotebookNode) -> tuple[int, str] | None:
    """The last PNG that the notebook holds, with the number of its cell; None without any."""
    found = None
    for index, cell in enumerate(notebook.cells):
        for output in cell.get("outputs", []):
            if "image/png" in output.get("data", {}):
                found = (index, output["data"]["image/png"].strip())
    return found


def _tidy(notebook: NotebookNode, picture: tuple[int, str] | None) -> NotebookNode:
    """The notebook with one output, its last picture, and nothing that changes from run to run."""
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:02d}"
        cell.metadata.pop("execution", None)
        if cell.cell_type == "code":
            cell.outputs, cell.execution_count = [], None
            if picture and picture[0] == index:
                data: dict[str, Any] = {"image/png": picture[1], "text/plain": "The last picture of this notebook."}
                cell.outputs = [nbformat.v4.new_output("display_data", data)]
    kernel = {"display_name": "Python 3", "language": "python", "name": "python3"}
    notebook.metadata = NotebookNode(
        jupytext=notebook.metadata.get("jupytext", {}),
        kernelspec=kernel,
        language_info={"name": "python"},
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    return notebook


def _look_the_same(one: str, other: str) -> bool:
    first, second = (matplotlib.image.imread(io.BytesIO(base64.b64decode(text))) for text in (one, other))
    return first.shape == second.shape and float(np.abs(first - second).mean()) * 255 < SAME


def _write(path: Path, notebook: NotebookNode) -> None:
    text = nbformat.writes(notebook) + "\n"
    if not path.exists() or path.read_text() != text:
        path.write_text(text)


def main(names: list[str]) -> None:
    os.environ["MOE_LAB_HEADLESS"] = "1"  # Labs train inside the cell, and an error in a Lab fails its cell
    stamp_notebooks(ROOT, repository())
    stamp_guide(ROOT)
    for path in bring_in_step(ROOT, names):
        start = time.perf_counter()
        execute(path)
        print(f"{path.name}: {time.perf_counter() - start:.0f} s", flush=True)


if __name__ == "__main__":
    main([Path(name).stem for name in sys.argv[1:]])
