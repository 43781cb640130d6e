"""The machines on which each target has held."""

from __future__ import annotations

import re
from collections.abc import Mapping

HELD: Mapping[str, str] = {
    r"joint_step_speedup": "AMD EPYC, family 25, model 1",
    r"link_.*_over_free": "AMD EPYC, family 25, model 1",
}
"""By a pattern of the figures' names."""


def held_on(figure: str) -> str:
    """Returns the machines on which a figure's target has held; "none yet" where none is known."""
    found = [machines for pattern, machines in HELD.items() if re.fullmatch(pattern, figure)]
    return found[0] if found else "none yet"
