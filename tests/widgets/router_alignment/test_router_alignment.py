"""The router-alignment Lab: both kinds of patches, and the picture and captions of its records."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.patch_routing import CNN, DigitTask
from moe_lab.patch_routing.stepwise import StepwiseMoE
from moe_lab_widgets import RouterAlignmentLab
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.labs.router_alignment import SMALLEST_BAR
from moe_lab_widgets.labs.router_alignment_runs import SYNTHETIC, overlap, steps
from moe_lab_widgets.labs.router_alignment_words import moved
from tests.widgets.cases import ROUTER
from tests.widgets.labs import Make, done, drawn_as, fixtures, move

make, _ = fixtures(ROUTER)


def named(lab: Any, panel: int) -> dict[str, Any]:
    """Returns the boxes of a panel, left, top, right and bottom in pixels, by their names."""
    sheets = [one for one in lab.picture.placed[panel - 1].content if hasattr(one, "parts")]
    return {name: edges[:4] for one in sheets for name, edges in zip(one.parts, one.edges, strict=True)}


@pytest.mark.parametrize("experts", [1, 3, 8])
def test_few_and_many_experts_and_every_l(make: Make, experts: int) -> None:
    lab = make(experts=experts, neurons=840, patches=8, steps=2)
    for kept in (1, *range(2 + experts % 2, 8, 2), 8):
        move(lab, "patches_per_expert", kept)
        done(lab)
        assert (lab.record["example_kept"][0].sum(-1) == kept).all()
        assert np.isfinite(lab.record["expert_coverage"]).all()
        if kept == 8:  # every expert receives everything
            assert (lab.record["coverage"] == 1).all()


@pytest.mark.parametrize(
    "values", [{}, {"source": SYNTHETIC, "delta_d": 0.5, "gap": 0.6}, {"source": SYNTHETIC, "delta_d": -0.7}]
)
def test_every_router_lies_inside_the_ellipse_that_is_drawn(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    cosine = float(overlap(lab.values))
    x, y = np.array([record["alignment"][0] for record in lab.records])[..., :2].reshape(-1, 2).T
    assert (x**2 + y**2 - 2 * cosine * x * y <= 1 - cosine**2 + 1e-4).all()


def test_the_ways_and_curves_and_bars_are_the_records(make: Make) -> None:
    lab = done(make())
    record = lab.record
    for expert in range(4):
        way = drawn_as(lab, 0, f"the way of expert {expert + 1}'s router")[0]
        paths = np.array([shot["alignment"][0, expert] for shot in record.shots["joint"]])
        np.testing.assert_allclose(np.array(way.get_data()).T, paths)
    at, middle = drawn_as(lab, 2, "mixture, median")[0].get_data()
    assert at[-1] == record.step
    assert middle[-1] == pytest.approx(np.median(record["test_accuracy"]))
    axes, found = lab.picture.placed[2].axes[1], named(lab, 3)
    whole = axes.get_position().height * 480 / 1.04
    for expert, side in np.ndindex(4, 2):
        _, top, _, bottom = found[f"expert {expert + 1}: coverage of {'o₁o₂'[2 * side : 2 * side + 2]}"]
        share = max(record["expert_coverage"][0, expert, side], SMALLEST_BAR)
        assert (bottom - top) / whole == pytest.approx(share)


def test_ticks_and_crosses_say_who_receives_o(make: Make) -> None:
    lab = done(make(experts=8))
    for side, sheet in enumerate(one for one in lab.picture.placed[1].content if hasattr(one, "parts")):
        place = int(np.flatnonzero(lab.record["example_roles"][0, side] == 0)[0])
        received = lab.record["example_kept"][0, side, :, place].astype(bool)
        assert sheet.words[:-1] == ["✔" if one else "✗" for one in received]
        assert ["not" in name for name in sheet.parts[:-1]] == (~received).tolist()


def test_heads_of_the_experts_stand_beside_their_tiles_and_below_their_bars(make: Make) -> None:
    lab = done(make(experts=2))
    for panel in lab.picture.placed[1:]:
        heads = [one for one in panel.head if str(one.get_marker() if hasattr(one, "get_marker") else "") in "os"]
        assert len([one for one in heads if one.axes is not None]) == (4 if panel.number == 2 else 2)
    before = lab.picture.background().copy()
    done(lab, experts=4)
    heads = [one for one in lab.picture.placed[2].head if getattr(one, "axes", None) is not None]
    assert len(heads) == 8, "a mark and a number for each, and none of the run before"
    assert not np.array_equal(lab.picture.background(), before)


def test_captions_tell_start_run_end_and_failure(make: Make) -> None:
    lab = done(make(steps=100, samples=100, trials=8))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("The routers are random. Some expert receives the 6 in ")
    assert captions[-1] == (
        "Router 3 looks for the 6, routers 1, 2 and 4 for the 7. Both digits are found in 7 of 8 trials. The mixture "
        "is right in 96 %, the CNN in 87 %."
    )
    lab.set(patches_per_expert=1)
    done(lab)
    assert moved(MarkRecord(lab.record)) == 0, "with l = 1 the gate is the softmax of one value"
    assert "The routers have not moved at all. " in lab.caption(lab.record)
    assert "xpert receives the " in lab.caption(lab.record) and "both digits are found in " in lab.caption(lab.record)
    assert "aria-live" in lab.screen.caption.value and "not moved" in lab.screen.caption.value


def test_captions_call_synthetic_patterns_by_their_symbols(make: Make) -> None:
    words = done(make(source=SYNTHETIC, steps=100, samples=100)).screen.caption.value
    assert "look" in words and "o₁" in words and "digit" not in words and "the 6" not in words


def test_a_model_that_has_ended_stays_while_the_other_goes_on(make: Make) -> None:
    lab = done(make(source=SYNTHETIC, steps=400, samples=100))
    records = lab.records[1:]  # the first one has the mixture alone
    ends = [next(i for i, r in enumerate(records) if r.of(name).finished.all()) for name in ("joint", "cnn")]
    assert ends[0] < ends[1] == len(records) - 1
    assert all(r.of() is records[ends[0]].of() for r in records[ends[0] :])
    assert records[-1].ended and not records[-2].ended


def test_both_models_train_on_samples_that_last_over_runs(make: Make, monkeypatch: pytest.MonkeyPatch) -> None:
    drawn, sample = [], DigitTask.sample

    def noted(task: DigitTask, samples: int, **named: Any) -> Any:
        drawn.append((samples, named["split"]))
        return sample(task, samples, **named)

    monkeypatch.setattr(DigitTask, "sample", noted)
    lab = done(make())
    assert drawn == [(40, "train"), (200, "test")], "once for both"
    done(lab, experts=2)
    assert len(drawn) == 2
    done(lab, samples=60)
    assert drawn[2:] == [(60, "train")]


def test_steps_are_whole_passes() -> None:
    assert steps({"samples": 100, "steps": 100}) == 100
    assert steps({"samples": 140, "steps": 100}) == 105
    assert steps({"samples": 1000, "steps": 20}) == 50


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
    mixture = StepwiseMoE(experts=2)
    built_in, own = done(make(**values)), done(make(**values, mixture=mixture))
    for name in ("alignment", "test_accuracy", "example_kept"):
        np.testing.assert_allclose(own.record[name], built_in.record[name], atol=1e-4, err_msg=name)
    call = own.record.of().origin["call"]
    assert "train(StepwiseMoE(" in call and "experts=4" in call
    code, names = own.code(own.values), {"mixture": mixture}
    assert "collect(train(mixture.replace(experts=4), task, **settings))" in code and "import StepwiseMoE" not in code
    exec(code, names)
    np.testing.assert_array_equal(names["joint"]["alignment"], own.record["alignment"])  # type: ignore[index]
    with pytest.raises(ValueError, match="mixture must be a StepwiseMoE, or a JointMoE with a router of your own: got"):
        RouterAlignmentLab(mixture=CNN())
