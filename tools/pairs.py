"""The pairs of the course: NN_title.py, the source of a notebook, and NN_title.ipynb, which also stores its outputs."""

from __future__ import annotations

from pathlib import Path

import jupytext
import nbformat
from jupytext.combine import combine_inputs_with_outputs
from nbformat import NotebookNode

ROOT = Path(__file__).resolve().parent.parent
FORMAT = "py:percent"
FOLDED = "## For readers of the paper"
"""The section that JupyterLab shows folded, as everything below it up to the next heading as high."""

KEPT = ("tags", "jupyter")
"""Metadata of cells: what they are, and whether JupyterLab hides their source."""


def sources(root: Path = ROOT) -> list[Path]:
    """The .py files of all notebooks."""
    return sorted((root / "notebooks").glob("*.py"))


def bring_in_step(root: Path = ROOT, names: list[str] | None = None) -> list[Path]:
    """Writes the cells of every .py file into its .ipynb, whose outputs stay. Returns the .ipynb files."""
    pairs = []
    for source in sources(root):
        if names and source.stem not in names:
            continue
        notebook, pair = jupytext.read(source, fmt=FORMAT), source.with_suffix(".ipynb")
        if pair.exists():
            notebook = combine_inputs_with_outputs(notebook, read(pair), fmt=FORMAT)
        write(pair, notebook)
        pairs.append(pair)
    return pairs


def read(path: Path) -> NotebookNode:
    """Reads an .ipynb file."""
    return nbformat.read(path, as_version=4)


def write(path: Path, notebook: NotebookNode) -> None:
    """Writes an .ipynb file without anything that varies between runs: execution counts, times, names of cells."""
    for index, cell in enumerate(notebook.cells):
        cell["id"] = f"cell-{index:02d}"
        cell.metadata = NotebookNode({key: value for key, value in cell.metadata.items() if key in KEPT})
        if cell.source.startswith(FOLDED):
            cell.metadata["jp-MarkdownHeadingCollapsed"] = True
        if cell.cell_type == "code":
            cell.execution_count = None
    notebook.metadata = NotebookNode(
        kernelspec={"display_name": "Python 3", "language": "python", "name": "python3"},
        language_info={"name": "python"},
    )
    notebook.nbformat, notebook.nbformat_minor = 4, 5
    text = nbformat.writes(notebook) + "\n"
    if not path.exists() or path.read_text(encoding="utf-8") != text:
        path.write_text(text, encoding="utf-8")
