"""The type checker that pytest applies to every function of moe_lab (see addopts in pyproject.toml)."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any, Self

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
