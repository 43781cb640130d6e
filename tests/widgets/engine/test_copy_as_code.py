""" "Copy as code" of every Lab runs as it is pasted, wherever the sliders stand."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import matplotlib
import numpy as np
import pytest

import moe_lab_widgets
from moe_lab.config import Knob
from moe_lab_widgets import Lab

LABS = [getattr(moe_lab_widgets, name) for name in dir(moe_lab_widgets) if name.endswith("Lab") and name != "Lab"]
DEAR = {"samples", "steps", "trials", "iterations", "batch", "test_samples", "fine_tuning_steps", "neurons"}
"""What makes a run long: these stay at their sliders' lower ends."""
POSITIONS = {"PhaseTransitionLab": 1}
"""How many are tried: 3, or 1 of the map, whose code trains 64 cells."""


def somewhere(knob: Knob, random: np.random.Generator) -> Any:
    """A place of the slider, or one of the choices."""
    if knob.choices:
        return knob.choices[random.integers(len(knob.choices))]
    if knob.slider is None:
        assert isinstance(knob.default, bool), knob
        return bool(random.integers(2))
    low, high, step = knob.slider
    places = round((high - low) / step)
    place = 0 if knob.name in DEAR else int(random.integers(min(places, 8) + 1))
    value = low + step * place
    return int(value) if float(step).is_integer() and float(low).is_integer() else round(value, 6)


@pytest.mark.parametrize("kind", LABS, ids=lambda kind: kind.__name__)
def test_the_code_of_random_slider_positions_runs(kind: type[Lab], monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib, "rcParams", matplotlib.rcParams.copy())
    random = np.random.default_rng(20)
    lab = kind(playing=False)
    ran, wanted = 0, POSITIONS.get(kind.__name__, 3)
    try:
        for _ in range(40):
            values = {knob.name: somewhere(knob, random) for knob in kind.knobs} | {"seed": int(random.integers(99))}
            values = {**lab.values, **values}
            try:
                next(iter(lab.start(values)))
            except ValueError:  # a combination that the Lab refuses, in words, has no code
                continue
            said = io.StringIO()
            with contextlib.redirect_stdout(said):
                exec(compile(lab.code(values), f"<{kind.__name__} {values}>", "exec"), {"__name__": "pasted"})
            assert said.getvalue().strip(), "the code must say what came out"
            ran += 1
            if ran == wanted:
                return
    finally:
        lab.close()
    raise AssertionError(f"only {ran} of {wanted} random positions made a run")
