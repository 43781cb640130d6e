"""Runs measurements in pieces, on several cores or a cluster; a stopped or killed run can be continued.

A piece is one call of a measurement's function. Its result is kept in a file of its own, named by all that it depends
on and written whole or not at all, so that each piece is computed once whatever happens to the others.
"""

from __future__ import annotations

import hashlib
import json
import time
import warnings
from collections.abc import Iterator, Mapping, Sequence
from contextlib import closing, contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import xarray as xr

from moe_lab import __version__
from moe_lab.core.config import require
from moe_lab.core.devices import label_of
from moe_lab.core.errors import trace_of
from moe_lab.core.files import clear_parts, from_netcdf, netcdf, plain, writable_folder, write_whole
from moe_lab.core.workers import unordered
from moe_lab_papers.claim import Budget, Measurement, imported


@dataclass(frozen=True)
class Piece:
    """One call of a measurement's function.

    Attributes:
      measurement: name of the measurement.
      function: "module:name".
      arguments: of the call, including seed and device.
      seconds: approximate duration.
    """

    measurement: str
    function: str
    arguments: Mapping[str, Any]
    seconds: float

    @property
    def trials(self) -> int:
        """Number of trials, for the progress; 1 where it has none."""
        return int(self.arguments.get("trials", 1))

    @property
    def call(self) -> str:
        """The call as Python code."""
        module, name = self.function.split(":")
        given = ", ".join(f"{key}={value!r}" for key, value in self.arguments.items())
        return f"{module}.{name}({given})"

    def path(self, folder: Path) -> Path:
        """Returns the path of its result, which depends on the call, the seed and the version of the library."""
        recipe = json.dumps([self.function, plain(dict(self.arguments)), __version__], sort_keys=True).encode()
        return folder / f"{self.measurement.replace('/', '-')}-{hashlib.sha256(recipe).hexdigest()[:16]}.nc"


@dataclass(frozen=True)
class Done:
    """A finished piece: its Dataset, or the error in words, with its traceback if it is a bug."""

    piece: Piece
    data: xr.Dataset | None
    seconds: float
    failure: str = ""
    trace: str = ""
    fresh: bool = True


@dataclass(frozen=True)
class Order:
    """How to measure.

    Attributes:
      budget: "quick", "full" or "paper".
      seed: of all random streams.
      device: as for `moe_lab.core.devices.choose`.
      folder: where finished pieces are kept.
      data: a folder of data that some measurements need.
      jobs: number of processes; None leaves it to `joblib.parallel_config`.
    """

    budget: Budget
    seed: int
    device: str
    folder: Path
    data: Path | None = None
    jobs: int | None = 1


def missing(measurement: Measurement, data: Path | None) -> str:
    """Describes the data that a measurement lacks; "" where nothing is missing."""
    if measurement.needs is None or (data is not None and measurement.needs.met(data)):
        return ""
    return f"needs {measurement.needs.what}: give its folder with --data"


def pieces(measurement: Measurement, order: Order) -> list[Piece]:
    """Returns the calls of a measurement, one per value of the argument along which it is split."""
    arguments = measurement.arguments(order.budget)
    if measurement.needs is not None:
        require(order.data is not None, "this measurement needs data", measurement=measurement.name, data=order.data)
        folder = Path(order.data or "")
        place = sorted(folder.glob(measurement.needs.pattern))[0] if measurement.needs.as_file else folder
        arguments[measurement.needs.argument] = str(place)
    arguments |= {"seed": order.seed} if measurement.seeded else {}
    arguments |= {"device": order.device} if measurement.device else {}
    parts = [arguments]
    if measurement.split is not None:
        name = measurement.split[0]
        parts = [{**arguments, name: (value,)} for value in arguments[name]]
    each = measurement.duration(order.budget) / len(parts)
    return [Piece(measurement.name, measurement.function, part, each) for part in parts]


def measured(order: Order, plan: Sequence[Piece]) -> Iterator[Done]:
    """Yields every piece once: first the kept ones, then the others as they finish, the longest started first.

    Raises:
      RuntimeError: the folder cannot be written to, or a worker process ended unexpectedly.
    """
    folder = writable_folder(order.folder)
    clear_parts(folder)
    left = []
    for piece in plan:
        stored = _stored(piece, folder)
        if stored is not None:
            yield stored
        else:
            left.append(piece)
    left.sort(key=lambda piece: -piece.seconds)
    if order.jobs == 1 or not left:
        with _one_thread():
            for piece in left:
                yield _read(piece, _work(piece, folder)[1], folder)
        return
    by_path = {str(piece.path(folder)): piece for piece in left}
    with closing(unordered(_work, ((piece, folder) for piece in left), order.jobs)) as results:
        for path, result in results:
            yield _read(by_path[path], result, folder)


@dataclass(frozen=True)
class _Result:
    """The result of a worker: the file's content if it could not write the file, or the error in words."""

    content: bytes | None = None
    failure: str = ""
    trace: str = ""


def _work(piece: Piece, folder: Path) -> tuple[str, _Result]:
    """Computes a piece in a worker, which writes its own result where it can, so that a kill loses nothing finished."""
    import torch

    torch.set_num_threads(1)
    path, started = piece.path(folder), time.perf_counter()
    try:
        data = imported(piece.function)(**piece.arguments)
    except Exception as error:  # in words: not every exception can be pickled, and one error must not stop the others
        return str(path), _Result(failure=f"{type(error).__name__}: {error}", trace=trace_of(error))
    seconds = time.perf_counter() - started
    device = label_of(piece.arguments.get("device", "cpu"))
    content = netcdf(data.assign_attrs(seconds=seconds, measured_on=device, measured_by=piece.call))
    if not folder.is_dir():
        return str(path), _Result(content)
    write_whole(path, content)
    return str(path), _Result()


def _read(piece: Piece, result: _Result, folder: Path) -> Done:
    if result.failure:
        return Done(piece, None, 0.0, result.failure, trace=result.trace)
    if result.content is not None:
        write_whole(piece.path(folder), result.content)
    stored = _stored(piece, folder)
    if stored is None:
        return Done(piece, None, 0.0, f"its result cannot be read back from {piece.path(folder)}")
    return Done(piece, stored.data, stored.seconds)


def _stored(piece: Piece, folder: Path) -> Done | None:
    """Reads a finished piece from its file; None where there is none, or, with a warning, where it is damaged."""
    path = piece.path(folder)
    if not path.is_file():
        return None
    try:
        data = from_netcdf(path.read_bytes())
        if data.attrs["measured_by"] != piece.call:
            raise ValueError("it was made by another call")
        return Done(piece, data, float(data.attrs["seconds"]), fresh=False)
    except (OSError, ValueError, KeyError) as error:
        warnings.warn(f"{path} is not a whole result ({error}); it is measured again", stacklevel=2)
        return None


def joined(measurement: Measurement, done: Sequence[Done]) -> xr.Dataset:
    """Joins the Datasets of a measurement's pieces, in the order of its calls."""
    sets = [part.data for part in done if part.data is not None]
    if measurement.split is None or len(sets) == 1:
        return sets[0]
    how: dict[str, Any] = {"compat": "override", "join": "outer", "combine_attrs": "override"}
    return xr.concat(sets, measurement.split[1], data_vars="minimal", coords="minimal", **how)


@contextmanager
def _one_thread() -> Iterator[None]:
    """Restores the number of torch threads, which pieces set to one: their steps are too small for more."""
    import torch

    before = torch.get_num_threads()
    try:
        yield
    finally:
        torch.set_num_threads(before)
