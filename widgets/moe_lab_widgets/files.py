"""Files are written whole or not at all."""

from __future__ import annotations

import json
import math
from pathlib import Path
from typing import Any

import numpy as np
import xarray as xr

from moe_lab import files


def write_whole(path: str | Path, content: bytes) -> Path:
    """Writes a file so that a crash leaves the old one or the new one, never half of one.

    Raises:
      FileNotFoundError: its folder does not exist.
      RuntimeError: it cannot be written there.
    """
    path = Path(path).expanduser()
    if not path.parent.exists():
        raise FileNotFoundError(f"the folder of a file to save must exist: got folder={str(path.parent)!r}")
    try:
        files.write_whole(path, content)
    except RuntimeError as error:
        reason = getattr(error.__cause__, "strerror", None) or type(error.__cause__).__name__
        raise RuntimeError(f"{str(path)!r} cannot be written ({reason}): choose a folder you may write to") from error
    return path


def _plain(value: Any) -> Any:
    """A value as JSON can hold it: infinite and NaN become null."""
    if isinstance(value, dict):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return _plain(value.item())
    if isinstance(value, np.ndarray):
        return _plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def _attribute(value: Any) -> Any:
    """An attribute as netCDF can hold it: nested things as JSON text."""
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else json.dumps(_plain(value))


def dataset_bytes(dataset: xr.Dataset, suffix: str) -> bytes:
    """A dataset as the content of a .nc or .json file.

    Raises:
      ValueError: another suffix.
    """
    if suffix == ".json":
        return json.dumps(_plain(dataset.to_dict()), indent=1).encode()
    if suffix != ".nc":
        raise ValueError(f"a data file must end in .nc or .json: got suffix={suffix!r}")
    flat = dataset.copy()
    flat.attrs = {str(key): _attribute(value) for key, value in dataset.attrs.items()}
    for variable in flat.variables.values():
        variable.attrs = {str(key): _attribute(value) for key, value in variable.attrs.items()}
    return bytes(flat.to_netcdf())
