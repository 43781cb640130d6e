"""The registry names what is on disk, and nothing else."""

from __future__ import annotations

import ast
import importlib
import inspect
import re
import subprocess
import sys
import tomllib
from pathlib import Path

import pytest

import moe_lab_widgets
from moe_lab import exercises
from moe_lab.registry import CLAIMED, INDEX, LABS, NOTEBOOKS, PAPERS, ROOMS, SHARED_ROOMS, WAYS, notebook_of, papers_of
from moe_lab_papers import claims
from moe_lab_papers.digest import digests, templates
from tests.solutions.every import SOLUTIONS

ROOT = Path(__file__).resolve().parent.parent


def packages(folder: Path, holding: str) -> set[str]:
    """The sub-packages of a folder that hold a module of that name, with dots."""
    return {".".join(path.parent.relative_to(folder).parts) for path in folder.rglob(holding) if path.parent != folder}


def test_papers_and_topics_are_the_packages_of_claims():
    home = ROOT / "papers" / "moe_lab_papers"
    assert {path.parent.name for path in home.glob("*/__init__.py")} == set(CLAIMED)


def test_rooms_are_the_packages_of_figures():
    rooms = packages(ROOT / "moe_lab", "figures.py")
    assert {paper.room for paper in PAPERS.values()} | set(SHARED_ROOMS) == rooms
    assert set(ROOMS) == {room.split(".")[0] for room in rooms}


@pytest.mark.parametrize("name", ["README.md", "CITATION.cff"])
def test_readme_and_citation_name_every_paper(name):
    text = " ".join((ROOT / name).read_text(encoding="utf-8").replace('"', "").split()).lower()
    assert [paper.key for paper in PAPERS.values() if paper.title.split(":")[0].lower() not in text] == []
    if name == "CITATION.cff":
        assert text.count("- type:") == len(PAPERS)


def test_every_paper_is_linked_where_it_is_named():
    """On its page, in the list of citations, and in the folded claims of the report; each from a place of its own."""
    assert len({paper.url for paper in PAPERS.values()}) == len(PAPERS)
    cited = (ROOT / "CITATION.cff").read_text(encoding="utf-8").split("- type:")[1:]
    shown = templates().get_template("claims.html").module.every_claim(digests(claims(), []), False)
    for paper in PAPERS.values():
        assert re.fullmatch(r"https://arxiv\.org/abs/\d{4}\.\d{5}", paper.url), paper.key
        page = (ROOT / "docs" / "papers" / f"{paper.key}.md").read_text(encoding="utf-8")
        assert f"]({paper.url}). " in page.replace("\n", " "), paper.key
        (own,) = [one for one in cited if paper.title in one]
        assert f"\n    url: {paper.url}\n" in own, paper.key
        assert f'<a href="{paper.url}">{paper.citation}</a>' in shown, paper.key


def test_notebooks_know_their_papers():
    found = {notebook.number: [paper.key for paper in papers_of(notebook)] for notebook in NOTEBOOKS}
    assert found["02"] == found["03"] == found["11"] == ["pmoe2023"]
    assert found["06"] == ["gridlock2019", "gated2019"] and found["07"] == ["gated2019"]
    assert found["13"] == ["pruning2024"] and found["00"] == found["01"] == []
    assert {key for keys in found.values() for key in keys} == set(PAPERS)


def test_labs_are_those_of_the_widgets():
    assert {lab.name for lab in LABS} == {name for name in dir(moe_lab_widgets) if re.fullmatch(r"\w+Lab", name)}


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_a_lab_is_a_class_that_its_notebook_shows(lab):
    made = getattr(importlib.import_module(f"moe_lab_widgets.{lab.module}"), lab.name)
    assert issubclass(made, moe_lab_widgets.Lab) and lab.paper in PAPERS
    (notebook,) = (each for each in NOTEBOOKS if each.number == lab.notebook)
    assert f"{lab.name}(" in (ROOT / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")


def test_notebooks_are_the_files_of_the_course():
    stems = [path.stem for path in sorted((ROOT / "notebooks").glob("*.py"))]
    assert stems == [INDEX[0], *(each.stem for each in NOTEBOOKS)], "the map comes first in a list of files"


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_opens_with_its_title_minutes_and_needs(notebook):
    text = (ROOT / "notebooks" / f"{notebook.stem}.py").read_text(encoding="utf-8")
    head = text.split("# %% [markdown]\n", 1)[1].split("\n\n", 1)[0]
    assert head.startswith(f"# # {notebook.number} · {notebook.title}\n#\n# **{notebook.minutes} minutes · no GPU · ")
    needs = head.splitlines()[2].split(" · ")[2]
    assert tuple(re.findall(r"\b\d\d\b", needs)) == notebook.after


def used_by(notebook: Path) -> set[str]:
    """The modules that what a notebook imports, and what it takes from imported modules, comes from."""
    tree, found = ast.parse(notebook.read_text(encoding="utf-8")), []
    for node in ast.walk(tree):
        if isinstance(node, ast.ImportFrom) and str(node.module).split(".")[0] in ("moe_lab", "moe_lab_hub"):
            for alias in node.names:
                owner, inside = importlib.import_module(str(node.module)), f"{node.module}.{alias.name}"
                found.append(
                    getattr(owner, alias.name) if hasattr(owner, alias.name) else importlib.import_module(inside)
                )
    modules = {one.__name__.rpartition(".")[2]: one for one in found if inspect.ismodule(one)}
    for node in ast.walk(tree):
        if isinstance(node, ast.Attribute) and isinstance(node.value, ast.Name) and node.value.id in modules:
            found.append(getattr(modules[node.value.id], node.attr))
    return {one.__name__ if inspect.ismodule(one) else str(getattr(one, "__module__", "")) for one in found}


@pytest.mark.parametrize("notebook", NOTEBOOKS, ids=lambda notebook: notebook.stem)
def test_a_notebook_uses_what_it_explains(notebook):
    used = used_by(ROOT / "notebooks" / f"{notebook.stem}.py")
    for part in notebook.explains:
        assert any(f"{name}.".startswith(f"{part}.") for name in used), part


def test_each_part_has_the_notebook_that_names_most_of_it():
    found = {
        "moe_lab.patch_routing.model.JointMoE": "02",
        "moe_lab.patch_routing.figures.sample_complexity": "03",
        "moe_lab.patch_routing.routed.RoutedMoE": "11",
        "moe_lab.recovery.gridlock.figures": "06",
        "moe_lab.recovery.landscape.run.L4Loss": "07",
    }
    for name, number in found.items():
        assert getattr(notebook_of(name), "number", None) == number, name
    assert notebook_of("moe_lab.patch_routings") is None and notebook_of("moe_lab") is None


def test_no_part_is_explained_twice_and_every_room_once():
    parts = [part for notebook in NOTEBOOKS for part in notebook.explains]
    assert len(parts) == len(set(parts))
    for part in (*(paper.room for paper in PAPERS.values()), *SHARED_ROOMS):
        assert notebook_of(f"moe_lab.{part}") is not None, part


def test_ways_through_the_course_come_after_what_they_need():
    after = {notebook.number: notebook.after for notebook in NOTEBOOKS}
    for numbers in WAYS.values():
        for place, number in enumerate(numbers):
            assert set(after[number]) <= set(numbers[:place])


def test_exercises_are_those_of_the_notebooks_and_have_solutions():
    files = {path.stem for path in (ROOT / "moe_lab" / "exercises").glob("[!_]*.py")}
    assert {notebook.exercises for notebook in NOTEBOOKS} == files - {"assembling", "cases", "prediction", "verdict"}
    assert set(SOLUTIONS) == {name.removeprefix("check_") for name in exercises.__all__ if name.startswith("check_")}


def test_extras_of_notebooks_are_the_packages_and_are_installed_where_the_course_opens():
    told = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]["optional-dependencies"]
    extras = {"lab"} | {notebook.extra for notebook in NOTEBOOKS if notebook.extra}
    assert extras <= set(told)
    for name in ("README.md", "Makefile", "binder/postBuild"):
        found = re.findall(r'--editable "\.\[([\w,]*lab[\w,]*)\]"', (ROOT / name).read_text(encoding="utf-8"))
        assert found and all(set(one.split(",")) == extras for one in found), name


def test_reading_it_loads_nothing():
    code = "import sys; from moe_lab import registry; print(sorted(n for n in sys.modules if n.startswith('moe_lab')))"
    done = subprocess.run([sys.executable, "-c", code], capture_output=True, text=True, check=True)
    assert done.stdout == "['moe_lab', 'moe_lab.registry']\n"
