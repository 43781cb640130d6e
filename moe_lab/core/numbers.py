"""What users give as arrays, taken as plain arrays of numbers.

All arrays that users give pass through here. What would be lost in silence, such as a mask or an imaginary part, is
refused in a sentence that says where it is.
"""

from __future__ import annotations

from collections.abc import Sequence
from decimal import Decimal
from numbers import Real
from typing import Any, NoReturn

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.errors import InputError
from moe_lab.core.sentences import shown
from moe_lab.core.words import with_article

Place = tuple[int, ...]
_PLAIN = (int, float, np.number, np.bool_)  # what NumPy takes as it is, bool with int
_NUMPY_HAS = (torch.float16, torch.float32, torch.float64)


def numbers_of(name: str, values: Any) -> np.ndarray:
    """Converts values to a new array of float64, which may hold NaN and infinite numbers.

    Takes arrays of any memory layout, byte order and width, sequences of them, and what converts to an array of numbers
    by itself, such as data frames; of tensors the numbers, on any device, without their graph.

    Args:
      name: what the user calls them.

    Raises:
      ValueError: they have masked or missing values, are complex, sparse, texts, dates or records, or are no array.
    """
    array = _array(name, values)
    with np.errstate(over="ignore"):  # a longer float becomes infinite
        numbers = np.array(array, dtype=np.float64, order="C")
    numbers += 0.0  # in place, as a sum of an array without axes is no array; it makes 0 of -0
    return numbers


def finite_array(name: str, values: Any) -> np.ndarray:
    """Converts values to a new array of finite float64, as `numbers_of` does.

    Raises:
      ValueError: they cannot be converted, or are not finite.
    """
    array = numbers_of(name, values)
    check_finite(name, array)
    return array


def check_finite(name: str, values: np.ndarray | Tensor) -> None:
    """Raises a ValueError that says how many numbers are NaN or infinite, and where the first of them is."""
    array = values if isinstance(values, np.ndarray) else _of_tensor(name, values)
    wrong = np.asarray(~np.isfinite(array))
    if wrong.any():
        if not wrong.ndim:
            _refuse(f"{name} must hold finite numbers", f"{name}={array:g}")
        nan = int(np.isnan(array).sum())
        infinite = int(wrong.sum()) - nan
        counts = [f"{count} {word}" for count, word in ((nan, "NaN"), (infinite, "infinite")) if count]
        _refuse(f"{name} must hold finite numbers", f"{' and '.join(counts)}, the first at {_first(wrong)}")


def integer_array(name: str, values: Any) -> np.ndarray | None:
    """Converts values to a new array (samples,) of whole numbers; None stays None.

    Raises:
      ValueError: they cannot be converted.
    """
    if values is None:
        return None
    array, rule = finite_array(name, values), f"{name} must be an array (samples,) of whole numbers"
    if array.ndim != 1:
        _refuse(rule, f"shape={array.shape}")
    wrong = (array != np.round(array)) | (np.abs(array) >= 2**31)
    if wrong.any():
        place = _first(wrong)
        _refuse(rule, f"{array[place]:g} at {place}")
    return array.astype(np.int64)


def without_losses(name: str, values: Any) -> Any:
    """Returns values for a library that converts them itself: as they are, or of tensors and sequences the numbers.

    Raises:
      ValueError: it would lose a mask, or take texts, dates or records for numbers.
    """
    if isinstance(values, Tensor | list | tuple):
        return _array(name, values)
    if _is_sparse(values):
        return values
    array = _numpy(name, values, ())
    if array.dtype.kind in "USTMm" or array.dtype.names:
        _checked(name, array, ())
    if array.dtype == object:
        texts = np.vectorize(lambda value: isinstance(value, str | bytes), otypes=[bool])(array)
        if texts.any():
            _refuse(f"{name} must hold numbers", f"{shown(array[_first(texts)], 60)} at {_first(texts)}")
    return values


# --- conversion -------------------------------------------------------------------------------------------------------


def _refuse(rule: str, got: str) -> NoReturn:
    raise InputError(f"{rule}: got {got}")


def _first(wrong: np.ndarray, at: Place = ()) -> Place:
    """The place of the first True."""
    return (*at, *(int(index) for index in np.unravel_index(int(wrong.argmax()), wrong.shape)))


def _array(name: str, values: Any, at: Place = ()) -> np.ndarray:
    """Converts values, which stand at a place in what the user gave, to an array of some type of real numbers."""
    if isinstance(values, list | tuple) and not all(issubclass(kind, _PLAIN) for kind in set(map(type, values))):
        return _stacked(name, values, at)
    return _checked(name, _numpy(name, values, at), at)


def _stacked(name: str, rows: Sequence[Any], at: Place) -> np.ndarray:
    parts = [_array(name, row, (*at, number)) for number, row in enumerate(rows)]
    shapes = [part.shape for part in parts]
    other = next((number for number, shape in enumerate(shapes) if shape != shapes[0]), 0)
    if other:
        places = (*at, 0), (*at, other)
        got = f"the shapes {shapes[0]} at {places[0]} and {shapes[other]} at {places[1]}"
        _refuse(f"{name} must have rows of one shape", got)
    return np.stack(parts)


def _numpy(name: str, values: Any, at: Place) -> np.ndarray:
    """NumPy's own conversion, of what it would not convert wrongly."""
    if _is_sparse(values):
        kind = "sparse tensor" if isinstance(values, Tensor) else type(values).__name__
        way = "to_dense" if isinstance(values, Tensor) else "toarray"
        _refuse(f"{name} must be a dense array, such as {name}.{way}()", with_article(kind))
    if isinstance(values, np.ma.MaskedArray):
        mask = np.ma.getmaskarray(values)
        if mask.any():
            got = f"{int(mask.sum())} masked, the first at {_first(mask, at)}"
            _refuse(f"{name} must have no masked values, so fill or drop them", got)
        return np.asarray(values.data)
    try:
        return _of_tensor(name, values) if isinstance(values, Tensor) else np.asarray(values)
    except (TypeError, ValueError, RuntimeError, OverflowError) as error:
        if isinstance(error, InputError):
            raise
    _refuse(f"{name} must be an array of numbers", with_article(type(values).__name__))


def _is_sparse(values: Any) -> bool:
    if isinstance(values, Tensor):
        return values.layout != torch.strided
    return hasattr(values, "toarray") or hasattr(values, "todense")


def _of_tensor(name: str, tensor: Tensor) -> np.ndarray:
    if tensor.is_meta:
        _refuse(f"{name} must hold numbers", "a tensor on the meta device, which has none")
    plain = tensor.detach()
    if plain.is_quantized:
        plain = plain.dequantize()
    if plain.is_floating_point() and plain.dtype not in _NUMPY_HAS:
        plain = plain.float()  # bfloat16 and narrower
    return np.asarray(plain.cpu().resolve_conj().resolve_neg().numpy())


def _checked(name: str, array: np.ndarray, at: Place) -> np.ndarray:
    """Returns an array of real numbers; refuses other types, of objects those that are no numbers."""
    kind = array.dtype.kind
    if kind in "biuf":
        return array
    if kind == "c":
        _refuse(f"{name} must hold real numbers, such as {name}.real or abs({name})", f"{array.dtype} numbers")
    if kind == "O":
        return _of_objects(name, array, at)
    if kind == "V" and array.dtype.names is None:  # such as JAX's bfloat16
        try:
            return array.astype(np.float64)
        except (TypeError, ValueError):
            pass
    if kind in "UST":
        return _of_objects(name, array.astype(object), at)
    fields = f" with the fields {', '.join(array.dtype.names)}" if array.dtype.names else ""
    words = {"M": "dates", "m": "spans of time"}.get(kind, "records")
    _refuse(f"{name} must hold numbers", f"{words}{fields}" if fields else f"{words} ({array.dtype})")


def _of_objects(name: str, array: np.ndarray, at: Place) -> np.ndarray:
    if not array.size:
        return np.zeros(array.shape)
    if array.ndim:
        return _stacked(name, array.tolist(), at)
    value = array.item()
    if not isinstance(value, Real | Decimal):
        rule = f"{name} must hold numbers" if at else f"{name} must be an array of numbers"
        _refuse(rule, f"{shown(value, 60)} at {at}" if at else f"{name}={shown(value, 60)}")
    try:
        return np.array(float(value))
    except OverflowError:
        _refuse(f"{name} must hold numbers below 1.8e308", f"{shown(value, 60)} at {at}")
