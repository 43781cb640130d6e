"""Reports what is installed, which device will be used, whether widgets can show, and which data sets are present."""

from __future__ import annotations

import importlib.metadata
import os
import platform
import re
from pathlib import Path

import moe_lab
from moe_lab import jupyter
from moe_lab.files import named

Row = tuple[str, str]


def report(data: Path | None = None) -> None:
    """Prints the whole report.

    Args:
      data: a folder of MNIST files to check; None for the cache of downloads.

    Raises:
      FileNotFoundError: there is no such folder.
    """
    if data is not None and not os.path.isdir(data):
        raise FileNotFoundError(f"data must be a folder: got {named(data)}")
    parts = [("Installed", installed()), ("Device", device()), ("Widgets", widgets()), ("Data sets", data_sets(data))]
    print(f"moe-lab {moe_lab.__version__}, Python {platform.python_version()}, {platform.platform()}")
    for title, rows in parts:
        print(f"\n{title}")
        for name, value in rows:
            print(f"  {name:<20}{value}")


def installed() -> list[Row]:
    """The version of each package that moe_lab needs, or what is missing."""
    rows = []
    for requirement in importlib.metadata.requires("moe-lab") or []:
        name, rest = _split(requirement)
        if "extra ==" in rest and "lab" not in re.findall(r"extra == ['\"](\w+)['\"]", rest):
            continue
        wanted = rest.split(";")[0].strip()
        try:
            rows.append((name, importlib.metadata.version(name)))
        except importlib.metadata.PackageNotFoundError:
            rows.append((name, f"missing: pip install '{name}{wanted}'"))
    return rows


def _split(requirement: str) -> tuple[str, str]:
    """ "torch>=2.4; extra == 'x'" as ("torch", ">=2.4; extra == 'x'")."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if name is None:
        raise ValueError(f"a requirement must start with a name: got {requirement!r}")
    return name.group(), requirement[name.end() :]


def device() -> list[Row]:
    """The device that "auto" chooses, and the processors that torch will use."""
    import torch

    from moe_lab.devices import label_of

    return [("auto", label_of("auto")), ("processor threads", str(torch.get_num_threads()))]


def widgets() -> list[Row]:
    """Whether sliders and live pictures can show in a notebook here."""
    absent = jupyter.missing()
    if absent:
        return [("can show", f"no: {', '.join(absent)} missing; install with  pip install 'moe-lab[lab]'")]
    version = importlib.metadata.version("ipywidgets")
    if tuple(int(part) for part in version.split(".")[:2]) < (7, 7):
        return [("can show", f"no: ipywidgets must be at least 7.7: got {version}")]
    return [("can show", "yes, in JupyterLab:  moe-lab lab")]


def data_sets(folder: Path | None) -> list[Row]:
    """Which data sets are present, and where."""
    from moe_lab.datasets import mnist

    place = mnist.cache_folder() if folder is None else folder
    found = mnist.find(folder)
    pairs = {"train": "60,000 training images", "t10k": "10,000 test images"}
    present = ", ".join(pairs.get(name, name) for name in found)
    return [
        ("digits (8x8)", "embedded in scikit-learn"),
        ("mnist", f"{present} in {place}" if found else f"none in {place}"),
    ]
