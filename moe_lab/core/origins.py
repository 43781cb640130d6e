"""The attrs of results: the call, settings and version that reproduce them, and the figure that they belong to."""

from __future__ import annotations

import hashlib
import json
import math
from collections.abc import Collection, Mapping, Sequence
from pathlib import PurePath
from typing import TYPE_CHECKING, Any

import numpy as np
import torch

from moe_lab import __version__
from moe_lab.core.config import Config, require
from moe_lab.core.devices import device_label
from moe_lab.core.scalars import python_of

if TYPE_CHECKING:
    import xarray


def origin(*, call: str, config: Any, seed: int, device: torch.device | str, paper: str, **more: Any) -> dict[str, Any]:
    """Returns the attrs of a Snapshot or Dataset: plain values only, so that every file format can hold them.

    Args:
      call: Python code that reproduces the result.
      config: all settings, as plain values.
      device: where it was computed; text stands as it is (see `moe_lab.core.trials.device_labels`).
      paper: its key, and the place in it: "chen2022, table 3".
    """
    return {
        **{name: python_of(value) for name, value in more.items()},
        "call": call,
        "config": json.dumps(config),
        "seed": python_of(seed),
        "device": device if isinstance(device, str) else device_label(device),
        "version": __version__,
        "paper": paper,
    }


def origin_of(run: Any, device: torch.device, paper: str = "", **more: Any) -> dict[str, Any]:
    """Returns the attrs of the results of one run; the paper defaults to that of the run's task."""
    return origin(
        call=run.code(),
        config=[run.record()],
        seed=run.seed,
        device=device,
        paper=paper or run.task.paper,
        **more,
    )


def call_of(name: str, arguments: Mapping[str, Any]) -> str:
    """Returns the Python expression that calls a function, without arguments that are None."""
    return f"{name}({', '.join(f'{key}={code(value)}' for key, value in arguments.items() if value is not None)})"


def code(value: Any) -> str:
    """Returns a Python expression for a value. Infinite numbers and NaN refer to the module math."""
    if isinstance(value, Config):
        return value.code()
    if isinstance(value, Mapping):
        return "{" + ", ".join(f"{key!r}: {code(item)}" for key, item in value.items()) + "}"
    if callable(value) and hasattr(value, "__name__"):
        return str(value.__name__)
    value = plain(value)
    if isinstance(value, tuple):
        items = ", ".join(code(item) for item in value)
        return f"({items},)" if len(value) == 1 else f"({items})"
    if isinstance(value, float) and not math.isfinite(value):
        return {math.inf: "math.inf", -math.inf: "-math.inf"}.get(value, "math.nan")
    return repr(value)


def plain(value: Any) -> Any:
    """Converts numbers of NumPy and torch, paths and sequences of them to Python types whose repr is code."""
    if isinstance(value, np.ndarray | torch.Tensor) and value.ndim:
        value = value.tolist()
    if isinstance(value, tuple | list):
        return tuple(plain(item) for item in value)
    return str(value) if isinstance(value, PurePath) else python_of(value)


def described(array: np.ndarray) -> dict[str, Any]:
    """Describes an array in records by its shape, type and a hash of its content."""
    held = hashlib.sha256(np.ascontiguousarray(array).tobytes()).hexdigest()
    return {"shape": list(array.shape), "dtype": str(array.dtype), "sha256": held}


def as_tuple(values: Any) -> tuple[Any, ...]:
    """Returns one value or several as a tuple of plain values."""
    values = plain(values)
    several = values if isinstance(values, Sequence) and not isinstance(values, str) else [values]
    return tuple(plain(value) for value in several)


def figure_of(data: xarray.Dataset, paper: str | tuple[str, ...], known: Collection[str]) -> str:
    """Returns which figure of a paper, or of one of several, a Dataset holds, from its attrs.

    Raises:
      ValueError: the attrs name none of the known figures.
    """
    place = str(data.attrs.get("figure", ""))
    proper = place in known and str(data.attrs.get("paper", "")).startswith(paper)
    require(proper, "data must come from one of the functions in figures", figure=place)
    return place
