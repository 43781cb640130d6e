"""Records of the pruning Lab are the library's training and pruning."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from moe_lab.pruning import fine_tune
from moe_lab_widgets.labs.pruning_knobs import MEANINGS, NAMES
from moe_lab_widgets.labs.pruning_record import OFFERED, PruningSnapshot, choice_of, outcome, recipe, run_of, train
from tests.widgets.cases import PRUNING

DEFAULTS, SMALL = PRUNING.defaults, PRUNING.small


def frames(**values: Any) -> tuple[list[PruningSnapshot], dict[str, Any]]:
    """Returns all records of a run with the defaults of its start and routing, and its values."""
    start, routing = values.get("start", DEFAULTS["start"]), values.get("routing", DEFAULTS["routing"])
    every = {**DEFAULTS, **recipe(start, routing), **values}
    return list(train(lambda: every, **every)), every


def test_every_criterion_has_a_name_and_says_what_it_scores() -> None:
    assert set(NAMES) == set(MEANINGS) == set(OFFERED)
    assert len(set(NAMES.values())) == len(NAMES)


def test_records_of_a_training_are_those_of_the_library() -> None:
    records, values = frames(**SMALL, fine_tune=True)
    tuned = fine_tune(run_of(values))
    assert [record.step for record in records[:31]] == list(range(31))
    assert not records[0]["norm_change"].any()
    last = records[-1]
    assert last.pruned is not None
    torch.testing.assert_close(last.pruned.tuned.after.neurons, tuned.after.neurons, rtol=0, atol=0)
    change = tuned.after.routers.norm(dim=2) - tuned.before.routers.norm(dim=2)
    np.testing.assert_allclose(last["norm_change"], change.numpy(), atol=1e-5)
    np.testing.assert_allclose(last.accuracy, tuned.evaluation.accuracy().numpy(), atol=1e-6)
    ranked = len(OFFERED) - 1  # token counts rank none where experts choose
    assert {len(record.results) for record in records} == {0, ranked, 2 * ranked}
    measured = [record.step for record in records if "test_accuracy" in record.values]
    assert len(set(measured)) == 11


def test_a_pretrained_run_shows_itself_before_it_has_pretrained() -> None:
    values = {**DEFAULTS, **SMALL, "start": "pre-trained", "trials": 1, "steps": 5}
    run: Iterator[PruningSnapshot] = train(lambda: values, **values)
    first, second = next(run), next(run)
    assert not first.values and outcome(first, choice_of(values)) is None and not first.changes(0).any()
    assert second.values and second.step == 0


def test_lost_are_the_classes_whose_every_carrier_is_pruned() -> None:
    record = frames(**SMALL)[0][-1]
    assert record.pruned is not None
    record.values["proficiency"][0] = [1, 0, 1, 0, 0, 0, 0, 0.6]
    kept = record.pruned.kept["random"]
    kept[2, 0] = torch.tensor([False, True, False, True, True, True, False, False])
    choice = choice_of({**DEFAULTS, **SMALL, "criterion": "random", "rho": 0.5})
    lost = record.lost(choice, 0)
    assert [(side, experts.tolist()) for side, experts in lost] == [(0, [0, 2]), (1, [7])]
    kept[2, 0] = torch.tensor([True, True, False, False, False, False, True, True])
    assert record.lost(choice, 0) == []
    np.testing.assert_array_equal(np.flatnonzero(record.carriers(0)), [0, 2, 7])
