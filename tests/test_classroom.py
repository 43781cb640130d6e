"""A class's copies: no solution reaches students, every solution is right, verdicts are of the answers."""

from __future__ import annotations

import csv
import json
import re
import subprocess
import sys
from pathlib import Path
from typing import Any

import nbformat
import pytest

import moe_lab_widgets
from moe_lab import exercises
from moe_lab.classroom import build, grading, paper
from moe_lab.classroom.exercises import exercises_of, for_class, solution_of
from moe_lab.course import notebooks_folder
from moe_lab.registry import NOTEBOOKS
from tests.helpers.effort import only_thorough
from tests.solutions.every import SOLUTIONS

LESSON = "02_router_alignment"
MINUTES = next(notebook.minutes for notebook in NOTEBOOKS if notebook.stem == LESSON)
SHARES = ["about 50 %", "about 75 %", "about 95 %"]
needs_pages = pytest.mark.skipif(
    any(build.importlib.util.find_spec(name) is None for name in build.PAGES), reason="needs moe-lab[lab,site]"
)


@pytest.fixture(scope="module")
def made(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("class")
    assert len(list(build.build(folder, stills=False))) == 3
    return folder


def cells(path: Path) -> list:
    notebook = nbformat.read(path, as_version=4)
    nbformat.validate(notebook)
    return notebook.cells


@needs_pages
class TestCopies:
    def test_students_have_every_exercise_and_no_solution(self, made):
        names = []
        for path in sorted(made.glob("release/*/*.ipynb")):
            text = path.read_text(encoding="utf-8")
            assert not any(word in text for word in ("BEGIN SOLUTION", "HIDDEN", "<summary>Solution"))
            marked = [cell for cell in cells(path) if "nbgrader" in cell.metadata]
            answers = [cell for cell in marked if cell.metadata.nbgrader.solution]
            names += [cell.metadata.nbgrader.grade_id for cell in answers]
            assert all("None" in cell.source for cell in answers)
            assert {cell.metadata.nbgrader.grade_id for cell in marked if cell.metadata.nbgrader.grade} == {
                f"check_{cell.metadata.nbgrader.grade_id}" for cell in answers
            }
        assert sorted(names) == sorted(SOLUTIONS)

    @pytest.mark.parametrize("lesson", NOTEBOOKS, ids=lambda lesson: lesson.stem)
    def test_the_instructors_answers_are_right(self, made, lesson):
        wanted = {
            one.name: one.check for one in exercises_of(nbformat.read(notebooks_folder() / f"{lesson.stem}.ipynb", 4))
        }
        found = grading.judge(made / "source" / lesson.stem / f"{lesson.stem}.ipynb", wanted)
        assert {name: verdict["state"] for name, verdict in found.items()} == dict.fromkeys(wanted, "right")

    def test_handouts_and_slides_fetch_nothing_and_show_formulas(self, made):
        for path in [*made.glob("handouts/*.html"), *made.glob("slides/*.html")]:
            text = path.read_text(encoding="utf-8")
            assert not re.search(r"(src|href)=[\"'](https?:)?//[^\"']+\.(js|css)|<script|url\(", text), path.name
        assert "<math " in (made / "slides" / f"{LESSON}.html").read_text(encoding="utf-8")
        sheet = (made / "handouts" / f"{LESSON}.html").read_text(encoding="utf-8")
        assert f"{MINUTES} minutes" in sheet and sheet.count("class=write") == 4 + 3
        kinds = [cell.metadata.slideshow.slide_type for cell in cells(made / "slides" / f"{LESSON}.ipynb")]
        assert "slide" in kinds and "skip" in kinds

    @pytest.mark.parametrize("lesson", NOTEBOOKS, ids=lambda lesson: lesson.stem)
    def test_slides_show_all_that_the_notebook_shows_and_none_is_empty(self, made, lesson):
        """A moving picture is stored as HTML, beside PNGs; it is shown as it stands still."""
        stored = cells(notebooks_folder() / f"{lesson.stem}.ipynb")
        data = [output.get("data", {}) for cell in stored for output in cell.get("outputs", [])]
        moving = sum("moe-lab-recorded" in one.get("text/html", "") for one in data)
        deck = (made / "slides" / f"{lesson.stem}.html").read_text(encoding="utf-8")
        assert moving == (lesson.stem == LESSON)
        assert deck.count("<img ") == sum("image/png" in one for one in data) + moving
        assert deck.count("<th>") >= sum(one.get("text/html", "").count("<th>") for one in data)
        assert not re.search(r"</h2><footer", deck)
        assert "$" not in re.sub(r"<annotation.*?</annotation>|<code>.*?</code>", "", deck, flags=re.DOTALL)
        assert "<em>" not in "".join(re.findall(r"<math.*?</math>", deck, flags=re.DOTALL))

    def test_a_slide_has_the_words_below_its_picture_and_the_list_that_it_announces(self):
        said = "## Find *it*\n\nIs $a_1 b_2\n= w^*_k w^*_j$? Say:\n\n1. one\n\nLater."
        html = "<style>t</style><table><tr><th>1</th></tr></table>"
        table = nbformat.v4.new_output("display_data", {"text/html": html})
        shown = [nbformat.v4.new_code_cell("1", outputs=[table, table]) for _ in range(2)]
        words = [nbformat.v4.new_markdown_cell(text) for text in (said, "*What to see.* One.\n\nTwo.\n\n## Next")]
        deck = paper.slides(NOTEBOOKS[0], nbformat.v4.new_notebook(cells=[words[0], shown[0], words[1], shown[1]]))
        titles = re.findall("<h2>(.*?)</h2>", deck)
        assert titles == ["Find <em>it</em>"] * 3 + ["Next"] * 2
        assert deck.count("<math") == 1 and "w^*_k w^*_j</annotation>" in deck
        assert "<li>one</li>" in deck and "Later" not in deck and "Two" not in deck
        assert re.findall("<div class=caption>(.*?)</div>", deck) == ["<p><em>What to see.</em> One.</p>"]

    @only_thorough("takes a minute")
    def test_every_story_of_a_lab_leaves_its_last_picture(self, tmp_path):
        command = [sys.executable, "-m", "moe_lab_widgets.stills", str(tmp_path), "PruningLab"]
        lines = subprocess.run(command, check=True, capture_output=True, text=True).stdout.splitlines()
        stories = [story.name for story in moe_lab_widgets.PruningLab.stories]
        assert [line.split(": ", 1)[1] for line in lines] == stories
        drawn = {path.name: path.read_bytes() for path in tmp_path.iterdir()}
        assert list(drawn) and set(drawn) == {line.split(": ")[0] for line in lines}
        assert len(set(drawn.values())) == len(stories)

    def test_a_notebook_without_a_solution_is_a_sentence(self):
        notebook = nbformat.read(notebooks_folder() / f"{LESSON}.ipynb", as_version=4)
        notebook.cells = [cell for cell in notebook.cells if solution_of(cell) is None]
        with pytest.raises(ValueError, match="must stand below every exercise: got exercise='alignment'"):
            for_class(notebook, solutions=True)


def pages(screen, text: str, **how: Any) -> int:
    """The pages that Chromium prints of an HTML text."""
    screen.set_content(text)
    return len(re.findall(rb"/Type\s*/Page\b", screen.pdf(**how)))


@pytest.mark.browser
def test_a_handout_is_a_page_of_a4_or_letter(browser):
    screen = browser.new_page()
    for lesson in NOTEBOOKS:
        sheet = paper.handout(lesson, nbformat.read(notebooks_folder() / f"{lesson.stem}.ipynb", as_version=4))
        assert pages(screen, sheet, prefer_css_page_size=True) == 1, lesson.stem
        assert pages(screen, sheet, format="Letter") == 1, lesson.stem
    longer = sheet.replace("</ol>", "<li>one more<div class=write></div></li>" * 20 + "</ol>")
    assert pages(screen, longer, prefer_css_page_size=True) == 2, "a page too many would be counted"
    screen.close()


def submit(folder: Path, student: str, answers: dict[str, str]) -> Path:
    """A notebook in which some stubs are answered."""
    notebook = for_class(nbformat.read(notebooks_folder() / f"{LESSON}.ipynb", as_version=4))
    for cell in notebook.cells:
        name = cell.metadata.get("nbgrader", {}).get("grade_id")
        cell.source = answers.get(name, cell.source)
        if "prediction.seen(" in cell.source:  # as Jupyter saves it
            seen = exercises.predict("No router looks for the 7. How often is the network right?", SHARES, answer="b")
            cell.outputs = [nbformat.v4.new_output("execute_result", seen.seen("c")._repr_mimebundle_())]
    path = folder / "submitted" / student / LESSON / f"{LESSON}.ipynb"
    path.parent.mkdir(parents=True)
    nbformat.write(notebook, path)
    return path


def test_verdicts_are_those_of_the_answers(tmp_path):
    right = (
        "import numpy as np\n\ndef alignment(a, b):\n    length = np.linalg.norm\n"
        "    return a @ b.T / np.outer(length(a, axis=1), length(b, axis=1))"
    )
    submit(
        tmp_path,
        "ada",
        {"alignment": right, "coverage": "def coverage(*given):\n    return 1 / 0", "router_gradient": "%%"},
    )
    slow = submit(tmp_path / "later", "eve", {"alignment": "import time\ntime.sleep(60)\ndef alignment(*given): pass"})
    (broken := submit(tmp_path, "zoe", {})).write_text("{}")
    written, count = grading.grade(tmp_path)
    found = {one["student_id"]: one for one in json.loads(written.read_text())["submissions"]}
    assert count == 2 and broken.exists()
    ada = {cell["grade_id"]: cell for cell in found["ada"]["cells"]}
    assert [cell["state"] for cell in ada.values()] == ["right", "wrong", "open"]
    assert (found["ada"]["score"], found["ada"]["max_score"]) == (1, 3)
    asked = "How often is the network right?"
    assert [one["question"].split("7. ")[-1] for one in found["ada"]["predictions"]] == [asked]
    assert found["ada"]["predictions"][0]["chosen"] == "about 75 %" and found["zoe"]["predictions"] == []
    assert "division by zero" in ada["check_coverage"]["message"]
    assert grading.graded_notebook(slow, seconds=2)["error"] == "the answers took more than 2 seconds"
    assert "must have cells" in found["zoe"]["error"]
    rows = list(csv.DictReader((tmp_path / "grades.csv").read_text().splitlines()))
    assert [(row["student_id"], row["score"]) for row in rows] == [
        ("ada", "1"),
        ("zoe", "0"),
    ]


def test_nothing_submitted_is_a_sentence(tmp_path):
    with pytest.raises(
        FileNotFoundError, match=r"submitted notebooks must be in .*submitted/STUDENT/LESSON: found none"
    ):
        grading.grade(tmp_path)


def test_text_in_code_is_no_formula():
    assert paper._inline("`$a$` and $b$") == f"<code>$a$</code> and {paper.mathml('b', 'inline')}"
