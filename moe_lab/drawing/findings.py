"""Words of which findings are made: who is ahead, and by enough to say so."""

from __future__ import annotations

import math
from collections.abc import Mapping

from moe_lab.core.words import series


def ahead(values: Mapping[str, float], margin: float, *, least: bool = False) -> list[str]:
    """Returns the names whose value is the largest, or within `margin` of it; NaN is never ahead.

    Args:
      least: whether the smallest value is ahead.
    """
    known = {name: -value if least else value for name, value in values.items() if not math.isnan(value)}
    return [name for name, value in known.items() if value >= max(known.values()) - margin]


def who(names: list[str], of: int, one: str, several: str, all_alike: str, none: str = "") -> str:
    """Returns a sentence about those ahead, in which {} stands for their names.

    Args:
      of: how many there are in all.
      one, several: for one name, and for more.
      all_alike, none: where all are ahead, and where nobody is.
    """
    if not names:
        return none
    if len(names) == of > 1:
        return all_alike
    words = (one if len(names) == 1 else several).format(series(names))
    return words[:1].upper() + words[1:]
