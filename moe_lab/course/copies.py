"""Copies the notebooks of the course from the package to a folder where they can be edited.

A copy does not answer the notebook's questions: it stores no outputs from the first `predict` or asking Lab on. A file
that was edited stays as it is. When the package has a newer version of it, the newer one is put beside it.
"""

from __future__ import annotations

import hashlib
import json
import os
import re
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

import moe_lab
from moe_lab.core.errors import MissingFileError, OperationError
from moe_lab.core.files import named, reason, write_whole

# Hashes of the files as copied, to distinguish an edited file from one that is only old.
RECORD = ".moe_lab_course.json"
PREDICTION = "application/vnd.moe-lab.prediction+json"
"""The form of an output in which a notebook keeps what was predicted and what was seen."""

_QUESTION = re.compile(r"(?<![.\w])predict\(|\bask=True")
_LEFT_OUT = {"setup", "badges"}
"""Tags of cells that only Colab and Binder need."""


@dataclass
class Copied:
    """What `copy_course` did, by file name.

    Attributes:
      new: copied for the first time.
      updated: replaced by a newer version; the reader had not changed it.
      kept: edited by the reader, and left alone.
      beside: the edited file, and the file that holds the newer version.
    """

    new: list[str] = field(default_factory=list)
    updated: list[str] = field(default_factory=list)
    kept: list[str] = field(default_factory=list)
    beside: dict[str, str] = field(default_factory=dict)

    def sentences(self) -> list[str]:
        """Describes what was done, one sentence for each kind."""
        sentences = []
        if self.new:
            sentences.append(f"Copied {len(self.new)} new file{'s' if len(self.new) > 1 else ''}.")
        if self.updated:
            sentences.append(f"Brought up to date: {', '.join(self.updated)}.")
        if self.kept:
            sentences.append(f"Kept your version of {', '.join(self.kept)}.")
        sentences += [f"The newer version of {mine} is beside it, in {newer}." for mine, newer in self.beside.items()]
        return sentences


def notebooks_folder() -> Path:
    """Returns the folder of the notebooks: inside an installed package, or in the checkout that is imported.

    Raises:
      FileNotFoundError: they are in neither place.
    """
    package = Path(__file__).resolve().parent.parent
    for folder in (package / "_notebooks", package.parent / "notebooks"):
        if any(folder.glob("*.ipynb")):
            return folder
    raise MissingFileError(f"the course's notebooks must be beside the package: found none in {package}/_notebooks")


def for_students(notebook: Mapping[str, Any]) -> dict[str, Any]:
    """Returns a notebook as students open it: without outputs from its first question on, set-up cell and badges.

    Args:
      notebook: as JSON has it; not changed.
    """
    cells: list[Mapping[str, Any]] = []
    asked = False
    for cell in notebook["cells"]:
        if _LEFT_OUT & set(cell["metadata"].get("tags", [])):
            continue
        asked = asked or asks(cell)
        cleared = asked and cell["cell_type"] == "code"
        cells.append({**cell, "outputs": [], "execution_count": None} if cleared else cell)
    return {**notebook, "cells": cells}


def asks(cell: Mapping[str, Any]) -> bool:
    """Whether a cell asks for a prediction, by itself or in a Lab."""
    return cell["cell_type"] == "code" and _QUESTION.search("".join(cell["source"])) is not None


def as_copied(path: Path) -> bytes:
    """Returns the content of a student's copy of one of the course's files."""
    content = path.read_bytes()
    if path.suffix != ".ipynb":
        return content
    return (json.dumps(for_students(json.loads(content)), indent=1, ensure_ascii=False) + "\n").encode()


def copy_course(folder: Path, source: Path | None = None) -> Copied:
    """Copies the course to a folder, and never overwrites an edit.

    Args:
      folder: made if absent.
      source: the notebooks to copy; the package's own when None.

    Raises:
      RuntimeError: the folder cannot be written to.
      FileNotFoundError: there are no notebooks to copy.
    """
    source = notebooks_folder() if source is None else source
    try:
        folder.mkdir(parents=True, exist_ok=True)
        record = _read_record(folder / RECORD)
        copied = Copied()
        for path in _files(source):
            _copy_one(path, folder, path.relative_to(source).as_posix(), record, copied)
        _write(folder / RECORD, json.dumps(record, indent=1, sort_keys=True).encode())
    except (OSError, RuntimeError, ValueError) as error:
        cause = reason(error.__cause__ or error)
        raise OperationError(f"the course needs a writable folder: got {named(folder)} ({cause})") from error
    return copied


def _files(source: Path) -> list[Path]:
    """Returns the notebooks and the files beside them, without their .py twins and the folder's page on GitHub."""
    found = (path for path in source.rglob("*") if path.is_file() and path.suffix not in (".py", ".pyc"))
    found = (path for path in found if path.name != "README.md")
    return sorted(path for path in found if not any(part.startswith(".") for part in path.relative_to(source).parts))


def _copy_one(path: Path, folder: Path, name: str, record: dict[str, str], copied: Copied) -> None:
    """Copies one file, unless the reader has changed it, and records what was done."""
    content, target = as_copied(path), folder / name
    ours, theirs = _hash(content), _hash(target.read_bytes()) if target.exists() else None
    if theirs is None:
        _write(target, content)
        copied.new.append(name)
    elif theirs == record.get(name) and theirs != ours:
        _write(target, content)
        copied.updated.append(name)
    elif theirs != ours:
        copied.kept.append(name)
        if record.get(name) != ours:
            newer = _name_beside(folder, name, ours)
            _write(folder / newer, content)
            copied.beside[name] = newer
    record[name] = ours


def _name_beside(folder: Path, name: str, ours: str) -> str:
    """A free name for the newer version, such as "02_router_alignment.new-0.2.0.ipynb"."""
    stem, suffix = os.path.splitext(name)
    label, count = f"new-{moe_lab.__version__}", 1
    while (place := folder / f"{stem}.{label}{suffix}").exists() and _hash(place.read_bytes()) != ours:
        count += 1
        label = f"new-{moe_lab.__version__}-{count}"
    return f"{stem}.{label}{suffix}"


def _read_record(path: Path) -> dict[str, str]:
    """The record, or an empty one: without it every file that differs counts as edited, so nothing is lost."""
    try:
        found = json.loads(path.read_bytes())
    except (FileNotFoundError, ValueError):
        return {}
    return {name: known for name, known in found.items() if isinstance(known, str)} if isinstance(found, dict) else {}


def _write(path: Path, content: bytes) -> None:
    """Writes a file whole or not at all: a kill in between leaves the old one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    write_whole(path, content)


def _hash(content: bytes) -> str:
    return hashlib.sha256(content).hexdigest()
