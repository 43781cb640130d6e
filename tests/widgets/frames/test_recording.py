"""Recorded runs: whole, bounded, of the run on show, and the Lab is left as it was."""

from __future__ import annotations

import base64
import gzip
import json
import re
import struct
from collections.abc import Iterator
from html.parser import HTMLParser
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine import recording
from moe_lab_widgets.engine.goal import NOT_JUDGED
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.frames.recording import cut_apart, spread_out
from moe_lab_widgets.playground.modules import Modules
from tests.helpers.effort import one_in
from tests.widgets.cases import CASES, Case
from tests.widgets.engine.tiny import TinyLab
from tests.widgets.labs import done, making
from tests.widgets.playground.in_node import answered


@pytest.fixture(scope="module", params=one_in(2, CASES.values()), ids=lambda case: case.name)
def ended(request: pytest.FixtureRequest) -> Iterator[Any]:
    """One finished run of a Lab."""
    case: Case = request.param
    with making(case) as make:
        yield done(make())


@pytest.fixture
def tiny() -> Iterator[Lab]:
    """A Lab whose run has ended, with 41 records."""
    lab = TinyLab()
    lab.controls.speed.value = "as fast as it trains"
    done(lab)
    yield lab
    lab.close()


def frame_of(body: bytes) -> int:
    """The number of the frame that a body ends with."""
    for at in range(len(body) - 9, -1, -1):
        kind, number, length = struct.unpack_from("<BII", body, at)
        if kind == 4 and at + 9 + length == len(body):
            return int(number)
    raise AssertionError("a body has no frame")


class Page(HTMLParser):
    """What a page holds and asks for."""

    def __init__(self, text: str) -> None:
        super().__init__()
        self.asked: list[str] = []
        self.text = ""
        self.run: dict[str, Any] = {}
        self._in = ""
        self.feed(text)

    def handle_starttag(self, tag: str, attrs: list[tuple[str, str | None]]) -> None:
        given = dict(attrs)
        if tag != "a":  # which asks for nothing until it is clicked
            self.asked += [value for name, value in attrs if name in ("src", "href") and value is not None]
        self._in = "run" if given.get("class") == "moe-lab-run" else tag

    def handle_data(self, data: str) -> None:
        if self._in == "run":
            self.run = json.loads(data)
            self._in = ""
        elif self._in not in ("script", "style"):
            self.text += data


def test_a_lab_exports_a_page_of_its_own(ended: Any, tmp_path: Path) -> None:
    before = ended.picture.pixels().copy()
    path = ended.export(tmp_path / "run")
    assert path.name == "run.html" and path.stat().st_size <= recording.MOST_BYTES
    page = Page(path.read_text(encoding="utf-8"))
    assert all(address.startswith("data:") for address in page.asked) and page.asked
    plain = page.run
    assert plain["captions"] == [ended.caption(record) for record in ended.records]
    bodies = ended.recording().bodies
    assert [frame_of(body) for body in bodies] == list(range(len(plain["captions"])))
    assert gzip.decompress(base64.b64decode(plain["frames"])) == b"".join(bodies)
    assert plain["code"] == ended.code(ended.values) and plain["code"] in page.text
    assert len(plain["stage"]["spans"]) >= 2, "a narrow page could not stack the panels"
    words = dict(plain["values"])
    for knob in ended.knobs:
        widget = ended.controls.knobs[knob.name]
        assert (knob.label in words) == (not widget.disabled) and (widget.disabled or words[knob.label] in page.text)
    np.testing.assert_array_equal(ended.picture.pixels(), before)


JUDGE = """
import fs from "node:fs";
import { Question } from "./question.js";
const { question: { asked, words, told }, drawings } = JSON.parse(fs.readFileSync(0));
const judged = (answer, drawn) =>
  Object.assign(new Question(asked, words), { begun: true, answer, drawn }).verdict(told);
const ofAnswers = asked.answers.map((_, answer) => judged(answer, []));
console.log(JSON.stringify([...ofAnswers, ...drawings.map((drawn) => judged(-1, drawn))]));
"""


def test_a_page_may_open_with_the_question_and_judges_as_the_lab_does(ended: Any, tmp_path: Path) -> None:
    page = Page(ended.export(tmp_path / "run", ask=True).read_text(encoding="utf-8"))
    asked, now, question = ended.declaration.question, MarkRecord(ended.record), page.run["question"]
    marks = question["places"]["marks"]
    assert [one["name"] for one in marks] == list(asked.sketch.names)[: len(marks)]
    low, high = question["places"]["low"], question["places"]["high"]
    ends = [low if end is None else end for end in question["told"]["ends"]]
    drawings = [ends, [None, *ends[1:]], [low + 0.9 * (high - low)] * len(ends)]
    drawings = [drawn for drawn in drawings if any(level is not None for level in drawn)]
    asks = {"question": question, "drawings": drawings}
    found = answered(JUDGE, asks, "question", modules=Modules({}), folder=tmp_path)
    wanted = [asked.verdict(number, now) for number in range(len(asked.answers))]
    assert [question["asked"]["asks"], question["asked"]["answers"]] == [asked.asks, list(asked.answers)]
    assert found[: len(wanted)] == wanted
    for sentence, drawn in zip(found[len(wanted) :], drawings, strict=True):
        told = (asked.sketch.told(drawn), asked.sketch.judged(drawn, now))
        assert sentence.startswith(" ".join(filter(None, told))) or sentence == NOT_JUDGED
    assert "question" not in Page(ended.export(tmp_path / "run").read_text(encoding="utf-8")).run


def test_what_a_page_cannot_ask_is_refused(tiny: Lab, tmp_path: Path) -> None:
    with pytest.raises(ValueError, match=r"^only a Lab with a question has a page that asks: .* has none$"):
        tiny.export(tmp_path / "run", ask=True)


def test_a_page_that_would_be_too_large_has_fewer_frames(
    tiny: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    whole = tiny.recording()
    size = len(recording.document(whole))
    smaller = size - len(recording.document(tiny.recording(2)))
    monkeypatch.setattr(recording, "MOST_BYTES", size - smaller // 2)
    page = tiny.export(tmp_path / "run").read_bytes()
    captions = Page(page.decode()).run["captions"]
    assert len(page) <= size - smaller // 2 and 2 < len(captions) < 41
    assert (captions[0], captions[-1]) == (whole.captions[0], whole.captions[-1])


def test_long_runs_are_thinned_evenly(tiny: Lab) -> None:
    assert len(tiny.recording(500).bodies) == 41
    thinned = tiny.recording(5)
    assert [caption.partition(":")[0] for caption in thinned.captions] == [f"Step {n}" for n in (0, 10, 20, 30, 40)]
    assert spread_out(1, 9) == [0] and spread_out(7, 3) == [0, 3, 6]


def test_it_is_the_run_on_show_that_is_recorded(tiny: Lab) -> None:
    tiny.scrub(3)
    done(tiny)
    shown = tiny.picture.pixels().copy()
    assert len(tiny.recording().captions) == 41
    np.testing.assert_array_equal(tiny.picture.pixels(), shown)
    code = tiny.recording().code
    tiny.controls.knobs["samples"].value = 150  # refused: not a multiple of 4
    with pytest.raises(ValueError, match="multiple of 4"):
        tiny.wait(30)
    assert tiny.recording().code == code and ("N · training samples", "80") in tiny.recording().values


def test_before_the_first_record_there_is_nothing_to_export(tmp_path: Path) -> None:
    lab = TinyLab(samples=150, playing=False)
    try:
        with pytest.raises(ValueError, match="there is nothing to save yet"):
            lab.export(tmp_path / "run.html")
        lab.controls.save_page.click()
        assert "there is nothing to save yet" in lab.controls.message.value
    finally:
        lab.close()
    assert not list(tmp_path.iterdir())


def test_the_button_writes_the_page(tiny: Lab, tmp_path: Path) -> None:
    tiny.controls.file.value = str(tmp_path / "lesson")
    tiny.controls.save_page.click()
    assert "page saved in" in tiny.controls.status.value and (tmp_path / "lesson.html").stat().st_size > 10_000
    tiny.controls.file.value = str(tmp_path / "nowhere" / "lesson")
    tiny.controls.save_page.click()
    assert "the folder of a file to save must exist" in tiny.controls.message.value


def test_text_cannot_break_out_of_the_page(tiny: Lab, monkeypatch: pytest.MonkeyPatch, tmp_path: Path) -> None:
    nasty = "</script><script>alert(1)</script> <!-- & 'x' \u2028"
    monkeypatch.setattr(TinyLab, "title", nasty)
    monkeypatch.setattr(TinyLab, "caption", lambda lab, record: nasty)
    monkeypatch.setattr(TinyLab, "code", lambda lab, values: nasty)
    page = tiny.export(tmp_path / "run").read_text(encoding="utf-8")
    assert "<script>alert" not in page and len(re.findall("<script", page)) == 2
    run = Page(page).run
    assert run["title"] == run["code"] == run["captions"][-1] == nasty


def test_panels_are_cut_apart_where_nothing_is_drawn() -> None:
    pixels = np.full((10, 300, 4), 250, dtype=np.uint8)
    pixels[4, 95:140, 0] = 0  # a label that begins before its panel
    assert cut_apart(pixels, [(0, 100), (100, 200), (200, 300)], 1.0) == [[0, 93], [93, 200], [200, 300]]
    assert cut_apart(pixels, [], 1.0) == []
    pixels[4, 60:140, 0] = 0
    assert cut_apart(pixels, [(0, 100), (100, 300)], 1.0) == [[0, 100], [100, 300]]
