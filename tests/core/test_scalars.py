"""Numbers of NumPy and torch become Python's own: in values, calls, attrs and JSON."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.core import files, origins
from moe_lab.core.figure import reproducible
from moe_lab.core.scalars import python_of
from moe_lab.patch_routing import JointMoE, PatternTask

SCALARS = [
    (np.float64(0.7), 0.7),
    (np.float32(0.7), 0.7),
    (np.float16(0.7), 0.7),
    (np.array(0.7), 0.7),
    (torch.tensor(0.7), 0.7),
    (torch.tensor(0.5, dtype=torch.bfloat16), 0.5),
    (torch.tensor(0.7, dtype=torch.float64, requires_grad=True), 0.7),
    (np.int64(4), 4),
    (np.uint8(4), 4),
    (np.array(4), 4),
    (torch.tensor(4), 4),
    (np.bool_(True), True),
    (np.array(False), False),
    (torch.tensor(True), True),
    (np.str_("paper"), "paper"),
    (np.array("paper"), "paper"),
    (0.7, 0.7),
    (None, None),
]
each = pytest.mark.parametrize("value, plain", SCALARS)


@each
def test_a_scalar_becomes_pythons_own(value: Any, plain: Any) -> None:
    for found in (python_of(value), python_of([value])[0], python_of((value,))[0], python_of({"a": value})["a"]):
        assert found == plain and type(found) is type(plain)


@each
def test_calls_attrs_and_json_hold_it_so(value: Any, plain: Any) -> None:
    assert origins.code(value) == origins.code((value,))[1:-2] == repr(plain)
    assert origins.as_tuple(value) == (plain,) and type(origins.as_tuple(value)[0]) is type(plain)
    assert json.dumps(files.plain({"a": value, "b": [value]})) == json.dumps({"a": plain, "b": [plain]})
    about = origins.origin(call="", config={}, seed=np.int64(3), device="cpu", paper="", about=value)  # type: ignore[arg-type]
    assert about["about"] == plain and type(about["about"]) is type(plain) and type(about["seed"]) is int


def test_arrays_stay_arrays_and_are_written_as_tuples() -> None:
    array = np.arange(3.0)
    assert python_of(array) is array
    assert origins.code(array) == origins.code(torch.arange(3.0)) == "(0.0, 1.0, 2.0)"
    assert origins.as_tuple(torch.arange(2)) == origins.as_tuple(np.arange(2)) == (0, 1)
    assert files.plain({"a": torch.arange(2)}) == {"a": [0, 1]}


@pytest.mark.parametrize("of", [np.float64, np.float32, np.array, torch.tensor])
def test_a_config_holds_and_writes_plain_numbers(of: Any) -> None:
    task = PatternTask(noise=of(0.4), patches=np.int64(12)).replace(gap=of(0.5))
    assert task.code() == PatternTask(noise=0.4, patches=12, gap=0.5).code() and "noise=0.4" in task.code()
    assert type(task.noise) is float and task.noise == 0.4 and type(task.patches) is int
    assert JointMoE(experts=of(4)).code() == JointMoE(experts=4).code()


@reproducible()
def _figure(share: float, names: Any = ("a",), *, trials: int = 3, **more: Any) -> xr.Dataset:
    return xr.Dataset(attrs={"settled": {"seed": np.int64(2)}})


def test_the_call_of_a_figure_holds_plain_values() -> None:
    data = _figure(
        np.float32(0.7), names=(np.str_("b"),), trials=np.int64(4), steps=torch.tensor(5), own=np.bool_(True)
    )
    assert data.attrs["call"] == "_figure(share=0.7, names=('b',), trials=4, seed=2, steps=5, own=True)"


@given(st.floats(width=16, allow_nan=False, allow_infinity=False))
@settings(max_examples=50, deadline=None)
def test_a_narrow_float_is_the_decimal_that_it_prints(value: float) -> None:
    for kind in (np.float16, np.float32):
        plain = python_of(kind(value))
        assert type(plain) is float and kind(plain) == kind(value) and len(repr(plain)) <= 15
    assert python_of(np.float32(0.1)) == 0.1 and python_of(np.float64(value)) == value
