"""Keeps finished grid points in a folder, one file each, named by a hash of everything that they depend on."""

from __future__ import annotations

import functools
import hashlib
import inspect
import io
import json
import warnings
import zipfile
import zlib
from collections.abc import Callable, Iterator, Mapping, Sequence
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import numpy as np
from filelock import FileLock, Timeout

import moe_lab
from moe_lab.core.arguments import checked
from moe_lab.core.config import Config, require
from moe_lab.core.files import clear_parts, writable_folder, write_whole
from moe_lab.core.grid import Point, Values
from moe_lab.core.origins import described

Run = Callable[..., Any]

_UNREADABLE = (OSError, ValueError, KeyError, EOFError, zipfile.BadZipFile, zlib.error, NotImplementedError)


@dataclass(frozen=True)
class Store:
    """A folder of finished grid points.

    A point's file is named by a hash of its recipe (run, config, trials, seed, library version, point) and holds the
    recipe itself, so that no other result is mistaken for it.
    """

    folder: Path
    recipe: dict[str, Any]

    @classmethod
    @checked
    def open(cls, folder: Path | str, run: Run, config: Any, trials: int, seed: int) -> Store:
        """Opens a folder, and creates it if it does not exist.

        Raises:
          ValueError: run has no name of its own, or config cannot be written down.
          RuntimeError: the folder cannot be written to.
        """
        recipe = {
            "run": _identity(run),
            "config": _plain(config),
            "trials": trials,
            "seed": seed,
            "version": moe_lab.__version__,
        }
        folder = writable_folder(folder)
        clear_parts(folder)
        return cls(folder.resolve(), recipe)

    def path(self, point: Point) -> Path:
        return self.folder / f"{hashlib.sha256(self._recipe_of(point)).hexdigest()[:32]}.npz"

    def read(self, point: Point) -> dict[str, np.ndarray] | None:
        """Returns the values of a point, (trials, ...) each; None if it is not kept, or, with a warning, damaged."""
        path = self.path(point)
        if not path.is_file():
            return None
        try:
            with np.load(io.BytesIO(path.read_bytes()), allow_pickle=False) as file:
                if file["recipe"].tobytes() != self._recipe_of(point):
                    raise ValueError("it was made by another sweep")
                values = {name.removeprefix("value/"): file[name] for name in file.files if name != "recipe"}
            if any(value.shape[:1] != (self.recipe["trials"],) for value in values.values()):
                raise ValueError("it holds another number of trials")
        except _UNREADABLE as error:
            reason = str(error).rstrip(".") or type(error).__name__
            warnings.warn(
                f"{path} is not a whole result of this sweep ({reason}); its point {point} is computed again",
                stacklevel=2,
            )
            return None
        return values

    def write(self, points: Sequence[Point], values: Values) -> None:
        """Keeps finished points; values are (points, trials, ...).

        Raises:
          RuntimeError: a file cannot be written.
        """
        for row, point in enumerate(points):
            content = io.BytesIO()
            recipe = np.frombuffer(self._recipe_of(point), np.uint8)
            np.savez(content, recipe=recipe, **{f"value/{name}": value[row] for name, value in values.items()})
            write_whole(self.path(point), content.getvalue())

    @contextmanager
    def taken(self, points: Sequence[Point]) -> Iterator[list[bool]]:
        """Locks points for the time that they are computed: True for each, False where another process has it.

        A lock ends with its process, however that ends. Where the file system has no locks, every point is taken.
        """
        held: list[FileLock | None] = []
        try:
            for point in points:
                held.append(self._lock(point))
            yield [lock is not None for lock in held]
        finally:
            for lock in held:
                if lock is not None and lock.is_locked:
                    Path(lock.lock_file).unlink(missing_ok=True)  # who waits for it finds the result first
                    lock.release()

    def _lock(self, point: Point) -> FileLock | None:
        lock = FileLock(self.path(point).with_suffix(".lock"))
        try:
            lock.acquire(blocking=False)
        except Timeout:
            return None
        except (OSError, NotImplementedError):
            return lock
        return lock

    def _recipe_of(self, point: Point) -> bytes:
        return json.dumps({**self.recipe, "point": point}, sort_keys=True).encode()


def name_of(run: Run) -> str:
    """Returns the full name of a function, or of the function inside a functools.partial."""
    inner = run.func if isinstance(run, functools.partial) else run
    return f"{inner.__module__}.{getattr(inner, '__qualname__', type(inner).__qualname__)}"


def _identity(run: Run) -> Any:
    """Identifies a run function by name, bound arguments and, outside this library, source.

    This library's own functions change with its version; a learner's function in a notebook changes without one.
    """
    name = name_of(run)
    inner = run.func if isinstance(run, functools.partial) else run
    require(
        hasattr(inner, "__qualname__") and "<" not in name,
        "a run whose results are kept must be a function at the top of a module, so that its name says what it is",
        run=name,
    )
    bound = [_plain(run.args), _plain(run.keywords)] if isinstance(run, functools.partial) else []
    return [name, bound, "" if name.startswith("moe_lab.") else _source(inner)]


def _source(item: Any) -> str:
    """A hash of the source of a function or class."""
    try:
        return hashlib.sha256(inspect.getsource(item).encode()).hexdigest()
    except (OSError, TypeError):
        return "unknown"  # typed at a prompt or compiled: its name must do


class Scratch:
    """What a run works with, and its results do not depend on: another one finds the same kept results."""


def _plain(value: Any) -> Any:
    """Converts a value to what JSON can hold, the same for equal values.

    Raises:
      ValueError: the value cannot be converted.
    """
    if isinstance(value, Scratch):
        return None
    if isinstance(value, Config):
        kind = type(value)
        own = [] if kind.__module__.startswith("moe_lab.") else [_source(kind)]  # a model of one's own may be edited
        return [kind.__qualname__, {name: _plain(getattr(value, name)) for name in kind.model_fields}, *own]
    if isinstance(value, Mapping):
        return {str(key): _plain(item) for key, item in value.items()}
    if isinstance(value, list | tuple):
        return [_plain(item) for item in value]
    if isinstance(value, np.generic):
        return value.item()
    if isinstance(value, np.ndarray) and not value.dtype.hasobject:
        return described(value)
    if isinstance(value, Path):
        return str(value)
    proper = value is None or isinstance(value, str | int | float)
    require(proper, "config must be made of Configs, numbers, strings, paths, arrays, lists and mappings", config=value)
    return value
