"""The specialisation Lab's picture and captions show what the records hold."""

from __future__ import annotations

import re
from typing import Any

import numpy as np
import pytest

from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.labs.specialization import FALL, IDLE, collapsed
from tests.widgets.cases import SPECIALIZATION
from tests.widgets.labs import Make, done, drawn_as, fixtures

make, ended = fixtures(SPECIALIZATION)


@pytest.mark.parametrize("values", [{}, {"experts": 16, "clusters": 8}, {"experts": 1}, {"experts": 2, "clusters": 2}])
def test_the_tables_hold_trial_1_s_numbers_and_columns_are_experts(make: Make, values: dict[str, Any]) -> None:
    lab = done(make(**values))
    now = lab.record
    share = now["dispatch"][0] / now["dispatch"][0].sum(1, keepdims=True)
    learned = now["expert_feature"][0].T  # (cluster, expert)
    longest = lab.values["learning_rate"] * lab.values["steps"]
    tables = [one for one in lab.picture.placed[0].content if isinstance(one, Sheet) and one.edges]
    shares, products = (np.reshape(sheet.words, share.shape) for sheet in tables)
    for row, column in np.ndindex(*share.shape):
        assert float(shares[row, column] or 0) == pytest.approx(100 * share[row, column], abs=0.51)
        said = products[row, column]
        assert float(said or 0) == pytest.approx(learned[row, column], abs=0.051 if said else 0.05 * longest)
    assert tables[0].parts[0] == "cluster 1, expert 1"


def test_the_curves_are_the_records(make: Make) -> None:
    lab = done(make(trials=4))
    for name in lab.record.names:
        entropies = np.array([record.of(name)["dispatch_entropy"] for record in lab.records[1:]])
        steps, middle = drawn_as(lab, 1, f"{name} experts, median")[0].get_data()
        np.testing.assert_allclose(steps, [record.step for record in lab.records[1:]])
        np.testing.assert_allclose(middle, np.median(entropies, axis=1), atol=1e-12)
        lines = drawn_as(lab, 1, f"{name} experts, a trial")[0].get_segments()
        np.testing.assert_allclose(np.array(lines)[..., 1].T, entropies, atol=1e-12)


def test_a_trial_that_falls_from_what_it_had_is_counted(make: Make) -> None:
    lab = done(make(trials=3))
    first, last = lab.records[-2].of(), lab.record.of()
    first.values["test_accuracy"][:] = (0.99, 0.99, 0.9)
    last.values["test_accuracy"][:] = (0.99, 0.99 - FALL - 0.01, 0.8)  # the third had found nothing
    np.testing.assert_array_equal(collapsed(MarkRecord(lab.record), "cubic"), [False, True, False])
    assert "In 1 of 3 trials experts had divided the clusters and lost them again." in lab.caption(lab.record)


# ---- captions ----


def test_captions_tell_start_run_and_end(make: Make) -> None:
    lab = done(make(samples=1000, steps=150, trials=3, seed=0))
    captions = [lab.caption(record) for record in lab.records]
    assert captions[0] == (
        "Expert 1 gets every sample, because all scores of the router are 0. The entropy is log 4 = 1.39: nobody "
        "specialises."
    )
    assert (lab.records[0].of()["dispatch"][:, :, 1:] == 0).all(), "it is so"
    study, reference = (part["dispatch_entropy"] for part in lab.record.parts.values())
    carriers = int((lab.record.of()["expert_load"][0] >= IDLE).sum())
    assert captions[-1].startswith(f"{carriers} of 8 experts carry the 4 clusters. Median entropy: ")
    entropies = [float(found) for found in re.findall(r"(\d\.\d\d) with", captions[-1])]
    np.testing.assert_allclose(entropies, [np.median(study), np.median(reference)], atol=0.006)
    assert captions[-1] in lab.screen.caption.value.replace("&ge;", "≥")


def test_both_reach_is_said_only_of_what_both_reach(make: Make) -> None:
    lab = done(make(trials=3))
    study, reference = lab.record.of("cubic").values, lab.record.of("linear").values
    study["test_accuracy"][:], reference["test_accuracy"][:] = (0.999, 0.99, 1.0), (0.979, 0.93, 0.99)
    study["dispatch_entropy"][:], reference["dispatch_entropy"][:] = (0.0, 0.01, 0.4), (1.0, 1.2, 1.1)
    assert (
        "entropy: 0.01 with cubic experts, 1.10 with linear experts, although both are right in at least 97 %."
        in lab.caption(lab.record)
    )
    reference["test_accuracy"][:] = 0.8
    assert "1.10 with linear experts. Accuracy: 99.9 %, 80.0 %." in lab.caption(lab.record)
    reference["test_accuracy"][:], study["dispatch_entropy"][:] = 0.97, 0.8
    assert "although" not in lab.caption(lab.record), "both mix the clusters"


@pytest.mark.parametrize(
    ("values", "sentence"),
    [
        ({"experts": 1}, "Expert 1 alone carries all 4 clusters"),
        ({"experts": 2}, "2 experts for 4 clusters the entropy cannot fall below log(4/2) = 0.69."),
        ({"router_learning_rate": 0.0}, "The router has not moved at all."),
        ({"activation": "linear"}, "with linear experts, "),
    ],
)
def test_captions_say_what_keeps_experts_from_specialising(make: Make, values: dict[str, Any], sentence: str) -> None:
    lab = done(make(**values))
    assert sentence in lab.caption(lab.record)
