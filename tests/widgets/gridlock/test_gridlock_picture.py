"""The gridlock Lab's picture and captions show what the records hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
from moe_lab_widgets.gridlock import settings as of
from moe_lab_widgets.gridlock.panels.errors import ticks
from moe_lab_widgets.gridlock.panels.regressors import progress_of
from moe_lab_widgets.gridlock.record import METHODS, Frame, frames

from moe_lab import theme
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock import train
from moe_lab.recovery.gridlock.grid_points import FOUND, GAIN, WINDOW
from moe_lab.training import Snapshot
from moe_lab_widgets import GridlockLab
from moe_lab_widgets.drawing.words import median, two_digits
from tests.widgets.cases import AFTER, GRIDLOCK, POWER
from tests.widgets.labs import Make, colours, done, fixtures, pixels, shown

make, ended = fixtures(GRIDLOCK)


# ---- panel 1 ----


@pytest.mark.parametrize("values", [{}, {"experts": 2}, {"experts": 8, "dimension": 12, "samples": 5000}])
def test_the_matrices_hold_the_shown_trial_s_cosines(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values, shown=2))
    record, panel, k = lab.record, lab.picture.matrices, lab.values["experts"]
    for method in METHODS:
        shot, side = record.of(method), panel.sides[method]
        matrix = shot["cosines"][1].T  # (estimate, true)
        np.testing.assert_allclose(record.cosines(method)[1], matrix)
        own = [float(words) for words in side.words[:k]]
        np.testing.assert_allclose(own, np.diagonal(matrix), atol=0.0101)
        assert float(side.words[k]) == pytest.approx(shot["gate_cosines"][1].min(), abs=0.0101)
        good = [*(np.diagonal(matrix) >= FOUND), shot["gate_cosines"][1].min() >= FOUND]
        assert (side.notes.words.count("✓"), side.notes.words.count("✗")) == (sum(good), k + 1 - sum(good))
        left, top, *_ = side.matrix.edges[(k - 1) * k]
        corner = pixels(lab)[round(top) + 2, round(left) + 2].astype(int)
        np.testing.assert_allclose(corner, theme.ramp(max(matrix[k - 1, 0], 0.04))[:3].astype(int), atol=3)


def test_what_has_not_been_looked_for_has_neither_a_mark_nor_a_number(ended: GridlockLab) -> None:
    lab = ended
    lab.scrub(POWER)  # the first component is found
    shown(lab)
    side = lab.picture.matrices.sides["spectral"]
    assert side.words.count("–") == 3, "two regressors, and the gates"
    assert sum(side.notes.words.count(sign) for sign in "✓✗") == 1
    assert lab.record.seeking and (lab.record.gate_cosines("spectral") == 0).all()
    lab.scrub(None)
    shown(lab)


def test_no_cosine_is_rounded_up_to_the_threshold(make: Make) -> None:
    lab = done(make())
    lab.record.joint["cosines"][0, 0, 0] = FOUND - 0.001
    lab.picture.show(lab.record)
    assert lab.picture.matrices.sides["joint"].words[0] == "0.94"
    assert not lab.record.found("joint")[0, 0]


def test_where_a_method_is_in_words(ended: GridlockLab) -> None:
    lab = ended
    records, power = lab.records, 3 * POWER
    assert progress_of(records[0], "joint", 0) == "waits for its samples"
    assert progress_of(records[2], "spectral", 0).startswith(f"power iteration 2 of {power}: ")
    assert progress_of(records[-1], "spectral", 0).startswith(f"EM iteration {of.GATE_ITERATIONS + AFTER}: ")
    assert progress_of(records[-1], "joint", 0).startswith("EM iteration 24: ")


# ---- panel 2 ----


def test_the_curves_are_the_records(make: Make) -> None:
    lab = done(make(trials=3))
    record, panel = lab.record, lab.picture.errors
    for method in METHODS:
        first = 3 * POWER if method == "spectral" else 0
        shots = [shot for shot in record.shots(method) if shot.step >= first]
        errors = np.array([shot["error"] for shot in shots])
        steps = np.array([shot.step for shot in shots]) - first
        x, y = panel.thick[method].get_data()
        np.testing.assert_allclose(x, np.log10(1 + steps) / np.log10(1 + panel._longest))
        low, high = of.error_limits(lab.values)
        expected = np.clip(np.log(np.median(errors, axis=1) / low) / np.log(high / low), 0, 1)
        np.testing.assert_allclose(y, expected)
        assert len(panel.trials[method].thin.get_segments()) == 3
    np.testing.assert_allclose(panel.best.get_ydata(), panel.y_of(np.median(record.best)), atol=1e-12)
    assert panel.counts.words == [
        str(int(which.sum())) for m in METHODS for which in (record.whole(m), record.stuck(m), record.falling(m))
    ]


def test_em_from_the_truth_is_what_no_method_beats(make: Make) -> None:
    record = done(make(samples=3000, experts=2, iterations=40)).record
    for method in METHODS:
        if record.whole(method).all():
            assert (record.errors(method)[1][-1] > 0.97 * record.best).all()


def _frame(errors: np.ndarray, fit: float) -> Frame:
    """A frame of joint EM alone, with these errors (an iteration, trial) and one fit of all regressors."""
    task = MixtureTask(experts=2, dimension=4)
    like = next(train(of.models({"third": "y", "iterations": 1})[1], task, samples=50, trials=errors.shape[1]))

    def shot(step: int, error: np.ndarray) -> Snapshot:
        values = {**like.values, "error": error, "regressor_fit": np.full_like(error, fit)}
        return dataclasses.replace(like, step=step, values=values)

    shots = [shot(step, error) for step, error in enumerate(errors)]
    return Frame((shots[0],), tuple(shots), 20, len(errors))


def test_stuck_is_less_than_two_hundredths_in_twenty_iterations_short_of_the_truth() -> None:
    """The room's one rule: 1 - .9985^20 is 3 %, 1 - .9992^20 is 1.6 %."""
    assert (WINDOW, GAIN) == (20, 0.02)
    steps = np.arange(31)
    errors = np.stack((np.full(31, 4.0), 4 * 0.9985**steps, 4 * 0.9992**steps, 4 * 1.01**steps), axis=1)
    assert _frame(errors, 0.5).stuck("joint").tolist() == [True, False, True, True]
    assert _frame(errors, 0.5).falling("joint").tolist() == [False, True, False, False]
    assert not _frame(errors, 0.96).stuck("joint").any(), "who has found everything is not stuck"
    assert not _frame(errors, 0.96).falling("joint").any()
    early = _frame(errors[:20], 0.5)
    assert not early.stuck("joint").any() and early.falling("joint").all(), "20 iterations must be there to compare"
    assert not early.falling("spectral").any() and not early.converged("spectral").any(), "EM has not begun"


def test_marks_are_crosses_for_stuck_and_open_triangles_for_falling(make: Make) -> None:
    lab = done(make(trials=3))
    record, panel = lab.record, lab.picture.errors
    for shot in record.second:
        shot["regressor_fit"][:] = 0.5
        shot["error"][:] = (2.0, 2.0 * 0.9**shot.step + 0.5, 3.0)
    lab.picture.show(record)
    assert len(panel.stuck["joint"].get_ydata()) == 2 and panel.stuck["joint"].get_color() == theme.FAILURE
    np.testing.assert_allclose(panel.falling["joint"].get_ydata(), panel.y_of(record.errors("joint")[1][-1][1:2]))
    assert panel.falling["joint"].get_markerfacecolor() == theme.PAPER
    assert "stuck: " in lab.caption(record) and "against 2 of 3 trials (" in lab.caption(record)


def test_ticks_and_numbers() -> None:
    assert ticks(0.3, 11) == [0.5, 1.0, 2.0, 5.0, 10.0]
    assert two_digits(0.9376) == "0.94" and two_digits(5.13) == "5.1" and two_digits(float("nan")) == "–"


def test_limits_stay_while_it_runs_and_follow_the_knobs(make: Make) -> None:
    lab = shown(make(playing=False))
    before = lab.picture.errors.limits
    lab.play()
    done(lab)
    assert lab.picture.errors.limits == before
    lab.set(experts=4)
    done(lab)
    assert lab.picture.errors.limits == of.error_limits(lab.values) != before


# ---- panel 3 ----


def test_a_component_s_curve_is_that_of_the_estimate_that_moves(ended: GridlockLab) -> None:
    lab = ended
    record = lab.record
    curves = record.components(0)
    assert [len(curve) for curve in curves] == [POWER] * 3
    for component, curve in enumerate(curves[:-1]):  # at the last iteration of all, all are refined
        end = record.first[POWER * (component + 1)]["cosines"][0]
        later = record.first[POWER * (component + 1) + 1]["cosines"][0]
        assert np.isclose(end.max(0), curve[-1]).any(), "it is there at its end"
        assert np.isclose(later.max(0), curve[-1]).any(), "and stays while the next one moves"
    segments = lab.picture.stages.regressors.get_segments()
    assert len(segments) == 6, "three components, then three estimates through EM"
    np.testing.assert_allclose(segments[0][:, 1], curves[0])


def test_columns_may_change_places_between_iterations() -> None:
    first, second, moved = np.array([0.9, 0.1]), np.array([0.3, 0.6]), np.array([0.2, 0.8])
    zero = np.zeros(2)
    like = _frame(np.ones((1, 1)), 0.0).spectral
    columns = ((zero, zero), (zero, first), (first, second), (moved, first))
    shots = [
        dataclasses.replace(like, step=step, values={"cosines": np.stack(pair, axis=1)[None]})
        for step, pair in enumerate(columns)
    ]
    assert [curve.tolist() for curve in Frame(tuple(shots), (), 20, 1).components(0)] == [[0.9], [0.6, 0.8]]
    assert Frame(tuple(shots[:1]), (), 20, 1).components(0) == []


def test_counts_at_the_end_of_each_stage(ended: GridlockLab) -> None:
    lab = ended
    words = lab.picture.stages.counts.words
    ends = (3 * POWER, 3 * POWER + of.GATE_ITERATIONS, 3 * POWER + of.GATE_ITERATIONS + AFTER)
    at = {shot.step: shot for shot in lab.record.first}
    regressors = [int((np.diagonal(at[end]["cosines"][0]) >= FOUND).sum()) for end in ends]
    gates = [int((at[end]["gate_cosines"][0] >= FOUND).sum()) for end in ends[1:]]
    assert words == [*(f"{one} of 3" for one in regressors), "–", *(f"{one} of 2" for one in gates)]
    np.testing.assert_allclose(lab.picture.stages.places(np.array([0, *ends])), lab.picture.stages.EDGES)


# ---- captions, stories, time, pins, sizes ----


def test_captions_tell_start_run_and_end(ended: GridlockLab) -> None:
    lab = ended
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("Start: T₃ is whitened to 3 × 3 × 3 numbers, and nothing is found yet")
    assert captions[3].startswith(f"Power iteration 3 of {3 * POWER}: ")
    found = [int(lab.record.found(method)[0].sum()) for method in METHODS]
    errors = [two_digits(float(np.median(lab.record.of(method)["error"]))) for method in METHODS]
    assert captions[-1].startswith(
        f"Iteration 24 of 24: spectral + EM found {found[0]} of 3 (error {errors[0]}), joint EM {found[1]} of 3 "
        f"({errors[1]}); stuck: "
    )
    assert captions[-1] in lab.screen.caption.value


def test_the_first_frame_does_not_wait_for_joint_em() -> None:
    lab = GridlockLab(**GRIDLOCK.small, playing=False)
    try:
        assert lab.wait(60)
        assert len(lab.records) == 1 and lab.record.joint is None and not lab.record.ended
        lab.step()
        assert lab.wait(60)
        assert lab.record.joint is not None and lab.record.joint.step == 0
        assert lab.records[0].joint is None, "an earlier record is as it was"
    finally:
        lab.close()


def test_a_method_that_has_ended_stays_while_the_other_goes_on(ended: GridlockLab) -> None:
    last = ended.records[-1]
    floors = [np.full(last.trials, 1.0 - 0.01 * number) for number in range(5)]
    made = list(frames(iter(last.first), lambda: iter(last.second[:3]), lambda: iter(floors), last.power, last.total))
    steps = [shot.step for shot in last.first]
    assert [frame.spectral.step for frame in made][: len(steps)] == steps
    assert all(frame.joint is last.second[2] for frame in made[3:])
    assert not made[-1].ended
    assert all(frame.best is None for frame in made if frame.seeking) and made[-1].best is floors[-1]


def test_pinned_medians_keep_their_numbers_over_runs(make: Make) -> None:
    lab = done(make())
    lab.pin()
    kept = lab.picture.errors.pins[1]
    np.testing.assert_array_equal(kept.values, median(lab.record.errors("joint")[1]))
    done(lab, samples=1000)
    assert len(lab.picture.errors.shown_pins) == 3
    np.testing.assert_allclose(lab.picture.errors.shown_pins[1].get_ydata(), lab.picture.errors.y_of(kept.values))


def test_failure_and_expert_2_are_never_in_one_picture(make: Make) -> None:
    lab = done(make(experts=4))
    used = colours(lab)
    assert tuple(theme.rgba(theme.FAILURE)[:3]) in used
    assert not used & {tuple(theme.rgba(style.colour)[:3]) for style in theme.EXPERTS}
