"""What one Lab alone does in a real JupyterLab: other trials on show, looks without training, the map of a phase."""

from __future__ import annotations

from collections.abc import Callable

import numpy as np
import pytest

from moe_lab_widgets.labs.pruning_knobs import NAMES
from tests.browser.driver import NotebookPage
from tests.browser.labs import LABS
from tests.helpers.effort import one_in

pytestmark = pytest.mark.browser

Opened = Callable[..., NotebookPage]
SMALL = {of.name: of.small for of in LABS}


def test_another_trial_is_shown_without_a_new_run(opened: Opened) -> None:
    page = opened("LandscapeLab", **SMALL["LandscapeLab"])
    page.wait_for_end()
    before, status = page.pixels(), page.text("status")
    page.press("trial on show", "ArrowRight")
    second = page.wait_for_change(before)
    page.press("trial on show", "ArrowLeft")
    np.testing.assert_array_equal(page.wait_for_change(second), before)
    assert page.text("status") == status, "the run is the same"
    page.press("T ·", "ArrowRight")
    page.until(lambda: "trials=3" in page.code(), "the move was lost")
    page.press("trial on show", "End", 2)  # the slider goes further, and comes back to the last trial that there is
    page.until(lambda: page.readout("trial on show") == 3, "End does not show the last trial")
    page.press("trial on show", "Home")
    page.until(lambda: page.readout("trial on show") == 1, "there is no way back")
    page.check()


@pytest.mark.parametrize(
    "name, description, option, written",
    one_in(
        10,
        [
            ("RouterAlignmentLab", "Data", "synthetic patches", "PatternTask("),
            ("SpecializationLab", "σ · experts' activation", "tanh", "activation='tanh'"),
            ("GridlockLab", "g · experts' activation", "tanh", "activation='tanh'"),
            ("GridlockLab", "p · share", "0.3", "first_share=0.3"),
            ("GridlockLab", "w · gates", "orthogonal to regressors", "gating='orthogonal'"),
            ("GridlockLab", "a · regressors", "orthonormal", "regressors='orthonormal'"),
            ("GridlockLab", "T₃ · third", "y", "third='y'"),
            ("LandscapeLab", "w · gates", "random", "MixtureTask(dimension=6"),
            ("PruningLab", "loss", "hinge loss", "loss='hinge'"),
            ("PruningLab", "checkpoint", "random weights", "RandomStart("),
        ],
    ),
)
def test_a_choice_starts_another_run(opened: Opened, name: str, description: str, option: str, written: str) -> None:
    more = {"regressors": "random"} if name == "GridlockLab" else {}
    page = opened(name, **{**SMALL[name], **more})
    page.wait_for_end()
    before = page.pixels()
    page.choose(description, option)
    page.wait_for_change(before)
    page.until(lambda: written in page.code(), f"the run is not {description} = {option}")
    assert page.text("alert") == ""
    page.check()


def test_pruning_changes_the_picture_and_trains_nothing(opened: Opened) -> None:
    count = "print('trained', len(lab.records), id(lab.record.of().live.training))"
    page = opened("PruningLab", count, **SMALL["PruningLab"])
    page.wait_for_end()

    def trained() -> str:
        page.run_code(count)
        return page.printed("trained")[-1]

    before_all, spent = trained(), page.text("status").split(" · ")[1]
    for label in ("ρ ·", "trial on show"):
        for distance in (-30, 45) if label != "trial on show" else (150, -150):
            before, value = page.pixels(), page.readout(label)
            page.drag(label, distance)
            page.wait_for_change(before)
            assert np.sign(page.readout(label) - value) == np.sign(distance), f"{label} did not move"
    for name in ("random", "router-norm-change"):
        before = page.pixels()
        page.choose("prune by", NAMES[name])
        page.wait_for_change(before)
        page.until(lambda name=name: name.replace("-", "_") in page.code().replace("-", "_"), "the code stays")
    before = page.pixels()
    page.page.get_by_label("fine-tune what is left").click()
    page.wait_for_change(before)
    page.until(lambda: "after 20 steps of fine-tuning" in page.text("caption"), "nothing was fine-tuned")
    assert trained() == before_all and page.text("status").split(" · ")[1] == spent
    before = page.pixels()
    page.drag("T' · fine-tuning steps", 60)
    page.wait_for_change(before)
    steps = page.readout("T' · fine-tuning steps")
    page.until(lambda: f"after {steps:.0f} steps" in page.text("caption"), "no further fine-tuning")
    assert page.text("alert") == ""
    page.check()


MAP = (slice(84, 380), slice(66, 534))
"""Rows and columns of the phase map in the picture."""


def _coloured(page: NotebookPage) -> float:
    """The share of the map's pixels that are teal: grid points with successes."""
    shown = page.pixels()[MAP].astype(int)
    return float((shown[..., 1] - shown[..., 0] > 15).mean())


def test_the_phase_map_fills_and_goes_back_in_time(opened: Opened) -> None:
    page = opened("PhaseTransitionLab", **SMALL["PhaseTransitionLab"])
    page.wait_for_end()
    full, before = _coloured(page), page.pixels()
    assert full > 0.1
    page.drag("time", -200)
    page.wait_for_change(before)
    page.until(lambda: _coloured(page) < 0.8 * full, "an earlier map should be emptier")
    page.press("distractors", "End")
    page.press("distractors", "Home")
    page.until(lambda: abs(_coloured(page) - full) < 0.02 and page.state() == "finished", "the map does not fill")
    assert page.text("alert") == ""
    page.check()
