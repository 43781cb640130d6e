"""Tasks made of the user's own arrays: what is asked of the arrays, and how a run's record names them."""

from __future__ import annotations

from functools import cached_property
from typing import Any

import numpy as np
from pydantic import ConfigDict, field_serializer

from moe_lab.core.config import Config, require
from moe_lab.core.origins import described
from moe_lab.core.trials import stream


class ArrayConfig(Config):
    """A Config with arrays. A record names them by shape and hash, and code by their names."""

    model_config = ConfigDict(arbitrary_types_allowed=True)

    @field_serializer("*")
    def _described(self, value: Any) -> Any:
        return described(value) if isinstance(value, np.ndarray) else value

    @cached_property
    def _identity(self) -> str:
        """Equal for equal arrays and settings. Arrays are hashed once: a batch compares the tasks of all its runs."""
        return str(self.model_dump(mode="json"))

    def __eq__(self, other: object) -> bool:
        return type(other) is type(self) and self._identity == other._identity

    def __hash__(self) -> int:
        return hash(self._identity)

    def code(self) -> str:
        """Returns a call that needs the arrays; `record` holds their hashes."""
        arguments = [
            f"{name}={name}" if isinstance(value, np.ndarray) else f"{name}={value!r}"
            for name, field in type(self).model_fields.items()
            if isinstance(value := getattr(self, name), np.ndarray) or value != field.default
        ]
        return f"{type(self).__name__}({', '.join(arguments)})"


def held_out_count(share: float, samples: int) -> int:
    """Returns the number of test samples for a share of all samples: at least one, and not all."""
    return min(max(1, round(share * samples)), samples - 1)


def split_order(seed: int, trial: int, samples: int) -> np.ndarray:
    """Returns a random order of the samples for a trial, the test samples first."""
    return stream(seed, trial, "division").permutation(samples)


def finite_array(name: str, values: Any) -> np.ndarray:
    """Converts values to an array of finite numbers.

    Raises:
      ConfigError: they cannot be converted.
    """
    try:
        array = np.array(values, dtype=np.float64)
    except (TypeError, ValueError, OverflowError):
        array = np.array(np.nan)
    require(bool(np.isfinite(array).all()), f"{name} must be arrays of finite numbers", type=type(values).__name__)
    return array


def integer_array(names: str, values: Any) -> np.ndarray | None:
    """Converts values to an array (samples,) of whole numbers; None stays None.

    Raises:
      ConfigError: they cannot be converted.
    """
    if values is None:
        return None
    array = finite_array(names, values)
    proper = array.ndim == 1 and bool((array == np.round(array)).all()) and bool((np.abs(array) < 2**31).all())
    require(proper, f"{names} must be arrays (samples,) of whole numbers", shape=array.shape)
    return array.astype(np.int64)
