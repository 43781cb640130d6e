"""The gridlock Lab's picture and captions show what the records hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock import JointEM, MixtureRun, Spectral, train
from moe_lab.recovery.gridlock.verdicts import FOUND, GAIN, WINDOW
from moe_lab_widgets import GridlockLab
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import two_digits
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import gridlock_record as at
from moe_lab_widgets.labs.gridlock import EDGES, NAMES, caption, error_limits, progress_of, ticks
from tests.widgets.cases import AFTER, GRIDLOCK, POWER
from tests.widgets.labs import Make, done, drawn_as, fixtures, pixels, shown, words_of

make, ended = fixtures(GRIDLOCK)


def with_joint(now: Record, **values: Any) -> Record:
    """A moment whose joint EM has other values, each a function of the step."""
    shots = (
        dataclasses.replace(shot, values={**shot.values, **{name: make(shot.step) for name, make in values.items()}})
        for shot in now.shots["joint"]
    )
    return dataclasses.replace(now, shots={**now.shots, "joint": tuple(shots)})


# ---- panel 1 ----


def sheets(lab: Any, method: str) -> list[Sheet]:
    """What the first panel draws of a method: head, matrix, gates, signs, numbers."""
    both = [one for one in lab.picture.placed[0].content if isinstance(one, Sheet)]
    return both[: len(both) // 2] if method == "spectral" else both[len(both) // 2 :]


@pytest.mark.parametrize("values", [{}, {"experts": 2}, {"experts": 8, "dimension": 12, "samples": 5000}])
def test_the_matrices_hold_the_shown_trial_s_cosines(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values, shown=2))
    now, k = lab.record, lab.values["experts"]
    for method in now.names:
        matrix = now.of(method)["cosines"][1].T  # (estimate, true)
        _, cells, gates, signs, numbers = sheets(lab, method)
        np.testing.assert_allclose(at.cosines(now, method, 1), matrix)
        *own, gates_word = numbers.words
        np.testing.assert_allclose([float(words) for words in own], np.diagonal(matrix), atol=0.0101)
        assert gates_word.startswith("worst ")
        worst = now.of(method)["gate_cosines"][1].min()
        np.testing.assert_allclose(float(gates_word.removeprefix("worst ")), worst, atol=0.0101)
        good = np.diagonal(matrix) >= FOUND
        assert signs.words == ["✓" if one else "✗" for one in good], "a mark for each regressor, none for the gates"
        left, top, *_ = cells.edges[(k - 1) * k]
        corner = pixels(lab)[round(top) + 2, round(left) + 2].astype(int)
        np.testing.assert_allclose(corner, theme.ramp(max(matrix[k - 1, 0], 0.04))[:3].astype(int), atol=3)
        assert [len(lab.picture.names[one]["parts"]) for one in (cells, gates)] == [k * k, k - 1], (
            "a pointer finds a name in every cell"
        )
        assert "trial 2 of 2" in words_of(lab, 0)[0]


def test_what_has_not_been_looked_for_has_neither_a_mark_nor_a_number(ended: GridlockLab) -> None:
    lab = ended
    lab.scrub(POWER)  # the first component is found
    shown(lab)
    *_, signs, numbers = sheets(lab, "spectral")
    assert numbers.words.count("–") == 3, "two regressors, and the gates"
    assert sum(signs.words.count(sign) for sign in "✓✗") == 1
    assert at.seeking(lab.record) and (at.gate_cosines(lab.record, "spectral", 0) == 0).all()
    lab.scrub(None)
    shown(lab)


def test_no_cosine_is_rounded_up_to_the_threshold(make: Make) -> None:
    lab = done(make())
    lab.record.of("joint")["cosines"][0, 0, 0] = FOUND - 0.001
    lab.picture.show(lab.record)
    assert sheets(lab, "joint")[-1].words[0] == "0.94"
    assert not at.found(lab.record, "joint")[0, 0]


def test_the_heads_of_the_two_methods_do_not_run_into_each_other(make: Make) -> None:
    lab = done(make(experts=8, dimension=12, samples=5000))
    for index in (12, len(lab.records) - 1):  # numbers of two digits: power iterations, then EM
        lab.scrub(index)
        shown(lab)
        left, right = (sheets(lab, method)[0] for method in ("spectral", "joint"))
        ends = [place[0] + ink.shape[1] for ink, place in zip(*left.words_at(1.0), strict=True)]
        starts = [place[0] for place in right.words_at(1.0)[1]]
        assert max(ends) + 10 <= min(starts), left.words


def test_where_a_method_is_in_words(ended: GridlockLab) -> None:
    records, power = ended.records, 3 * POWER
    assert progress_of(records[0], "joint", 0) == "waits for its samples"
    assert progress_of(records[3], "spectral", 0).startswith(f"power 2 of {power}: ")
    assert progress_of(records[-1], "spectral", 0).startswith(f"iteration {at.GATE_ITERATIONS + AFTER}: ")
    assert progress_of(records[-1], "joint", 0).startswith("iteration 24: ")


# ---- panel 2 ----


def test_the_curves_are_the_records(make: Make) -> None:
    lab = done(make(trials=3))
    now, ax = lab.record, lab.picture.placed[1].axes[0]
    for method, words in NAMES.items():
        first = 3 * POWER if method == "spectral" else 0
        shots = [shot for shot in now.shots[method] if shot.step >= first]
        x, y = drawn_as(lab, 1, f"{words}, median")[0].get_data()
        np.testing.assert_array_equal(x, [1 + shot.step - first for shot in shots])
        np.testing.assert_allclose(y, np.median([shot["error"] for shot in shots], axis=1))
        assert len(drawn_as(lab, 1, f"{words}, a trial")[0].get_segments()) == 3
    assert (ax.get_xscale(), ax.get_yscale(), ax.get_ylim()) == ("log", "log", error_limits(lab.values))
    (best,) = drawn_as(lab, 1, "EM from the true parameters")
    assert best.get_segments()[0][:, 1] == pytest.approx(np.median(now.last("best")))
    counts = [str(int(one.sum())) for m in now.names for one in (at.whole(now, m), *at.verdicts(now, m))]
    assert words_of(lab, 1)[-12:-6] == counts, "before the ends of three curves"


def test_em_from_the_truth_is_what_no_method_beats(make: Make) -> None:
    now = done(make(samples=3000, experts=2, iterations=40)).record
    for method in now.names:
        if at.whole(now, method).all():
            assert (at.em_errors(now, method)[1][-1] > 0.97 * now.last("best")).all()


def _moment(errors: np.ndarray, fit: float) -> Record:
    """A moment of joint EM, with these errors (an iteration, trial) and one fit of all regressors."""
    task = MixtureTask(experts=2, dimension=4)
    like = next(train(JointEM(iterations=1), task, samples=50, trials=errors.shape[1]))

    def shot(step: int, error: np.ndarray) -> Snapshot:
        values = {**like.values, "error": error, "regressor_fit": np.full_like(error, fit)}
        return dataclasses.replace(like, step=step, values=values)

    shots = [shot(step, error) for step, error in enumerate(errors)]
    return Record({"spectral": (shots[0],), "joint": tuple(shots)}, {"experts": 2}, ("spectral", "joint"))


def test_stuck_is_less_than_two_hundredths_in_twenty_iterations_short_of_the_truth() -> None:
    """The room's one rule: 1 - .9985^20 is 3 %, 1 - .9992^20 is 1.6 %."""
    assert (WINDOW, GAIN) == (20, 0.02)
    steps = np.arange(31)
    curves = np.full(31, 4.0), 4 * 0.9985**steps, 4 * 0.9992**steps, 4 * 1.01**steps, np.full(31, np.nan)
    errors = np.stack(curves, axis=1)
    stuck, falling = at.verdicts(_moment(errors, 0.5), "joint")
    assert stuck.tolist() == [True, False, True, True, False], "nor is one that has diverged"
    assert falling.tolist() == [False, True, False, False, False]
    stuck, falling = at.verdicts(_moment(errors, 0.96), "joint")
    assert not stuck.any() and not falling.any(), "who has found everything is not stuck"
    early = _moment(errors[:20], 0.5)
    stuck, falling = at.verdicts(early, "joint")
    assert not stuck.any() and falling[:4].all(), "20 iterations must be there to compare"
    assert not any(which.any() for which in at.verdicts(early, "spectral")), "EM has not begun"


def test_marks_are_crosses_for_stuck_and_open_triangles_for_falling(make: Make) -> None:
    lab = done(make(trials=3))
    now = with_joint(
        lab.record,
        regressor_fit=lambda step: np.full(3, 0.5),
        error=lambda step: np.array([2.0, 2.0 * 0.9**step + 0.5, 3.0]),
    )
    lab.picture.show(now)
    (stuck,), (falling,) = (drawn_as(lab, 1, f"joint EM, {what}") for what in ("stuck", "still falling"))
    assert len(stuck.get_ydata()) == 2 and stuck.get_color() == theme.FAILURE
    np.testing.assert_allclose(falling.get_ydata(), at.em_errors(now, "joint")[1][-1][1:2])
    assert falling.get_markerfacecolor() == theme.PAPER
    assert "of 3 trials, joint EM in 2; " in caption(now)


def test_ticks() -> None:
    assert ticks(0.3, 11) == [0.5, 1.0, 2.0, 5.0, 10.0]


def test_limits_stay_while_it_runs_and_follow_the_knobs(make: Make) -> None:
    lab = shown(make(playing=False))
    (ax,) = lab.picture.placed[1].axes
    before = ax.get_ylim()
    lab.play()
    done(lab)
    assert ax.get_ylim() == before
    lab.set(experts=4)
    done(lab)
    assert ax.get_ylim() == error_limits(lab.values) != before


# ---- panel 3 ----


def test_a_component_s_curve_is_that_of_the_estimate_that_moves(ended: GridlockLab) -> None:
    lab = ended
    curves, shots = at.components(lab.record, 0), lab.record.shots["spectral"]
    assert [len(curve) for curve in curves] == [POWER] * 3
    for component, curve in enumerate(curves[:-1]):  # at the last iteration of all, all are refined
        end = shots[POWER * (component + 1)]["cosines"][0]
        later = shots[POWER * (component + 1) + 1]["cosines"][0]
        assert np.isclose(end.max(0), curve[-1]).any(), "it is there at its end"
        assert np.isclose(later.max(0), curve[-1]).any(), "and stays while the next one moves"
    segments = drawn_as(lab, 2, "a regressor")[0].get_segments()
    assert len(segments) == 6, "three components, then three estimates through EM"
    np.testing.assert_allclose(segments[0][:, 1], curves[0])


def test_columns_may_change_places_between_iterations() -> None:
    first, second, moved = np.array([0.9, 0.1]), np.array([0.3, 0.6]), np.array([0.2, 0.8])
    zero, now = np.zeros(2), _moment(np.ones((1, 1)), 0.0)
    columns = ((zero, zero), (zero, first), (first, second), (moved, first))
    shots = tuple(
        dataclasses.replace(now.of(), step=step, values={"cosines": np.stack(pair, axis=1)[None]})
        for step, pair in enumerate(columns)
    )
    begun = dataclasses.replace(now, shots={"spectral": shots})
    assert [curve.tolist() for curve in at.components(begun, 0)] == [[0.9], [0.6, 0.8]]
    assert at.components(dataclasses.replace(now, shots={"spectral": shots[:1]}), 0) == []


def test_counts_at_the_end_of_each_stage(ended: GridlockLab) -> None:
    lab = ended
    ends = (3 * POWER, 3 * POWER + at.GATE_ITERATIONS, 3 * POWER + at.GATE_ITERATIONS + AFTER)
    shots = {shot.step: shot for shot in lab.record.shots["spectral"]}
    regressors = [int((np.diagonal(shots[end]["cosines"][0]) >= FOUND).sum()) for end in ends]
    gates = [int((shots[end]["gate_cosines"][0] >= FOUND).sum()) for end in ends[1:]]
    assert words_of(lab, 2) == [*(f"{one} of 3" for one in regressors), "–", *(f"{one} of 2" for one in gates)]
    assert drawn_as(lab, 2, "a gate")[0].get_segments()[0][[0, -1], 0].tolist() == [EDGES[1], EDGES[-1]]


# ---- captions, time, pins, sizes ----


def test_captions_tell_start_run_and_end(ended: GridlockLab) -> None:
    lab = ended
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("T₃ is whitened to 3 × 3 × 3 numbers, and nothing is found yet")
    assert f" after 3 of {3 * POWER} power iterations." in captions[4]
    found = [int(at.found(lab.record, method)[0].sum()) for method in lab.record.names]
    errors = [two_digits(float(np.median(part["error"]))) for part in lab.record.parts.values()]
    assert captions[-1].startswith(
        f"In trial 1, spectral + EM has found {found[0]} of 3 regressors and joint EM {found[1]}. "
        f"Median errors: {errors[0]} and {errors[1]}."
    )
    assert "stuck" in captions[-1] and captions[-1] in lab.screen.caption.value


def test_the_floor_is_there_once_em_has_begun(ended: GridlockLab) -> None:
    steps = [record.of().step for record in ended.records]
    assert steps[:2] == [0, 0] and steps[-1] == 3 * POWER + at.GATE_ITERATIONS + AFTER
    for record in ended.records:
        assert np.isfinite(record.last("best")).all() == (not at.seeking(record))


def test_many_power_iterations_come_several_at_a_time(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(at, "POWER_RECORDS", 4)
    model = Spectral(power_iterations=at.POWER_ITERATIONS, gate_iterations=1, joint_iterations=1)
    first, *rest = at.begin(
        MixtureRun(model=model, task=MixtureTask(experts=2, dimension=4), samples=300, trials=1), {}
    )
    power = at.power({"experts": 2})
    together = np.arange(1, power + 1).reshape(4, power // 4).tolist()
    assert first.step == 0 and [[shot.step for shot in one] for one in rest[:4]] == together
    assert [shot.step for shot in rest[4:]] == [power + 1, power + 2] and all(
        "best" in shot.values for shot in rest[4:]
    )
