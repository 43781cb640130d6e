"""The numbers that the gridlock Lab's stories name are those of their own runs."""

from __future__ import annotations

from functools import cache
from typing import Any

import numpy as np
import pytest

from moe_lab.recovery import MixtureTask, transforms
from moe_lab.recovery.gridlock import MixtureRun
from moe_lab.recovery.gridlock.training import recover, train_run
from moe_lab.recovery.gridlock.verdicts import WINDOW
from moe_lab.recovery.measures import regressor_fit
from moe_lab.recovery.printed import as_printed
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.record import side_by_side
from moe_lab_widgets.labs import gridlock, gridlock_record
from moe_lab_widgets.labs.gridlock_stories import PRINTED, STORIES
from tests.helpers.effort import one_in

EASY = "Easy: k = 3, EM needs no help"
DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in gridlock.KNOBS} | {"seed": 0}
# For every story what it says: the median of the worst |cos| after the power iterations, the median errors at the end
# (spectral + EM, joint EM, from the truth; None where it says nothing), and how many of 3 trials (found everything,
# stuck, still falling) with each method.
SAID: dict[str, tuple[str | None, tuple[str | None, ...], tuple[int, int, int], tuple[int, int, int]]] = {
    EASY: (None, ("0.32", None, None), (3, 0, 0), (3, 0, 0)),
    "Mixture inputs (p = .3)": (None, ("0.75", "5.4", None), (3, 0, 0), (0, 3, 0)),
    "Printed against derived ReLU": ("0.96", (None, None, None), (3, 0, 0), (3, 0, 0)),
    "Oblique regressors": ("0.27", ("3.1", "5.5", None), (1, 0, 2), (0, 3, 0)),
}


def _story(name: str) -> Any:
    return next(story for story in STORIES if story.name == name)


@cache
def _shots(run: MixtureRun) -> list[Any]:
    return list(train_run(run))


@cache
def _last(name: str, **changes: Any) -> MarkRecord:
    """The last record, as the Lab has it; fewer are taken on the way, but those that its test of convergence compares.

    Stories that differ in the spectral method alone have one joint EM.
    """
    values = {**DEFAULTS, **_story(name).values, **changes}
    runs = gridlock.runs(values)
    every = {"spectral": 1, "joint": 1 if name == EASY else WINDOW, "best": 20}
    runs = {which: run.replace(record_every=every[which]) for which, run in runs.items()}
    *_, last = side_by_side({which: lambda run=run: iter(_shots(run)) for which, run in runs.items()}, values, 0)
    return MarkRecord(last)


def _start_fit(last: MarkRecord) -> np.ndarray:
    """(trial,) regressor fits after the power iterations."""
    power = gridlock_record.power(last.values)
    return np.asarray(next(s for s in last.record.shots["spectral"] if s.step == power)["regressor_fit"])


def test_every_story_is_checked_and_names_its_seed() -> None:
    assert list(SAID) == [story.name for story in STORIES]
    assert all(story.values["seed"] == 0 for story in STORIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", one_in(6, SAID))
def test_the_numbers_that_a_story_names_are_those_of_its_run(name: str) -> None:
    worst, errors, *verdicts = SAID[name]
    sentence, last = _story(name).what_to_see, _last(name)
    if worst is not None:
        assert worst in sentence
        assert float(np.median(_start_fit(last))) == pytest.approx(float(worst), abs=0.006)
    assert last.ended and last.record.trials == 3
    ends = [last.last("error", method) for method in last.names]
    for said, measured in zip(errors, ends, strict=True):
        if said is not None:
            assert said in sentence
            assert float(np.median(measured)) == pytest.approx(float(said), rel=0.02, abs=0.006)
    for method, count in zip(gridlock_record.METHODS, verdicts, strict=True):
        which = gridlock_record.whole(last, method), *gridlock_record.verdicts(last, method)
        assert tuple(int(one.sum()) for one in which) == count, method


@pytest.mark.slow
def test_where_both_succeed_the_better_start_saves_iterations() -> None:
    last, needed = _last(EASY), {}
    for method in gridlock_record.METHODS:
        steps, errors = (part.numpy() for part in gridlock_record.em_errors(last, method))
        steps, errors = steps[np.isfinite(steps)], errors[np.isfinite(steps)]
        middle = np.median(errors, axis=1)
        needed[method] = int(steps[np.flatnonzero(np.abs(middle / middle[-1] - 1) > 0.02)[-1] + 1])
    assert abs(needed["joint"] - 24) <= 2 and abs(needed["spectral"] - 7) <= 1
    assert "EM takes 24 iterations, with the better start it is 7" in _story(EASY).what_to_see


@pytest.mark.slow
def test_what_is_said_of_relu_beside_the_identity() -> None:
    strengths = [transforms(g, 0.1).p3.strength for g in ("identity", "relu")]
    assert strengths[0] / strengths[1] == pytest.approx(16, abs=0.5)


@pytest.mark.slow
def test_what_is_said_of_printed_and_derived_coefficients() -> None:
    """The printed P3 is wrong, and its start is the better one all the same, on the story's seed and on others."""
    derived = transforms("relu", MixtureTask().noise)
    p3 = as_printed(derived).p3
    assert [round(one, 2) for one in (p3.residuals[1], p3.strength, derived.p3.strength)] == [0.33, 1.09, 0.37]
    assert derived.p3.residuals == pytest.approx((0, 0), abs=1e-12)
    name, fits = "Printed against derived ReLU", {}
    for third in (PRINTED, gridlock.P3):
        for seed in (0, 1, 2):
            values = {**DEFAULTS, **_story(name).values, "third": third, "seed": seed}
            run = gridlock.runs(values)["spectral"]
            samples, state = recover(run.replace(model=run.model.replace(gate_iterations=0, joint_iterations=0)))
            fits[third, seed] = float(np.median(regressor_fit(state.regressors, samples.truth.regressors)))
    assert all(fits[PRINTED, seed] > fits[gridlock.P3, seed] + 0.05 for seed in (0, 1, 2))
    assert fits[gridlock.P3, 0] == pytest.approx(0.81, abs=0.006) and "0.81 with T₃ = P3(y)" in _story(name).what_to_see
    assert (_last(name).last("regressor_fit") > 0.995).all()
