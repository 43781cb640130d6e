"""The exercises of a notebook: where they are, and the notebook with and without their solutions."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import moe_lab
from moe_lab.config import require

SOLUTION = "solution"
"""Tag of the cell below an exercise that shows its solution when it is unfolded."""
_FENCE = re.compile(r"^```python\n(.*?)\n```$", flags=re.MULTILINE | re.DOTALL)
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


def for_class(notebook: Any, solutions: bool = False) -> Any:
    """A copy of a notebook whose exercises are marked as nbgrader marks them: an answer, then a check worth a point.

    Args:
      notebook: of nbformat.
      solutions: whether the solutions below the exercises are written into them; either way their own cells go.

    Raises:
      ValueError: no solution stands below an exercise.
    """
    cells: list[Any] = []
    for cell, below in itertools.zip_longest(notebook.cells, notebook.cells[1:]):
        found = exercise_of(cell)
        if found is None:
            if not is_solution(cell):
                cells.append(copy.deepcopy(cell))
            continue
        answer = found.stub
        if solutions:
            solution = solution_of(below) if below else None
            require(solution is not None, "a solution must stand below every exercise", exercise=found.name)
            answer = solved(found, str(solution))
        cells.append(_cell(cell, answer, {"solution": True, "grade_id": found.name}))
        cells.append(_cell(cell, _test(found, solutions), {"grade_id": f"check_{found.name}", **_GRADED}))
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


def is_solution(cell: Mapping[str, Any]) -> bool:
    """Whether a cell shows the solution of the exercise above it."""
    return SOLUTION in cell["metadata"].get("tags", [])


def solution_of(cell: Mapping[str, Any]) -> str | None:
    """The code of a cell that shows a solution; None for other cells."""
    found = _FENCE.search(cell["source"]) if is_solution(cell) else None
    return found[1] if found else None


def solved(exercise: Exercise, solution: str) -> str:
    """The stub with a solution in place of its body."""
    return (
        f"{_without_body(exercise.stub, exercise.name)[0]}\n    ### BEGIN SOLUTION\n"
        f"{_without_body(solution, exercise.name)[1]}\n    ### END SOLUTION"
    )


def _without_body(source: str, name: str) -> tuple[str, str]:
    """The lines of a function up to its docstring, and the others."""
    lines, function = source.splitlines(), _function(source, name)
    documented = ast.get_docstring(function) is not None
    end = function.body[0].end_lineno if documented else function.body[0].lineno - 1
    return "\n".join(lines[:end]), "\n".join(lines[end:])


def _function(source: str, name: str) -> ast.FunctionDef:
    found = [node for node in ast.parse(source).body if isinstance(node, ast.FunctionDef) and node.name == name]
    require(len(found) == 1, "an exercise must define the function that its check takes", function=name)
    return found[0]
