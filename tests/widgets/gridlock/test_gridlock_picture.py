"""The gridlock Lab's picture and captions show what the records hold."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.snapshots import Snapshot
from moe_lab.drawing import theme
from moe_lab.drawing.words import written
from moe_lab.recovery import MixtureTask
from moe_lab.recovery.gridlock import JointEM, train
from moe_lab.recovery.gridlock.verdicts import FOUND, GAIN, WINDOW
from moe_lab_widgets import GridlockLab
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.engine.record import Record
from moe_lab_widgets.labs import gridlock_record as at
from moe_lab_widgets.labs.gridlock import EDGES, NAMES, error_limits, progress_of
from tests.widgets.cases import AFTER, GRIDLOCK, POWER
from tests.widgets.labs import Make, done, drawn_as, fixtures, pixels, shown, words_of

make, ended = fixtures(GRIDLOCK)


def with_joint(now: Record, **values: Any) -> Record:
    """A record whose joint EM has other values, each a function of the step."""
    shots = (
        dataclasses.replace(shot, values={**shot.values, **{name: make(shot.step) for name, make in values.items()}})
        for shot in now.shots["joint"]
    )
    return dataclasses.replace(now, shots={**now.shots, "joint": tuple(shots)})


def where(now: Record, method: str) -> str:
    return written(progress_of(MarkRecord(now), method))


# ---- panel 1 ----


def sheets(lab: Any, method: str) -> list[Sheet]:
    """What the first panel draws of a method: head, matrix, gates, signs, numbers."""
    both = [one for one in lab.picture.placed[0].content if isinstance(one, Sheet)]
    return both[: len(both) // 2] if method == "spectral" else both[len(both) // 2 :]


@pytest.mark.parametrize("values", [{}, {"experts": 2}, {"experts": 8, "dimension": 12, "samples": 5000}])
def test_the_matrices_hold_the_shown_trial_s_cosines(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values, shown=2))
    now, k = lab.record, lab.values["experts"]
    for method in at.METHODS:
        matrix = now.of(method)["cosines"][1].T  # (estimate, true)
        _, cells, gates, signs, numbers = sheets(lab, method)
        np.testing.assert_allclose(at.cosines(MarkRecord(now), method), matrix)
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
    place = next(place for place, one in enumerate(lab.records) if one.of().step == at.POWER_EVERY)
    lab.scrub(place)  # the first component is sought
    shown(lab)
    *_, signs, numbers = sheets(lab, "spectral")
    assert numbers.words.count("–") == 3, "two regressors, and the gates"
    assert sum(signs.words.count(sign) for sign in "✓✗") == 1
    now = MarkRecord(lab.record)
    assert at.seeking(now) and (at.gate_cosines(now, "spectral") == 0).all()
    lab.scrub(None)
    shown(lab)


def test_no_cosine_is_rounded_up_to_the_threshold(make: Make) -> None:
    lab = done(make())
    lab.record.of("joint")["cosines"][0, 0, 0] = FOUND - 0.001
    lab.picture.show(lab.record)
    assert sheets(lab, "joint")[-1].words[0] == "0.94"
    assert not at.found(MarkRecord(lab.record), "joint")[0, 0]


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
    assert where(records[0], "joint") == "waits for its samples"
    assert where(records[2], "spectral").startswith(f"power {at.POWER_EVERY} of {power}: ")
    assert where(records[-1], "spectral").startswith(f"iteration {at.GATE_ITERATIONS + AFTER}: ")
    assert where(records[-1], "joint").startswith("iteration 24: ")


# ---- panel 2 ----


def limits(lab: Any) -> list[float]:
    return [float(one) for one in error_limits(MarkValues(lab.values))]


def test_the_curves_are_the_records(make: Make) -> None:
    lab = done(make(trials=3))
    now, ax = lab.record, lab.picture.placed[1].axes[0]
    for method in at.METHODS:
        words, first = NAMES[method], 3 * POWER if method == "spectral" else 0
        shots = [shot for shot in now.shots[method] if shot.step >= first]
        x, y = drawn_as(lab, 1, f"{words}, median")[0].get_data()
        np.testing.assert_array_equal(x, [1 + shot.step - first for shot in shots])
        np.testing.assert_allclose(y, np.median([shot["error"] for shot in shots], axis=1))
        assert len(drawn_as(lab, 1, f"{words}, a trial")[0].get_segments()) == 3
    assert (ax.get_xscale(), ax.get_yscale()) == ("log", "log")
    assert ax.get_ylim() == pytest.approx(limits(lab))
    (best,) = drawn_as(lab, 1, "EM from the true parameters")
    assert best.get_segments()[0][:, 1] == pytest.approx(np.median(now.last("error", at.BEST)))
    read = MarkRecord(now)
    counts = [str(int(one.sum())) for m in at.METHODS for one in (at.whole(read, m), *at.verdicts(read, m))]
    assert words_of(lab, 1)[-12:-6] == counts, "before the ends of three curves"


def test_em_from_the_truth_is_what_no_method_beats(make: Make) -> None:
    now = MarkRecord(done(make(samples=3000, experts=2, iterations=40)).record)
    for method in at.METHODS:
        if at.whole(now, method).all():
            assert (now.last("error", method) > 0.97 * now.last("error", at.BEST)).all()


def _moment(errors: np.ndarray, fit: float) -> MarkRecord:
    """A record of joint EM, with these errors (an iteration, trial) and one fit of all regressors."""
    task = MixtureTask(experts=2, dimension=4)
    like = next(train(JointEM(iterations=1), task, samples=50, trials=errors.shape[1]))

    def shot(step: int, error: np.ndarray) -> Snapshot:
        values = {**like.values, "error": error, "regressor_fit": np.full_like(error, fit)}
        return dataclasses.replace(like, step=step, values=values)

    shots = [shot(step, error) for step, error in enumerate(errors)]
    values = {"experts": 2, "iterations": len(errors)}
    return MarkRecord(Record({"spectral": (shots[0],), "joint": tuple(shots)}, values, ("spectral", "joint")))


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
    np.testing.assert_allclose(falling.get_ydata(), now.last("error", "joint")[1:2])
    assert falling.get_markerfacecolor() == theme.PAPER
    assert lab.caption(now).endswith("joint EM in 2 (and still falling in 1).")


def test_limits_stay_while_it_runs_and_follow_the_knobs(make: Make) -> None:
    lab = shown(make(playing=False))
    (ax,) = lab.picture.placed[1].axes
    before = ax.get_ylim()
    lab.play()
    done(lab)
    assert ax.get_ylim() == before
    lab.set(experts=4)
    done(lab)
    assert ax.get_ylim() == pytest.approx(limits(lab)) != before


# ---- panel 3 ----


def test_the_search_is_a_curve_for_each_component_and_then_for_each_regressor(ended: GridlockLab) -> None:
    lab = ended
    shots = lab.record.shots["spectral"]
    searching = [shot for shot in shots if 0 < shot.step <= 3 * POWER]
    x, y = drawn_as(lab, 2, "the regressor that is sought, median")[0].get_data()
    known = np.isfinite(y)
    np.testing.assert_allclose(y[known], [shot["component"][0] for shot in searching])
    np.testing.assert_allclose(x[known], [EDGES[1] * shot.step / (3 * POWER) for shot in searching])
    (regressors,) = drawn_as(lab, 2, "a regressor, a trial")
    after = [shot for shot in shots if shot.step > 3 * POWER]
    assert len(regressors.get_segments()) == 3
    for expert, line in enumerate(regressors.get_segments()):
        np.testing.assert_allclose(line[:, 1], [shot["cosines"][0, expert].max() for shot in after])
    (gates,) = drawn_as(lab, 2, "a gate, a trial")
    assert [line[-1, 0] for line in gates.get_segments()] == [EDGES[-1]] * 2


# ---- captions, time, pins, sizes ----


def test_captions_tell_start_run_and_end(ended: GridlockLab) -> None:
    lab = ended
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0].startswith("T₃ is whitened to 3 × 3 × 3 numbers, and nothing is found yet")
    assert f" after {at.POWER_EVERY} of {3 * POWER} power iterations." in captions[2]
    now = MarkRecord(lab.record)
    found = [int(at.found_in_trial(now, method).sum()) for method in at.METHODS]
    errors = [f"{np.median(lab.record.of(method)['error']):.2g}" for method in at.METHODS]
    assert captions[-1].startswith(
        f"In trial 1, spectral + EM has found {found[0]} of 3 regressors and joint EM {found[1]}. "
        f"Median errors: {errors[0]} and {errors[1]}."
    )
    assert "stuck" in captions[-1] and captions[-1] in lab.screen.caption.value


def test_a_method_that_has_ended_keeps_its_numbers(ended: GridlockLab) -> None:
    """Joint EM goes on for longer here, or ends sooner: neither is credited with iterations that it has not had."""
    for record in ended.records[2:]:
        now = MarkRecord(record)
        for method, last in (("spectral", 3 * POWER + at.GATE_ITERATIONS + AFTER), ("joint", 24)):
            assert at.step(now, method) == min(record.of(method).step, last)
            iterations, errors = at.em_errors(now, method)
            assert torch.equal(iterations.isfinite(), errors.isfinite().all(1))
