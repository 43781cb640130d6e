"""Copying the course never loses what a reader wrote, and the map shows every notebook."""

from __future__ import annotations

import itertools
from pathlib import Path

import pytest

import moe_lab
from moe_lab import course
from moe_lab.course_picture import course_map
from moe_lab.registry import NOTEBOOKS


@pytest.fixture
def source(tmp_path: Path) -> Path:
    folder = tmp_path / "source"
    (folder / "pictures").mkdir(parents=True)
    (folder / "00_start.ipynb").write_text("start, first edition")
    (folder / "01_route.ipynb").write_text("route, first edition")
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
    (source / "00_start.ipynb").write_text("start, second edition")
    assert course.copy_course(mine, source).updated == ["00_start.ipynb"]
    assert (mine / "00_start.ipynb").read_text() == "start, second edition"


def test_an_edit_stays_and_the_newer_version_goes_beside_it(source, tmp_path):
    mine = tmp_path / "mine"
    course.copy_course(mine, source)
    (mine / "00_start.ipynb").write_text("my own notes")
    again = course.copy_course(mine, source)
    assert (again.kept, again.beside) == (["00_start.ipynb"], {})

    (source / "00_start.ipynb").write_text("start, second edition")
    newer = f"00_start.new-{moe_lab.__version__}.ipynb"
    assert course.copy_course(mine, source).beside == {"00_start.ipynb": newer}
    assert (mine / "00_start.ipynb").read_text() == "my own notes"
    assert (mine / newer).read_text() == "start, second edition"

    (mine / newer).write_text("notes in the second edition too")
    (source / "00_start.ipynb").write_text("start, third edition")
    third = f"00_start.new-{moe_lab.__version__}-2.ipynb"
    assert course.copy_course(mine, source).beside == {"00_start.ipynb": third}
    assert (mine / newer).read_text() == "notes in the second edition too"
    assert (mine / third).read_text() == "start, third edition"


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
    assert {"index.ipynb", "instructors_guide.md", "00_start_here.ipynb"} <= set(copied)
    assert not [name for name in copied if name.endswith(".py")]


def test_the_map_draws_every_notebook_apart_and_an_arrow_to_each_but_the_first():
    page = course_map().axes[0]
    boxes = [patch.get_window_extent() for patch in page.patches]
    assert len(boxes) == len(NOTEBOOKS)
    assert not [1 for one, other in itertools.combinations(boxes, 2) if one.overlaps(other)]
    said = [text.get_text() for text in page.texts]
    assert all(f"{one.number}  {one.title}" in said and f"{one.minutes} minutes" in said for one in NOTEBOOKS)
    assert sum(line.get_marker() == ">" for line in page.lines) == len(NOTEBOOKS) - 1
