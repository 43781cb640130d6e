"""Tasks made of the user's own arrays: the unit in which their numbers are taken, and how a run's record names them."""

from __future__ import annotations

import math
from abc import abstractmethod
from functools import cached_property
from typing import Any

import numpy as np
from jaxtyping import Float, Int
from pydantic import ConfigDict, field_serializer

from moe_lab.core.config import Config, require
from moe_lab.core.numbers import finite_array
from moe_lab.core.origins import described
from moe_lab.core.trials import stream
from moe_lab.core.words import series


class ArrayConfig(Config):
    """A Config with arrays. A record names them by shape and hash, and code by their names.

    Each trial divides the samples of `x`, (samples, patches, d), in its own way. Step sizes and first weights suit
    patches of norm about 1, so that a trial's samples are divided by a number: the root mean square norm of the patches
    of all its training samples. Nothing that a run computes then depends on the unit of `x`.
    """

    x: Any

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

    # --- the unit of x --------------------------------------------------------------------------------------------

    @abstractmethod
    def divided(self, trial: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
        """Returns the numbers of a trial's training samples and of its test samples."""

    def norm(self, trial: int, seed: int) -> float:
        """Returns the number by which a trial's samples are divided, and by which further ones are to be."""
        return math.prod(self._norm_of(self.divided(trial, seed)[0]))

    def in_unit(self, samples: np.ndarray, trained: np.ndarray) -> Float[np.ndarray, "N n d"]:
        """Returns some samples of x, divided by the root mean square norm of the patches of the `trained` ones."""
        largest, relative = self._norm_of(trained)
        return np.asarray(self.x[samples] / largest / relative)

    @cached_property
    def _sizes(self) -> tuple[Float[np.ndarray, " samples"], Float[np.ndarray, " samples"]]:
        """The largest number of each sample, and the mean squared norm of its patches over the square of that."""
        largest = np.abs(self.x).max((1, 2))
        relative = self.x / np.where(largest > 0, largest, 1)[:, None, None]
        return largest, np.square(relative).sum(2).mean(1)

    def _norm_of(self, trained: np.ndarray) -> tuple[float, float]:
        """The root mean square norm as a product, of which neither factor overflows or vanishes."""
        largest, squares = self._sizes
        most = float(largest[trained].max()) or float(largest.max())  # training samples may all be 0
        return most, math.sqrt(np.mean(squares[trained] * np.square(largest[trained] / most))) or 1.0


def samples_array(x: Any, rule: str, axes: tuple[int, ...]) -> np.ndarray:
    """Converts x to an array of finite numbers, not all of them 0.

    Args:
      rule: the shapes that it may have, in words; axes: their numbers of axes.

    Raises:
      ConfigError: it cannot be converted.
    """
    array = finite_array("x", x)
    require(array.ndim in axes and array.size > 0, rule, shape=array.shape)
    require(bool(array.any()), "x must hold numbers other than 0", shape=array.shape)
    return array


def check_lengths(**arrays: np.ndarray | None) -> None:
    """Raises a ValueError unless the arrays, of which some may be None, have the same number of samples."""
    sizes = {name: len(array) for name, array in arrays.items() if array is not None}
    require(len(set(sizes.values())) == 1, f"{series(sizes)} must have the same number of samples", **sizes)


def check_counted(name: str, numbers: Int[np.ndarray, " samples"]) -> None:
    """Raises a ValueError unless whole numbers count from 0 without a gap: a number's size is asked of the memory."""
    found = np.unique(numbers)
    rule = f"{name} must count from 0 without a gap, as np.unique({name}, return_inverse=True)[1] does"
    require(bool((found == np.arange(len(found))).all()), rule, **{name: found[:5].tolist()})


def held_out_count(share: float, samples: int) -> int:
    """Returns the number of test samples for a share of all samples: at least one, and not all."""
    return min(max(1, round(share * samples)), samples - 1)


def split_order(seed: int, trial: int, samples: int) -> np.ndarray:
    """Returns a random order of the samples for a trial, the test samples first."""
    return stream(seed, trial, "division").permutation(samples)
