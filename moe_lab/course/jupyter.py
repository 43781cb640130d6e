"""Starts JupyterLab on the course, in this process."""

from __future__ import annotations

import importlib.util
import os
import socket
from pathlib import Path

from moe_lab.core.errors import OperationError
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


def missing() -> list[str]:
    """Returns the modules that the course needs and that are not installed."""
    return [name for name in NEEDED if importlib.util.find_spec(name) is None]


def check(ip: str, port: int | None) -> None:
    """Checks that the course can be served, before anything is copied or started.

    Raises:
      RuntimeError: JupyterLab or the widgets are not installed, or the port is taken.
    """
    if absent := missing():
        raise OperationError(f"the course needs {' and '.join(absent)}: install with  pip install 'moe-lab[lab]'")
    if port is None:
        return
    family = socket.AF_INET6 if ":" in ip else socket.AF_INET
    with socket.socket(family, socket.SOCK_STREAM) as probe:
        probe.setsockopt(socket.SOL_SOCKET, socket.SO_REUSEADDR, 1)
        try:
            probe.bind((ip, port))
        except OSError as error:
            raise OperationError(
                f"port must be free and allowed: got port={port} on {ip} ({error.strerror})"
            ) from error


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
