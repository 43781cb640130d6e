"""Writing files atomically."""

from __future__ import annotations

import json
from pathlib import Path
from typing import TYPE_CHECKING

from moe_lab import files

if TYPE_CHECKING:
    import xarray


def write_whole(path: str | Path, content: bytes) -> Path:
    """Writes a file atomically: a crash leaves the old file or the new one.

    Raises:
      FileNotFoundError: its folder does not exist.
      RuntimeError: the file cannot be written.
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


def dataset_bytes(dataset: xarray.Dataset, suffix: str) -> bytes:
    """Returns a dataset as the content of a .nc or .json file.

    Raises:
      ValueError: another suffix.
    """
    if suffix == ".json":
        return json.dumps(files.plain(dataset.to_dict()), indent=1).encode()
    if suffix != ".nc":
        raise ValueError(f"a data file must end in .nc or .json: got suffix={suffix!r}")
    return files.netcdf(dataset)
