"""The slow link of the tests is as slow as it says, and passes on every byte."""

from __future__ import annotations

import os
import socket
import threading
import time
from collections.abc import Iterator
from contextlib import suppress

import pytest

from tests.browser.link import Link

MBIT = 125_000


@pytest.fixture
def link() -> Iterator[Link]:
    """A link to a server that sends back what it receives."""
    listener = socket.create_server(("127.0.0.1", 0))

    def answer(connection: socket.socket) -> None:
        with connection:
            while data := connection.recv(65536):
                connection.sendall(data)

    def serve() -> None:
        while True:
            try:
                connection, _ = listener.accept()
            except OSError:
                return
            threading.Thread(target=answer, args=(connection,), daemon=True).start()

    threading.Thread(target=serve, daemon=True).start()
    with listener, Link(listener.getsockname()[1]) as made:
        yield made


def _connect(link: Link) -> socket.socket:
    return socket.create_connection(("127.0.0.1", link.port), timeout=20)


def _send_and_receive(connection: socket.socket, sent: bytes) -> float:
    """Seconds until all that was sent has come back."""

    def send() -> None:
        with suppress(OSError):  # which the receiver finds as well
            connection.sendall(sent)

    begun = time.monotonic()
    threading.Thread(target=send, daemon=True).start()
    received = b""
    while len(received) < len(sent):
        data = connection.recv(65536)
        if not data:
            raise ConnectionError("the other end has gone")
        received += data
    assert received == sent
    return time.monotonic() - begun


def test_the_delay_is_that_of_both_directions_and_may_change(link: Link) -> None:
    with _connect(link) as connection:
        assert _send_and_receive(connection, b"x") < 0.1
        link.delay = 0.15
        assert 0.3 <= _send_and_receive(connection, b"x") < 0.5
        link.delay = 0.0
        assert _send_and_receive(connection, b"x") < 0.1


def test_the_rate_is_shared_by_all_connections(link: Link) -> None:
    link.rate, size = 4 * MBIT, 500_000
    with _connect(link) as connection:
        alone = _send_and_receive(connection, os.urandom(size))
    assert 0.9 < alone / (size / link.rate) < 1.5
    times: list[float] = []

    def use() -> None:
        with _connect(link) as connection:
            times.append(_send_and_receive(connection, os.urandom(size)))

    users = [threading.Thread(target=use) for _ in range(2)]
    for user in users:
        user.start()
    for user in users:
        user.join()
    assert 1.8 < max(times) / (size / link.rate) < 2.6
    assert link.down.passed == link.up.passed == 3 * size


def test_a_cut_link_refuses_until_it_is_mended(link: Link) -> None:
    with _connect(link) as connection:
        _send_and_receive(connection, b"x")
        link.cut()
        with pytest.raises(ConnectionError):
            _send_and_receive(connection, b"x")
    with _connect(link) as connection, pytest.raises(ConnectionError):
        _send_and_receive(connection, b"x" * 100)
    link.mend()
    with _connect(link) as connection:
        assert _send_and_receive(connection, b"x") < 0.2
