"""A parameter declared once: its slider, its bounds, its code, and one sentence for every wrong value."""

from __future__ import annotations

import copy
import pydoc
from pathlib import Path
from typing import Any, Literal, Self

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from pydantic import model_validator

from moe_lab.core.config import Config, ConfigError, knob, require
from moe_lab.patch_routing import DigitTask, JointMoE, PatchRun, PatternTask


class Room(Config):
    """A Config with a knob of every kind."""

    width: int = knob(4, symbol="w", meaning="width of the room", ge=1, le=9, unit="m", slider=(1, 6, 1))
    light: float = knob(0.5, meaning="light", gt=0, lt=1)
    colour: Literal["red", "blue"] = knob("red", meaning="colour", choices=("red", "blue"))
    plan: Path | None = knob(None, meaning="a drawing")
    open: bool = knob(False, meaning="whether the door is open")
    name: str = knob("one", meaning="its name")
    sizes: tuple[int, ...] = knob((1, 2), symbol="s", meaning="sizes")
    span: tuple[float, float] = knob((0.5, 2.0), symbol="S", meaning="a range")
    secret: int = 3

    @model_validator(mode="after")
    def _light_fits(self) -> Self:
        require(
            self.width * self.light < 8, "width (w) times light must be less than 8", w=self.width, light=self.light
        )
        return self


class House(Config):
    """A Config that holds another."""

    room: Room = knob(Room(), meaning="the room")
    floors: int = knob(1, symbol="f", meaning="floors", ge=1)


def test_knobs_say_what_was_declared() -> None:
    knobs = Room.knobs()
    assert list(knobs) == [
        "width",
        "light",
        "colour",
        "plan",
        "open",
        "name",
        "sizes",
        "span",
    ]  # in order, and declared only
    width, light = knobs["width"], knobs["light"]
    assert (width.default, width.low, width.high, width.unit, width.slider) == (4, 1, 9, "m", (1, 6, 1))
    assert width.label == "w · width of the room" and width.title == "width (w)" and width.whole
    assert (light.low, light.high, light.slider) == (0, 1, None)
    assert light.label == "light" and light.title == "light" and not light.whole
    assert knobs["colour"].choices == ("red", "blue") and not knobs["open"].whole


def test_replace_checks_and_copies() -> None:
    room = Room(width=5)
    assert room.replace(light=0.25) == Room(width=5, light=0.25) and room == Room(width=5)
    with pytest.raises(ConfigError, match=r"^width \(w\) must be at most 9: got w=10$"):
        room.replace(width=10)
    with pytest.raises(ConfigError, match=r"^Room has no parameter 'height': it takes width, light, "):
        room.replace(height=3)


def test_a_config_cannot_be_changed() -> None:
    room = Room()
    with pytest.raises(ConfigError, match=r"a Room is immutable; make a copy with .replace\(width=...\): got width=3"):
        room.width = 3
    assert room == Room() and hash(room) == hash(Room()) and copy.deepcopy(room) == room


SENTENCES = [
    ({"width": 0}, "width (w) must be at least 1: got w=0"),
    ({"width": 10}, "width (w) must be at most 9: got w=10"),
    ({"width": 2.5}, "width (w) must be a whole number: got w=2.5"),
    ({"width": "x"}, "width (w) must be a whole number: got w='x'"),
    ({"width": "\ud800"}, "width (w) must be a whole number: got w='\\ud800'"),
    ({"width": None}, "width (w) must be a whole number: got w=None"),
    ({"width": float("nan")}, "width (w) must be a finite number: got w=nan"),
    ({"light": 0}, "light must be greater than 0: got light=0"),
    ({"light": 1.0}, "light must be less than 1: got light=1.0"),
    ({"light": float("inf")}, "light must be a finite number: got light=inf"),
    ({"light": "much"}, "light must be a number: got light='much'"),
    ({"colour": "green"}, "colour must be one of 'red' or 'blue': got colour='green'"),
    ({"plan": 7}, "plan must be a path: got plan=7"),
    ({"open": "ajar"}, "open must be True or False: got open='ajar'"),
    ({"name": 5}, "name must be text: got name=5"),
    ({"sizes": 5}, "sizes (s) must be a sequence of values: got s=5"),
    ({"sizes": (1, "x")}, "sizes (s) must hold whole numbers only: got s='x'"),
    ({"span": (1,)}, "span (S) must hold 2 values: got S=(1,)"),
    ({"span": ()}, "span (S) must hold 2 values: got S=()"),
    ({"span": [1, 2, 3]}, "span (S) must hold 2 values: got S=[1, 2, 3]"),
    ({"span": 1}, "span (S) must be a sequence of values: got S=1"),
    ({"span": (1, "x")}, "span (S) must hold numbers only: got S='x'"),
    ({"width": 9, "light": 0.9}, "width (w) times light must be less than 8: got w=9, light=0.9"),
    (
        {"height": 1},
        "Room has no parameter 'height': it takes width, light, colour, plan, open, name, sizes, span, secret",
    ),
]


@pytest.mark.parametrize("values, sentence", SENTENCES, ids=[str(values) for values, _ in SENTENCES])
def test_one_sentence_for_one_mistake(values: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ConfigError) as raised:
        Room(**values)
    assert str(raised.value) == sentence
    assert raised.value.__suppress_context__  # no trace of what checked it


def test_two_mistakes_are_both_said() -> None:
    with pytest.raises(
        ValueError, match=r"^width \(w\) must be at least 1: got w=0; light must be less than 1: got light=3$"
    ):
        Room(width=0, light=3)


def test_a_missing_part() -> None:
    with pytest.raises(ConfigError, match=r"^PatchRun needs task$"):
        PatchRun(model=JointMoE())


@given(
    st.integers(1, 9),
    st.floats(0.01, 0.8),
    st.sampled_from(["red", "blue"]),
    st.none() | st.sampled_from([Path("/a b/c"), Path("it's")]),
    st.text(max_size=5),
    st.lists(st.integers(), max_size=3),
)
@settings(max_examples=100, deadline=None)
def test_code_makes_an_equal_config(width: int, light: float, colour: str, plan: Any, name: str, sizes: list) -> None:
    house = House(room=Room(width=width, light=light, colour=colour, plan=plan, name=name, sizes=sizes), floors=2)
    assert eval(house.code(), {"House": House, "Room": Room}) == house


def test_code_names_only_what_differs() -> None:
    assert Room().code() == "Room()" and Room(width=4, light=0.25).code() == "Room(light=0.25)"
    assert House(room=Room(name="x")).code() == "House(room=Room(name='x'))" and House().code() == "House()"


def test_numbers_of_numpy_are_numbers() -> None:
    """A loop over np.arange gives NumPy numbers; the code to copy shows plain ones."""
    import numpy as np

    task = PatternTask(patches=np.int64(12), noise=np.float32(0.5), gap=np.float64(0.25))
    assert task == PatternTask(patches=12, noise=0.5, gap=0.25)
    assert task.code() == "PatternTask(patches=12, gap=0.25, noise=0.5)"


def test_code_of_a_run_is_its_call() -> None:
    run = PatchRun(
        model=JointMoE(experts=4), task=DigitTask(source="mnist", root="/data/mnist"), samples=100, device="cpu"
    )
    expected = "train(JointMoE(experts=4), DigitTask(source='mnist', root='/data/mnist'), samples=100, device='cpu')"
    assert run.code() == expected


def test_defaults_are_checked_too() -> None:
    class Wrong(Config):
        width: int = knob(0, symbol="w", meaning="width", ge=1)

    with pytest.raises(ConfigError, match=r"width \(w\) must be at least 1: got w=0"):
        Wrong()


def test_require() -> None:
    require(True, "never said", value=1)
    with pytest.raises(ValueError, match=r"^a must be b: got a=1, b='x'$"):
        require(False, "a must be b", a=1, b="x")


def test_help_tells_of_a_model_what_is_of_use():
    told = pydoc.render_doc(JointMoE, renderer=pydoc.plaintext)
    assert len(told.splitlines()) <= 60 and "model_dump" not in told and "patches_per_expert: l" in told
    assert "replace(self" in told and "route(self" in told
    assert JointMoE().model_dump()["experts"] == 8, "pydantic's own can be used all the same"
