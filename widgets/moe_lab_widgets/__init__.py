"""Sliders and live pictures for moe_lab. Nothing heavy is imported until a Lab is named."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

if TYPE_CHECKING:
    from moe_lab_widgets.lab import Lab, Story, given, pick
    from moe_lab_widgets.picture import Picture, Strip

_HOMES = {
    "Lab": "lab",
    "Story": "lab",
    "pick": "lab",
    "given": "lab",
    "Picture": "picture",
    "Strip": "picture",
    "RouterAlignmentLab": "router_alignment",
    "PhaseTransitionLab": "phase_transition",
    "SpecializationLab": "specialization",
    "PruningLab": "pruning",
    "GridlockLab": "gridlock",
    "LandscapeLab": "landscape",
}

__all__ = ["Lab", "Picture", "Story", "Strip", "given", "pick"]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'moe_lab_widgets' has no attribute {name!r}")
    return getattr(importlib.import_module(f"moe_lab_widgets.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
