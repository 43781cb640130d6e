"""The type checker that pytest applies to every function of moe_lab (see addopts in pyproject.toml)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

import numpy as np
from beartype import BeartypeConf, FrozenDict, beartype

# Where a hint says float, a whole number will do; NumPy's numbers are numbers; and Self has no meaning to a checker
# that is given methods one by one.
_MEANING: FrozenDict[Any, Any] = FrozenDict(
    {int: int | np.integer, float: float | int | np.floating | np.integer, Self: Any}
)
_checked = beartype(conf=BeartypeConf(hint_overrides=_MEANING))


def checked(function: Callable[..., Any]) -> Callable[..., Any]:
    """The function, made to check its arguments and its result against its hints, array shapes included."""
    return _checked(function)
