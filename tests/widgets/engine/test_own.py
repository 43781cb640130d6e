"""A Lab of one's own: what goes wrong in it is said in a sentence, and its history stays as it was."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest

from moe_lab_widgets import Panel, Story, lab, slider


@pytest.fixture(autouse=True)
def _in_the_cell(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("MOE_LAB_HEADLESS", "1")


def train(rate: float, steps: int = 3, seed: int = 0) -> Iterator[dict[str, Any]]:
    weights = np.zeros(2)
    for step in range(steps + 1):
        yield {"step": step, "loss": 1.0 + step, "weights": weights}
        weights += rate


def other(rate: float, size: int) -> Iterator[dict[str, Any]]:
    yield {}


def numbers(rate: float) -> Iterator[float]:
    yield 0.0


def nothing(rate: float) -> None:
    return None


def ragged(rate: float) -> Iterator[dict[str, Any]]:
    yield from ({"loss": 1.0, "weights": np.zeros(length)} for length in (1, 2))


def draw(ax: Any, now: Any) -> None:
    ax.plot(*now.curve("loss"), "k", label="loss")


RATE = slider("rate", 0.5, 0.0, 2.0)
PANELS = (Panel("Loss", draw),)


def made(function: Callable[..., Any] = train, **changes: Any) -> Any:
    return lab("My own", function, **{"knobs": (RATE,), "panels": PANELS, **changes})


def test_arrays_that_are_changed_in_place_stay_as_they_were_recorded() -> None:
    one = made()(rate=1.0)
    assert [record["weights"].tolist() for record in one.records] == [[step, step] for step in range(4)]
    assert one.finished and one.progress(one.record) == "step 3 of 3" and one.caption(one.record) == ""
    one.close()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        (
            {"knobs": (RATE, slider("size", 1, 0, 2))},
            "train must name each slider as an argument, or .*: got slider='size'",
        ),
        ({"knobs": (RATE, RATE)}, "each knob of a Lab must have a name of its own: got name='rate'"),
        ({"knobs": (slider("seed", 1, 0, 2),)}, "must not be what every Lab has, seed or device: got name='seed'"),
        ({"panels": PANELS[0]}, r"panels must be a sequence of Panels, as in panels=\(Panel\(...\),\): got"),
        (
            {"stories": (Story("Fast", {"rat": 2.0}, "."),)},
            "the story 'Fast' must set knobs of its Lab: got name='rat'",
        ),
        ({"function": other}, "each argument of other must be a slider's name, or have a default: got argument='size'"),
    ],
)
def test_parts_that_do_not_fit_are_refused_when_the_lab_is_declared(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(**parts)


def test_the_ends_of_a_slider_bind_and_whole_numbers_stay_whole() -> None:
    with pytest.raises(ValueError, match="the slider rate must begin between its ends: got default=3"):
        slider("rate", 3.0, 0.0, 2.0)
    for rate, rule in ((2.5, "at most 2.0"), (-1.0, "at least 0.0")):
        with pytest.raises(ValueError, match=f"rate must be {rule} in a Lab: got rate={rate}"):
            made()(rate=rate)
    one = made(knobs=(slider("rate", 1, 0, 3),))(rate=2.0)
    assert one.values["rate"] == 2 and isinstance(one.values["rate"], int)
    one.close()


@pytest.mark.parametrize(
    ("parts", "sentence"),
    [
        ({"function": numbers}, "numbers must yield records, such as dicts: got 0.0"),
        ({"function": nothing}, r"nothing must yield .*: got None from return \(is there a yield\?\)"),
        (
            {"panels": (Panel("L", lambda ax, now: now.curve("los")),)},
            "must be one of 'step', 'loss', 'weights': got 'los'",
        ),
    ],
)
def test_what_goes_wrong_in_a_run_says_why(parts: dict[str, Any], sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        made(**parts)()


def test_records_of_unequal_shapes_can_be_drawn_but_not_saved(tmp_path: Path) -> None:
    one = made(ragged)()
    with pytest.raises(ValueError, match=r"records must have the same keys, and arrays of one shape, .*: got weights"):
        one.save_data(tmp_path / "ragged.nc")
    one.close()
