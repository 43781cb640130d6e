""" "Copy as code" of every Lab runs as it is pasted, wherever the sliders stand."""

from __future__ import annotations

import contextlib
import io
from typing import Any

import matplotlib
import numpy as np
import pytest

from moe_lab.core.knobs import Knob
from tests.widgets.cases import Case, one_case_in
from tests.widgets.labs import Make, done

DEAR = {"samples", "steps", "trials", "iterations", "batch", "test_samples", "fine_tuning_steps", "neurons"}
"""What makes a run long: these stay at their sliders' lower ends."""
POSITIONS = {"PhaseTransitionLab": 1}
"""How many are tried: 3, or 1 where the code takes long."""


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


def run(code: str) -> tuple[dict[str, Any], str]:
    """Returns the variables that the code leaves, and what it prints."""
    variables: dict[str, Any] = {"__name__": "pasted"}
    printed = io.StringIO()
    with contextlib.redirect_stdout(printed):
        exec(compile(code, "<pasted>", "exec"), variables)
    return variables, printed.getvalue().strip()


@one_case_in(3)
def test_copied_code_gives_the_numbers_of_the_lab(case: Case, make: Make) -> None:
    for values in case.codes:
        lab = done(make(**values, device="cpu"))  # named in the code, too, so that both compute on one device
        variables, printed = run(lab.code(lab.values))
        assert printed
        for theirs, ours in case.compared(variables, lab):
            np.testing.assert_allclose(theirs, ours, rtol=0, atol=1e-6 if case.name == "PruningLab" else 0)


@one_case_in(4, 1)
def test_the_code_of_random_slider_positions_runs(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(matplotlib, "rcParams", matplotlib.rcParams.copy())
    random = np.random.default_rng(20)
    lab = case.kind(playing=False)
    ran, wanted = 0, POSITIONS.get(case.name, 3)
    with case.short_runs(), contextlib.closing(lab):  # short in the code, too, which names the constants
        for _ in range(40):
            values = {knob.name: somewhere(knob, random) for knob in case.kind.knobs}
            values = {**lab.values, **values, "seed": int(random.integers(99))}
            try:
                next(iter(lab.start(values)))
            except ValueError:  # a combination that the Lab refuses, in words, has no code
                continue
            assert run(lab.code(values))[1], "the code must print its numbers"
            ran += 1
            if ran == wanted:
                return
    raise AssertionError(f"only {ran} of {wanted} random positions made a run")
