"""Sliders and live pictures for moe_lab. Nothing heavy is imported until a Lab is named."""

from __future__ import annotations

import importlib
from typing import TYPE_CHECKING, Any

from moe_lab.registry import LABS

if TYPE_CHECKING:
    from moe_lab_widgets.by_hand.arrows import ArrowBench
    from moe_lab_widgets.by_hand.moments import MomentBench
    from moe_lab_widgets.by_hand.pull import PullBench
    from moe_lab_widgets.by_hand.table import RoutingTable
    from moe_lab_widgets.drawing.panel import Panel
    from moe_lab_widgets.drawing.picture import Picture
    from moe_lab_widgets.engine.goal import Goal, Why
    from moe_lab_widgets.engine.knobs import LabKnob, config_from, offer
    from moe_lab_widgets.engine.lab import Lab
    from moe_lab_widgets.engine.make import lab, slider
    from moe_lab_widgets.engine.progress import goals
    from moe_lab_widgets.engine.record import Record
    from moe_lab_widgets.engine.story import Story
    from moe_lab_widgets.playing import play
    from moe_lab_widgets.prediction import predict

_HOMES = {
    "Lab": "engine.lab",
    "lab": "engine.make",
    "slider": "engine.make",
    "Record": "engine.record",
    "Panel": "drawing.panel",
    "Story": "engine.story",
    "Goal": "engine.goal",
    "Why": "engine.goal",
    "goals": "engine.progress",
    "LabKnob": "engine.knobs",
    "offer": "engine.knobs",
    "config_from": "engine.knobs",
    "Picture": "drawing.picture",
    "ArrowBench": "by_hand.arrows",
    "MomentBench": "by_hand.moments",
    "PullBench": "by_hand.pull",
    "RoutingTable": "by_hand.table",
    "predict": "prediction",
    "play": "playing",
    **{lab.name: lab.module for lab in LABS},
}

__all__ = [
    "ArrowBench",
    "Goal",
    "Lab",
    "LabKnob",
    "MomentBench",
    "Panel",
    "Picture",
    "PullBench",
    "Record",
    "RoutingTable",
    "Story",
    "Why",
    "config_from",
    "goals",
    "lab",
    "offer",
    "play",
    "predict",
    "slider",
]


def __getattr__(name: str) -> Any:
    if name not in _HOMES:
        raise AttributeError(f"module 'moe_lab_widgets' has no attribute {name!r}")
    return getattr(importlib.import_module(f"moe_lab_widgets.{_HOMES[name]}"), name)


def __dir__() -> list[str]:
    return sorted({*globals(), *_HOMES})
