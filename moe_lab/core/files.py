"""Writes files whole or not at all: a reader, or a run resumed after a kill, never sees half a file."""

from __future__ import annotations

import io
import json
import math
import os
import shutil
import sys
import tempfile
import time
import uuid
from collections.abc import Iterator
from contextlib import contextmanager, nullcontext, suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.core.errors import InputError, OperationError
from moe_lab.core.scalars import python_of
from moe_lab.core.sentences import brief

if TYPE_CHECKING:
    import xarray  # rooms import this module, and not all runs become Datasets

_PART = ".part"


def named(path: Path) -> str:
    """Returns a path as an error message names it: on one line, the middle of a long one left out."""
    return brief(str(path), 190)


def reason(error: BaseException) -> str:
    """Returns why the system refuses a file: its message, or Python's own ("embedded null byte")."""
    return getattr(error, "strerror", None) or str(error)


def writable_folder(folder: Path | str) -> Path:
    """Makes a folder if need be and checks that it can be written to, so that hours of work do not end in an error.

    Raises:
      RuntimeError: the folder cannot be made, or nothing can be written in it.
    """
    folder = Path(folder)
    try:
        folder.mkdir(parents=True, exist_ok=True)
        with tempfile.NamedTemporaryFile(dir=folder, prefix=".", suffix=_PART) as file:
            file.write(b"0")
    except (OSError, ValueError) as error:  # a ValueError where the name holds a NUL
        rule = "the folder must be writable"
        raise OperationError(f"{rule}: got {named(folder)} ({reason(error)})") from error
    return folder


def unwritable(folder: Path | str, size: int = 2**20) -> str:
    """Tries to write a file, which does not stay, in a folder, or in the nearest that is there if it has to be made.

    Args:
      size: of the file, in bytes.

    Returns:
      why it cannot be written; "" if it can.
    """
    try:
        place = Path(folder).absolute()
        place = next(one for one in (place, *place.parents) if one.exists())
        with tempfile.TemporaryFile(dir=place) as file:
            file.write(bytes(size))
            file.flush()
    except (OSError, ValueError) as error:
        return reason(error)
    return ""


def cache_folder(kind: str) -> Path:
    """Returns where downloads and trained models go when no folder is named.

    Args:
      kind: a name of the folder in the one that MOE_LAB_CACHE names, or in the user's cache.
    """
    import platformdirs  # here, because most runs need no cache

    return Path(os.environ.get("MOE_LAB_CACHE") or platformdirs.user_cache_path("moe_lab")) / kind


def write_whole(path: Path | str, content: bytes) -> None:
    """Writes a file so that it holds either its old content or all of the new one, even if the machine stops.

    The content goes to a temporary file in the same folder, is forced to the disk, and then takes the name in one move.

    Raises:
      RuntimeError: the file cannot be written; a file that was there is unchanged.
    """
    path = Path(path)
    part = path.with_name(f".{path.name}.{uuid.uuid4().hex}{_PART}")
    try:
        with part.open("xb") as file:
            file.write(content)
            file.flush()
            os.fsync(file.fileno())
        os.replace(part, path)
        _sync_folder(path.parent)
    except (OSError, ValueError) as error:
        raise OperationError(f"{named(path)} could not be written ({reason(error)})") from error
    finally:
        with suppress(OSError, ValueError):  # there only if something failed, and not if its name is too long
            part.unlink(missing_ok=True)


def check_new_folder(path: Path | str) -> None:
    """Raises a ValueError unless `whole_folder` may write there: nothing has this name, or an empty folder."""
    path = Path(path)
    empty = os.path.isdir(path) and not any(path.iterdir())
    if os.path.exists(path) and not empty:
        raise InputError(f"a folder to write must be new or empty: got {named(path)}")


@contextmanager
def whole_folder(path: Path | str) -> Iterator[Path]:
    """Makes a folder that appears under its name only when the block ends without an error, with all that was put in.

    Yields:
      a temporary folder beside it, which is removed if there was an error.

    Raises:
      ValueError: there is something under this name.
      RuntimeError: the folder cannot be made.
    """
    path = Path(path)
    check_new_folder(path)
    if path.is_symlink() or path.name in ("", ".."):  # a folder cannot be moved to the place of a link, or to "."
        path = Path(os.path.realpath(path))
    part = writable_folder(path.parent) / f".{path.name}.{uuid.uuid4().hex}{_PART}"
    part.mkdir()
    try:
        yield part
        try:
            os.replace(part, path)
        except OSError as error:
            raise OperationError(f"{named(path)} could not be written ({error.strerror})") from error
        _sync_folder(path.parent)
    finally:
        shutil.rmtree(part, ignore_errors=True)  # there only if something failed


def plain(value: Any) -> Any:
    """Converts a value for JSON: infinite and NaN become null, values of other types their str."""
    if isinstance(value, dict):
        return {str(key): plain(item) for key, item in value.items()}
    if isinstance(value, (list, tuple)):
        return [plain(item) for item in value]
    value = python_of(value)
    if isinstance(value, np.ndarray) or hasattr(value, "detach"):  # of torch
        return plain(value.tolist())
    if isinstance(value, float) and not math.isfinite(value):
        return None
    return value if value is None or isinstance(value, (bool, int, float, str)) else str(value)


def netcdf(dataset: xarray.Dataset) -> bytes:
    """Returns a Dataset as the content of a .nc file; nested attributes become JSON text."""
    flat = dataset.copy()
    flat.attrs = {str(key): _attribute(value) for key, value in dataset.attrs.items()}
    for variable in flat.variables.values():
        variable.attrs = {str(key): _attribute(value) for key, value in variable.attrs.items()}
        variable.encoding = {}  # of a file it came from: the length of its texts, to which longer ones would be cut
    with _no_shared_lock():
        return bytes(flat.to_netcdf(engine="h5netcdf"))


def from_netcdf(content: bytes) -> xarray.Dataset:
    """Reads a Dataset from the content of a .nc file.

    Raises:
      OSError, ValueError: the content is damaged.
    """
    import xarray

    with _no_shared_lock(), xarray.open_dataset(io.BytesIO(content), engine="h5netcdf") as file:
        return file.load()


@contextmanager
def _no_shared_lock() -> Iterator[None]:
    """With a Dask cluster xarray requests a lock of each file from the cluster, which a file in memory cannot have."""
    dask = sys.modules.get("dask")
    with nullcontext() if dask is None else dask.config.set(scheduler="synchronous"):
        yield


def _attribute(value: Any) -> Any:
    return value if isinstance(value, (int, float, str)) and not isinstance(value, bool) else json.dumps(plain(value))


def clear_parts(folder: Path, older_than: float = 3600) -> None:
    """Removes temporary files that a killed process left, once they are older than some seconds."""
    for part in folder.glob(f".*{_PART}"):
        try:
            if time.time() - part.stat().st_mtime > older_than:
                part.unlink()
        except FileNotFoundError:
            continue  # another process has just moved it into place


def _sync_folder(folder: Path) -> None:
    """Forces the new name to the disk, where the system lets a folder be opened (Windows does not)."""
    if os.name == "posix":
        descriptor = os.open(folder, os.O_RDONLY)
        try:
            os.fsync(descriptor)
        finally:
            os.close(descriptor)
