"""The state of a run that a Runner trains, and of the picture of it."""

from __future__ import annotations

from enum import Enum, IntEnum, StrEnum

from moe_lab_widgets.engine.recorder import Recorder


class Phase(Enum):
    """Where the run at hand is."""

    ABSENT = "absent"
    """None has begun, or it was dropped, or it has failed."""
    TRAINING = "training"
    """It can give further records, though it may be held."""
    ENDED = "ended"
    """It has given all records."""
    REPORTED = "reported"
    """It has ended, and the presenter knows it."""

    @property
    def ended(self) -> bool:
        return self in (Phase.ENDED, Phase.REPORTED)


class Frame(IntEnum):
    """What the picture lacks. Only `NONE` is false in a condition."""

    NONE = 0
    """Nothing."""
    NEWER = 1
    """A newer record, which can wait until the next frame is due."""
    ASKED = 2
    """A frame that somebody waits for."""


class Outcome(StrEnum):
    """How waiting for a run has come to an end. Only `OUT_OF_TIME` is false in a condition."""

    ENDED = "ended"
    """The run has come to its end."""
    HELD = "held"
    """The run is paused, and goes on with `play()`."""
    OUT_OF_TIME = "out of time"
    """The run still trains; or it was held because the seconds that it may train inside a cell are over."""

    def __bool__(self) -> bool:
        return self is not Outcome.OUT_OF_TIME


class RunState:
    """What those who show a run read of it. A Runner changes it, and nobody else.

    Args:
      records: keeps what the run gives.

    Attributes:
      playing: False where the run is held.
      resting: whether the run waits until somebody sees it.
      seconds: spent training in this run.
      error: why the run has failed.
      scrubbed_to: the index of the earlier record on show; None where the picture follows the run.
      generation: grows with each run that is asked for.
      begun: the generation of the run at hand.
    """

    def __init__(self, records: Recorder) -> None:
        self.records, self.phase = records, Phase.ABSENT
        self.playing, self.resting, self.seconds = True, False, 0.0
        self.error: Exception | None = None
        self.scrubbed_to: int | None = None
        self.generation = self.begun = 0

    @property
    def goes_on(self) -> bool:
        """Whether it is neither held nor waits to be seen."""
        return self.playing and not self.resting

    @property
    def finished(self) -> bool:
        """Whether the run of the latest values has come to its end."""
        return self.phase.ended and self.begun == self.generation
