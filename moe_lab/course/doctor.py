"""Reports what is installed, which commands will run, which device they use, and which data sets are present."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

import moe_lab
from moe_lab.core.errors import InputError, MissingFileError
from moe_lab.core.files import named

Row = tuple[str, str]
EXTRAS = {
    "lab": "lab",
    "playground": "lab",
    "demo": "",
    "reproduce": "",
    "prune": "hub",
    "class": "lab",
    "class, to grade": "class",
    "make site": "site",
}
"""The extra of the package that each command needs beside the package itself."""
OLDEST_WIDGETS = (7, 7)


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
            rows.append((name, version or f"missing: pip install '{name}{wanted}'"))
    return rows


def commands() -> list[Row]:
    """Whether each command will run, or what it lacks and how to install that."""
    return [(command, _will_run(extra)) for command, extra in EXTRAS.items()]


def _will_run(extra: str) -> str:
    absent = [name for name, _ in required(extra) if _version(name) is None]
    if absent:
        return f"no: {', '.join(absent)} missing; install with  pip install 'moe-lab[{extra}]'"
    if extra == "lab":
        version = importlib.metadata.version("ipywidgets")
        if tuple(int(part) for part in version.split(".")[:2]) < OLDEST_WIDGETS:
            return f"no: ipywidgets must be at least 7.7: got {version}"
    return "yes"


def required(extra: str) -> list[tuple[str, str]]:
    """Returns the packages of an extra, or of moe_lab itself for "", each with its versions."""
    found = []
    for requirement in importlib.metadata.requires("moe-lab") or []:
        name, rest = _split(requirement)
        if re.findall(r"extra == ['\"](\w+)['\"]", rest) == ([extra] if extra else []):
            found.append((name, rest.split(";")[0].strip()))
    return found


def _version(name: str) -> str | None:
    """The version of an installed package, or None."""
    try:
        return importlib.metadata.version(name)
    except importlib.metadata.PackageNotFoundError:
        return None


def _split(requirement: str) -> tuple[str, str]:
    """ "torch>=2.4; extra == 'x'" as ("torch", ">=2.4; extra == 'x'")."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if name is None:
        raise InputError(f"a requirement must start with a name: got {requirement!r}")
    return name.group(), requirement[name.end() :]


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
