"""The exercises of a notebook: where they are, and the notebook with and without their solutions."""

from __future__ import annotations

import ast
import copy
import re
import textwrap
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import moe_lab
from moe_lab.config import require

_CHECK = re.compile(r"^exercises\.(check_\w+)\((\w+)\)$", flags=re.MULTILINE)
_SCHEMA = 3  # of nbgrader's metadata


@dataclass(frozen=True)
class Exercise:
    """An exercise of a notebook.

    Attributes:
      name: of the learner's function.
      check: of the function of `moe_lab.exercises` that judges it.
      stub: the code of the cell above its check.
    """

    name: str
    check: str
    stub: str

    @property
    def question(self) -> str:
        """The first sentence of the stub's docstring."""
        return (ast.get_docstring(_function(self.stub, self.name)) or "").split("\n\n")[0].replace("\n", " ")


def exercise_of(cell: Mapping[str, Any]) -> Exercise | None:
    """The exercise of a cell, which ends with its check; None for other cells."""
    found = _CHECK.search(cell["source"]) if cell["cell_type"] == "code" else None
    return None if found is None else Exercise(found[2], found[1], cell["source"][: found.start()].rstrip())


def exercises_of(notebook: Mapping[str, Any]) -> list[Exercise]:
    """The exercises of a notebook in their order."""
    return [found for cell in notebook["cells"] if (found := exercise_of(cell)) is not None]


def for_class(notebook: Any, solutions: Path | None = None, module: str = "") -> Any:
    """A copy of a notebook whose exercises are marked as nbgrader marks them: an answer, then a check worth a point.

    Args:
      notebook: of nbformat.
      solutions: a folder of modules with the solutions, which are written in; None for students.
      module: the name of the module that has them.

    Raises:
      ValueError: the module has no solution of an exercise.
    """
    cells: list[Any] = []
    for cell in notebook.cells:
        found = exercise_of(cell)
        if found is None:
            cells.append(copy.deepcopy(cell))
            continue
        answer = found.stub if solutions is None else solved(found, solutions, module)
        cells.append(_cell(cell, answer, {"solution": True, "grade_id": found.name}))
        cells.append(_cell(cell, _test(found, solutions is not None), {"grade_id": f"check_{found.name}", **_GRADED}))
    made = copy.deepcopy(notebook)
    made.cells = cells
    for number, cell in enumerate(made.cells):
        cell["id"] = f"cell-{number:02d}"
    made.metadata["moe_lab"] = {"version": moe_lab.__version__}
    return made


_GRADED = {"grade": True, "locked": True, "points": 1}


def _cell(cell: Any, source: str, about: Mapping[str, Any]) -> Any:
    made = copy.deepcopy(cell)
    made.source, made.outputs, made.execution_count = source, [], None
    usual = {"schema_version": _SCHEMA, "grade": False, "solution": False, "locked": False, "task": False}
    made.metadata["nbgrader"] = {**usual, **about}
    return made


def _test(exercise: Exercise, hidden: bool) -> str:
    """The check of an exercise; in the instructor's copy also what fails where nbgrader grades it."""
    if not hidden:
        return f"exercises.{exercise.check}({exercise.name})"
    return (
        f"### BEGIN HIDDEN TESTS\nassert exercises.{exercise.check}({exercise.name})\n### END HIDDEN TESTS\n"
        f"exercises.{exercise.check}({exercise.name})"
    )


# --- solutions --------------------------------------------------------------------------------------------------------


def solved(exercise: Exercise, folder: Path, module: str) -> str:
    """The stub with a solution in place of its body, all that the solution needs inside.

    Raises:
      ValueError: the module has no such function.
    """
    parts = _needed(folder, module, exercise.name, {})
    function = _function(exercise.stub, exercise.name)
    given = ", ".join(one.arg for one in function.args.args)
    end = next(
        (node.lineno - 1 for node in function.body if not (isinstance(node, ast.Expr) and _is_text(node))),
        len(exercise.stub.splitlines()),
    )
    head = "\n".join(exercise.stub.splitlines()[:end])
    body = "\n\n".join([*parts.values(), f"return {exercise.name}({given})"])
    return f"{head}\n    ### BEGIN SOLUTION\n{textwrap.indent(body, '    ')}\n    ### END SOLUTION"


def _is_text(node: ast.Expr) -> bool:
    return isinstance(node.value, ast.Constant) and isinstance(node.value.value, str)


def _function(source: str, name: str) -> ast.FunctionDef:
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    require(len(found) == 1, "an exercise must define the function that its check takes", function=name)
    return found[0]


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
