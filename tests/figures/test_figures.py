"""What holds for a table or figure of every room: labels, the call that makes it again, trials, files, refusals.

Rooms test which numbers a figure has, and what it refuses.
"""

from __future__ import annotations

import ast
import importlib
import inspect
import json
import pkgutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import numpy as np
import pytest
import xarray as xr

import moe_lab
from moe_lab.core.interrupts import interrupted_when
from tests.figures.cases import CASES, NAMES, SPELLED, WITH_TRIALS, Case, each

PLAIN = {"model", "algorithm"}
"""Axes whose name says all there is to say."""
CLOSE: dict[str, Any] = {"rtol": 1e-6, "atol": 1e-9}


def alike(found: xr.Dataset, wanted: xr.Dataset, case: Case) -> None:
    """Two Datasets to rounding, with the same attrs, but for times."""
    assert found.attrs == wanted.attrs
    xr.testing.assert_allclose(found.drop_vars(case.measured), wanted.drop_vars(case.measured), **CLOSE)


def reproducible_functions() -> set[Callable[..., Any]]:
    """Every function of the library that says how its result is made again."""
    found = set()
    for module in pkgutil.walk_packages(moe_lab.__path__, "moe_lab."):
        source = Path(str(importlib.util.find_spec(module.name).origin))
        for node in ast.parse(source.read_text(encoding="utf-8")).body:
            decorators = getattr(node, "decorator_list", [])
            if any(isinstance(one, ast.Call) and ast.unparse(one.func) == "reproducible" for one in decorators):
                found.add(getattr(importlib.import_module(module.name), node.name))
    return found


def test_every_figure_is_here() -> None:
    functions = reproducible_functions()
    assert len(functions) > 30 and functions <= {case.make for case in CASES.values()}


@each(CASES)
def test_variables_and_axes_say_what_they_are(case: Case) -> None:
    data = case.data
    unsaid = [name for name in data.data_vars if not str(data[name].attrs.get("long_name", "")).strip()]
    assert not unsaid
    assert data.data_vars and all(isinstance(dim, str) and dim.isidentifier() for dim in data.dims)
    settings = inspect.signature(case.make).parameters
    several = [name for name in settings if "Sequence[" in str(settings[name].annotation)]
    chosen = {dim: name for dim in data.dims for name in (dim, f"{dim}s") if name in several}
    unsaid = [dim for dim in chosen if data[dim].attrs.get("long_name", "") in ("", *({dim} - PLAIN))]
    assert unsaid == [], "axes whose values the caller chooses"
    for dim, name in chosen.items():
        if isinstance(case.settings.get(name), tuple):
            assert set(case.settings[name]) <= set(data[dim].values.tolist())


@each({**CASES, **SPELLED})
def test_the_call_in_its_attrs_makes_it_again(case: Case) -> None:
    data = case.data
    assert {"call", "config", "seed", "device", "version", "paper"} <= set(data.attrs)
    assert data.attrs["seed"] == case.settings.get("seed", 0) and json.loads(data.attrs["config"]) is not None
    alike(eval(data.attrs["call"], {**NAMES, case.make.__name__: case.make}), data, case)


@each(CASES)
def test_what_is_kept_in_a_store_is_found_again_by_whoever_takes_one(case: Case, tmp_path: Path) -> None:
    try:
        first = case.again(store=tmp_path)
    except (ValueError, TypeError) as refused:
        assert "store" in str(refused)
    else:
        kept = sorted(tmp_path.iterdir())
        alike(case.again(store=tmp_path), first, case)
        assert kept and sorted(tmp_path.iterdir()) == kept


@each({name: case for name, case in CASES.items() if case.seeded})
def test_another_seed_is_another_result(case: Case) -> None:
    other = case.again(seed=8)
    assert other.attrs["seed"] == 8
    assert any(not np.array_equal(other[name], case.data[name], equal_nan=True) for name in case.data.data_vars)


@each(WITH_TRIALS)
def test_fewer_trials_are_the_first_ones(case: Case) -> None:
    """Trial i is the same alone and among others."""
    count, axis = case.several  # type: ignore[misc]
    alone, among = case.again(**{count: 1}), case.data
    of_trials = [name for name in among.data_vars if axis in among[name].dims]
    assert among.sizes[axis] == 2 and alone.sizes[axis] == 1 and of_trials
    for name in of_trials:
        first = among[name].isel({axis: [0]})
        np.testing.assert_allclose(alone[name].transpose(*first.dims), first, **CLOSE, err_msg=name)
    assert any((among[name].isel({axis: 0}) != among[name].isel({axis: 1})).any() for name in of_trials)


@each(CASES)
def test_it_is_kept_in_a_file(case: Case, tmp_path: Path) -> None:
    case.data.to_netcdf(tmp_path / "data.nc", engine="h5netcdf")
    with xr.open_dataset(tmp_path / "data.nc", engine="h5netcdf") as read:
        assert read.attrs == case.data.attrs
        for name in (*case.data.data_vars, *case.data.dims):
            assert read[name].attrs == case.data[name].attrs
            np.testing.assert_array_equal(read[name], case.data[name])


WRONG = {"colour": "red", "seed": -1, "trials": 0, "samples": 0, "steps": 0, "device": "abacus", "precision": "float16"}
"""Values that no figure takes, of parameters that most of them have."""


def wrong_settings() -> Iterator[Any]:
    """Figures, and a setting of each that is wrong: also no value, or one value twice, where there may be several."""
    for said, case in CASES.items():
        parameters = inspect.signature(case.make).parameters
        takes_more = any(part.kind is part.VAR_KEYWORD for part in parameters.values())
        for name, value in WRONG.items():
            if name in parameters or name == "colour" or (takes_more and name in ("device", "precision")):
                many = isinstance(case.settings.get(name), tuple)
                yield pytest.param(case, {name: (value,) if many else value}, id=f"{said}-{name}")
        for name in [name for name, part in parameters.items() if "Sequence[" in str(part.annotation)]:
            yield pytest.param(case, {name: ()}, id=f"{said}-no {name}")
            given = case.settings.get(name, parameters[name].default)
            if isinstance(given, tuple):
                yield pytest.param(case, {name: given[:1] * 2}, id=f"{said}-{name} twice")


@pytest.mark.parametrize(("case", "wrong"), [*wrong_settings()])
def test_a_wrong_setting_is_refused_in_a_sentence_before_anything_trains(case: Case, wrong: dict[str, Any]) -> None:
    with pytest.raises((ValueError, TypeError), match=r": got |'colour'") as error, interrupted_when(lambda: True):
        case.again(**wrong)
    assert "\n" not in str(error.value)
