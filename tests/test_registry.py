"""The registry names what is on disk, and nothing else."""

from __future__ import annotations

import importlib
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import moe_lab_widgets
from moe_lab import exercises
from moe_lab.registry import CLAIMED, LABS, NOTEBOOKS, PAPERS, ROOMS, SHARED_ROOMS, WAYS
from tests.solutions.every import SOLUTIONS

ROOT = Path(__file__).resolve().parent.parent


def packages(folder: Path, holding: str) -> set[str]:
    """The sub-packages of a folder that hold a module of that name, with dots."""
    return {".".join(path.parent.relative_to(folder).parts) for path in folder.rglob(holding) if path.parent != folder}


def test_papers_and_topics_are_the_packages_of_claims():
    assert set(CLAIMED) == packages(ROOT / "moe_lab" / "reproduce", "__init__.py")


def test_rooms_are_the_packages_of_figures():
    rooms = {room for room in packages(ROOT / "moe_lab", "figures.py") if not room.startswith("reproduce")}
    assert {paper.room for paper in PAPERS.values()} | set(SHARED_ROOMS) == rooms
    assert set(ROOMS) == {room.split(".")[0] for room in rooms}


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff"])
def test_readme_and_citation_name_every_paper(name):
    text = " ".join((ROOT / name).read_text(encoding="utf-8").replace('"', "").split()).lower()
    assert [paper.key for paper in PAPERS.values() if paper.title.split(":")[0].lower() not in text] == []
    if name == "CITATION.cff":
        assert text.count("- type:") == len(PAPERS)


def test_labs_are_the_folders_of_the_widgets():
    assert {lab.folder for lab in LABS} == packages(ROOT / "widgets" / "moe_lab_widgets", "lab.py") - {"engine"}
    assert {lab.name for lab in LABS} == {name for name in dir(moe_lab_widgets) if re.fullmatch(r"\w+Lab", name)}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_a_class_that_its_notebook_shows(lab):
    made = getattr(importlib.import_module(f"moe_lab_widgets.{lab.folder}.lab"), lab.name)
    assert issubclass(made, moe_lab_widgets.Lab) and lab.paper in PAPERS
    (notebook,) = (each for each in NOTEBOOKS if each.number == lab.notebook)
    assert f"{lab.name}(" in (ROOT / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")


def test_notebooks_are_the_files_of_the_course():
    assert [each.stem for each in NOTEBOOKS] == [path.stem for path in sorted((ROOT / "notebooks").glob("[0-9]*.py"))]


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_opens_with_its_title_minutes_and_needs(notebook):
    text = (ROOT / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")
    head = text.split("# %% [markdown]\n", 1)[1].split("\n\n", 1)[0]
    assert head.startswith(f"# # {notebook.number} · {notebook.title}\n#\n# **{notebook.minutes} minutes · no GPU · ")
    needs = head.splitlines()[2].split(" · ")[2]
    assert tuple(re.findall(r"\b\d\d\b", needs)) == notebook.after


def test_ways_through_the_course_come_after_what_they_need():
    after = {notebook.number: notebook.after for notebook in NOTEBOOKS}
    for numbers in WAYS.values():
        for place, number in enumerate(numbers):
            assert set(after[number]) <= set(numbers[:place])


def test_exercises_are_those_of_the_notebooks_and_have_solutions():
    files = {path.stem for path in (ROOT / "moe_lab" / "exercises").glob("[!_]*.py")}
    assert {notebook.exercises for notebook in NOTEBOOKS} == files - {"assembling", "prediction", "verdict"}
    assert set(SOLUTIONS) == {name.removeprefix("check_") for name in exercises.__all__ if name.startswith("check_")}


def test_extras_of_notebooks_are_the_packages_and_are_installed_where_the_course_opens():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = {"lab"} | {notebook.extra for notebook in NOTEBOOKS if notebook.extra}
    assert extras <= set(told)
    for name in ("README.md", "Makefile", "binder/postBuild"):
        found = re.findall(r'--editable "\.\[([\w,]*lab[\w,]*)\]"', (ROOT / name).read_text(encoding="utf-8"))
        assert [set(one.split(",")) for one in found] == [extras], name


def test_reading_it_loads_nothing():
    code = "import sys; from moe_lab import registry; print(sorted(n for n in sys.modules if n.startswith('moe_lab')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['moe_lab', 'moe_lab.registry']\n"
