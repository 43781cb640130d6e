"""The solutions of all exercises, and the modules that hold them."""

from __future__ import annotations

import importlib
from collections.abc import Callable
from types import ModuleType
from typing import Any

from moe_lab import exercises
from moe_lab.registry import NOTEBOOKS

MODULES: dict[str, ModuleType] = {
    notebook.exercises: importlib.import_module(f"tests.solutions.{notebook.exercises}") for notebook in NOTEBOOKS
}
SOLUTIONS: dict[str, Callable[..., Any]] = {
    name: getattr(module, name) for module in MODULES.values() for name in module.WRONG
}
WRONG_OF: dict[str, dict[str, Callable[..., Any]]] = {
    name: answers for module in MODULES.values() for name, answers in module.WRONG.items()
}
"""Of each exercise, mistakes by a part of the hint that they must get."""
CHECKS: dict[str, Callable[[object], exercises.Verdict]] = {
    name.removeprefix("check_"): getattr(exercises, name) for name in exercises.__all__ if "check_" in name
}
