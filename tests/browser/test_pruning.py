"""PruningLab in a real JupyterLab: every slider dragged, looks that train nothing, the impossible asked for."""

from __future__ import annotations

import re
from collections.abc import Callable
from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.pruning.settings import KNOBS
from tests.browser.driver import QUIET, NotebookPage

pytestmark = pytest.mark.browser

LAB = """
from moe_lab_widgets import PruningLab
lab = PruningLab({values})
lab
"""
SMALL = {"trials": 2, "steps": 40, "experts": 8, "patterns": 100, "tokens": 40, "tuning_steps": 20}
TRAINED = {
    "T, training": "steps", "η_r,": "router_learning_rate", "l,": "top", "k,": "experts",
    "others. router": "others_norm", "important": "important", "others. neurons": "others_neurons", "n,": "tokens",
    "d,": "patterns", "trials": "trials",
}  # fmt: skip
TUNING = "T., steps of"
LOOKED = ("ρ,", "trial on show")
DEFAULTS = {knob.name: knob.default for knob in KNOBS}
"""Values that code leaves out; the Lab's are the library's."""


def _ended(page: NotebookPage) -> None:
    page.until(lambda: "ended" in page.text("status"), "the run did not end")


def _runs(page: NotebookPage, label: str) -> bool:
    """Whether the code of the present run has the slider's value; defaults are not named in it."""
    value, name = page.readout(label), TRAINED[label]
    run = next(line for line in page.code().splitlines() if line.startswith("run = "))
    numbers = [float(found) for found in re.findall(rf"\b{name}=([-\d.e]+)", run)]
    return all(number == value for number in numbers) and (numbers != [] or value == DEFAULTS[name])


@pytest.mark.parametrize("labels", [list(TRAINED)[:5], list(TRAINED)[5:]], ids=["first", "second"])
def test_every_slider_of_the_training_dragged_twice_while_it_trains(
    opened: Callable[..., NotebookPage], labels: list[str]
) -> None:
    page = opened(trials=2, experts=12, important=1)
    for label in labels:
        for distance in (-12, 40) if label not in ("trials", "important") else (40, -20):
            before, value = page.pixels(), page.readout(label)
            page.drag(label, distance)
            page.wait_for_change(before)
            assert np.sign(page.readout(label) - value) == np.sign(distance), f"{label} did not move"
            page.until(lambda label=label: _runs(page, label), f"the run is not the value of {label}")
        assert page.text("alert") == "", label
    _ended(page)
    assert "pruned by norm change" in page.text("caption")
    page.check()


def test_it_is_shown_whole_and_looks_change_the_picture_and_train_nothing(opened: Callable[..., NotebookPage]) -> None:
    page = opened("print('trained', len(lab.records), id(lab.record.pruned))", **SMALL)
    _ended(page)

    def run() -> str:
        page.run_code("print('trained', len(lab.records), id(lab.record.pruned))")
        return page.printed("trained")[-1]

    assert page.pixels().shape == (448, 1100, 3)
    clipped = page.page.evaluate(
        """() => [...document.querySelectorAll('.jupyter-widgets .widget-label')]
             .filter(label => label.scrollWidth > label.clientWidth + 1).map(label => label.textContent)"""
    )
    assert clipped == []
    before_all, spent = run(), page.text("status").split(" · ")[1]
    for label in LOOKED:
        for distance in (-30, 45) if label != "trial on show" else (150, -150):
            before, value = page.pixels(), page.readout(label)
            page.drag(label, distance)
            page.wait_for_change(before)
            assert np.sign(page.readout(label) - value) == np.sign(distance), f"{label} did not move"
    for name in ("random", "importance-score", "reversed-norm-change", "router-norm-change"):
        before = page.pixels()
        page.choose("prune by", name)
        page.wait_for_change(before)
        page.until(lambda name=name: name.replace("-", "_") in page.code().replace("-", "_"), "the code stays")
    before = page.pixels()
    page.page.get_by_label("fine-tune the rest").click()
    page.wait_for_change(before)
    page.until(lambda: "after 20 steps of fine-tuning" in page.text("caption"), "nothing was fine-tuned")
    assert run() == before_all and page.text("status").split(" · ")[1] == spent
    before = page.pixels()
    page.drag(TUNING, 60)
    page.wait_for_change(before)
    page.until(lambda: f"after {page.readout(TUNING):.0f} steps" in page.text("caption"), "no further fine-tuning")
    assert page.text("alert") == ""
    page.check()


def test_an_impossible_wish_and_an_undefined_criterion_are_explained(opened: Callable[..., NotebookPage]) -> None:
    page = opened(**SMALL)
    _ended(page)
    page.press("important", "End")
    page.until(lambda: "must leave at least one other in each half" in page.text("alert"), "the rule is not said")
    shown = page.pixels()
    page.press("important", "Home")
    page.until(lambda: page.text("alert") == "", "the error stays")
    page.wait_for_change(shown)
    page.press("l,", "Home")
    page.until(lambda: "undefined where no router has moved" in page.text("alert"), "the reason is not said")
    before = page.pixels()
    page.press("ρ,", "ArrowLeft")
    page.wait_for_change(before)
    page.choose("prune by", "neuron-magnitude-change")
    page.until(lambda: page.text("alert") == "" and "pruned by neuron change" in page.text("caption"), "no way out")
    page.choose("who chooses", "token-choice")
    page.press("l,", "End")
    page.until(lambda: "must be at most experts (k) where tokens choose" in page.text("alert"), "the rule is not said")
    assert "got l=12, k=8" in page.text("alert")
    page.press("k,", "End")
    page.until(lambda: page.text("alert") == "", "the error stays")
    page.check()


def test_stories_pin_and_moves_while_cells_run(opened: Callable[..., NotebookPage]) -> None:
    page = opened("import time\nfor _ in range(30): time.sleep(0.1)", trials=2)
    page.choose("story", "Pruned one too many")
    page.until(lambda: "In trial 2 neuron norm removed experts" in page.text("caption"), "the story does not run")
    assert page.page.get_by_text("nobody is left who carries").count() == 1
    page.choose("story", "Fine-tuning rescues under the true hinge")
    page.until(lambda: "after 60 steps of fine-tuning 100 %" in page.text("caption"), "nothing is rescued")
    _ended(page)
    before = page.pixels()
    page.button("Pin").click()
    page.wait_for_change(before)
    page.start_all()  # the Lab anew, then a cell that keeps the kernel busy for three seconds
    page.page.wait_for_timeout(1500)
    page.press("k,", "ArrowLeft")
    page.wait_idle()
    page.until(lambda: _runs(page, "k,"), "the move was lost")
    before = page.pixels()
    page.drag("ρ,", -40)
    page.wait_for_change(before)
    page.check()


def test_twenty_random_moves(opened: Callable[..., NotebookPage]) -> None:
    page = opened("import threading, gc", **SMALL)
    random = np.random.default_rng(5)
    labels = [*(label for label in TRAINED if label not in ("d,", "T, training")), "ρ,", TUNING]
    for move in range(20):
        key = ["ArrowLeft", "ArrowRight", "PageUp", "PageDown", "Home"][random.integers(5)]
        if move in (4, 12):
            page.page.get_by_label("fine-tune the rest").click()
        if move in (6, 14):
            page.choose("who chooses", "token-choice" if move == 6 else "expert-choice")
        if move in (8, 16):
            page.choose("prune by", "router-magnitude" if move == 8 else "router-norm-change")
        page.press(labels[random.integers(len(labels))], key, int(random.integers(1, 4)))
        page.page.wait_for_timeout(float(random.choice([0, 5, 60])))
    page.choose("story", "Magnitude misleads")
    page.until(
        lambda: page.text("alert") == "" and "10 of 20 experts pruned by router norm" in page.text("caption"),
        "the Lab is dead",
        90,
    )
    before = page.pixels()
    page.press("ρ,", "ArrowRight", 2)
    page.wait_for_change(before)
    page.check()


def test_slider_to_picture(opened: Callable[..., NotebookPage], record_property: Callable[[str, Any], None]) -> None:
    """The targets hold on a quiet machine (MOE_LAB_TIMING=1); among other work only gross delays fail."""
    page = opened()
    waits: dict[str, list[float]] = {}
    _ended(page)
    for label in ("ρ,", "n,", "η_r,"):
        for move in range(6 if QUIET else 3):
            page.page.wait_for_timeout(400)
            waits.setdefault(label, []).append(page.time_to_frame(label, "ArrowLeft" if move % 2 else "ArrowRight"))
    medians = {name: round(float(np.median(times))) for name, times in waits.items()}
    record_property("slider_to_frame_ms", str(medians))
    print(f"slider to first frame, median ms: {medians}")
    assert max(medians.values()) <= (150 if QUIET else 1500)
