"""The solutions of the exercises as cells of the notebooks, folded: one below each exercise, from tests/solutions/."""

from __future__ import annotations

import ast
import copy
import itertools
import textwrap
from pathlib import Path

from nbformat import NotebookNode

from moe_lab.core.config import require
from moe_lab.course.classroom.exercises import SOLUTION, exercise_of, is_solution
from tools.pairs import ROOT

FOLDER = ROOT / "tests" / "solutions"


def stamp_solutions(notebook: NotebookNode, module: str, folder: Path = FOLDER) -> None:
    """Writes a notebook's solutions anew, each below its exercise.

    Args:
      notebook: changed in place.
      module: the name of the file in `folder` that holds them.
    """
    cells: list[NotebookNode] = []
    for cell, below in itertools.zip_longest(notebook.cells, notebook.cells[1:]):
        if is_solution(cell):
            continue
        cells.append(cell)
        if (exercise := exercise_of(cell)) is not None:
            shown = below if below and is_solution(below) else _markdown()
            code = solution(exercise.name, module, folder)
            shown.source = f"<details><summary>Solution</summary>\n\n```python\n{code}\n```\n\n</details>"
            cells.append(shown)
    notebook.cells = cells


def _markdown() -> NotebookNode:
    return NotebookNode(cell_type="markdown", source="", metadata=NotebookNode(tags=[SOLUTION]))


def solution(name: str, module: str, folder: Path = FOLDER) -> str:
    """The code of a solution with all that it uses inside: imports, then helpers, then its own lines.

    Raises:
      ValueError: the module has no such function.
    """
    parts = _needed(folder, module, name, {})
    lines = parts.pop(name).splitlines()
    first = ast.parse("\n".join(lines)).body[0]
    assert isinstance(first, ast.FunctionDef)
    head = first.body[0].lineno - 1
    while lines[head - 1].lstrip().startswith("#"):
        head -= 1
    imports = [text for text in parts.values() if text.startswith(("import ", "from "))]
    helpers = [text for text in parts.values() if text not in imports]
    inside = [text for text in ("\n".join(imports), *helpers) if text]
    return "\n".join([*lines[:head], *(textwrap.indent(f"{text}\n", "    ") for text in inside), *lines[head:]])


def _needed(folder: Path, module: str, name: str, known: dict[str, str]) -> dict[str, str]:
    """The source of a name of a module by name, after that of all that it uses."""
    path = folder / f"{module}.py"
    text = path.read_text(encoding="utf-8")
    for node in ast.parse(text).body:
        if name in known or name not in _defined(node):
            continue
        if isinstance(node, ast.ImportFrom) and (node.module or "").split(".")[-2:-1] == [folder.name]:
            _needed(folder, str(node.module).rsplit(".", 1)[1], name, known)
            continue
        known[name] = ""  # its place, before which nothing of its own may ask for it again
        for used in sorted({part.id for part in ast.walk(node) if isinstance(part, ast.Name)} - _defined(node)):
            if any(used in _defined(other) for other in ast.parse(text).body):
                _needed(folder, module, used, known)
        del known[name]
        known[name] = _one_import(node, name) if isinstance(node, ast.Import | ast.ImportFrom) else _lines(text, node)
    require(name in known, "the folder of solutions must have one of every exercise", exercise=name, file=path)
    return known


def _defined(node: ast.stmt) -> set[str]:
    """The names that a statement defines."""
    if isinstance(node, ast.FunctionDef | ast.ClassDef):
        return {node.name}
    if isinstance(node, ast.Import | ast.ImportFrom):
        return {alias.asname or alias.name.split(".")[0] for alias in node.names}
    targets = node.targets if isinstance(node, ast.Assign) else [node.target] if isinstance(node, ast.AnnAssign) else []
    return {part.id for target in targets for part in ast.walk(target) if isinstance(part, ast.Name)}


def _one_import(node: ast.Import | ast.ImportFrom, name: str) -> str:
    alias = next(one for one in node.names if (one.asname or one.name.split(".")[0]) == name)
    node = copy.copy(node)
    node.names = [alias]
    return ast.unparse(node)


def _lines(text: str, node: ast.stmt) -> str:
    return "\n".join(text.splitlines()[node.lineno - 1 : node.end_lineno])
