"""How much the tests may take, as the environment says."""

from __future__ import annotations

import os
from collections.abc import Iterable
from typing import TypeVar

import pytest

Case = TypeVar("Case")

QUIET = os.environ.get("MOE_LAB_TIMING", "") not in ("", "0")
"""Whether this machine does nothing else, so that times are held to their targets; otherwise only gross delays fail."""
THOROUGH = os.environ.get("MOE_LAB_THOROUGH", "") not in ("", "0")
"""Whether the tests may take an hour: what other tests show of some Labs is then shown of all, and for longer."""


def one_in(share: int, cases: Iterable[Case], first: int = 0) -> list[Case]:
    """Every third case, say, from the one with the number `first`; all where there is time."""
    return list(cases) if THOROUGH else list(cases)[first::share]


def only_thorough(reason: str) -> pytest.MarkDecorator:
    """Skips a test, saying what it takes, unless there is time."""
    return pytest.mark.skipif(not THOROUGH, reason=f"{reason}: MOE_LAB_THOROUGH=1")
