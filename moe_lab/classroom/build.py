"""Lays the course out for a class: `moe-lab class FOLDER`."""

from __future__ import annotations

import importlib.util
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from moe_lab.arguments import checked
from moe_lab.course import notebooks_folder
from moe_lab.errors import OperationError
from moe_lab.files import writable_folder, write_whole
from moe_lab.registry import NOTEBOOKS, Notebook

PAGES = ("nbformat", "nbconvert", "latex2mathml")
CONFIG = """# What nbgrader needs to know, where it is used: https://nbgrader.readthedocs.io
c = get_config()  # noqa
c.CourseDirectory.course_id = "moe_lab"
c.ClearSolutions.code_stub = {"python": "return None  # your code"}
"""


@checked
def build(folder: Path | str, stills: bool = True) -> Iterator[str]:
    """Writes the course into a folder, and says what was written.

    Args:
      folder: new, empty, or of an earlier call; submitted notebooks stay.
      stills: whether to draw every story of every Lab: three minutes on two cores.

    Raises:
      RuntimeError: a package is missing, the folder cannot be written to, or a still could not be drawn.
    """
    missing = [name for name in PAGES if importlib.util.find_spec(name) is None]
    if missing:
        raise OperationError(f"a class needs {', '.join(missing)}: pip install 'moe-lab[lab,site]'")
    source = notebooks_folder()
    folder = writable_folder(folder)
    for lesson in NOTEBOOKS:
        _lesson(folder, source, lesson)
    write_whole(folder / "nbgrader_config.py", CONFIG.encode())
    yield f"{len(NOTEBOOKS)} lessons for students in {folder / 'release'}, without solutions"
    yield f"the same with solutions, for nbgrader, in {folder / 'source'}"
    yield f"a handout and slides of each in {folder / 'handouts'} and {folder / 'slides'}"
    if stills:
        yield from _stills(folder / "stills")


def _lesson(folder: Path, source: Path, lesson: Notebook) -> None:
    """Writes all that there is of a lesson."""
    import nbformat

    from moe_lab.classroom import paper
    from moe_lab.classroom.exercises import for_class

    name = f"{lesson.stem}.ipynb"
    notebook = nbformat.read(source / name, as_version=4)
    made = {f"release/{lesson.stem}/{name}": for_class(notebook)}
    made[f"source/{lesson.stem}/{name}"] = for_class(notebook, solutions=True)
    made[f"slides/{name}"] = paper.with_slides(for_class(notebook))
    texts = {place: nbformat.writes(each) + "\n" for place, each in made.items()}
    texts[f"handouts/{lesson.stem}.html"] = paper.handout(lesson, notebook)
    texts[f"slides/{lesson.stem}.html"] = paper.slides(lesson, notebook)
    for place, text in texts.items():
        (folder / place).parent.mkdir(parents=True, exist_ok=True)
        write_whole(folder / place, text.encode())
    for path in source.glob("*"):
        if path.is_dir() and not path.name.startswith((".", "_")):  # what notebooks show beside their cells
            shutil.copytree(path, folder / "release" / lesson.stem / path.name, dirs_exist_ok=True)


def _stills(folder: Path) -> Iterator[str]:
    """Draws the stories in a process of their own, since the library imports no widget."""
    if importlib.util.find_spec("ipywidgets") is None:
        raise OperationError("stills need the Labs: pip install 'moe-lab[lab]'")
    command = [sys.executable, "-m", "moe_lab_widgets.stills", str(folder)]
    with subprocess.Popen(command, stdout=subprocess.PIPE, text=True) as running:
        assert running.stdout is not None
        yield from (line.strip() for line in running.stdout)
    if running.returncode:
        raise OperationError(f"stills of the stories could not be drawn: {' '.join(command)} ended with its own message")
