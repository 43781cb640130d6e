"""Notebooks store what a run gives: tables, text and pictures, and nothing for the exercises.

nbmake runs the course's notebooks (see conftest.py at the root); here it runs small ones that fail.
"""

from __future__ import annotations

import base64
import io
import re
import subprocess
import sys
from pathlib import Path

import nbformat
import numpy as np
import pytest
from nbformat.v4 import new_code_cell, new_notebook, new_output
from PIL import Image

from tools import outputs
from tools.notebooks import MOST_BYTES
from tools.pairs import FOLDED, KEPT, read, write

ROOT = Path(__file__).resolve().parents[2]
NOTEBOOKS = sorted((ROOT / "notebooks").glob("*.ipynb"))


@pytest.mark.slow
def test_fails_under_nbmake_where_a_cell_does_and_where_a_run_gives_other_outputs(tmp_path):
    stored = new_output("stream", name="stdout", text="0.5\n")
    for name, source in [("same", "print(0.5001)"), ("drifted", "print(0.7)"), ("broken", "print(0.5); 1 / 0")]:
        write(tmp_path / f"{name}.ipynb", new_notebook(cells=[new_code_cell(source, outputs=[stored])]))
    before = {path: path.read_bytes() for path in tmp_path.iterdir()}
    options = ["-p", "conftest", "-p", "no:cacheprovider", "-c", str(ROOT / "pyproject.toml"), str(tmp_path)]
    done = subprocess.run([sys.executable, "-m", "pytest", *options], cwd=ROOT, capture_output=True, text=True)
    assert "2 failed, 1 passed" in done.stdout, done.stdout + done.stderr
    assert "cell 0 must store the text/plain that a run gives: got '0.5\\n', a run gives '0.7\\n'" in done.stdout
    assert "ZeroDivisionError" in done.stdout and "INTERNAL ERROR" not in done.stdout
    assert {path: path.read_bytes() for path in tmp_path.iterdir()} == before


@pytest.mark.parametrize("path", NOTEBOOKS, ids=lambda path: path.stem)
def test_stores_nothing_that_varies_and_nothing_for_exercises(path):
    assert path.stat().st_size <= MOST_BYTES
    for cell in read(path).cells:
        folded = {"jp-MarkdownHeadingCollapsed"} if cell.source.startswith(FOLDED) else set()
        assert folded <= cell.metadata.keys() <= {*KEPT, *folded}
        if cell.cell_type == "code":
            assert cell.execution_count is None
            assert not (cell.outputs and re.search(r"^exercises\.check_", cell.source, flags=re.M))
            assert all(set(output.get("data", {})) <= set(outputs.KEPT) for output in cell.outputs)


def png(pixels: np.ndarray) -> str:
    content = io.BytesIO()
    Image.fromarray(pixels.astype(np.uint8)).save(content, "PNG")
    return base64.b64encode(content.getvalue()).decode()


def ran(source: str, *given: nbformat.NotebookNode) -> nbformat.NotebookNode:
    return new_code_cell(source, outputs=list(given), execution_count=3)


class TestTidyOutputs:
    def test_keeps_text_tables_and_pictures_and_no_widget(self):
        data = {
            "text/plain": "<Lab at 0x7f12ab>",
            "text/html": "<b>1</b>",
            "application/vnd.jupyter.widget-view+json": {},
        }
        cell = ran(
            "lab",
            new_output("stream", name="stdout", text="one\n"),
            new_output("stream", name="stderr", text="progress"),
            new_output("stream", name="stdout", text="two\n"),
            new_output("execute_result", data, execution_count=3),
        )
        text, shown = outputs.tidy_outputs(cell)
        assert text.text == "one\ntwo\n"
        assert shown == new_output("display_data", {"text/html": "<b>1</b>", "text/plain": "<Lab>"})

    def test_an_exercise_keeps_none(self):
        cell = ran("exercises.check_gates(gates)", new_output("stream", name="stdout", text="not yet"))
        assert outputs.tidy_outputs(cell) == []

    def test_random_identifiers_are_counted_through(self):
        first, second = (f"{letter * 8}-1111-2222-3333-{letter * 12}" for letter in "ab")
        data = {"text/html": f"<i id='{first}'><i for='{first}'><i id='{second}'>"}
        (shown,) = outputs.tidy_outputs(ran("data", new_output("display_data", data)))
        assert shown.data["text/html"] == "<i id='id0'><i for='id0'><i id='id1'>"

    def test_pictures_get_a_palette_where_that_is_hardly_seen(self):
        ramp = np.linspace(0, 255, 300 * 200 * 3).reshape(200, 300, 3)
        (shown,) = outputs.tidy_outputs(ran("plot", new_output("display_data", {"image/png": png(ramp)})))
        assert outputs.same_picture(shown.data["image/png"], png(ramp))
        assert Image.open(io.BytesIO(base64.b64decode(shown.data["image/png"]))).mode == "P"


class TestDifferences:
    def found(self, one: nbformat.NotebookNode, other: nbformat.NotebookNode, **metadata: list[str]) -> list[str]:
        books = [new_notebook(cells=[new_code_cell("1", outputs=[out], metadata=metadata)]) for out in (one, other)]
        return list(outputs.differences(*books))

    @pytest.mark.parametrize(
        ("one", "other", "same"),
        [
            ("accuracy  0.95", "accuracy 0.96", True),
            ("accuracy 0.95", "accuracy 0.85", False),
            ("loss 1e-7, 12 steps", "loss 2e-8, 12 steps", True),
            ("experts: 4", "experts: 5", False),
            ("stuck: 6 % of 40", "stuck: 7 % of 40", True),
            ("stuck: 6 %", "stuck: 9 %", False),
            ("cnn 0.9", "moe 0.9", False),
            ("┏━━━┳━┓ 0.95", "┏━━━━━┳━┓ 0.951", True),
            ("┏━━━┳━┓ 0.95", "┏━━━┓ 0.95", False),
            ("[1, 2]", "[1, 2, 3]", False),
        ],
    )
    def test_words_must_agree_and_numbers_up_to_rounding(self, one, other, same):
        texts = [new_output("stream", name="stdout", text=text) for text in (one, other)]
        assert (self.found(*texts) == []) is same

    def test_numbers_of_a_cell_that_varies_are_free(self):
        texts = [new_output("stream", name="stdout", text=f"{seconds} s") for seconds in (1.5, 99)]
        assert self.found(*texts) and not self.found(*texts, tags=["varies"])

    def test_pictures_may_differ_by_a_few_pixels(self):
        white = np.full((40, 60, 3), 255)
        spotted, black = white.copy(), np.zeros_like(white)
        spotted[0, :3] = 0
        shown = [
            new_output("display_data", {"image/png": png(pixels)}) for pixels in (white, spotted, black, white[1:])
        ]
        assert [len(self.found(shown[0], other)) for other in shown] == [0, 0, 1, 1]
        outputs.keep_same_pictures([shown[0]], [shown[1]])
        assert shown[1] == shown[0]

    def test_a_picture_with_another_mark_takes_the_place_of_the_stored_one(self):
        white = np.full((300, 200, 3), 255)
        crossed = white.copy()
        for place in range(8):
            crossed[40 + place, 40 + place] = crossed[40 + place, 47 - place] = 0
        stored, made = (new_output("display_data", {"image/png": png(pixels)}) for pixels in (white, crossed))
        assert self.found(stored, made) == []
        outputs.keep_same_pictures([stored], [made])
        assert made.data["image/png"] == png(crossed) != stored.data["image/png"]

    def test_a_lost_form_or_output_is_a_difference(self):
        table = new_output("display_data", {"text/plain": "1", "text/html": "<b>1</b>"})
        assert len(self.found(table, new_output("display_data", {"text/plain": "1"}))) == 1
        books = [new_notebook(cells=[ran("1", *given)]) for given in ([], [table])]
        assert list(outputs.differences(*books)) == ["cell 0 must store 1 outputs: got 0"]
