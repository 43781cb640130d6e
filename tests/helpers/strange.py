"""Values that no function should stumble over."""

from __future__ import annotations

from collections.abc import Callable
from decimal import Decimal
from fractions import Fraction
from typing import Any

import numpy as np
import pandas as pd
import scipy.sparse
import torch
import xarray as xr

LONG = "x" * 100_000


class Strange:
    """A value that cannot even be written down."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")


def _complex(x: np.ndarray) -> torch.Tensor:
    return torch.as_tensor(x) + 1j * torch.as_tensor(x)


def _read_only(x: np.ndarray) -> np.ndarray:
    copy = x.copy()
    copy.flags.writeable = False
    return copy


OF_THE_SAME_NUMBERS: dict[str, Callable[[np.ndarray], Any]] = {
    "nothing masked": np.ma.masked_array,
    "big-endian": lambda x: x.astype(">f8"),
    "float32": lambda x: x.astype(np.float32),
    "float16": lambda x: x.astype(np.float16),
    "long double": lambda x: x.astype(np.longdouble),
    "int8": lambda x: x.astype(np.int8),
    "Fortran order": np.asfortranarray,
    "strided": lambda x: np.repeat(x, 2, axis=-1)[..., ::2],
    "reversed": lambda x: np.ascontiguousarray(x[::-1])[::-1],
    "read-only": _read_only,
    "objects": lambda x: x.astype(object),
    "fractions": lambda x: [[Fraction(value) for value in row] for row in x.tolist()],
    "decimals": lambda x: np.vectorize(Decimal, otypes=[object])(x),
    "lists": lambda x: x.tolist(),
    "a list of arrays": list,
    "a list of tensors": lambda x: [torch.tensor(row).bfloat16() for row in x],
    "a Series of arrays": lambda x: pd.Series(list(x)),
    "a frame": pd.DataFrame,
    "a frame that could hold NA": lambda x: pd.DataFrame(x).convert_dtypes(),
    "a DataArray": xr.DataArray,
    "a tensor": torch.tensor,
    "a tensor with a graph": lambda x: 1 * torch.tensor(x, requires_grad=True),
    "bfloat16": lambda x: torch.tensor(x).bfloat16(),
    "float8": lambda x: torch.tensor(x).to(torch.float8_e4m3fn),
    "int64": lambda x: torch.tensor(x).long(),
    "a view that negates": lambda x: _complex(-x).conj().imag,
    "an inference tensor": lambda x: torch.inference_mode()(lambda: torch.tensor(x) * 1)(),
}
"""Other forms of a matrix of small whole numbers: every function computes the same of them."""

NO_NUMBERS: dict[str, tuple[Callable[[np.ndarray], Any], str]] = {
    "masked": (lambda x: np.ma.masked_array(x, mask=x == 2), "have no masked values, .*: got 1 masked, .* at (1, 0)"),
    "a masked row": (
        lambda x: [x[0], np.ma.masked_array(x[1], mask=[False, True])],
        "have no masked values, .*: got 1 masked, .* at (1, 1)",
    ),
    "complex": (lambda x: x + 0j, "hold real numbers, .*: got complex128 numbers"),
    "a complex tensor": (lambda x: _complex(x).conj(), "hold real numbers, .*: got complex128 numbers"),
    "sparse": (scipy.sparse.csr_array, "be a dense array, .*: got a csr_array"),
    "a sparse tensor": (lambda x: torch.tensor(x).to_sparse(), "be a dense array, .*: got a sparse tensor"),
    "on no device": (lambda x: torch.tensor(x).to("meta"), "hold numbers: got a tensor on the meta device"),
    "None": (lambda x: [x[0].tolist(), [None, 3.0]], "hold numbers: got None at (1, 0)"),
    "NA": (lambda x: pd.DataFrame(x).mask(x == 2, pd.NA).convert_dtypes(), "hold numbers: got <NA> at (1, 0)"),
    "texts": (lambda x: x.astype(str), "hold numbers: got '0.0' at (0, 0)"),
    "a text": (lambda x: pd.DataFrame({"a": ["1", "2"], "b": [1, 2]}), "hold numbers: got '1' at (0, 0)"),
    "bytes": (lambda x: x.astype("S"), "hold numbers: got b'0.0' at (0, 0)"),
    "dates": (lambda x: x.astype("M8[D]"), "hold numbers: got dates (datetime64[D])"),
    "spans": (lambda x: x.astype("m8[s]"), "hold numbers: got spans of time (timedelta64[s])"),
    "records": (lambda x: np.zeros(2, [("a", float), ("b", int)]), "hold numbers: got records with the fields a, b"),
    "ragged": (lambda x: [[0.0, 1.0], [2.0]], "have rows of one shape: got the shapes (2,) at (0,) and (1,) at (1,)"),
    "too large": (lambda x: [[10**400, 1], [2, 3]], "hold numbers below 1.8e308: got 1000.* at (0, 0)"),
    "NaN": (lambda x: np.where(x == 2, np.nan, x), "hold finite numbers: got 1 NaN, the first at (1, 0)"),
    "infinite": (lambda x: np.where(x == 2, x, -np.inf), "hold finite numbers: got 3 infinite, the first at (0, 0)"),
    "a mapping": (lambda x: {"a": 1}, "be an array of numbers: got x={'a': 1}"),
}
"""What carries more or less than finite numbers, and the rule that it breaks, after the name and "must"."""
