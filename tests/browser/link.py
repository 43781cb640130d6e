"""A link of little bandwidth and long delay between a page and its server, on this machine.

`with Link(port) as link:` listens on `link.port` and passes on what comes, both ways, as slowly as `link.rate` and
`link.delay` say; both may change at any time. All connections share the bandwidth of a direction, as the tabs of a
browser do, and bytes that wait for their turn fill the buffers of the sender, as they would on a real link.
"""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Coroutine
from typing import Any, Self

PIECE = 4096
"""Bytes passed on at once: small enough that connections take turns."""
BUFFER = 32_768
"""Bytes that the link itself may hold back for a connection, beside what is under way."""


class Direction:
    """One direction of the link: when it is free again, and how many bytes it has passed on."""

    def __init__(self) -> None:
        self.free_at = 0.0
        self.passed = 0

    async def transmit(self, size: int, rate: float | None) -> float:
        """Waits until so many bytes have left, after those that came before them; returns the time."""
        now = asyncio.get_running_loop().time()
        self.free_at = max(self.free_at, now) + (size / rate if rate else 0.0)
        if self.free_at > now:
            await asyncio.sleep(self.free_at - now)
        return max(self.free_at, now)


class Link:
    """See the module's text.

    Args:
      server: the port on this machine that connections are passed on to.

    Attributes:
      port: where the link listens.
      rate: bytes per second in each direction; None for no limit.
      delay: seconds that each byte is under way in each direction.
      down, up: from the server to the page, and back.
    """

    def __init__(self, server: int, rate: float | None = None, delay: float = 0.0) -> None:
        self.server, self.rate, self.delay = server, rate, delay
        self.down, self.up = Direction(), Direction()
        self._loop = asyncio.new_event_loop()
        self._connections: set[asyncio.Task[None]] = set()
        self._open = True
        self._listener = socket.create_server(("127.0.0.1", 0), backlog=100)
        self._listener.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        self.port = int(self._listener.getsockname()[1])
        self._thread = threading.Thread(target=self._loop.run_forever, name="link", daemon=True)

    def __enter__(self) -> Self:
        self._thread.start()
        self._do(self._listen())
        return self

    def __exit__(self, *_: object) -> None:
        self._do(self._end())
        self._loop.call_soon_threadsafe(self._loop.stop)
        self._thread.join(10)
        self._loop.close()

    @property
    def address(self) -> str:
        """Of the server, as seen through the link."""
        return f"http://127.0.0.1:{self.port}"

    def cut(self) -> None:
        """Ends all connections and refuses new ones, until `mend`."""
        self._open = False
        self._do(self._drop())

    def mend(self) -> None:
        """Accepts connections again."""
        self._open = True

    # ---- on the link's own thread ----

    def _do(self, work: Coroutine[Any, Any, None]) -> None:
        asyncio.run_coroutine_threadsafe(work, self._loop).result(10)

    async def _listen(self) -> None:
        self._accepting = await asyncio.start_server(self._accept, sock=self._listener, limit=BUFFER)

    async def _end(self) -> None:
        self._accepting.close()
        await self._drop()

    async def _drop(self) -> None:
        connections = list(self._connections)
        for task in connections:
            task.cancel()
        await asyncio.gather(*connections, return_exceptions=True)

    async def _accept(self, page: asyncio.StreamReader, to_page: asyncio.StreamWriter) -> None:
        task = asyncio.current_task()
        assert task is not None
        self._connections.add(task)
        task.add_done_callback(self._connections.discard)
        writers = [to_page]
        try:
            if not self._open:
                return
            server, to_server = await self._connect()
            writers.append(to_server)
            async with asyncio.TaskGroup() as both:
                both.create_task(self._carry(page, to_server, self.up))
                both.create_task(self._carry(server, to_page, self.down))
        except (OSError, ExceptionGroup, asyncio.CancelledError):
            pass  # one end has gone, or the link was cut
        finally:
            for writer in writers:
                writer.transport.abort()

    async def _connect(self) -> tuple[asyncio.StreamReader, asyncio.StreamWriter]:
        end = socket.socket()
        end.setsockopt(socket.SOL_SOCKET, socket.SO_RCVBUF, BUFFER)
        end.setblocking(False)
        await self._loop.sock_connect(end, ("127.0.0.1", self.server))
        return await asyncio.open_connection(sock=end, limit=BUFFER)

    async def _carry(self, source: asyncio.StreamReader, sink: asyncio.StreamWriter, way: Direction) -> None:
        """Passes on one direction of one connection until its source or its sink ends."""
        under_way: asyncio.Queue[tuple[float, bytes]] = asyncio.Queue()
        async with asyncio.TaskGroup() as both:
            both.create_task(self._arrive(under_way, sink, way))
            piece = b"-"
            while piece:
                piece = await source.read(PIECE)
                left = await way.transmit(len(piece), self.rate)
                under_way.put_nowait((left + self.delay, piece))

    async def _arrive(
        self, under_way: asyncio.Queue[tuple[float, bytes]], sink: asyncio.StreamWriter, way: Direction
    ) -> None:
        """Hands over what has been under way for long enough; an empty piece is the end."""
        while True:
            when, piece = await under_way.get()
            wait = when - self._loop.time()
            if wait > 0:
                await asyncio.sleep(wait)
            if not piece:
                sink.write_eof()
                return
            sink.write(piece)
            await sink.drain()
            way.passed += len(piece)
