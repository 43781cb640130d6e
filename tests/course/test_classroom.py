"""Copies for a class: no solution reaches students, every solution is right, and nbgrader pays for answers alone."""

from __future__ import annotations

import csv
import importlib.util
import os
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import pytest

import moe_lab_widgets
from moe_lab import exercises
from moe_lab.core.installing import how_to_install
from moe_lab.course.classroom import build
from moe_lab.course.classroom.exercises import exercise_of, for_class, is_solution
from moe_lab.course.copies import notebooks_folder
from moe_lab.registry import NOTEBOOKS
from tests.helpers.effort import only_thorough
from tests.solutions.every import SOLUTIONS

LESSON = "00_start_here"
STEMS = [lesson.stem for lesson in NOTEBOOKS]
needs_nbgrader = pytest.mark.skipif(importlib.util.find_spec("nbgrader") is None, reason="needs moe-lab[class]")


def notebook(stem: str) -> nbformat.NotebookNode:
    return nbformat.read(notebooks_folder() / f"{stem}.ipynb", as_version=4)


def cells(path: Path) -> list:
    found = nbformat.read(path, as_version=4)
    nbformat.validate(found)
    return found.cells


@pytest.fixture(scope="module")
def course(tmp_path_factory) -> Path:
    """The course as `moe-lab class` writes it."""
    folder = tmp_path_factory.mktemp("class")
    said = list(build.build(folder))
    assert str(folder / "source") in said[0] and str(folder / "release") in said[1]
    return folder


class TestCopies:
    def test_students_have_every_exercise_and_no_solution(self, course):
        names = []
        for path in sorted(course.glob("release/*/*.ipynb")):
            text = path.read_text(encoding="utf-8")
            assert not any(mark in text for mark in ("BEGIN SOLUTION", "<summary>Solution", "HIDDEN"))
            marked = [cell for cell in cells(path) if "nbgrader" in cell.metadata]
            answers = [cell for cell in marked if cell.metadata.nbgrader.solution]
            names += [cell.metadata.nbgrader.grade_id for cell in answers]
            assert all(STUB in cell.source for cell in answers)
            assert [cell.metadata.nbgrader.grade_id for cell in marked if cell.metadata.nbgrader.grade] == [
                f"check_{cell.metadata.nbgrader.grade_id}" for cell in answers
            ]
        assert sorted(names) == sorted(SOLUTIONS)

    @pytest.mark.parametrize("stem", STEMS)
    def test_students_have_the_lesson_alone(self, course, stem):
        """No installer, badge or stored answer; and the same cells with nbgrader and without it."""
        found = cells(course / "release" / stem / f"{stem}.ipynb")
        assert not any({"setup", "badges", "solution"} & set(cell.metadata.get("tags", [])) for cell in found)
        assert not any(cell.get("outputs") for cell in found)
        assert [cell.source for cell in found] == [cell.source for cell in for_class(notebook(stem), False).cells]

    @pytest.mark.parametrize("stem", STEMS)
    def test_the_instructors_answers_are_right(self, course, stem):
        names: dict = {"exercises": exercises}
        for cell in cells(course / "source" / stem / f"{stem}.ipynb"):
            if cell.metadata.get("nbgrader", {}).get("solution"):
                exec(cell.source, names)
        for one in filter(None, map(exercise_of, notebook(stem).cells)):
            verdict = getattr(exercises, one.check)(names[one.name])
            assert verdict.state == "right", verdict.message

    def test_an_exercise_without_a_solution_is_a_sentence(self):
        bare = notebook(LESSON)
        bare.cells = [cell for cell in bare.cells if not is_solution(cell)]
        with pytest.raises(ValueError, match="must stand below every exercise: got exercise='mean_accuracy'"):
            for_class(bare, solutions=True)

    def test_without_nbgrader_students_have_their_copies_and_the_instructor_a_hint(self, tmp_path, monkeypatch):
        find = importlib.util.find_spec
        monkeypatch.setattr(importlib.util, "find_spec", lambda name: None if name == "nbgrader" else find(name))
        said = list(build.build(tmp_path))
        assert how_to_install("class") in said[-1]
        assert sorted(path.stem for path in tmp_path.glob("release/*/*.ipynb")) == sorted(STEMS)
        assert not (tmp_path / "gradebook.db").exists()

    @only_thorough("takes a minute")
    def test_every_story_of_a_lab_leaves_its_last_picture(self, tmp_path):
        command = [sys.executable, "-m", "moe_lab_widgets.stills", str(tmp_path), "PruningLab"]
        subprocess.run(command, check=True)
        drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert len(set(drawn.values())) == len(moe_lab_widgets.PruningLab.stories)


# --- what nbgrader does with it ---------------------------------------------------------------------------------------

RIGHT = 'return float(result["test_accuracy"].isel({where}).mean("trial"))'
WRONG = 'return float(result["test_accuracy"].mean())'
FORGED = """return 0.0
class Forger:
    import json, os
    for name in ("verdicts.json", "grades.csv", "00_start_here.ipynb"):
        with open(name, "w") as file:
            json.dump({"mean_accuracy": {"state": "right", "score": 1}}, file)
    print("✓ mean_accuracy: Right.")
"""
LEAVES = "return 0.0\nimport os\nos._exit(0)"
LOOPS = "while True: pass"
STUB = "return None  # your code"
MAGIC = "%matplotlib inline\n"


def nbgrader(course: Path, *arguments: str) -> subprocess.CompletedProcess:
    """nbgrader's command line, as an instructor calls it in the course's folder."""
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ["PATH"]])
    command = [sys.executable, "-m", "nbgrader", *arguments]
    return subprocess.run(command, cwd=course, env={**os.environ, "PATH": path}, capture_output=True, text=True)


def submit(course: Path, student: str, body: str, above: str = "") -> Path:
    """Hands in the cells of the lesson's exercise, with an answer."""
    released = nbformat.read(course / "release" / LESSON / f"{LESSON}.ipynb", as_version=4)
    released.cells = [cell for cell in released.cells if "nbgrader" in cell.metadata]
    answer = released.cells[0]
    assert STUB in answer.source
    first, *rest = body.splitlines()
    answer.source = "\n".join([above + answer.source.replace(STUB, first), *rest])
    path = course / "submitted" / student / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(released, path)
    return path


@pytest.fixture(scope="module")
def graded(course) -> dict[str, float]:
    """The score of each student, as nbgrader exports it."""
    submit(course, "constant", RIGHT.format(where="**where"), above="where = dict(step=-1)\n\n")
    submit(course, "magic", f"import warnings; warnings.warn('slow'); {RIGHT.format(where='step=-1')}", MAGIC)
    submit(course, "wrong", WRONG)
    submit(course, "forges", FORGED)
    submit(course, "leaves", LEAVES)
    submit(course, "no_notebook", WRONG).write_text("{}")
    done = nbgrader(course, "autograde", LESSON)
    failed = re.findall(r"error processing assignment '.*' for student '(\w+)'", done.stderr)
    assert (done.returncode != 0, failed) == (True, ["leaves", "no_notebook"]), done.stderr
    submit(course, "loops", LOOPS)
    nbgrader(course, "autograde", LESSON, "--student=loops", "--Execute.timeout=5")
    assert nbgrader(course, "export").returncode == 0
    rows = csv.DictReader((course / "grades.csv").read_text().splitlines())
    return {row["student_id"]: float(row["score"]) for row in rows if row["assignment"] == LESSON}


@needs_nbgrader
@pytest.mark.slow
class TestGrading:
    @pytest.mark.parametrize("student", ["constant", "magic"])
    def test_a_right_answer_gets_its_point(self, graded, student):
        assert graded[student] == 1.0

    @pytest.mark.parametrize("student", ["wrong", "forges", "leaves", "no_notebook", "loops"])
    def test_any_other_gets_none_and_harms_nobody(self, graded, student):
        assert graded[student] == 0.0

    def test_feedback_has_the_hint(self, course, graded):
        assert nbgrader(course, "generate_feedback", LESSON).returncode == 0
        page = (course / "feedback" / "wrong" / LESSON / f"{LESSON}.html").read_text(encoding="utf-8")
        assert "You average over the steps too" in page
