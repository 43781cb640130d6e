"""Starts JupyterLab on the course, in this process."""

from __future__ import annotations

import importlib.util
import os
import socket
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

from moe_lab.core.errors import OperationError
from moe_lab.core.files import named, unwritable
from moe_lab.core.installing import how_to_install
from moe_lab.registry import NOTEBOOKS

# What the Labs need to show, beyond the library itself.
NEEDED = {
    "jupyterlab": "JupyterLab",
    "ipykernel": "a Python kernel",
    "ipywidgets": "the sliders",
    "anywidget": "the live pictures",
}
FIRST_NOTEBOOK = f"{NOTEBOOKS[0].stem}.ipynb"
# labconfig/ turns off JupyterLab's question about news, which its own option for news does not; kernels/ holds a Python
# kernel that imports what Labs need as soon as it runs.
CONFIG = Path(__file__).resolve().parent / "jupyter_config"


SEARCHED = {"JUPYTER_CONFIG_DIR": "JUPYTER_CONFIG_PATH", "JUPYTER_DATA_DIR": "JUPYTER_PATH"}
"""The variables that name further folders to read, by those that name the one to read and write."""


def missing() -> list[str]:
    """Returns the modules that the course needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def check(ip: str, port: int | None) -> None:
    """Checks that the course can be served, before anything is copied or started.

    Raises:
      RuntimeError: JupyterLab or the widgets are not installed, or the port is taken.
    """
    if absent := missing():
        raise OperationError(f"the course needs {' and '.join(absent)}: install with  {how_to_install('lab')}")
    if port is not None and (refused := unavailable(ip, port)):
        raise OperationError(f"port must be free and allowed: got port={port} on {ip} ({refused})")


def unavailable(ip: str, port: int = 0) -> str:
    """Returns why nothing can be served on a port of an address, or with 0 on any; "" if it can."""
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    try:
        with socket.socket(family, socket.SOCK_STREAM) as probe:
            probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
            probe.bind((ip, port))
    except OSError as error:
        return error.strerror or str(error)
    return ""


def closed_folders() -> dict[str, tuple[Path, str]]:
    """Returns the folders of JupyterLab and its kernels that cannot be written to.

    Returns:
      by the environment variable that names another one: the folder, and why not.
    """
    from jupyter_core import paths

    folders = {
        "JUPYTER_CONFIG_DIR": paths.jupyter_config_dir(),
        "JUPYTER_DATA_DIR": paths.jupyter_data_dir(),
        "JUPYTER_RUNTIME_DIR": paths.jupyter_runtime_dir(),
        "IPYTHONDIR": os.environ.get("IPYTHONDIR") or Path("~/.ipython").expanduser(),
    }
    tried = {name: (Path(folder), unwritable(folder)) for name, folder in folders.items()}
    return {name: found for name, found in tried.items() if found[1]}


@contextmanager
def own_folders() -> Iterator[str]:
    """Gives JupyterLab temporary folders in place of those that cannot be written to, until the block ends.

    Its settings and kernels are still found where they were.

    Yields:
      a sentence on it; "" where all can be written to.

    Raises:
      RuntimeError: no temporary folder can be written to either.
    """
    closed = closed_folders()
    if not closed:
        yield ""
        return
    folder, cause = next(iter(closed.values()))
    said = f"{named(folder)} cannot be written to ({cause})"
    try:
        temporary = tempfile.TemporaryDirectory(prefix="moe_lab_", ignore_cleanup_errors=True)
    except OSError as error:
        raise OperationError(f"{said}, and neither can any temporary folder") from error
    with temporary as place:
        for variable, search in SEARCHED.items():
            if variable in closed:
                os.environ[search] = os.pathsep.join(filter(None, [os.environ.get(search), str(closed[variable][0])]))
        os.environ |= {name: str(Path(place, name.lower())) for name in closed}
        yield f"{said}: JupyterLab keeps its files in {place} until it ends."


def serve(folder: Path, *, browser: bool, port: int | None, ip: str) -> None:
    """Serves a folder with JupyterLab until it is stopped.

    Args:
      folder: the folder to show.
      browser: whether to open a browser; otherwise the address is printed.
      port: None for Jupyter's usual one, or the next that is free.
      ip: the address to listen on.
    """
    for name in ("JUPYTER_CONFIG_PATH", "JUPYTER_PATH"):
        os.environ[name] = os.pathsep.join([str(CONFIG), *filter(None, [os.environ.get(name)])])
    from jupyterlab.labapp import LabApp  # after the lines above, whose values it reads

    options = [f"--ServerApp.root_dir={folder.resolve()}", f"--ServerApp.ip={ip}"]
    # The course needs no network: no question about news, no check for new versions, no list of extensions.
    options += ["--LabApp.check_for_updates_class=jupyterlab.NeverCheckForUpdate", "--LabApp.news_url=None"]
    options += ["--LabApp.extension_manager=readonly"]
    if (folder / FIRST_NOTEBOOK).exists():
        options.append(f"--LabApp.default_url=/lab/tree/{FIRST_NOTEBOOK}")
    if not browser:
        options.append("--no-browser")
    if port is not None:
        options += [f"--ServerApp.port={port}", "--ServerApp.port_retries=0"]
    if hasattr(os, "geteuid") and os.geteuid() == 0:
        options.append("--allow-root")  # in a container the only user is root
    LabApp.launch_instance(argv=options)
