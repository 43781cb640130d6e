"""Predictions with and without widgets: kept, compared in words, and in nobody's way."""

from __future__ import annotations

import math
from collections.abc import Iterator
from typing import Any

import ipywidgets as w
import pytest

from moe_lab import exercises
from moe_lab.course.copies import PREDICTION
from moe_lab_widgets import predict
from moe_lab_widgets import prediction as boxes

QUESTION, OPTIONS = "Which turns first?", ["the largest", "the smallest", "none"]


@pytest.fixture
def question(request: pytest.FixtureRequest) -> str:
    """A question that no other test asks: its answer is kept as long as the process lives."""
    return f"{QUESTION} ({request.node.name})"


@pytest.fixture
def shown(monkeypatch: pytest.MonkeyPatch) -> Iterator[list[dict[str, Any]]]:
    """What cells display."""
    outputs: list[dict[str, Any]] = []
    monkeypatch.setattr(boxes, "display", lambda bundle, raw: outputs.append(bundle))
    yield outputs
    w.Widget.close_all()


@pytest.mark.parametrize("ask", [predict, exercises.predict], ids=["buttons", "no widgets"])
def test_an_answer_is_kept_and_compared(ask: Any, question: str) -> None:
    asked = ask(question, OPTIONS)
    assert repr(asked).splitlines() == [
        question,
        *("a) the largest", "b) the smallest", "c) none"),
        "Your prediction: none yet",
    ]
    none = asked.seen("a", "Its gate moves most.")
    assert none.sentence == "You made no prediction; it was “the largest”. Its gate moves most."
    ask(question, OPTIONS, answer="b")
    assert asked.chosen == "b", "the same question, asked by a cell that ran again"
    assert repr(asked.seen("a")) == "You predicted “the smallest”; it was “the largest”. Take a minute: why?"
    assert asked.seen("b", "Why.").sentence == "You predicted “the smallest”, and you were right. Why."
    bundle = asked.seen("a", "1 < 2")._repr_mimebundle_()
    assert bundle[PREDICTION] == {"question": question, "chosen": "the smallest", "seen": "the largest"}
    assert "1 &lt; 2" in bundle["text/html"] and question in bundle["text/html"]


def test_a_number_stands_for_the_nearest_option() -> None:
    asked = predict("How many times?", {"4 times": 4, "256 times": 256, "65,536 times": 65536})
    assert [asked.seen(number).seen for number in (3.6, 40, 3000, 5000)] == [
        "4 times", "256 times", "256 times", "65,536 times",
    ]  # fmt: skip
    counted = predict("How many?", {"none": 0, "three": 3, "all": 6})
    assert [counted.seen(number).seen for number in (1, 2, 5)] == ["none", "three", "all"]


@pytest.mark.parametrize(
    ("act", "rule"),
    [
        (lambda: predict(QUESTION, ["one"]), "a prediction must have two to six options"),
        (lambda: predict(QUESTION, OPTIONS, answer="d"), "answer must be one of a, b, c: got answer='d'"),
        (lambda: predict(QUESTION, OPTIONS).seen("d"), "outcome must be one of a, b, c: got outcome='d'"),
        (lambda: predict(QUESTION, OPTIONS).seen(1.0), "outcome must be a letter, unless the options are a mapping"),
        (lambda: predict(QUESTION, {"0": 0, "1": 1}).seen(math.nan), "a finite number then: got outcome=nan"),
    ],
)
def test_what_fits_no_option_is_refused(act: Any, rule: str) -> None:
    with pytest.raises(ValueError, match=rule):
        act()


def test_buttons_keep_what_is_chosen_and_begin_with_it(shown: list[dict[str, Any]], question: str) -> None:
    asked = predict(question, OPTIONS)
    asked._ipython_display_()
    assert shown[0]["application/vnd.jupyter.widget-view+json"]["model_id"] == asked.box.model_id
    assert "<li>the smallest</li>" in shown[0]["text/html"], "for readers without a kernel"
    _, radios, said = asked.box.children
    assert radios.index is None and "Pick one, or skip it" in said.value
    radios.index = 2
    assert asked.chosen == "c" and "Saved: c. Run the next cell." in said.value
    again = predict(question, OPTIONS)
    again._ipython_display_()
    assert again.box.children[1].index == 2


def test_the_verdict_stands_below_the_buttons_too_and_ends_the_choice(
    shown: list[dict[str, Any]], question: str
) -> None:
    asked = predict(question, OPTIONS)
    asked._ipython_display_()
    _, radios, said = asked.box.children
    asked.seen("a")
    assert "You made no prediction" in said.value and not radios.disabled
    radios.index = 1
    assert "Saved: b. Run the next cell." in said.value and "it was" not in said.value
    found = asked.seen("a", "1 < 2.")
    assert found.sentence.startswith("You predicted “the smallest”")
    asked._ipython_display_()
    for _, buttons, words in ((None, radios, said), asked.box.children):
        assert buttons.disabled, "the verdict is on the answer that it names"
        assert "it was “the largest”. Take a minute: why? 1 &lt; 2." in words.value and "Saved" not in words.value
    anew = predict(question, OPTIONS)
    anew._ipython_display_()
    _, radios, said = anew.box.children
    assert not radios.disabled and "Saved: b. Run the next cell." in said.value, "the cell of the question ran again"


def test_without_a_page_it_is_a_list(
    shown: list[dict[str, Any]], monkeypatch: pytest.MonkeyPatch, question: str
) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")
    asked = predict(question, OPTIONS)
    asked._ipython_display_()
    assert set(shown[0]) == {"text/plain", "text/html"} and asked.box is None
