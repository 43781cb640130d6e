"""What every notebook owes its reader. That each runs and gives what it stores is checked in test_outputs.py."""

from __future__ import annotations

import ast
import functools
import inspect
import itertools
import re
import tomllib
from pathlib import Path

import jupytext
import pytest

from moe_lab import exercises
from moe_lab.course.classroom.exercises import exercise_of, solution_of
from moe_lab.registry import NOTEBOOKS as COURSE
from tests.solutions.every import SOLUTIONS
from tools.pairs import read
from tools.solutions import solution

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = [ROOT / "notebooks" / f"{notebook.stem}.py" for notebook in COURSE]
INDEX = ROOT / "notebooks" / "00_course.py"
ASKED = re.compile(r"^(\w+) = predict\(", flags=re.MULTILINE)
COMPARED = re.compile(r"^(\w+)\.seen\(", flags=re.MULTILINE)
PLUMBING = {"setup", "badges", "papers", "compare", "solution"}
"""Tags of cells that are not counted: tools write them, or they compare a prediction."""
WIDEST = tomllib.loads((ROOT / "notebooks" / ".ruff.toml").read_text(encoding="utf-8"))["line-length"]


@functools.cache
def every_cell(path):
    """The cells of a notebook, read once; nobody changes them."""
    return jupytext.read(path).cells


def stored(path):
    """The cells of the notebook with their outputs."""
    return read(path.with_suffix(".ipynb")).cells


def cells(path, kind):
    return [cell.source for cell in every_cell(path) if cell.cell_type == kind]


def core(path):
    """The cells before the first part that is optional, without those that tools write and those that compare."""
    every = every_cell(path)
    last = r"^## (Optional|For readers of the paper)"
    end = next(i for i, cell in enumerate(every) if re.search(last, cell.source, flags=re.MULTILINE))
    return [cell for cell in every[:end] if not PLUMBING & set(cell.metadata.get("tags", ()))]


def words_of(some):
    """The number of words in the text of cells, where a formula is one."""
    text = " ".join(re.sub(r"\$+[^$]*\$+", "x", cell.source) for cell in some if cell.cell_type == "markdown")
    return len(re.findall(r"\w+", text))


def lines_of(some):
    """The number of lines of code in cells, without blank ones."""
    return sum(bool(line.strip()) for cell in some if cell.cell_type == "code" for line in cell.source.splitlines())


def functions(path):
    """The functions that a notebook defines, by name: its core, and after it the exercises."""
    sources, first = {cell.source for cell in core(path)}, cells(path, "code")
    every = ((source, node) for source in first for node in ast.walk(ast.parse(source)))
    made = [(source, node) for source, node in every if isinstance(node, ast.FunctionDef)]
    return {node.name: node for source, node in made if source in sources or node.name in checked(path)}


def checked(path):
    """The names in `exercises.check_name(name)` calls."""
    found = re.findall(r"^exercises\.check_(\w+)\((\w+)\)$", "\n".join(cells(path, "code")), flags=re.MULTILINE)
    assert all(check == name for check, name in found)
    return [name for _, name in found]


def solutions(path):
    """The code of the solutions that a notebook shows, in their order."""
    return [code for cell in every_cell(path) if (code := solution_of(cell)) is not None]


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
class TestEveryNotebook:
    def test_opens_with_what_it_is_and_what_it_needs(self, path):
        first = cells(path, "markdown")[0]
        assert re.match(rf"# {path.stem[:2]} · \w+", first)
        assert re.search(r"\*\*\d+ minutes · no GPU", first)
        assert "After this notebook you can" in first

    def test_has_its_parts_in_order(self, path):
        text = "\n".join(cells(path, "markdown"))
        parts = [
            "## First, your prediction",
            "## What happened and why",
            "## Exercise",
            "## For readers of the paper",
        ]
        places = [text.find(part) for part in parts]
        assert -1 not in places and places == sorted(places), dict(zip(parts, places, strict=True))
        assert "\n## " in text[places[-1] :], "what ends the lesson is not folded with the part for readers"

    def test_asks_before_it_shows(self, path):
        sources = [cell.source for cell in every_cell(path)]
        asked = next(i for i, source in enumerate(sources) if "## First, your prediction" in source)
        shown = next(i for i, source in enumerate(sources) if re.search(r"^(lab = |figure, )", source, flags=re.M))
        assert asked < shown

    def test_asks_before_anything_is_seen_with_three_answers_or_more(self, path):
        code = cells(path, "code")
        asked = [i for i, source in enumerate(code) if ASKED.search(source)]
        first = next(i for i, source in enumerate(code) if ASKED.search(source) or "ask=True" in source)
        assert not any(re.search(r"Lab\(|train\(", source) for source in code[:first]), "nothing is seen before"
        for number in asked:
            calls = [node for node in ast.walk(ast.parse(code[number])) if isinstance(node, ast.Call)]
            (call,) = (call for call in calls if getattr(call.func, "id", "") == "predict")
            question, options = (ast.literal_eval(argument) for argument in call.args)
            assert question.endswith("?") and len(exercises.predict(question, options).options) >= 3

    def test_every_prediction_is_compared_right_below_what_shows_the_answer(self, path):
        code = [cell for cell in stored(path) if cell.cell_type == "code"]
        tags = [set(cell.metadata.get("tags", [])) for cell in code]
        asked = [name for cell in code for name in ASKED.findall(cell.source)]
        compared = [COMPARED.findall(cell.source) for cell in code]
        assert len(set(asked)) == len(asked)
        assert sorted(asked) == sorted(itertools.chain(*compared)), "each is compared once"
        for number, cell in enumerate(code):
            assert len(compared[number]) == ("compare" in tags[number]), cell.source
            if not compared[number]:
                continue
            assert cell.metadata.jupyter == {"source_hidden": True}, cell.source
            assert cell.source.startswith("# Compares"), "the first line of a hidden cell shows, before it has run"
            assert cell.outputs[0].data["text/plain"].startswith("You made no prediction; it was ")
            above = [other for other, tag in zip(code[:number], tags, strict=False) if "compare" not in tag]
            assert any(compared[number] == ASKED.findall(other.source) for other in above), "it is asked before"
            assert above[-1].outputs and not ASKED.search(above[-1].source), f"nothing is shown above {cell.source}"

    def test_imports_numpy_where_a_text_speaks_of_its_arrays(self, path):
        every = every_cell(path)
        said = [number for number, cell in enumerate(every) if "NumPy array" in cell.source]
        imported = [
            number for number, cell in enumerate(every) if re.search(r"^import numpy as np$", cell.source, flags=re.M)
        ]
        assert not said or (imported and imported[0] < said[0])

    def test_names_its_seed_before_it_uses_one(self, path):
        code = cells(path, "code")
        assert "SEED = 0" in code[1], "the cell after the set-up cell holds the seed"
        assert not re.search(r"seed=\d", "\n".join(code))

    def test_says_what_to_see_beside_each_picture(self, path):
        for cell, following in itertools.pairwise(every_cell(path)):
            if cell.cell_type == "code" and re.search(r"Lab\(|subplots\(|picture\(", cell.source):
                assert following.cell_type == "markdown" and following.source.startswith("*What to see.*")

    def test_its_core_takes_the_minutes_that_it_states(self, path):
        """At 180 words and 2 pieces of code a minute, 3 minutes an exercise and 5 a Lab."""
        code = [cell.source for cell in core(path) if cell.cell_type == "code"]
        exercise = sum("exercises.check_" in source for source in code)
        labs = sum(bool(re.search(r"Lab\(|RoutingTable\(", source)) for source in code)
        takes = words_of(core(path)) / 180 + (len(code) - exercise) / 2 + 3 * exercise + 5 * labs
        (stated,) = (int(number) for number in re.findall(r"\*\*(\d+) minutes · ", every_cell(path)[0].source))
        assert stated <= 45 and takes / 1.15 <= stated <= 2 * takes, f"about {takes:.0f} minutes"

    def test_its_core_is_not_long(self, path):
        """Questions with buttons and open exercises are no code to read."""
        read = [cell for cell in core(path) if not re.search(r"exercises\.check_| predict\(", cell.source)]
        assert words_of(core(path)) <= 1900 and lines_of(read) <= 100

    def test_has_an_equation(self, path):
        assert re.search(r"\$\$.+?\$\$", "\n".join(cells(path, "markdown")), flags=re.DOTALL)

    def test_defines_nothing_but_the_exercises(self, path):
        assert list(functions(path)) == checked(path)
        assert checked(path), "there is no exercise"

    def test_placeholders_are_open_and_take_what_the_solution_takes(self, path):
        for name, node in functions(path).items():
            assert [argument.arg for argument in node.args.args] == list(inspect.signature(SOLUTIONS[name]).parameters)
            assert ast.get_docstring(node)
            assert [ast.unparse(line) for line in node.body[1:]] == ["return None"]

    def test_a_folded_solution_that_passes_alone_stands_below_every_exercise(self, path):
        every = every_cell(path)
        below = [solution_of(after) for cell, after in itertools.pairwise(every) if exercise_of(cell)]
        assert below == solutions(path) and len(below) == len(checked(path))
        for name, code in zip(checked(path), below, strict=True):
            own = {}
            exec(code, own)
            verdict = getattr(exercises, f"check_{name}")(own[name])
            assert verdict, verdict


def test_pruning_has_one_idea_and_stops():
    """Notebook 05 with its part for readers; what else there is to say of pruning has a notebook of its own."""
    every = [
        cell
        for cell in every_cell(INDEX.with_name("05_pruning.py"))
        if not PLUMBING & set(cell.metadata.get("tags", ()))
    ]
    assert words_of(every) <= 1600 and lines_of(every) <= 100


@pytest.mark.parametrize("path", [*NOTEBOOKS, INDEX], ids=lambda path: path.stem)
def test_no_line_of_code_is_cut_on_a_laptop(path):
    """In what a student is given and in the solutions."""
    lines = "\n".join([*cells(path, "code"), *solutions(path)]).split("\n")
    assert [line for line in lines if len(line) > WIDEST] == []


def test_a_missing_solution_is_a_sentence(tmp_path):
    (tmp_path / "start.py").write_text("def other(): pass\n")
    with pytest.raises(ValueError, match="must have one of every exercise: got exercise='mean_accuracy'"):
        solution("mean_accuracy", "start", tmp_path)


def test_every_check_is_asked_once():
    asked = [name for path in NOTEBOOKS for name in checked(path)]
    every = [name.removeprefix("check_") for name in exercises.__all__ if name.startswith("check_")]
    assert sorted(asked) == sorted(every)


def headings(text):
    """The anchors of a page's headings, as JupyterLab makes them: the heading with hyphens for blanks."""
    return {title.strip().replace(" ", "-") for title in re.findall(r"^#{1,6} (.+)$", text, flags=re.MULTILINE)}


def lost(text, texts, folder):
    """The targets of a text's links that are not there: no file of the folder, or no heading of the page."""
    missing = []
    for target in re.findall(r"\]\(<?([^)>\s]+)", text):
        name, _, anchor = target.partition("#")
        if re.match(r"[a-z]+:|attachment:", target):
            continue
        page = texts.get(name, "") if name else text
        if (name and not (folder / name).is_file()) or (anchor and anchor not in headings(page)):
            missing.append(target)
    return missing


def test_links_between_notebooks_lead_somewhere():
    """In the notebooks and in the guide, to files beside them and to headings."""
    texts = {f"{path.stem}.ipynb": "\n".join(cells(path, "markdown")) for path in (*NOTEBOOKS, INDEX)}
    texts["instructors_guide.md"] = (INDEX.parent / "instructors_guide.md").read_text(encoding="utf-8")
    assert {name: wrong for name, text in texts.items() if (wrong := lost(text, texts, INDEX.parent))} == {}
    assert sum(text.count(".ipynb)") for text in texts.values()) > len(NOTEBOOKS), "the pattern finds links"


def test_a_lost_link_would_be_found():
    text = "[a](00_start_here.ipynb) [b](nowhere.ipynb) [c](#Here) [d](#There) [e](https://x.y/z#w)\n## Here"
    assert lost(text, {}, INDEX.parent) == ["nowhere.ipynb", "#There"]


def test_the_index_links_every_notebook_and_trains_nothing():
    text, code = "\n".join(cells(INDEX, "markdown")), "\n".join(cells(INDEX, "code")[1:])
    for notebook in COURSE:
        row = f"| [{notebook.number} {notebook.title}]({notebook.stem}.ipynb) | {notebook.minutes} |"
        assert row in text and f"| {notebook.will} |" in text
    assert "| 92 |" in text, "minutes of one lecture: 17, 35 and 40"
    assert "(instructors_guide.md)" in text
    assert "glossary.as_html()" in code and "course_map(" in code
    assert not re.search(r"Lab|train|figures", code)
