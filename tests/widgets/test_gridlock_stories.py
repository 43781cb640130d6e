"""The numbers that the gridlock Lab's stories name are those of their own runs."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.recovery import transforms
from moe_lab_widgets import gridlock_settings as of
from moe_lab_widgets.gridlock import records_of
from moe_lab_widgets.gridlock_record import METHODS, WINDOW, Frame
from moe_lab_widgets.gridlock_stories import STORIES

DEFAULTS: dict[str, Any] = {knob.name: knob.default for knob in of.KNOBS}
# For every story what it says: the median of the worst |cos| after the power iterations, the median errors at the end
# (spectral + EM, joint EM, from the truth; None where it says nothing), and how many of 3 trials (found everything,
# stuck, still falling) with each method.
SAID: dict[str, tuple[str | None, tuple[str | None, ...], tuple[int, int, int], tuple[int, int, int]]] = {
    "Joint EM stuck at k = 8": ("0.83", ("0.94", "5.1", None), (3, 0, 0), (0, 2, 1)),
    "Easy: k = 3, EM needs no help": (None, ("0.32", None, None), (3, 0, 0), (3, 0, 0)),
    "The gate hides the experts": ("0.34", ("4.8", "5.1", None), (0, 0, 3), (0, 2, 1)),
    "A poor start forgiven (k = 4)": ("0.54", ("0.33", "0.33", None), (3, 0, 0), (3, 0, 0)),
    "Mixture inputs (p = .3)": (None, ("0.75", "5.4", None), (3, 0, 0), (0, 2, 1)),
    "ReLU needs more samples (n = 2000)": ("0.87", (None, None, None), (3, 0, 0), (3, 0, 0)),
    "ReLU with four times as many (n = 8000)": ("0.97", ("0.10", None, None), (3, 0, 0), (3, 0, 0)),
    "ReLU, k = 6: joint EM wins": ("0.40", ("3.4", "0.53", None), (1, 0, 2), (3, 0, 0)),
    "Oblique regressors": ("0.25", ("3.5", "5.5", None), (1, 0, 2), (0, 2, 1)),
    "Too few samples (n = 2000)": ("0.25", ("5.0", "6.1", "1.5"), (0, 3, 0), (0, 3, 0)),
    "Sigmoid drowns in noise (σ = .5)": (None, ("2.7", "3.2", None), (0, 1, 2), (0, 3, 0)),
}


def _story(name: str) -> Any:
    return next(story for story in STORIES if story.name == name)


def _last(name: str) -> Frame:
    """The last record, as the Lab has it; fewer are taken on the way, but those that its convergence test compares."""
    values = {**DEFAULTS, **_story(name).values}
    spectral, joint = of.runs(values)
    sparse = spectral.replace(record_every=5), joint.replace(record_every=WINDOW)
    *_, last = records_of(values, *sparse)
    return last


def test_every_story_is_checked_and_names_its_seed() -> None:
    assert list(SAID) == [story.name for story in STORIES]
    assert all(story.values["seed"] == 0 for story in STORIES)


@pytest.mark.slow
@pytest.mark.parametrize("name", list(SAID))
def test_the_numbers_that_a_story_names_are_those_of_its_run(name: str) -> None:
    worst, errors, *verdicts = SAID[name]
    sentence, last = _story(name).what_to_see, _last(name)
    past = last.past
    start = next(shot for shot in past.spectral if shot.step == past.power)
    if worst is not None:
        assert worst in sentence
        assert float(np.median(start["regressor_fit"])) == pytest.approx(float(worst), abs=0.006)
    best = last.best()
    assert best is not None and last.ended and last.trials == 3
    ends = [*(last.errors(method)[1][-1] for method in METHODS), best]
    for said, measured in zip(errors, ends, strict=True):
        if said is not None:
            assert said in sentence
            assert float(np.median(measured)) == pytest.approx(float(said), rel=0.02, abs=0.006)
    for method, (found, stuck, falling) in zip(METHODS, verdicts, strict=True):
        assert last.found(method).all(1).sum() == found
        assert last.stuck(method).sum() == stuck
        assert last.falling(method).sum() == falling


@pytest.mark.slow
def test_where_both_succeed_the_better_start_saves_iterations() -> None:
    name = "Easy: k = 3, EM needs no help"
    values = {**DEFAULTS, **_story(name).values}
    *_, last = records_of(values, *of.runs(values))
    needed = {}
    for method in METHODS:
        steps, errors = last.errors(method)
        middle = np.median(errors, axis=1)
        needed[method] = int(steps[np.flatnonzero(np.abs(middle / middle[-1] - 1) > 0.02)[-1] + 1])
    assert abs(needed["joint"] - 24) <= 2 and abs(needed["spectral"] - 7) <= 1
    assert "joint EM takes 24 iterations, with the better start it is 7" in _story(name).what_to_see


@pytest.mark.slow
def test_what_is_said_of_relu_beside_the_identity() -> None:
    few = "ReLU needs more samples (n = 2000)"
    values = {**DEFAULTS, **_story(few).values, "activation": "identity"}
    spectral, joint = of.runs(values)
    *_, last = records_of(values, spectral.replace(record_every=5), joint.replace(record_every=WINDOW))
    start = next(shot for shot in last.past.spectral if shot.step == last.past.power)
    assert float(np.median(start["regressor_fit"])) == pytest.approx(0.98, abs=0.006)
    ends = [np.median(_last(name).spectral["error"]) for name in (few, "ReLU with four times as many (n = 8000)")]
    assert ends == pytest.approx([0.17, 0.10], abs=0.006)
    strengths = [transforms(g, 0.1).p3.strength for g in ("identity", "relu")]
    assert strengths[0] / strengths[1] == pytest.approx(16, abs=0.5)
