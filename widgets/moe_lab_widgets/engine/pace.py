"""When the next record of a run may be taken, and when the next frame is due."""

from __future__ import annotations

import time


class Pace:
    """The pace of a run and of its frames.

    Attributes:
      records: most records per second; 0 for no limit.
      frames: most frames per second.
    """

    OF_TRAINING, OF_RESTS = 0.09, 0.25
    """Largest share of the time that may go into drawing: taken from the training, and from the rests of a slow run."""

    def __init__(self) -> None:
        self.records, self.frames = 0.0, 30.0
        self._next_record = self._next_frame = 0.0

    def begin(self) -> None:
        """A new run begins: its first record and its first frame are due."""
        self._next_record = self._next_frame = 0.0

    def hurry(self) -> None:
        """The next record is due at once."""
        self._next_record = 0.0

    @property
    def until_record(self) -> float:
        """Seconds until the next record may be taken; negative once it may."""
        return self._next_record - time.monotonic()

    def took_record(self) -> None:
        """A record was taken."""
        if self.records > 0:
            self._next_record = max(self._next_record + 1 / self.records, time.monotonic())

    @property
    def frame_is_due(self) -> bool:
        """Whether the time of the next frame has come."""
        return time.monotonic() >= self._next_frame

    def drew_frame(self, begun: float, cost: float) -> None:
        """A frame was drawn.

        Args:
          begun: the clock when it was found to be due.
          cost: seconds that the thread computed for it; not the clock's: a busy machine must not take frames away.
        """
        pause = max(1 / self.frames, cost / (self.OF_RESTS if self.records else self.OF_TRAINING))
        late = min(max(begun - self._next_frame, 0.0), pause / 2)  # the record came some time after its frame was due
        self._next_frame = begun + pause - late
