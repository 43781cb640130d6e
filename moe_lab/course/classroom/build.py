"""Writes the course for a class: `moe-lab class FOLDER`."""

from __future__ import annotations

import importlib.util
import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from moe_lab.core.arguments import checked
from moe_lab.core.errors import OperationError
from moe_lab.core.files import writable_folder, write_whole
from moe_lab.core.installing import how_to_install
from moe_lab.course.copies import notebooks_folder
from moe_lab.registry import NOTEBOOKS

SECONDS = 120
"""After which a cell of a submitted notebook is stopped; the slowest of ours took 40 on a busy machine of two cores."""
CONFIG = f"""# The course as nbgrader reads it: https://nbgrader.readthedocs.io
import os

c = get_config()  # noqa: F821
c.CourseDirectory.course_id = "moe_lab"
c.ClearSolutions.code_stub = {{"python": "return None  # your code"}}
c.OverwriteCells.add_missing_cells = True  # a student may have deleted a test
c.Execute.timeout = {SECONDS}  # seconds for each cell
c.Execute.iopub_timeout = 30  # seconds for its outputs after that: 4, the default, is too short on a busy machine
os.environ["MOE_LAB_HEADLESS"] = "1"  # Labs draw their last picture alone
"""


@checked
def build(folder: Path | str, stills: bool = False) -> Iterator[str]:
    """Writes the course into a folder as an nbgrader course, and says what was written.

    Without nbgrader the students' copies are written all the same, so that it is needed for grading alone.

    Args:
      folder: new, empty, or of an earlier call; submitted notebooks stay.
      stills: whether to draw the last picture of every Lab's stories, which takes many minutes.

    Raises:
      RuntimeError: a package is missing, the folder cannot be written to, nbgrader refuses, or a still could not be
        drawn.
    """
    if importlib.util.find_spec("nbformat") is None:
        raise OperationError(f"a class needs nbformat: install with  {how_to_install('lab')}")
    folder = writable_folder(folder)
    _write_lessons(folder / "source", solutions=True)
    write_whole(folder / "nbgrader_config.py", CONFIG.encode())
    yield f"{len(NOTEBOOKS)} lessons with solutions and tests, for you, in {folder / 'source'}"
    grades = importlib.util.find_spec("nbgrader") is not None
    if grades:
        _generate(folder)
    else:
        _write_lessons(folder / "release", solutions=False)
    yield f"the same lessons without them, for students, in {folder / 'release'}"
    if not grades:
        yield f"to grade, install nbgrader with  {how_to_install('class')}  and run this command again"
    if stills:
        _draw_stills(folder / "stills")
        yield f"the last picture of every story in {folder / 'stills'}"


def _write_lessons(folder: Path, *, solutions: bool) -> None:
    """Writes every lesson into a folder of its own."""
    import nbformat

    from moe_lab.course.classroom.exercises import for_class

    for lesson in NOTEBOOKS:
        name = f"{lesson.stem}.ipynb"
        made = for_class(nbformat.read(notebooks_folder() / name, as_version=4), solutions)
        (folder / lesson.stem).mkdir(parents=True, exist_ok=True)
        write_whole(folder / lesson.stem / name, (nbformat.writes(made) + "\n").encode())


def _generate(folder: Path) -> None:
    """Has nbgrader make the students' copies and note the exercises in its gradebook."""
    command = [sys.executable, "-m", "nbgrader", "generate_assignment", "*", "--force"]
    # nbgrader calls alembic by its name, which stands beside Python and need not be on the path.
    path = os.pathsep.join([str(Path(sys.executable).parent), os.environ.get("PATH", "")])
    done = subprocess.run(command, cwd=folder, env={**os.environ, "PATH": path}, capture_output=True, text=True)
    if done.returncode:
        last = (done.stderr.strip().splitlines() or ["it ended without a message"])[-1]
        raise OperationError(f"nbgrader could not make the students' copies: {last}")


def _draw_stills(folder: Path) -> None:
    """Draws the stories in a process of their own, since the library imports no widget."""
    if importlib.util.find_spec("ipywidgets") is None:
        raise OperationError(f"stills need the Labs: install with  {how_to_install('lab')}")
    if subprocess.run([sys.executable, "-m", "moe_lab_widgets.stills", str(folder)]).returncode:
        raise OperationError("a still could not be drawn: its own message stands above")
