"""The call in a figure's attrs makes the figure again."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import numpy as np
import pytest
import xarray as xr

from moe_lab.core.arguments import checked
from moe_lab.core.errors import InputError
from moe_lab.core.figure import call_with, reproducible


def sizes(
    samples: int | Sequence[int] = 5,
    trials: int = 2,
    names: str | Sequence[str] = ("a", "b"),
    *,
    root: str | None = None,
    task: str | None = None,
    models: Mapping[str, int] | None = None,
    **more: Any,
) -> xr.Dataset:
    return xr.Dataset(attrs={"settled": {"task": task or "usual", "rate": 0.5}} if trials > 2 else {})


made = reproducible(first=("names",))(checked(sizes))


@pytest.mark.parametrize(
    ("args", "kwargs", "said"),
    [
        ((), {}, "sizes(names=('a', 'b'), samples=(5,), trials=2)"),
        ((np.array([1, 2]),), {"names": "a"}, "sizes(names=('a',), samples=(1, 2), trials=2)"),
        (
            ([1], 2),
            {"root": "data", "steps": 3},
            "sizes(names=('a', 'b'), samples=(1,), trials=2, root='data', steps=3)",
        ),
        ((), {"store": "here", "jobs": 2, "steps": None}, "sizes(names=('a', 'b'), samples=(5,), trials=2)"),
        ((), {"models": {"x": 1}}, "sizes(names=('a', 'b'), samples=(5,), trials=2, models={'x': 1})"),
        ((5, 3), {}, "sizes(names=('a', 'b'), samples=(5,), trials=3, task='usual', rate=0.5)"),
        (
            (5, 3),
            {"steps": 4, "rate": 0.1, "task": "other"},
            "sizes(names=('a', 'b'), samples=(5,), trials=3, task='other', rate=0.5, steps=4)",
        ),
    ],
)
def test_a_call_has_the_bound_arguments(args: tuple[Any, ...], kwargs: dict[str, Any], said: str) -> None:
    found = made(*args, **kwargs)
    assert found.attrs == {"call": said}
    assert eval(said, {"sizes": made}).attrs["call"] == said


def test_a_call_without_the_result() -> None:
    assert call_with(sizes, (), {"trials": 1}) == "sizes(samples=(5,), trials=1, names=('a', 'b'))"


def test_wrong_arguments_are_refused_as_before() -> None:
    with pytest.raises(InputError, match="trials must be a whole number"):
        made(trials="two")
    assert made.__name__ == "sizes"
