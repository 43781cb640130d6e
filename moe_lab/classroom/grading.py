"""Verdicts on submitted notebooks: scores by student and lesson as JSON and as the table that nbgrader exports.

Only definitions of a notebook run (imports, functions, classes, plain constants), in a process of its own with a time
limit. That is quick, but no protection: students' code runs with the rights of who grades it.
"""

from __future__ import annotations

import ast
import csv
import io
import json
import os
import subprocess
import sys
import tempfile
from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import Any

import moe_lab
from moe_lab.arguments import checked
from moe_lab.classroom.exercises import Exercise, exercises_of
from moe_lab.config import require
from moe_lab.course import PREDICTION, notebooks_folder
from moe_lab.errors import MissingFileError
from moe_lab.files import named, write_whole

SECONDS = 60.0
"""What a notebook's answers may take."""


@checked
def grade(folder: Path | str, seconds: float = SECONDS) -> tuple[Path, int]:
    """Judges every `submitted/STUDENT/LESSON/*.ipynb`, and writes verdicts.json and grades.csv into the folder.

    Returns:
      The path of verdicts.json, and how many notebooks it has.

    Raises:
      FileNotFoundError: nothing was submitted.
    """
    folder = Path(folder)
    paths = sorted((folder / "submitted").glob("*/*/*.ipynb")) if os.path.isdir(folder) else []
    if not paths:
        where = named(folder / "submitted")
        raise MissingFileError(f"submitted notebooks must be in {where}/STUDENT/LESSON: found none")
    graded = [graded_notebook(path, seconds) for path in paths]
    about = {"course": "moe_lab", "version": moe_lab.__version__, "submissions": graded}
    written = folder / "verdicts.json"
    write_whole(written, json.dumps(about, indent=1, ensure_ascii=False).encode())
    write_whole(folder / "grades.csv", _table(graded).encode())
    return written, len(graded)


def graded_notebook(path: Path, seconds: float = SECONDS) -> dict[str, Any]:
    """The verdicts on a submitted notebook; those exercises count that the course's own notebook has.

    What cannot be read or takes too long has the score 0 and says why in `error`.
    """
    student, lesson = path.parts[-3:-1]
    asked, error = _asked(path.name), ""
    verdicts: Mapping[str, Mapping[str, str]] = {}
    if not asked:
        error = "the course has no notebook of this name with exercises"
    else:
        verdicts, error = _judged_apart(path, asked, seconds)
    usual = {"state": "open", "message": "no answer was found"}
    cells: list[dict[str, Any]] = [
        {"grade_id": f"check_{one.name}", "max_score": 1, **(found := verdicts.get(one.name, usual))}
        | {"score": int(found["state"] == "right")}
        for one in asked
    ]
    score = sum(cell["score"] for cell in cells)
    about = {"student_id": student, "assignment": lesson, "notebook": path.stem, "score": score}
    return {**about, "max_score": len(cells), "error": error, "cells": cells, "predictions": _predictions(path)}


def _predictions(path: Path) -> list[dict[str, str]]:
    """What the student predicted and saw, as the outputs of the submitted notebook have it. It earns no points."""
    try:
        outputs = [output for cell in _read(path)["cells"] for output in cell.get("outputs", [])]
        found = [output["data"][PREDICTION] for output in outputs if PREDICTION in output.get("data", {})]
    except (ValueError, KeyError, TypeError, AttributeError):  # no notebook, of which `error` says more
        return []
    names = ("question", "chosen", "seen")
    return [{name: str(one.get(name, "")) for name in names} for one in found if isinstance(one, dict)]


def _judged_apart(path: Path, asked: Sequence[Exercise], seconds: float) -> tuple[Mapping[str, Mapping[str, str]], str]:
    """The verdicts of another process, and why there are none."""
    with tempfile.TemporaryDirectory() as place:
        out = Path(place) / "verdicts.json"
        wanted = json.dumps({one.name: one.check for one in asked})
        command = [sys.executable, "-m", "moe_lab.classroom.grading", str(path.resolve()), wanted, str(out)]
        try:
            done = subprocess.run(command, cwd=place, capture_output=True, timeout=seconds, text=True, errors="replace")
        except subprocess.TimeoutExpired:
            return {}, f"the answers took more than {seconds:g} seconds"
        if done.returncode or not out.exists():
            last = (done.stderr.strip().splitlines() or ["it ended without a word"])[-1]
            return {}, f"the notebook could not be run: {last[:200]}"
        return json.loads(out.read_text(encoding="utf-8")), ""


def _asked(name: str) -> list[Exercise]:
    """The exercises of the course's notebook of this name."""
    path = notebooks_folder() / name
    return exercises_of(_read(path)) if path.is_file() else []


def _read(path: Path) -> Any:
    """A notebook as nbformat 4 has it, each source one text."""
    notebook = json.loads(path.read_text(encoding="utf-8"))
    proper = isinstance(notebook, dict) and isinstance(notebook.get("cells"), list)
    require(proper, "a notebook must have cells", file=path)
    for cell in notebook["cells"]:
        cell["source"] = "".join(cell["source"])
    return notebook


def _table(graded: Sequence[Mapping[str, Any]]) -> str:
    """Scores with the columns of nbgrader's own export that are known here."""
    into = io.StringIO()
    columns = ("assignment", "student_id", "raw_score", "late_submission_penalty", "score", "max_score")
    writer = csv.DictWriter(into, columns)
    writer.writeheader()
    for one in graded:
        same = {name: one[name] for name in ("assignment", "student_id", "score", "max_score")}
        writer.writerow({**same, "raw_score": one["score"], "late_submission_penalty": 0})
    return into.getvalue()


# --- in the other process ---------------------------------------------------------------------------------------------


def judge(notebook: Path, wanted: Mapping[str, str]) -> dict[str, dict[str, str]]:
    """Runs the definitions of a notebook and judges its answers: state and message by name of the function."""
    names: dict[str, Any] = {"__name__": "answers"}
    for statement in _definitions(_read(notebook)):
        try:
            exec(compile(ast.Module([statement], []), notebook.name, "exec"), names)
        except Exception as error:  # a learner's own error: what needs the name is open, or says so
            print(f"{type(error).__name__}: {error}", file=sys.stderr)
    from moe_lab import exercises  # after what may have ended this process

    verdicts = {}
    for name, check in wanted.items():
        verdict = getattr(exercises, check)(names.get(name))
        verdicts[name] = {"state": verdict.state, "message": verdict.message}
    return verdicts


def _definitions(notebook: Mapping[str, Any]) -> Iterator[ast.stmt]:
    """The statements of a notebook that define something and compute nothing."""
    for cell in notebook["cells"]:
        if cell["cell_type"] != "code":
            continue
        try:
            body = ast.parse(cell["source"]).body
        except SyntaxError:  # magics, or an answer that is no Python: it stays open
            continue
        for node in body:
            constant = isinstance(node, ast.Assign | ast.AnnAssign) and _is_plain(node.value)
            if constant or isinstance(node, ast.Import | ast.ImportFrom | ast.FunctionDef | ast.ClassDef):
                yield node


def _is_plain(value: ast.expr | None) -> bool:
    try:
        ast.literal_eval(value)  # type: ignore[arg-type]
    except (ValueError, TypeError):
        return False
    return True


if __name__ == "__main__":
    found = judge(Path(sys.argv[1]), json.loads(sys.argv[2]))
    Path(sys.argv[3]).write_text(json.dumps(found), encoding="utf-8")
