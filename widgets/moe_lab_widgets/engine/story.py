"""A preset of a Lab, with what it shows."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any


@dataclass(frozen=True)
class Story:
    """A preset: knob values (the others take their defaults) and a sentence on what it shows."""

    name: str
    values: Mapping[str, Any]
    what_to_see: str
