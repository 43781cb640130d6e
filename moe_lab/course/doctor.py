"""Reports what is installed, which commands will run, which device they use, and which data sets are present.

What a command will need is tried, as far as that can be done in a second: packages, parts of the project, room where it
writes, a port.
"""

from __future__ import annotations

import importlib
import importlib.metadata
import importlib.util
import os
import platform
from collections.abc import Mapping
from dataclasses import dataclass
from pathlib import Path

import moe_lab
from moe_lab.core.errors import MissingFileError
from moe_lab.core.files import named, unwritable
from moe_lab.core.installing import how_to_install, how_to_install_package, required
from moe_lab.course import jupyter
from moe_lab.course.copies import notebooks_folder

Row = tuple[str, str]
OLDEST_WIDGETS = (7, 7)


@dataclass(frozen=True)
class Command:
    """What a command needs to run.

    Attributes:
      extra: the extra of the package that it needs beside the package itself.
      parts: the modules of this project that it takes its content from.
      writes: bytes that it writes into the present folder when no other is named; 0 where a folder has to be named.
      pictures: whether it draws, for which matplotlib needs a folder of its own or a temporary one.
    """

    extra: str = ""
    parts: tuple[str, ...] = ()
    writes: int = 0
    pictures: bool = False


COMMANDS: Mapping[str, Command] = {
    "lab": Command("lab", ("moe_lab_widgets",), writes=2**24, pictures=True),
    "playground": Command("lab", ("moe_lab_widgets",), writes=2**20, pictures=True),
    "demo": Command(writes=2**20, pictures=True),
    "reproduce": Command(parts=("moe_lab_papers",), writes=2**24, pictures=True),
    "prune": Command("hub"),
    "class": Command("lab"),
    "class, to grade": Command("class"),
    "make site": Command("site", ("moe_lab_widgets", "moe_lab_papers"), writes=2**26, pictures=True),
}
OF_THE_COURSE = ("lab", "class", "class, to grade", "make site")
"""Those that need the notebooks."""


def report(data: Path | None = None) -> None:
    """Prints the whole report.

    Args:
      data: a folder of MNIST files to check; None for the cache of downloads.

    Raises:
      FileNotFoundError: there is no such folder.
    """
    if data is not None and not os.path.isdir(data):
        raise MissingFileError(f"data must be a folder: got {named(data)}")
    parts = [("Installed", installed()), ("Commands", commands()), ("Device", device()), ("Data sets", data_sets(data))]
    print(f"moe-lab {moe_lab.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for title, rows in parts:
        print(f"\n{title}")
        for name, value in rows:
            print(f"  {name:<20}{value}")


def installed() -> list[Row]:
    """Returns the version of each package that moe_lab and its Labs need, or what is missing."""
    rows = []
    for extra in ("", "lab"):
        for name, wanted in required(extra):
            version = _version(name)
            rows.append((name, version or f"missing: {how_to_install_package(name, wanted)}"))
    return rows


def commands() -> list[Row]:
    """Whether each command will run here, or what it lacks and how to get that."""
    return [(name, _will_run(name, command)) for name, command in COMMANDS.items()]


def _will_run(name: str, command: Command) -> str:
    lacks = [*_missing(command), *_without_course(name), *_closed(command), *(_no_server() if name == "lab" else [])]
    if lacks:
        return f"no: {'; '.join(lacks)}"
    if name == "lab" and (closed := jupyter.closed_folders()):
        folder, cause = next(iter(closed.values()))
        return f"yes, with JupyterLab's files in a temporary folder: {named(folder)} cannot be written to ({cause})"
    return "yes"


def _missing(command: Command) -> list[str]:
    """What is not installed."""
    absent = [name for name, _ in required(command.extra) if _version(name) is None]
    lacks = [f"{', '.join(absent)} missing; install with  {how_to_install(command.extra)}"] if absent else []
    lacks += [f"{part} is not importable" for part in command.parts if importlib.util.find_spec(part) is None]
    if command.extra == "lab" and "ipywidgets" not in absent:
        version = importlib.metadata.version("ipywidgets")
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_WIDGETS:
            lacks.append(f"ipywidgets must be at least 7.7: got {version}")
    return lacks


def _without_course(name: str) -> list[str]:
    """That the notebooks are not there, where a command needs them."""
    try:
        if name in OF_THE_COURSE:
            notebooks_folder()
    except MissingFileError as error:
        return [str(error)]
    return []


def _closed(command: Command) -> list[str]:
    """What cannot be written."""
    lacks = []
    if command.writes and (cause := unwritable(Path(), command.writes)):
        lacks.append(f"the present folder cannot be written to ({cause}); call it in another")
    if command.pictures and (cause := _no_pictures()):
        lacks.append(cause)
    return lacks


def _no_pictures() -> str:
    """Why matplotlib will not start, which needs a folder of its own or a temporary one; "" if it will."""
    try:
        importlib.import_module("matplotlib").get_configdir()
    except OSError as error:
        return " ".join(str(error).split())
    return ""


def _no_server() -> list[str]:
    """Why nothing can be served."""
    cause = jupyter.unavailable("127.0.0.1")
    return [f"no port of 127.0.0.1 can be opened ({cause})"] if cause else []


def _version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def device() -> list[Row]:
    """Returns the device that "auto" chooses, and the processors that torch will use."""
    import torch

    from moe_lab.core.devices import label_of

    return [("auto", label_of("auto")), ("processor threads", str(torch.get_num_threads()))]


def data_sets(folder: Path | None) -> list[Row]:
    """Returns which data sets are present, and where."""
    from moe_lab.datasets import mnist

    place = mnist.cache_folder() if folder is None else folder
    found = mnist.find(folder)
    pairs = {"train": "60,000 training images", "t10k": "10,000 test images"}
    present = ", ".join(pairs.get(name, name) for name in found)
    return [
        ("digits (8x8)", "embedded in scikit-learn"),
        ("mnist", f"{present} in {place}" if found else f"none in {place}"),
    ]
