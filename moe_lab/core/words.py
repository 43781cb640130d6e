"""Numbers and lists in words, for captions and messages."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Any

import numpy as np


def counted(count: int, word: str = "trial") -> str:
    """Returns a count with its noun: "1 trial", "3 trials"."""
    return f"{count} {word}" if count == 1 else f"{count} {word}s"


def with_article(name: str) -> str:
    """Returns a name with its article: "a JointMoE", "an ArrayTask", "an L2Loss"."""
    spelled = name[:1] in "FHLMNRSX" and not name[1:2].islower()
    return f"an {name}" if name[:1].lower() in "aeiou" or spelled else f"a {name}"


def series(parts: Iterable[str]) -> str:
    """Joins words: "a", "a and b", "a, b and c"."""
    *first, last = parts
    return f"{', '.join(first)} and {last}" if first else last


def percent(share: Any) -> str:
    """Returns a share as a percentage: "93.1 %"."""
    return f"{100 * float(share):.1f} %"


def span(values: Any, form: str = "{:.3f}", unit: str = "") -> str:
    """Returns a range: "93.1 to 96.0 %", one number if both ends round to the same, "diverged" if none is finite."""
    sizes = np.abs(np.asarray(values, dtype=float))  # an entropy of 0 may come as -0.0
    finite = sizes[np.isfinite(sizes)]
    if not finite.size:
        return "diverged"
    low, high = form.format(finite.min()), form.format(finite.max())
    return f"{low}{unit}" if low == high else f"{low} to {high}{unit}"
