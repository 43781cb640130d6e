"""A verdict on a prediction is on the settings of its question, whatever a Lab shows by then."""

from __future__ import annotations

import ast
import html
import re
from typing import Any

import numpy as np
import pytest

import moe_lab_widgets
from moe_lab.registry import LABS
from moe_lab_widgets import RouterAlignmentLab, predict
from tests.notebooks.test_notebooks import NOTEBOOKS, ROOT, cells, stored


def compared(path):
    """The cells of a notebook that compare a prediction, with their outputs."""
    return [cell for cell in stored(path) if "compare" in cell.metadata.get("tags", ())]


def labs(path):
    """The names under which a notebook keeps its Labs."""
    made = [node for node in ast.walk(ast.parse("\n".join(cells(path, "code")))) if isinstance(node, ast.Assign)]
    calls = [(node.targets, node.value.func) for node in made if isinstance(node.value, ast.Call)]
    return {target.id for targets, made in calls if getattr(made, "id", "").endswith("Lab") for target in targets}


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_verdict_reads_a_lab(path):
    for cell in compared(path):
        used = {node.id for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Name)}
        assert not used & labs(path), f"its sliders may stand anywhere by then:\n{cell.source}"


def words_of(text):
    """The words of a text alone, without Markdown and mathematics."""
    return " " + " ".join(re.findall(r"[^\W_]+", re.sub(r"\$[^$]*\$|<[^>]*>", " ", text).lower())) + " "


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_no_right_answer_stands_above_its_question(path):
    """Of answers in words: a number may stand for many things, and names that are to be compared stand there all."""
    above, asked, told = "", {}, 0
    for cell in stored(path):
        if cell.cell_type == "markdown":
            above += cell.source + "\n"
            continue
        for call in (node for node in ast.walk(ast.parse(cell.source)) if isinstance(node, ast.Call)):
            if getattr(call.func, "id", "") == "predict":
                question, options = (ast.literal_eval(argument) for argument in call.args)
                asked[question] = words_of(above), [words_of(option) for option in options]
        for output in cell.outputs if "compare" in cell.metadata.get("tags", ()) else ():
            question, right = re.search(r"<i>(.*?)</i>.*?it was “(.*?)”", output.data["text/html"], re.S).groups()
            answer = words_of(html.unescape(right))
            told += 1
            before, options = asked[html.unescape(question)]
            if len(answer.split()) >= 3 and not re.search(r"\d", answer):
                others = [option for option in options if option != answer]
                assert answer not in before or any(option in before for option in others), f"{question} {right}"
    assert told == len(asked)


@pytest.mark.parametrize("lab", LABS, ids=lambda lab: lab.name)
def test_no_tooltip_label_or_story_s_name_holds_the_right_answer_of_a_goal(lab):
    kind = getattr(moe_lab_widgets, lab.name)
    shown = [kind.__doc__, kind.title, *(panel.title for panel in kind.declaration.panels)]
    shown += [text for knob in kind.knobs for text in (knob.effect, knob.meaning)] + [one.name for one in kind.stories]
    for goal in kind.declaration.goals:
        for text in (*shown, goal.asks, goal.why.asks):
            assert words_of(goal.why.right).strip() not in words_of(text), f"{text!r} tells {goal.why.right!r}"


def test_some_notebooks_have_labs():
    assert sum(labs(path) == {"lab"} for path in NOTEBOOKS) >= 10


def test_the_verdict_on_the_first_run_of_a_lab_is_what_the_lab_shows_at_its_end(monkeypatch):
    """The numbers of the cell, run where no Lab is, against those of the Lab as it opens."""
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    monkeypatch.setenv("MOE_LAB_BUDGET", "900")  # seconds, so that the Lab trains to its end
    cell, *_ = compared(ROOT / "notebooks" / "02_router_alignment.ipynb")
    asked = predict("As it opens?", ["one", "another", "neither"])
    known: dict[str, Any] = {"SEED": 0, "prediction": asked}
    exec("from moe_lab import final\nfrom moe_lab.patch_routing import CNN, DigitTask, JointMoE, train", known)
    *_, last = ast.parse(cell.source).body
    exec(cell.source, known)
    said = eval(ast.unparse(last), known).why
    assert cell.outputs[0].data["text/plain"].endswith(said)
    lab = RouterAlignmentLab(seed=0)
    lab.wait()
    record = lab.records[-1]
    lab.close()
    np.testing.assert_allclose(known["cosines"], record["alignment"], atol=1e-3)
