"""What a result says of itself makes it again, and is read back."""

from __future__ import annotations

import json
import math
from pathlib import Path

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab import __version__
from moe_lab.core.config import Config, knob
from moe_lab.core.origins import as_tuple, call_of, figure_of, origin, plain


class Settings(Config):
    """Made here, so that its code can be told from a number."""

    size: int = knob(3, meaning="a size", ge=1)


def test_attrs_are_plain_and_hold_all_that_makes_a_result_again() -> None:
    made = origin(
        call="f()", config=[{"a": 1}], seed=7, device=torch.device("cpu"), paper="chen2022, table 3", stops="at 5"
    )
    assert made == {
        "stops": "at 5",
        "call": "f()",
        "config": '[{"a": 1}]',
        "seed": 7,
        "device": "cpu",
        "version": __version__,
        "paper": "chen2022, table 3",
    }
    assert origin(call="", config={}, seed=0, device="cpu", paper="")["device"] == "cpu"
    assert json.loads(made["config"]) == [{"a": 1}]


def test_a_call_is_python() -> None:
    arguments = {
        "a": np.float64(0.5),
        "b": None,
        "c": Settings(size=4),
        "d": [np.int64(2), 3],
        "e": Path("x"),
        "f": {"g": Settings()},
    }
    said = call_of("made", arguments)
    assert said == "made(a=0.5, c=Settings(size=4), d=(2, 3), e='x', f={'g': Settings()})"
    got = eval(said, {"made": dict, "Settings": Settings})
    assert got == {"a": 0.5, "c": Settings(size=4), "d": (2, 3), "e": "x", "f": {"g": Settings()}}


def test_infinite_numbers_are_code_too() -> None:
    written = call_of("made", {"a": (1.0, np.inf, -math.inf), "b": math.nan, "c": (3,)})
    assert written == "made(a=(1.0, math.inf, -math.inf), b=math.nan, c=(3,))"
    assert eval(written, {"made": dict, "math": math})["a"] == (1.0, np.inf, -np.inf)


def test_numpy_numbers_become_numbers() -> None:
    assert [type(one) for one in as_tuple(np.array([1, 2]))] == [int, int]
    assert as_tuple("abc") == ("abc",) and as_tuple(3) == (3,)
    assert plain((np.bool_(True), [np.float32(0.5)])) == (True, (0.5,))


def test_a_dataset_says_which_figure_it_is() -> None:
    data = xr.Dataset(attrs={"figure": "table 3", "paper": "chen2022, table 3"})
    assert figure_of(data, "chen2022", {"table 3": 1}) == "table 3"
    for wrong in (xr.Dataset(), data.assign_attrs(paper="pruning2024"), data.assign_attrs(figure="table 4")):
        with pytest.raises(ValueError, match="data must come from one of the functions in figures: got figure="):
            figure_of(wrong, "chen2022", ["table 3"])
