"""Debian's Firefox, driven over WebDriver BiDi: one page, what it asks of the network, and what it complains of."""

from __future__ import annotations

import json
import os
import re
import shutil
import subprocess
import time
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

import pytest
import websocket

NAMES = ("firefox-esr", "firefox")
SECONDS = 120
"""How long an answer may take: a small map takes some ten seconds on a quiet machine."""


def firefox() -> str:
    """Returns the path of Firefox. Without one the tests are skipped on a laptop, but fail in CI."""
    found = next(filter(None, map(shutil.which, NAMES)), None)
    if found is None:
        sentence = "these tests need Firefox: apt-get install firefox-esr"
        if os.environ.get("CI", "").lower() in ("true", "1"):
            pytest.fail(sentence, pytrace=False)
        pytest.skip(sentence)
    return found


class FirefoxPage:
    """A page of a Firefox that was started for it.

    Attributes:
      requests: the addresses that were asked for.
      complaints: errors and warnings of the console.
    """

    def __init__(self, address: str) -> None:
        self._socket = websocket.create_connection(f"{address}/session", timeout=SECONDS, suppress_origin=True)
        self._number = 0
        self.requests: list[str] = []
        self.complaints: list[str] = []
        self._ask("session.new", capabilities={})
        self._ask("session.subscribe", events=["network.beforeRequestSent", "log.entryAdded"])
        self._context = self._ask("browsingContext.getTree")["contexts"][0]["context"]

    def open(self, address: str, width: int = 1366, height: int = 768) -> None:
        """Opens an address in a viewport, and waits until it has loaded."""
        viewport = {"width": width, "height": height}
        self._ask("browsingContext.setViewport", context=self._context, viewport=viewport)
        self._ask("browsingContext.navigate", context=self._context, url=address, wait="complete")

    def evaluate(self, expression: str) -> Any:
        """Returns what an expression, or the promise that it is, evaluates to; it must fit into JSON."""
        text = f"Promise.resolve({expression}).then(JSON.stringify)"
        target = {"context": self._context}
        answer = self._ask("script.evaluate", expression=text, target=target, awaitPromise=True)
        assert answer["type"] == "success", answer
        return json.loads(answer["result"].get("value", "null"))

    def press(self, key: str) -> None:
        """Presses a key, given as WebDriver names it: the right arrow is U+E014."""
        actions = [{"type": "keyDown", "value": key}, {"type": "keyUp", "value": key}]
        keys = {"type": "key", "id": "keyboard", "actions": actions}
        self._ask("input.performActions", context=self._context, actions=[keys])

    def until(self, expression: str, what: str) -> None:
        """Waits until an expression holds; fails with `what` otherwise."""
        end = time.monotonic() + SECONDS
        while not self.evaluate(expression):
            assert time.monotonic() < end, f"waited {SECONDS} s in vain: {what}"
            time.sleep(0.1)

    def close(self) -> None:
        """Ends the session."""
        self._socket.close()

    def _ask(self, method: str, **params: Any) -> Any:
        self._number += 1
        self._socket.send(json.dumps({"id": self._number, "method": method, "params": params}))
        while True:
            said = json.loads(self._socket.recv())
            if said.get("id") == self._number:
                assert said["type"] == "success", said
                return said["result"]
            self._hear(said)

    def _hear(self, said: dict[str, Any]) -> None:
        if said.get("method") == "network.beforeRequestSent":
            self.requests.append(said["params"]["request"]["url"])
        elif said.get("method") == "log.entryAdded" and said["params"]["level"] in ("error", "warn"):
            self.complaints.append(said["params"]["text"])


@contextmanager
def firefox_page(folder: Path) -> Iterator[FirefoxPage]:
    """Starts a headless Firefox whose profile is a new folder in `folder`, and yields its page."""
    profile = folder / "profile"
    profile.mkdir()
    log = folder / "firefox.log"
    command = [firefox(), "--headless", "--no-remote", "--profile", str(profile), "--remote-debugging-port", "0"]
    with log.open("wb") as output:
        process = subprocess.Popen(command, stdout=output, stderr=subprocess.STDOUT)
        page = None
        try:
            page = FirefoxPage(_address(process, log))
            yield page
        finally:
            if page is not None:
                page.close()
            process.terminate()
            process.wait(SECONDS)


def _address(process: subprocess.Popen[bytes], log: Path) -> str:
    """Returns where Firefox listens, which it writes once it has started."""
    end = time.monotonic() + SECONDS
    while time.monotonic() < end and process.poll() is None:
        if found := re.search(r"WebDriver BiDi listening on (ws://\S+)", log.read_text(errors="replace")):
            return found[1]
        time.sleep(0.1)
    raise RuntimeError(f"Firefox did not start: {log.read_text(errors='replace')[-2000:]}")
