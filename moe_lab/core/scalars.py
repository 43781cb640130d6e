"""Numbers of NumPy and torch as Python's own, so that code, links, records and JSON hold plain values."""

from __future__ import annotations

from typing import Any

import numpy as np


def python_of(value: Any) -> Any:
    """Returns a scalar of NumPy or torch, or an array of no axes, as Python's own; in tuples, lists and dicts too.

    A number of less than double precision becomes the one that is written in the same way: float32's 0.7 becomes 0.7,
    not 0.699999988079071. Other values, arrays among them, are returned as they are.
    """
    if hasattr(value, "detach") and value.ndim == 0 and not value.is_meta:  # of torch, whose import takes a second
        value = value.detach().cpu()
        value = value.item() if str(value.dtype) == "torch.bfloat16" else value.numpy()
    if isinstance(value, np.ndarray) and value.ndim == 0 and not isinstance(value, np.ma.MaskedArray):
        value = value[()]
    if isinstance(value, np.floating) and value.itemsize < 8:
        return float(str(value))
    if isinstance(value, np.generic):
        return value.item()
    if type(value) in (tuple, list):
        return type(value)(map(python_of, value))
    if type(value) is dict:
        return {python_of(key): python_of(item) for key, item in value.items()}
    return value
