"""What a Lab says of a run that has not ended, boxes that hold a Lab, and the numbers that it is given."""

from __future__ import annotations

import html
import json
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import ipywidgets as w
import numpy as np
import pytest
import torch

from tests.widgets.engine.tiny import TinyLab

Make = Callable[..., Any]


@pytest.fixture
def make() -> Iterator[Make]:
    """Makes Labs at full speed, and closes them."""
    made: list[Any] = []

    def make(**values: Any) -> Any:
        made.append(TinyLab(**values))
        made[-1].controls.speed.value = "as fast as it trains"
        return made[-1]

    yield make
    for lab in made:
        lab.close()


# ---- how a run stands, in what is kept of it ----


def test_wait_says_whether_the_run_has_ended_is_held_or_goes_on(make: Make) -> None:
    lab = make(epochs=10)
    assert lab.wait(30) == "ended" and lab.finished
    lab.set(epochs=200, delay=20.0)
    assert lab.wait(0.05) == "out of time" and not lab.wait(0.05)
    lab.pause()
    assert lab.wait(30) == "held" and lab.wait(30) and not lab.finished
    lab.play()
    lab.set(epochs=10, delay=0.0)
    assert lab.wait(30) == "ended"


def test_what_is_kept_of_a_run_that_has_not_ended_says_so(make: Make, tmp_path: Path) -> None:
    lab = make(epochs=10, playing=False)
    assert lab.wait(30) == "held"
    said = "Step 0 of 10, the run has not ended."
    assert lab._presenter.told.startswith(said), "the words on the picture"
    held = lab.png()
    assert "the run has not ended" in lab.export(tmp_path / "held").read_text(encoding="utf-8")
    assert json.loads(lab.save_data(tmp_path / "held.json").read_text())["attrs"]["unfinished"] == (
        "step 0 of 10, the run has not ended"
    )
    lab.controls.file.value = str(tmp_path / "held")
    lab.controls.save_picture.click()
    assert "the run has not ended" in html.unescape(lab.controls.status.value)
    lab.play()
    assert lab.wait(30) == "ended" and lab._presenter.told.startswith("Step 10 of 10. ")
    lab.scrub(0)
    lab.wait(30)
    assert lab._presenter.told.startswith("Step 0 of 10. ") and lab.png() != held, "the words have changed"
    assert "has not ended" not in lab.export(tmp_path / "whole").read_text(encoding="utf-8")
    assert "unfinished" not in json.loads(lab.save_data(tmp_path / "whole.json").read_text())["attrs"]


def test_reset_of_a_held_lab_says_that_it_is_held(make: Make) -> None:
    lab = make(epochs=200, delay=5.0)
    lab.pause()
    lab.controls.reset.click()
    assert lab.wait(30) == "held" and lab.record.step == 0
    assert "press Play to train" in lab.controls.see.value
    lab.controls.play.click()
    assert lab.controls.see.value == ""


# ---- a box among others ----


@pytest.mark.parametrize("kind", [w.VBox, w.HBox, w.Tab, w.Accordion, w.GridBox])
def test_a_lab_stands_in_every_kind_of_box(kind: Any, make: Make) -> None:
    lab = make(epochs=5)
    box = kind([lab, w.HTML("beside it")])
    assert box.children[0] is lab and lab.children and lab.get_state()["_view_name"] == "VBoxView"
    assert repr(lab) == "TinyLab(epochs=5)"
    lab.close()
    assert lab.comm is None, "a closed Lab leaves nothing in the kernel"


# ---- plain numbers ----

SCALARS: tuple[Callable[[float], Any], ...] = (
    np.float64,
    np.float32,
    np.float16,
    lambda value: np.array(value),
    lambda value: np.linspace(value, 9, 3)[0],
    lambda value: torch.tensor(value),
    lambda value: torch.tensor(value, dtype=torch.float64, requires_grad=True),
)


@pytest.mark.parametrize("scalar", SCALARS)
def test_numbers_of_numpy_and_torch_become_pythons_own(scalar: Callable[[float], Any], make: Make) -> None:
    lab = make(gap=scalar(0.75), epochs=np.int64(5), seed=np.uint8(3))
    lab.set(learning_rate=scalar(0.3), samples=np.int32(40))
    lab.wait(30)
    wanted = {"gap": 0.75, "epochs": 5, "seed": 3, "learning_rate": 0.3, "samples": 40}
    assert {name: lab.values[name] for name in wanted} == wanted
    assert {type(lab.values[name]) for name in wanted} == {int, float} and type(lab.record.values["gap"]) is float
    assert all(text not in lab.link().code + lab.code(lab.values) + repr(lab) for text in ("np.", "tensor", "array("))
