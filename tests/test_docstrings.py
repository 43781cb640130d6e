"""Examples in docstrings run, and give what they say."""

from __future__ import annotations

import doctest
from importlib import import_module
from pathlib import Path

import numpy as np
import pytest

from tests.helpers.effort import only_thorough

ROOT = Path(__file__).resolve().parent.parent
HOMES = {"moe_lab": ROOT, "moe_lab_papers": ROOT / "papers", "moe_lab_hub": ROOT / "hub"}
MODULES = [
    ".".join(path.relative_to(home).with_suffix("").parts).removesuffix(".__init__")
    for package, home in HOMES.items()
    for path in sorted((home / package).rglob("*.py"))
    if ">>> " in path.read_text(encoding="utf-8")
]
LONG = dict.fromkeys(
    ("moe_lab.vision.patches.training", "moe_lab.vision.rotation.training"),
    only_thorough("trains networks for half a minute"),
)


@pytest.mark.parametrize("name", [pytest.param(name, marks=LONG.get(name, ())) for name in MODULES])
def test_examples_run(name: str) -> None:
    results = doctest.testmod(import_module(name), extraglobs={"np": np})
    assert results.attempted > 0 and results.failed == 0
