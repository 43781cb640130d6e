"""The router-alignment Lab: both kinds of patches, and the picture and captions of its records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.patch_routing import CNN
from moe_lab.patch_routing.stepwise import StepwiseMoE
from moe_lab_widgets import RouterAlignmentLab
from moe_lab_widgets.drawing.words import median, percent
from moe_lab_widgets.router_alignment.panels.outcome import SMALLEST_BAR
from moe_lab_widgets.router_alignment.settings import (
    SYNTHETIC,
    total_steps,
)
from tests.widgets.cases import ROUTER
from tests.widgets.labs import Make, done, fixtures, move

make, _ = fixtures(ROUTER)


@pytest.mark.parametrize("experts", [1, 3, 8])
def test_few_and_many_experts_and_every_l(make: Make, experts: int) -> None:
    lab = make(experts=experts, neurons=840, patches=8, steps=2)
    for kept in (1, *range(2 + experts % 2, 8, 2), 8):
        move(lab, "patches_per_expert", kept)
        done(lab)
        assert (lab.record.joint["example_kept"][0].sum(-1) == kept).all()
        assert np.isfinite(lab.record.joint["expert_coverage"]).all()
        if kept == 8:  # every expert receives everything
            assert (lab.record.joint["coverage"] == 1).all()


@pytest.mark.parametrize(
    "values", [{}, {"source": SYNTHETIC, "delta_d": 0.5, "gap": 0.6}, {"source": SYNTHETIC, "delta_d": -0.7}]
)
def test_every_router_lies_inside_the_ellipse_that_is_drawn(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    overlap = lab.picture.overlap
    x, y = np.array([record.joint["alignment"][0] for record in lab.records])[..., :2].reshape(-1, 2).T
    assert (x**2 + y**2 - 2 * overlap * x * y <= 1 - overlap**2 + 1e-5).all()


def test_the_trails_marks_and_curves_are_the_records(make: Make) -> None:
    lab = done(make())
    picture, record = lab.picture, lab.record
    for expert, trail in enumerate(picture.plane.trails):
        paths = np.array([one.joint["alignment"][0, expert] for one in lab.records])
        np.testing.assert_allclose(np.array(trail.get_data()).T, paths)
    steps, middle = picture.outcome.thick["joint"].get_data()
    assert steps[-1] == pytest.approx(record.step / record.total)
    assert middle[-1] == pytest.approx(np.median(record.joint["test_accuracy"]))
    bars = np.array(picture.outcome.bars.edges)
    heights = ((bars[:, 3] - bars[:, 1]) * 1.04 / picture.outcome.BARS[3]).reshape(-1, 2)
    np.testing.assert_allclose(heights, np.maximum(record.joint["expert_coverage"][0], SMALLEST_BAR))


def test_ticks_and_crosses_say_who_receives_o(make: Make) -> None:
    lab = done(make(experts=8))
    picture, joint = lab.picture, lab.record.joint
    for side in range(2):
        place = int(np.flatnonzero(joint["example_roles"][0, side] == 0)[0])
        received = joint["example_kept"][0, side, :, place].astype(bool)
        assert len(picture.patches.ticks[side].get_xdata()) == received.sum()
        assert len(picture.patches.crosses[side].get_xdata()) == (~received).sum()


def test_captions_tell_start_run_end_and_failure(make: Make) -> None:
    lab = done(make(steps=100, samples=100, trials=8))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("Step 0: routers are random; o₁ reaches some expert in ")
    assert "point" in captions[-1] and "accuracy" in captions[-1] and "CNN" in captions[-1]
    lab.set(patches_per_expert=1)
    done(lab)
    assert lab.record.moved == 0, "with l = 1 the gate is the softmax of one value"
    assert "the routers have not moved at all" in lab.caption(lab.record)
    assert "reaches an expert in only" in lab.caption(lab.record)
    assert "aria-live" in lab.screen.caption.value and "not moved" in lab.screen.caption.value


def test_a_model_that_has_ended_stays_while_the_other_goes_on(make: Make) -> None:
    lab = done(make(source=SYNTHETIC, steps=400, samples=100))
    records = lab.records
    ends = [next(i for i, r in enumerate(records) if getattr(r, name).finished.all()) for name in ("joint", "cnn")]
    assert ends[0] < ends[1] == len(records) - 1
    assert all(r.joint is records[ends[0]].joint for r in records[ends[0] :])
    assert records[-1].ended and not records[-2].ended


def test_pinned_curves_stay_over_runs(make: Make) -> None:
    lab = done(make())
    lab.pin()
    done(lab, noise=1.0)
    assert len(lab.picture.outcome.shown_pins) == 3


def test_divergence_is_said_and_leaves_the_picture_finite(make: Make) -> None:
    lab = done(make())
    record = lab.record
    record.joint.diverged[1] = True
    record.joint.values["test_accuracy"][1] = np.nan
    assert "The pMoE's loss became infinite in trial 2" in lab.trouble(record)
    lab.picture.show(record)
    assert np.isfinite(lab.picture.outcome.thick["joint"].get_ydata()).all()


def test_medians_and_percents_of_nothing_are_not_numbers() -> None:
    np.testing.assert_array_equal(median(np.array([[0.5, np.nan, 1.0], [np.nan] * 3])), [0.75, np.nan])
    assert percent(float("nan")) == "–" and percent(0.996) == "100 %"


def test_total_steps_are_whole_passes() -> None:
    assert total_steps({"samples": 100, "steps": 100}) == 100
    assert total_steps({"samples": 140, "steps": 100}) == 105
    assert total_steps({"samples": 1000, "steps": 20}) == 50


def test_a_thousand_trials_are_the_most() -> None:
    lab = RouterAlignmentLab(trials=1000, steps=20, samples=40, playing=False)
    try:
        assert lab.wait(60) and lab.record.trials == 1000 and "trials=1000" in lab.code(lab.values)
    finally:
        lab.close()
    with pytest.raises(ValueError, match=r"trials \(T\) must be at most 1000 in a Lab: got trials=1001"):
        RouterAlignmentLab(trials=1001)


def test_a_mixture_of_ones_own_takes_the_place_of_the_built_in_one(make: Make) -> None:
    values = {"source": SYNTHETIC, "patches_per_expert": 6}
    built_in, own = done(make(**values)), done(make(**values, mixture=StepwiseMoE(experts=2)))
    for name in ("alignment", "test_accuracy", "example_kept"):
        np.testing.assert_allclose(own.record.joint[name], built_in.record.joint[name], atol=1e-4, err_msg=name)
    assert "train(StepwiseMoE(" in own.record.joint.origin["call"] and "experts=4" in own.record.joint.origin["call"]
    assert "layer.replace(experts=4, patches_per_expert=6, neurons=40)" in own.code(own.values)
    with pytest.raises(ValueError, match="mixture must be a StepwiseMoE, or a JointMoE with a router of your own: got"):
        RouterAlignmentLab(mixture=CNN())
