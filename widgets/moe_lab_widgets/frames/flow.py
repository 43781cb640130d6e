"""How far the kernel may run ahead of a page: frames that a page has not acknowledged are counted and bounded."""

from __future__ import annotations

import threading
import time


class Flow:
    """Frames under way to one page.

    A page that is hidden, or has fallen silent, gets nothing more; the latest frame waits for it. A page cannot answer
    while a cell runs in the kernel, so a silent page still gets a frame now and then, ever more rarely, and after
    `PATIENCE` frames none.

    Args:
      frames, size: the most frames, and about the most bytes, under way.
    """

    PATIENCE = 20
    FIRST_WAIT, LONGEST_WAIT = 0.5, 4.0
    """Seconds of silence after which another frame is sent."""

    def __init__(self, frames: int, size: int) -> None:
        self.frames, self.size = frames, size
        self.hidden = False
        self.sent = 0
        """The number of the latest frame."""
        self._under_way: dict[int, int] = {}
        self._unanswered = 0
        self._sent_at = self._heard_at = 0.0
        self._lock = threading.Lock()

    def ready(self) -> bool:
        """Whether another frame may be sent now."""
        with self._lock:
            if self.hidden:
                return False
            if len(self._under_way) < self.frames and sum(self._under_way.values()) < self.size:
                return True
            if self._unanswered >= self.PATIENCE:
                return False
            wait = min(self.FIRST_WAIT * 2**self._unanswered, self.LONGEST_WAIT)
            return time.monotonic() - max(self._sent_at, self._heard_at) > wait

    def send(self, size: int) -> int:
        """Counts a frame of some bytes as under way, and returns its number."""
        with self._lock:
            if len(self._under_way) >= self.frames or sum(self._under_way.values()) >= self.size:
                self._unanswered += 1
                self._under_way.clear()
            self.sent += 1
            self._under_way[self.sent] = size
            self._sent_at = time.monotonic()
            return self.sent

    def tick(self) -> int:
        """Counts a message without a frame, and returns its number: a number sent twice would not be answered."""
        with self._lock:
            self.sent += 1
            return self.sent

    def heard(self, frame: int | None = None) -> None:
        """Takes an answer: the frames up to this one have come; None for a page that restarts."""
        with self._lock:
            self._heard_at = time.monotonic()
            self._unanswered = 0
            last = self.sent if frame is None else frame
            self._under_way = {number: size for number, size in self._under_way.items() if number > last}
