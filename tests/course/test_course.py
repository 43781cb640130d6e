"""Copying the course never loses what a reader wrote."""

from __future__ import annotations

import hashlib
import itertools
import json
from pathlib import Path
from typing import Any

import nbformat
import pytest
from nbformat.v4 import new_code_cell, new_markdown_cell, new_notebook

import moe_lab
from moe_lab.course import copies as course
from moe_lab.registry import NOTEBOOKS


def write(path: Path, text: str) -> None:
    """A notebook of one cell."""
    path.write_text(nbformat.writes(new_notebook(cells=[new_markdown_cell(text, id="only")])))


def text(path: Path) -> str:
    (cell,) = nbformat.read(path, as_version=4).cells
    return cell.source


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "pictures").mkdir(parents=True)
    write(folder / "00_start.ipynb", "start, first edition")
    write(folder / "01_route.ipynb", "route, first edition")
    (folder / "00_start.py").write_text("the twin stays at home")
    (folder / "pictures" / "one.png").write_text("a picture")
    (folder / ".ipynb_checkpoints").mkdir()
    (folder / ".ipynb_checkpoints" / "00_start.ipynb").write_text("left over")
    return folder


def names(folder: Path) -> list[str]:
    return sorted(path.relative_to(folder).as_posix() for path in folder.rglob("*") if path.is_file())


def test_copies_notebooks_and_what_they_show(source, tmp_path):
    copied = course.copy_course(tmp_path / "a" / "mine", source)
    assert copied.new == ["00_start.ipynb", "01_route.ipynb", "pictures/one.png"]
    assert names(tmp_path / "a" / "mine") == sorted([course.RECORD, *copied.new])
    assert copied.sentences() == ["Copied 3 new files."]


def test_second_copy_changes_nothing(source, tmp_path):
    mine = tmp_path / "mine"
    course.copy_course(mine, source)
    before = {name: (mine / name).read_bytes() for name in names(mine)}
    assert course.copy_course(mine, source).sentences() == []
    assert {name: (mine / name).read_bytes() for name in names(mine)} == before


def test_newer_version_replaces_a_file_that_was_not_edited(source, tmp_path):
    mine = tmp_path / "mine"
    course.copy_course(mine, source)
    write(source / "00_start.ipynb", "start, second edition")
    assert course.copy_course(mine, source).updated == ["00_start.ipynb"]
    assert text(mine / "00_start.ipynb") == "start, second edition"


def test_an_older_course_with_all_outputs_is_brought_up_to_date_but_for_edits(tmp_path):
    """The version before copied notebooks as they are stored."""
    mine = tmp_path / "mine"
    mine.mkdir()
    stored = {path.name: path.read_bytes() for path in course.notebooks_folder().glob("*.ipynb")}
    for name, content in stored.items():
        (mine / name).write_bytes(content)
    record = {name: hashlib.sha256(content).hexdigest() for name, content in stored.items()}
    (mine / course.RECORD).write_text(json.dumps(record))
    (mine / "00_start_here.ipynb").write_text("my own notes")
    copied = course.copy_course(mine)
    assert copied.updated == sorted(set(stored) - {"00_start_here.ipynb"}) and list(copied.beside) == copied.kept
    assert (mine / "00_start_here.ipynb").read_text() == "my own notes"
    assert not after_the_question(mine / "01_routing_by_hand.ipynb")
    assert course.copy_course(mine).sentences() == ["Kept your version of 00_start_here.ipynb."]


def after_the_question(path: Path) -> list[Any]:
    """The outputs that a notebook stores from its first question on."""
    below = itertools.dropwhile(lambda cell: not course.asks(cell), nbformat.read(path, as_version=4).cells)
    return [output for cell in below for output in cell.get("outputs", [])]


def test_a_copy_answers_no_question_and_has_no_cells_for_colab(tmp_path):
    course.copy_course(tmp_path)
    for lesson in NOTEBOOKS:
        stored = nbformat.read(course.notebooks_folder() / f"{lesson.stem}.ipynb", as_version=4)
        copied = nbformat.read(tmp_path / f"{lesson.stem}.ipynb", as_version=4)
        nbformat.validate(copied)
        assert after_the_question(course.notebooks_folder() / f"{lesson.stem}.ipynb"), "what would answer is stored"
        assert not after_the_question(tmp_path / f"{lesson.stem}.ipynb")
        own = [cell for cell in stored.cells if not {"setup", "badges"} & set(cell.metadata.get("tags", []))]
        assert [cell.source for cell in copied.cells] == [cell.source for cell in own]
        assert len(own) == len(stored.cells) - 2
        above = list(itertools.takewhile(lambda cell: not course.asks(cell), own))
        assert copied.cells[: len(above)] == above


def test_an_estimator_that_predicts_asks_nothing():
    cells = [new_code_cell("model.predict(x)"), new_code_cell("asked = predict('What?', ['a', 'b'])\nasked")]
    assert [course.asks(cell) for cell in cells] == [False, True]


def test_an_edit_stays_and_the_newer_version_goes_beside_it(source, tmp_path):
    mine = tmp_path / "mine"
    course.copy_course(mine, source)
    (mine / "00_start.ipynb").write_text("my own notes")
    again = course.copy_course(mine, source)
    assert (again.kept, again.beside) == (["00_start.ipynb"], {})

    write(source / "00_start.ipynb", "start, second edition")
    newer = f"00_start.new-{moe_lab.__version__}.ipynb"
    assert course.copy_course(mine, source).beside == {"00_start.ipynb": newer}
    assert (mine / "00_start.ipynb").read_text() == "my own notes"
    assert text(mine / newer) == "start, second edition"

    (mine / newer).write_text("notes in the second edition too")
    write(source / "00_start.ipynb", "start, third edition")
    third = f"00_start.new-{moe_lab.__version__}-2.ipynb"
    assert course.copy_course(mine, source).beside == {"00_start.ipynb": third}
    assert (mine / newer).read_text() == "notes in the second edition too"
    assert text(mine / third) == "start, third edition"


@pytest.mark.parametrize("record", ["", "not json", "[]", '{"00_start.ipynb": 5}'])
def test_without_its_record_nothing_is_overwritten(source, tmp_path, record):
    mine = tmp_path / "mine"
    course.copy_course(mine, source)
    (mine / "00_start.ipynb").write_text("my own notes")
    (mine / course.RECORD).write_text(record)
    assert course.copy_course(mine, source).kept == ["00_start.ipynb"]
    assert (mine / "00_start.ipynb").read_text() == "my own notes"


def test_a_folder_that_cannot_be_written_is_a_sentence(source, tmp_path):
    (tmp_path / "file").write_text("in the way")
    with pytest.raises(RuntimeError, match=r"needs a writable folder: got .*file.* \(.+\)"):
        course.copy_course(tmp_path / "file", source)
    assert (tmp_path / "file").read_text() == "in the way"


def test_without_notebooks_there_is_nothing_to_copy(monkeypatch, tmp_path):
    monkeypatch.setattr(course, "__file__", str(tmp_path / "moe_lab" / "course.py"))
    with pytest.raises(FileNotFoundError, match="notebooks must be beside the package"):
        course.copy_course(tmp_path / "mine")


def test_the_guide_travels_with_the_notebooks(tmp_path):
    copied = course.copy_course(tmp_path / "mine").new
    assert {"00_course.ipynb", "instructors_guide.md", "00_start_here.ipynb"} <= set(copied)
    assert not [name for name in copied if name.endswith(".py")]
