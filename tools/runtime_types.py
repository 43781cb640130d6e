"""The type checker that pytest applies to every function of moe_lab (see addopts in pyproject.toml)."""

from __future__ import annotations

import dataclasses
import functools
import inspect
import itertools
from collections.abc import Callable
from typing import Any, Self

import jaxtyping
import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype

# A float hint accepts integers, and NumPy's scalars count as numbers. Self is not checked, because methods are checked
# one by one.
_MEANING: FrozenDict[Any, Any] = FrozenDict(
    {int: int | np.integer, float: float | int | np.floating | np.integer, Self: Any}
)
_checked = beartype(conf=BeartypeConf(hint_overrides=_MEANING))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """Returns the function with checks of its arguments and result against its hints, array shapes included."""
    return _checked(function)


CALLS_CHECKED = 5
"""Calls of each function that are checked in each test; checks of a training's every step take as long as the steps."""
_tests = itertools.count(1)
_test = 0


def new_test() -> None:
    """Has the first calls checked again."""
    global _test
    _test = next(_tests)


def check_first_calls() -> None:
    """Makes the decorator that jaxtyping's hook gives to functions check only the first calls in each test.

    It must be called before the modules to be checked are imported. A function within a function is not checked: it
    is made anew, and would be decorated anew, at each call of the outer one.
    """
    whole = jaxtyping.jaxtyped

    def decorator(*, typechecker: Any) -> Callable[[Any], Any]:
        def decorate(made: Any) -> Any:
            if inspect.isfunction(made):
                nested = "<locals>" in made.__qualname__
                return made if nested else sparing(made, whole(made, typechecker=typechecker))
            if not dataclasses.is_dataclass(made):
                return whole(made, typechecker=typechecker)
            begin = whole(made.__init__, typechecker=typechecker)  # type: ignore[misc]
            made.__init__ = sparing(made.__init__, begin)  # type: ignore[misc, method-assign]
            return made

        return decorate

    jaxtyping.jaxtyped = decorator  # type: ignore[assignment]


def sparing(plain: Callable[..., Any], checking: Callable[..., Any]) -> Callable[..., Any]:
    """Calls the function that checks, until that was often enough in the present test."""
    test, calls = 0, 0

    @functools.wraps(plain)
    def call(*arguments: Any, **settings: Any) -> Any:
        nonlocal test, calls
        if test != _test:
            test, calls = _test, 0
        calls += 1
        return (checking if calls <= CALLS_CHECKED else plain)(*arguments, **settings)

    return call
