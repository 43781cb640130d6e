"""A real JupyterLab and a real Chromium for the browser tests."""

from __future__ import annotations

import os
import secrets
import socket
import subprocess
import sys
import time
import urllib.error
import urllib.request
from collections.abc import Callable, Collection, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest

from tests.browser.driver import NotebookPage, write_notebook
from tests.browser.link import Link
from tests.helpers.chromium import chromium

ROOT = Path(__file__).parents[2]


@dataclass(frozen=True)
class Server:
    """A running JupyterLab."""

    address: str
    token: str
    folder: Path


def _free_port() -> int:
    with socket.socket() as probe:
        probe.bind(("127.0.0.1", 0))
        return int(probe.getsockname()[1])


@pytest.fixture(scope="session")
def server(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Server]:
    """JupyterLab on this machine only."""
    chromium()
    base = tmp_path_factory.mktemp("jupyter")
    quiet = base / "settings" / "@jupyterlab" / "apputils-extension" / "notification.jupyterlab-settings"
    quiet.parent.mkdir(parents=True)
    quiet.write_text('{"fetchNews": "false", "checkForUpdates": false}')
    with serving(base, "jupyterlab", "ServerApp", "IdentityProvider", "--LabApp.expose_app_in_browser=True") as started:
        yield started


@contextmanager
def serving(
    base: Path, module: str, app: str, tokens: str, *more: str, python: str = sys.executable, path: str = ""
) -> Iterator[Server]:
    """Starts a server with a port, a token, a notebook folder and configuration folders of its own.

    Args:
      base: where the folders are made.
      module: what Python runs.
      app, tokens: the classes whose options set the address and the token.
      more: further options.
      python: that runs the server and its kernels.
      path: another folder from which the kernels import.
    """
    folder = base / "notebooks"
    folder.mkdir()
    own = {
        "JUPYTER_CONFIG_DIR": "config",
        "JUPYTER_DATA_DIR": "data",
        "JUPYTER_RUNTIME_DIR": "runtime",
        "IPYTHONDIR": "ipython",
        "JUPYTERLAB_SETTINGS_DIR": "settings",
        "JUPYTERLAB_WORKSPACES_DIR": "workspaces",
    }
    paths = os.pathsep.join(
        [*(str(ROOT / home) for home in (".", "widgets", "papers", "hub")), path, os.environ.get("PYTHONPATH", "")]
    )
    environment = {**os.environ, **{name: str(base / place) for name, place in own.items()}, "PYTHONPATH": paths}
    environment.pop("MOE_LAB_HEADLESS", None)
    if python == sys.executable:
        environment["JUPYTER_PATH"] = str(ROOT / "moe_lab" / "jupyter_config")  # as `moe-lab lab` does
    port, token = _free_port(), secrets.token_hex(16)
    options = (
        "--no-browser",
        "--allow-root",
        f"--{app}.ip=127.0.0.1",
        f"--{app}.port={port}",
        f"--{app}.port_retries=0",
        f"--{app}.terminals_enabled=False",
        f"--{tokens}.token={token}",
        *more,
    )
    log = base / "server.log"
    address = f"http://127.0.0.1:{port}"
    with log.open("wb") as output:
        command = [python, "-m", module, *options]
        process = subprocess.Popen(command, env=environment, cwd=folder, stdout=output, stderr=subprocess.STDOUT)
        try:
            _wait_for(f"{address}/api/status?token={token}", process, log)
            yield Server(address, token, folder)
        finally:
            process.terminate()
            try:
                process.wait(20)
            except subprocess.TimeoutExpired:
                process.kill()
                process.wait()


def _wait_for(address: str, process: subprocess.Popen[bytes], log: Path, seconds: float = 120) -> None:
    end = time.monotonic() + seconds
    while time.monotonic() < end:
        if process.poll() is not None:
            break
        try:
            with urllib.request.urlopen(address, timeout=5):
                return
        except (urllib.error.URLError, ConnectionError, TimeoutError):
            time.sleep(0.2)
    raise RuntimeError(f"the server did not start: {log.read_text()[-2000:]}")


@pytest.fixture(scope="module")
def link(server: Server) -> Iterator[Link]:
    """A link to the server whose bandwidth and delay a test may limit."""
    with Link(int(server.address.rpartition(":")[2])) as made:
        yield made


@pytest.fixture(scope="session")
def notebook(server: Server, browser: Any) -> Iterator[NotebookPage]:
    """A page on the server. Modules that need another connection have one of their own."""
    yield from notebook_page(server, browser, server.address)


def notebook_page(server: Server, browser: Any, address: str) -> Iterator[NotebookPage]:
    """Yields a page that finds the server at an address; its kernels are shut down afterwards.

    Beside the files a cell is as wide as a picture at scale 1, 1100 pixels.
    """
    context = browser.new_context(viewport={"width": 1532, "height": 1100})
    page = NotebookPage(context.new_page(), address, server.token, server.folder)
    yield page
    shut_down_kernels(server, page.names)
    context.close()


@pytest.fixture
def opened(notebook: NotebookPage) -> Callable[..., NotebookPage]:
    """Shows a Lab, named with its values, in a notebook. A second cell may hold more code.

    A kernel takes 15 seconds of CPU time to start, so all tests share one: running the cell again closes an earlier
    test's Lab of the same kind, and one of another kind is closed here.
    """

    name = f"{notebook.address.rpartition(':')[2]}.ipynb"  # a page through a link has a notebook of its own

    def open_lab(lab: str, more: str = "", **values: Any) -> NotebookPage:
        given = ", ".join(f"{name}={value!r}" for name, value in values.items())
        home = "tests.widgets.engine.tiny" if lab == "TinyLab" else "moe_lab_widgets"
        if notebook.name != name:
            write_notebook(notebook.folder / name, "", "")
            notebook.open(name)
        notebook.ask(f"lab.close() if type(globals().get('lab')).__name__ not in ('NoneType', {lab!r}) else None")
        notebook.write_cells(f"from {home} import {lab}\nlab = {lab}({given})\nlab", more)
        notebook.run_all()
        notebook.image.wait_for()
        notebook.image.scroll_into_view_if_needed()  # a Lab that is not on screen waits; JupyterLab may have scrolled
        return notebook

    return open_lab


def shut_down_kernels(server: Server, names: Collection[str]) -> None:
    """Ends the kernels of these notebooks, so that tests do not slow one another."""
    import json

    def ask(method: str, path: str) -> bytes:
        headers = {"Authorization": f"token {server.token}"}
        request = urllib.request.Request(f"{server.address}/api/{path}", method=method, headers=headers)
        with urllib.request.urlopen(request, timeout=20) as answer:
            return bytes(answer.read())

    for session in json.loads(ask("GET", "sessions")):
        if session["path"] in names:
            ask("DELETE", f"sessions/{session['id']}")
