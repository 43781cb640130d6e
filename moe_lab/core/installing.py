"""The command that adds an extra of moe_lab to the environment at hand, from where moe_lab itself came.

The name on PyPI is not ours yet (see CONTRIBUTING.md), so the command never asks an index for moe_lab.
"""

from __future__ import annotations

import importlib.metadata
import json
import os
import re
import sys
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit
from urllib.request import url2pathname

from moe_lab.core.errors import InputError

NAME = "moe-lab"


def how_to_install(extra: str) -> str:
    """Returns the command that installs what an extra of moe_lab needs, such as "hub".

    An editable checkout is installed again with its pinned versions; an archive, a folder or a repository from its
    address (PEP 610). Where the address is not known, as after an installation from an index, the command names the
    packages of the extra. It uses uv where uv made the environment, and is for a cell where this is a notebook.
    """
    checkout = _checkout()
    if checkout is not None:
        pins = checkout / "constraints.txt"
        constraint = f"--constraint {_quoted(str(pins))} " if pins.is_file() else ""
        return f"{_installer()} {constraint}--editable {_quoted(f'{checkout}[{extra}]')}"
    address = _address()
    if address is not None:
        return _from(f"{NAME}[{extra}] @ {address}")
    return f"{_installer()} {' '.join(_quoted(f'{name}{versions}') for name, versions in required(extra))}"


def how_to_install_package(name: str, versions: str = "") -> str:
    """Returns the command that installs another package, such as "torch" in the versions ">=2.4"."""
    return f"{_installer()} {_quoted(f'{name}{versions}')}"


def required(extra: str) -> list[tuple[str, str]]:
    """Returns the packages of an extra, or of moe_lab itself for "", each with its versions."""
    found = []
    for requirement in importlib.metadata.requires(NAME) or []:
        name, rest = _split(requirement)
        if re.findall(r"extra == ['\"](\w+)['\"]", rest) == ([extra] if extra else []):
            found.append((name, rest.split(";")[0].strip()))
    return found


def _split(requirement: str) -> tuple[str, str]:
    """ "torch>=2.4; extra == 'x'" as ("torch", ">=2.4; extra == 'x'")."""
    name = re.match(r"[A-Za-z0-9._-]+", requirement)
    if name is None:
        raise InputError(f"a requirement must start with a name: got {requirement!r}")
    return name.group(), requirement[name.end() :]


def _origin() -> dict[str, Any]:
    """Where moe_lab was installed from, as the installer noted it; {} where it came from an index."""
    noted = importlib.metadata.distribution(NAME).read_text("direct_url.json")
    return json.loads(noted) if noted else {}


def _checkout() -> Path | None:
    """The folder of an editable installation."""
    origin = _origin()
    if not origin.get("dir_info", {}).get("editable"):
        return None
    return Path(url2pathname(urlsplit(origin["url"]).path))


def _address() -> str | None:
    """The address of an archive, a folder or a repository, as a requirement states it."""
    origin = _origin()
    if "url" not in origin:
        return None
    version_control = origin.get("vcs_info", {})
    address = str(origin["url"])
    if version_control:
        revision = version_control.get("requested_revision") or version_control["commit_id"]
        address = f"{version_control['vcs']}+{address}@{revision}"
    return f"{address}#subdirectory={origin['subdirectory']}" if "subdirectory" in origin else address


def _from(requirement: str) -> str:
    """The command for an environment that holds moe_lab as a tool of uv, or for any other."""
    prefix = Path(sys.prefix)
    if (prefix / "uv-receipt.toml").is_file():
        return f"uv tool install --force {_quoted(requirement)}"
    if _made_by_uv() and prefix.parent.name.startswith("archive-"):  # of uvx, which keeps it in its cache
        return f"uvx --from {_quoted(requirement)} moe-lab"
    return f"{_installer()} {_quoted(requirement)}"


def _installer() -> str:
    python = _quoted(sys.executable)
    command = f"uv pip install --python {python}" if _made_by_uv() else f"{python} -m pip install"
    return f"!{command}" if _in_notebook() else command


def _in_notebook() -> bool:
    """Whether this is the kernel of a notebook, whose cells run a shell's commands behind an exclamation mark."""
    ipython = sys.modules.get("IPython")
    return ipython is not None and getattr(ipython.get_ipython(), "kernel", None) is not None


def _made_by_uv() -> bool:
    """Whether uv made the environment, which then has no pip."""
    settings = Path(sys.prefix) / "pyvenv.cfg"
    return settings.is_file() and re.search(r"^uv\s*=", settings.read_text(encoding="utf-8"), re.M) is not None


def _quoted(part: str) -> str:
    """A part of a command, in quotes where a shell would read more into it than its letters."""
    if re.fullmatch(r"[\w./:+-]+", part) or (os.name == "nt" and re.fullmatch(r"[\w.:\\+-]+", part)):
        return part
    return f'"{part}"'
