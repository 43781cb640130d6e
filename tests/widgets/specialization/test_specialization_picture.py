"""The specialisation Lab's picture and captions show what the records hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from moe_lab import theme
from moe_lab_widgets import SpecializationLab
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table
from moe_lab_widgets.drawing.words import median, percent
from moe_lab_widgets.specialization.panels.dispatch import SMALLEST_PRODUCT, Tables
from moe_lab_widgets.specialization.panels.entropy import number
from moe_lab_widgets.specialization.record import FALL, IDLE, Frame, frames
from tests.widgets.cases import SPECIALIZATION
from tests.widgets.labs import Make, colours, done, fixtures

make, ended = fixtures(SPECIALIZATION)


# ---- panel 1 ----


@pytest.mark.parametrize("values", [{}, {"experts": 16, "clusters": 8}, {"experts": 1}, {"experts": 2, "clusters": 2}])
def test_the_tables_hold_trial_1_s_numbers_and_columns_are_experts(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    study, tables = lab.record.study, lab.picture.tables
    share = study["dispatch"][0] / study["dispatch"][0].sum(1, keepdims=True)
    learned = study["expert_feature"][0].T  # (cluster, expert)
    longest = lab.values["learning_rate"] * lab.values["steps"]
    shares, products = (np.reshape(sheet.words, share.shape) for sheet in tables.sheets)
    for row, column in np.ndindex(*share.shape):
        said = shares[row, column]
        assert float(said or 0) == pytest.approx(100 * share[row, column], abs=0.51)
        said = products[row, column]
        smallest = SMALLEST_PRODUCT * longest
        assert float(said or 0) == pytest.approx(learned[row, column], abs=0.051 if said else smallest)
    np.testing.assert_array_equal(tables.idle, study["expert_load"][0] < IDLE)
    assert learned.max() <= longest + 0.01, "no product can be longer than all steps together"


def test_no_column_moves_while_it_trains(make: Make) -> None:
    lab = done(make(steps=60))
    for index in (0, 5, len(lab.records) - 1):
        lab.scrub(index)
        lab.wait(20)
        sent = lab.records[index].study["dispatch"][0]
        for row, words in enumerate(np.reshape(lab.picture.tables.sheets[0].words, sent.shape)):
            assert int(np.argmax([float(word or 0) for word in words])) == int(sent[row].argmax())


@pytest.mark.parametrize("scale", [1.0, 1.25, 1.5])
@pytest.mark.parametrize(("experts", "clusters"), [(16, 8), (1, 2), (16, 2), (1, 8)])
def test_every_number_fits_its_cell(experts: int, clusters: int, scale: float) -> None:
    wide, high = min(Tables.WIDTH // experts, Tables.WIDEST), min(Tables.HEIGHT / clusters, Tables.HIGHEST)
    sheet, table = Sheet(), Table(Tables.LEFT, Tables.TOPS[1], clusters, experts, high, wide)
    for words in ("100", "9.9", "16"):
        with sheet.anew():
            table.fill(sheet, [words] * len(table.edges))
        inks, places = sheet.words_at(scale)
        sizes = np.array([ink.shape[::-1] for ink in inks])
        boxes = sheet.boxes_at(scale)
        assert (places > boxes[:, :2]).all() and (places + sizes < boxes[:, :2] + boxes[:, 2:]).all()


# ---- panels 2 and 3 ----


def test_the_curves_are_the_records(make: Make) -> None:
    lab = done(make(trials=4))
    picture, most = lab.picture, np.log(lab.values["clusters"])
    for model in ("study", "reference"):
        entropies = np.array([getattr(record, model)["dispatch_entropy"] for record in lab.records[1:]]) / most
        steps, middle = picture.entropy.thick[model].get_data()
        np.testing.assert_allclose(np.asarray(steps) * lab.values["steps"], [record.step for record in lab.records[1:]])
        np.testing.assert_allclose(middle, np.median(entropies, axis=1), atol=1e-12)
        lines = picture.entropy.trials[model].thin.get_segments()
        np.testing.assert_allclose(np.array(lines)[..., 1].T, entropies, atol=1e-12)
    for model in ("study", "reference"):
        accuracy = getattr(lab.record, model)["test_accuracy"]
        shown = np.concatenate([picture.accuracy.marks[model].get_ydata(), picture.accuracy.low[model].get_ydata()])
        assert len(shown) == 4
        axis = picture.accuracy
        np.testing.assert_allclose(np.sort(shown), np.sort(axis.part(accuracy)))
        assert len(axis.low[model].get_ydata()) == (accuracy < axis._lowest).sum()


def test_limits_stay_while_it_trains_and_follow_the_knobs(make: Make) -> None:
    lab = make()
    axes = (lab.picture.entropy.axes, lab.picture.accuracy.axes)
    before = [(one.get_xlim(), one.get_ylim()) for one in axes]
    done(lab)
    assert [(one.get_xlim(), one.get_ylim()) for one in axes] == before
    assert lab.picture.accuracy._lowest == 0.5  # 200 samples
    lab.set(samples=1000)
    done(lab)
    assert lab.picture.accuracy._lowest == 0.9


def test_marks_that_would_lie_on_one_another_stand_side_by_side(ended: SpecializationLab) -> None:
    panel = ended.picture.accuracy
    x, y = panel._swarm(np.array([1.0] * 10), 0.25)
    assert len(np.unique(np.round(x, 6))) == 10 and (y == 1).all()
    assert np.abs(x - 0.25).max() < 0.25, "they stay on their side"
    x, _ = panel._swarm(np.array([0.2, 0.5, 0.9]), 0.25)
    np.testing.assert_allclose(x, 0.25)


def test_a_trial_that_falls_from_what_it_had_gets_a_cross_in_the_colour_of_failure(make: Make) -> None:
    lab = done(make(trials=3))
    first, last = lab.records[-2].study, lab.record.study
    first.values["test_accuracy"][:] = (0.99, 0.99, 0.9)
    last.values["test_accuracy"][:] = (0.99, 0.99 - FALL - 0.01, 0.8)  # the third had found nothing
    np.testing.assert_array_equal(lab.record.collapsed("study"), [False, True, False])
    lab.picture.show(lab.record)
    crosses = lab.picture.accuracy.crosses["study"]
    assert crosses.get_color() == theme.FAILURE and len(crosses.get_ydata()) == 1
    assert "In 1 of 3 trials experts had divided the clusters and lost them again." in lab.caption(lab.record)
    assert not lab.records[-2].collapsed("study").any()


def test_failure_and_expert_2_are_never_in_one_picture(make: Make) -> None:
    lab = done(make(experts=4))
    used = colours(lab)
    assert tuple(theme.rgba(theme.FAILURE)[:3]) in used
    assert not used & {tuple(theme.rgba(style.colour)[:3]) for style in theme.EXPERTS}


# ---- captions ----


def test_captions_tell_start_run_and_end(make: Make) -> None:
    lab = done(make(samples=1000, steps=150, trials=3, seed=0))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0] == (
        "Step 0: all scores of the router are 0, so expert 1 gets every sample; entropy log 4 = 1.39: nobody "
        "specialises."
    )
    assert (lab.records[0].study["dispatch"][:, :, 1:] == 0).all(), "it is so"
    study, reference = (part["dispatch_entropy"] for part in (lab.record.study, lab.record.reference))
    carriers = int((lab.record.study["expert_load"][0] >= IDLE).sum())
    assert captions[-1].startswith(f"Step 150 of 150: {carriers} of 8 experts carry the 4 clusters; median entropy ")
    entropies = [float(found) for found in re.findall(r"(\d\.\d\d) \(", captions[-1])]
    np.testing.assert_allclose(entropies, [np.median(study), np.median(reference)], atol=0.006)
    assert captions[-1] in lab.screen.caption.value.replace("&ge;", "≥")


def test_both_reach_is_said_only_of_what_both_reach(make: Make) -> None:
    lab = done(make(trials=3))
    study, reference = lab.record.study.values, lab.record.reference.values
    study["test_accuracy"][:], reference["test_accuracy"][:] = (0.999, 0.99, 1.0), (0.979, 0.93, 0.99)
    study["dispatch_entropy"][:], reference["dispatch_entropy"][:] = (0.0, 0.01, 0.4), (1.0, 1.2, 1.1)
    assert "median entropy 0.01 (cubic) against 1.10 (linear) although both reach ≥ 97 %" in lab.caption(lab.record)
    reference["test_accuracy"][:] = 0.8
    assert "against 1.10 (linear), accuracy 99.9 % against 80.0 %" in lab.caption(lab.record)
    reference["test_accuracy"][:], study["dispatch_entropy"][:] = 0.97, 0.8
    assert "although" not in lab.caption(lab.record), "both mix the clusters"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"experts": 1}, "expert 1 alone carries all 4 clusters"),
        ({"experts": 2}, "2 experts for 4 clusters: not under log(4/2) = 0.69."),
        ({"router_learning_rate": 0.0}, "The router has not moved at all."),
        ({"activation": "linear"}, "(linear) against"),
    ],
)
def test_captions_say_what_keeps_experts_from_specialising(make: Make, values: dict[str, Any], sentence: str) -> None:
    lab = done(make(**values))
    assert sentence in lab.caption(lab.record)


def test_words_of_nothing() -> None:
    np.testing.assert_array_equal(median(np.array([[0.5, np.nan, 1.0], [np.nan] * 3])), [0.75, np.nan])
    np.testing.assert_array_equal(median(np.array([[1.0, 2.0, 9.0]])), [2.0])
    assert percent(float("nan")) == "–" and percent(0.9996, 1) == "100.0 %" and percent(0.9984, 1) == "99.8 %"
    assert number(float("nan")) == "–" and number(-1e-9) == "0.00" and number(1.386) == "1.39"


# ---- stories, time, pins, sizes ----


def test_the_first_frame_does_not_wait_for_the_reference(make: Make) -> None:
    lab = SpecializationLab(**SPECIALIZATION.small, playing=False)
    try:
        assert lab.wait(60)
        assert len(lab.records) == 1 and lab.record.reference is None and not lab.record.ended
        lab.step()
        assert lab.wait(60)
        assert lab.record.reference is not None and lab.record.reference.step == lab.record.study.step
        assert lab.records[0].reference is None, "a record does not change"
        assert lab.records[1].reference is not None and lab.records[1].step == lab.records[1].reference.step == 0
    finally:
        lab.close()


def test_a_model_that_has_ended_stays_while_the_other_goes_on(ended: SpecializationLab) -> None:
    records = ended.records
    study, reference = records[-1].first, records[-1].second
    made = list(frames(iter(study), lambda: iter(reference[:3]), ("cubic", "linear"), 20))
    assert [frame.step for frame in made[1:]] == [shot.step for shot in study]
    assert all(frame.reference is reference[2] for frame in made[3:])
    assert len(made[-1].measured("reference", "test_accuracy")) == len(study)
    assert not made[-1].ended


def test_a_frame_without_a_reference_has_no_records_of_it(ended: SpecializationLab) -> None:
    shot = ended.record.study
    frame = Frame((shot,), (), ("cubic", "linear"), 20)
    assert frame.reference is None
    assert frame.measured("reference", "dispatch").shape == (0, *shot["dispatch"].shape)
    assert not frame.collapsed("reference").any()


def test_pinned_medians_keep_their_numbers_over_runs(make: Make) -> None:
    lab = done(make())
    lab.pin()
    kept = lab.picture.entropy.pins[0].values
    np.testing.assert_array_equal(kept, median(lab.record.measured("study", "dispatch_entropy")))
    done(lab, clusters=6)
    assert len(lab.picture.entropy.shown_pins) == 3 and len(lab.picture.accuracy.shown_pins) == 2
    drawn = lab.picture.entropy.shown_pins[0].get_ydata()
    np.testing.assert_allclose(drawn, kept / np.log(6))  # in nats they are where they were
