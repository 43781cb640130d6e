"""Keeps what was recorded of a Lab on the disk, for as long as the code that it comes from is the same."""

from __future__ import annotations

import hashlib
from collections.abc import Callable
from contextlib import ExitStack, suppress
from functools import cache
from pathlib import Path

import torch
from filelock import FileLock

import moe_lab
from moe_lab.core.errors import OperationError
from moe_lab.core.files import cache_folder, write_whole

HOMES = (Path(moe_lab.__file__).parent, Path(__file__).parent.parent)
"""The packages whose code decides what is recorded."""


def cached(name: str, made: Callable[[], str]) -> str:
    """Returns a text that was kept under a name, or makes and keeps it.

    Two processes that need the same text wait for one another. What other code made under this name is removed. Where
    nothing can be kept, the text is made each time.

    Args:
      name: of the Lab.
      made: returns its text, which must depend on the library's own code alone.
    """
    folder = cache_folder("pages")
    path = folder / f"{name}-{_sources()}.json"
    with ExitStack() as held:
        with suppress(OSError, NotImplementedError):  # a disk that cannot be written to, or has no locks
            folder.mkdir(parents=True, exist_ok=True)
            held.enter_context(FileLock(folder / f"{name}.lock"))
        if path.exists():
            return path.read_text(encoding="utf-8")
        text = made()
        with suppress(OperationError):  # it is shown all the same
            write_whole(path, text.encode())
            for old in set(folder.glob(f"{name}-*.json")) - {path}:
                old.unlink(missing_ok=True)
    return text


@cache
def _sources() -> str:
    """A hash of the code of the library and its Labs, and the version of torch, whose operations are recorded."""
    whole = hashlib.sha256(torch.__version__.encode())
    for home in HOMES:
        for path in sorted(home.rglob("*.py")):
            whole.update(path.relative_to(home).as_posix().encode() + path.read_bytes())
    return whole.hexdigest()[:20]
