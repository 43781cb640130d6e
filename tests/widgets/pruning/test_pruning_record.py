"""Records of the pruning Lab are the library's training and pruning, and what is read of them."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.pruning import fine_tune
from moe_lab.pruning.layer import Layer, counted_operations
from moe_lab_widgets.drawing.mark_record import MarkRecord
from moe_lab_widgets.engine.knobs import OWN
from moe_lab_widgets.engine.record import ONLY, Record
from moe_lab_widgets.labs import pruning_seen as seen
from moe_lab_widgets.labs.pruning_knobs import NAMES
from moe_lab_widgets.labs.pruning_record import CHUNK, OFFERED, LiveRun, choice_of, more, recipe, run_of
from tests.widgets.cases import PRUNING

DEFAULTS, SMALL = PRUNING.defaults, PRUNING.small


def ended(every: int = 10, **values: Any) -> Record:
    """Returns the last record of a run with the defaults of its start and routing, and its values."""
    start, routing = values.get("start", DEFAULTS["start"]), values.get("routing", DEFAULTS["routing"])
    whole = {**DEFAULTS, **recipe(start, routing), **values}
    live = LiveRun(run_of(whole).replace(record_every=every))
    record = Record({ONLY: tuple(live.records())}, whole, (ONLY,), whole["steps"])
    while (further := more(record)) is not None:
        record = Record({ONLY: (*record.shots[ONLY], *further)}, whole, (ONLY,), whole["steps"])
    return record


def test_every_criterion_has_a_name() -> None:
    assert list(NAMES) == [*OFFERED, OWN] and len(set(NAMES.values())) == len(NAMES)


def test_records_of_a_training_are_those_of_the_library() -> None:
    record = ended(1, **SMALL, fine_tune=True)
    shots, tuned = record.shots[ONLY], fine_tune(run_of(record.values))
    assert [shot.step for shot in shots] == [*range(31), 30, 30]
    assert not shots[0]["norm_change"].any() and all(np.isfinite(shot["test_accuracy"]).all() for shot in shots)
    last = shots[-1]
    change = tuned.after.routers.norm(dim=2) - tuned.before.routers.norm(dim=2)
    np.testing.assert_allclose(last["norm_change"], change.numpy(), atol=1e-5)
    np.testing.assert_allclose(last["test_accuracy"], tuned.evaluation.accuracy().numpy(), atol=1e-6)
    known = [int(np.isfinite(shot["tuned_accuracy"]).any((0, 2, 3)).sum()) for shot in shots]
    assert known == [0] * 31 + [1, 2], "a record holds what was known of fine-tuning then"


def test_a_pretrained_run_shows_itself_before_it_has_pretrained() -> None:
    values = {**DEFAULTS, **SMALL, "start": "pre-trained", "trials": 1, "steps": 5}
    run = LiveRun(run_of(values)).records()
    first, second = next(run), next(run)
    now = MarkRecord(Record({ONLY: (first,)}, values, (ONLY,), 5))
    assert not seen.is_pruned(now) and np.isnan(first["norm_change"]).all() and first.step == 0
    assert set(first.values) == set(second.values) and np.isfinite(second["norm_change"]).all() and second.step == 0


def test_lost_are_the_classes_whose_every_carrier_is_pruned() -> None:
    record = ended(**SMALL).seen_with({"criterion": "random", "rho": 0.5})
    now, last = MarkRecord(record), record.of()
    last["proficiency"][0] = [1, 0, 1, 0, 0, 0, 0, 0.6]
    rank = last["rank"][:, list(OFFERED).index("random")]
    rank[0] = [3, 0, 2, 1, 1, 0, 3, 2]
    assert seen.lost(now)[0].nonzero()[:, 0].tolist() == [0, 2, 7]
    rank[0] = [0, 1, 2, 3, 3, 2, 0, 1]
    now = MarkRecord(record)
    assert not seen.lost(now)[0].any()
    assert seen.carriers(now)[0].nonzero()[:, 0].tolist() == [0, 2, 7]


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}])
def test_memory_and_operations_are_those_of_the_layer(values: dict[str, Any]) -> None:
    record = ended(**{**SMALL, **values, "criterion": "importance-score"})
    run = run_of(record.values)
    tuned = fine_tune(run)
    samples, vectors = tuned.samples("validation", tuned.validation_samples), torch.eye(run.task.patterns)
    for rho in (0, 0.25, 0.5, 0.75):
        found = seen.outcome(MarkRecord(record.seen_with({"rho": rho})))
        smaller = tuned.pruned(tuned.kept("importance-score", rho))
        assert float(found.memory) == pytest.approx(smaller.parameters / tuned.after.parameters)
        counted = []
        for weights in (smaller, tuned.after):
            layers = [Layer(weights, trial, vectors, run.model) for trial in range(run.trials)]
            of = [counted_operations(one, vectors[samples.tokens[trial]]) for trial, one in enumerate(layers)]
            counted.append(np.mean(of))
        assert float(found.operations) == pytest.approx(counted[0] / counted[1], rel=1e-3)


@pytest.mark.parametrize("values", [{}, {"loss": "hinge"}])
def test_an_outcome_is_the_librarys_pruning_and_fine_tuning(values: dict[str, Any]) -> None:
    record = ended(**{**SMALL, **values, "fine_tune": True, "rho": 0.5, "criterion": "router-magnitude"})
    tuned = fine_tune(run_of(record.values))
    kept = tuned.kept("router-magnitude", 0.5)
    for steps in (CHUNK, SMALL["tuning_steps"]):
        found = seen.outcome(MarkRecord(record.seen_with({"tuning_steps": steps})))
        assert int(found.steps) == steps and int(found.left) == 4
        np.testing.assert_allclose(found.plain, tuned.accuracy(kept).numpy(), atol=1e-6)
        np.testing.assert_allclose(found.tuned, tuned.accuracy(kept, steps).numpy(), atol=1e-6)
    plain = seen.outcome(MarkRecord(record.seen_with({"fine_tune": False})))
    assert not plain.steps and torch.equal(plain.tuned, plain.plain)
    assert choice_of(record.values).count(4) == int(seen.gone(MarkRecord(record).values))
