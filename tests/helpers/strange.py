"""Values that no function should stumble over."""

from __future__ import annotations

LONG = "x" * 100_000


class Strange:
    """A value that cannot even be written down."""

    def __repr__(self) -> str:
        raise RuntimeError("no repr")
