"""Writing files atomically."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import TYPE_CHECKING

from moe_lab.core import files
from moe_lab.core.config import require
from moe_lab.core.errors import InputError, MissingFileError, OperationError
from moe_lab.core.sentences import shown

if TYPE_CHECKING:
    import xarray


def write_whole(path: str | Path, content: bytes) -> Path:
    """Writes a file atomically: a crash leaves the old file or the new one.

    Raises:
      FileNotFoundError: its folder does not exist.
      RuntimeError: the file cannot be written.
    """
    path = Path(path).expanduser()
    if not os.path.exists(path.parent):
        raise MissingFileError(f"the folder of a file to save must exist: got folder={shown(str(path.parent))}")
    try:
        files.write_whole(path, content)
    except RuntimeError as error:
        why = files.reason(error.__cause__ or error)
        raise OperationError(
            f"{shown(str(path))} cannot be written ({why}): choose a folder you may write to"
        ) from error
    return path


def with_suffix(path: str | Path, *suffixes: str) -> Path:
    """Returns the path, with the first of the suffixes where it has none of them.

    Raises:
      ValueError: it ends in no name of a file.
    """
    path = Path(path)
    require(path.name not in ("", ".."), "a file to save must have a name", path=str(path))
    return path if path.suffix in suffixes else path.with_name(path.name + suffixes[0])


def dataset_bytes(dataset: xarray.Dataset, suffix: str) -> bytes:
    """Returns a dataset as the content of a .nc or .json file.

    Raises:
      ValueError: another suffix.
    """
    if suffix == ".json":
        return json.dumps(files.plain(dataset.to_dict()), indent=1).encode()
    if suffix != ".nc":
        raise InputError(f"a data file must end in .nc or .json: got suffix={shown(suffix)}")
    return files.netcdf(dataset)
