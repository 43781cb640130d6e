"""The exercises of a notebook: where they are, and the notebook with and without their solutions."""

from __future__ import annotations

import ast
import copy
import itertools
import re
from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

import nbformat

import moe_lab
from moe_lab.core.config import require
from moe_lab.course.copies import for_students

SOLUTION = "solution"
"""Tag of the cell below an exercise that shows its solution when it is unfolded."""
_FENCE = re.compile(r"^```python\n(.*?)\n```$", flags=re.MULTILINE | re.DOTALL)
_CHECK = re.compile(r"^exercises\.(check_\w+)\((\w+)\)$", flags=re.MULTILINE)
_SCHEMA = 3  # of nbgrader's metadata
_HIDDEN = """### BEGIN HIDDEN TESTS
from moe_lab import exercises
from moe_lab.course import classroom

verdict = classroom.show_verdict(exercises.{check}, {name})
assert verdict, verdict.message
### END HIDDEN TESTS"""


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


def exercise_of(cell: Mapping[str, Any]) -> Exercise | None:
    """Returns the exercise of a cell, which ends with its check; None for other cells."""
    found = _CHECK.search(cell["source"]) if cell["cell_type"] == "code" else None
    return None if found is None else Exercise(found[2], found[1], cell["source"][: found.start()].rstrip())


def for_class(notebook: Any, solutions: bool) -> Any:
    """Returns a copy of a notebook for a class: an exercise is an nbgrader answer with a test worth one point.

    Left out are all outputs, and the cells that `for_students` leaves out or that show a solution.

    Args:
      notebook: of nbformat.
      solutions: True for the instructor: with solutions and tests, between the marks where nbgrader cuts them out.
        False for students: what nbgrader makes of it.

    Raises:
      ValueError: no solution stands below an exercise.
    """
    cells: list[Any] = []
    lesson = nbformat.from_dict(for_students(notebook))
    for cell, below in itertools.zip_longest(lesson.cells, lesson.cells[1:]):
        found = exercise_of(cell)
        if found is None:
            if not is_solution(cell):
                cells.append(_cell(cell, cell.source))
            continue
        source, test = cell.source, f"# {found.name}: 1 point"
        if solutions:
            source = source.replace(found.stub, solved(found, _solution_below(found, below)))
            test = f"{test}\n{_HIDDEN.format(check=found.check, name=found.name)}"
        cells.append(_cell(cell, source, solution=True, grade_id=found.name))
        cells.append(_cell(cell, test, grade_id=f"check_{found.name}", grade=True, locked=True, points=1))
    for number, cell in enumerate(cells):
        cell["id"] = f"cell-{number:02d}"
    metadata = {**notebook.metadata, "moe_lab": {"version": moe_lab.__version__}}
    return nbformat.v4.new_notebook(cells=cells, metadata=metadata)


def _solution_below(exercise: Exercise, cell: Any) -> str:
    """The code of the solution in the cell below an exercise."""
    solution = solution_of(cell) if cell else None
    require(solution is not None, "a solution must stand below every exercise", exercise=exercise.name)
    return str(solution)


def _cell(cell: Any, source: str, **about: Any) -> Any:
    """A cell of the same kind without outputs, marked for nbgrader if there is something to mark."""
    make = nbformat.v4.new_code_cell if cell.cell_type == "code" else nbformat.v4.new_markdown_cell
    made = make(source, metadata=copy.deepcopy(cell.metadata))
    if about:
        usual = {"schema_version": _SCHEMA, "grade": False, "solution": False, "locked": False, "task": False}
        made.metadata["nbgrader"] = {**usual, **about}
    return made


# --- solutions --------------------------------------------------------------------------------------------------------


def is_solution(cell: Mapping[str, Any]) -> bool:
    """Whether a cell shows the solution of the exercise above it."""
    return SOLUTION in cell["metadata"].get("tags", [])


def solution_of(cell: Mapping[str, Any]) -> str | None:
    """Returns the code of a cell that shows a solution; None for other cells."""
    found = _FENCE.search(cell["source"]) if is_solution(cell) else None
    return found[1] if found else None


def solved(exercise: Exercise, solution: str) -> str:
    """Returns the stub with a solution in place of its body."""
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
