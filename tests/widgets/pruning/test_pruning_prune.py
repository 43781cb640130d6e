"""What the pruning Lab computes at once is what the library computes one by one."""

from __future__ import annotations

import dataclasses
from collections.abc import Iterator
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.pruning import FineTuned, fine_tune
from moe_lab.pruning.layer import Layer, counted_operations
from moe_lab.pruning.select import kept_experts
from moe_lab_widgets.pruning.prune import Pruned, Tuner, View, kept_at_every_rho
from moe_lab_widgets.pruning.record import Frame, live, outcome
from moe_lab_widgets.pruning.settings import CHUNK, NAMES, OFFERED, SCORES, run_of
from tests.widgets.pruning.small import DEFAULTS, SMALL, frames, view_of


def _trained(**values: Any) -> FineTuned:
    return fine_tune(run_of({**DEFAULTS, **SMALL, **values}))


def _view(**values: Any) -> View:
    return view_of({**DEFAULTS, **SMALL, **values})


def _all(pruned: Pruned, view: View) -> Pruned:
    for _ in pruned.work(lambda: view):
        pass
    return pruned


def test_every_criterion_has_a_name_and_says_what_it_scores() -> None:
    assert set(NAMES) == set(SCORES) == set(OFFERED)
    assert len(set(NAMES.values())) == len(NAMES)


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}, {"loss": "hinge"}])
def test_accuracies_of_all_choices_at_once_are_those_one_by_one(values: dict[str, Any]) -> None:
    tuned = _trained(trials=3, **values)
    pruned = Pruned(tuned)
    for name, criterion in OFFERED.items():
        expected = tuned.accuracies([criterion], [0, 0.25, 0.5, 0.75])[0]
        np.testing.assert_allclose(pruned.plain[name], expected.numpy(), atol=1e-6)
        for gone in range(4):
            np.testing.assert_array_equal(pruned.kept[name][gone].numpy(), tuned.kept(criterion, gone / 4).numpy())
        np.testing.assert_allclose(pruned.scores[name], tuned.scores(criterion).numpy())
    np.testing.assert_allclose(pruned.scores["reversed-norm-change"], -pruned.scores["router-norm-change"])


def test_ties_and_scores_that_are_not_numbers_are_ranked_as_the_library_ranks_them() -> None:
    nan = float("nan")
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0], [nan, 1.0, nan, 2.0, nan, nan, nan, nan]])
    signs = torch.tensor([1.0, 1, 1, 1, -1, -1, -1, -1])
    kept = kept_at_every_rho(scores)
    for gone in range(4):
        torch.testing.assert_close(kept[gone], kept_experts(scores, signs, (gone, gone)))


def test_one_fine_tuning_in_portions_serves_every_criterion_and_rho() -> None:
    tuned, view = _trained(), _view()
    pruned = _all(Pruned(tuned), view)
    for steps in (CHUNK, 2 * CHUNK):
        after = pruned.after(dataclasses.replace(view, tuning_steps=steps), pruned.known)
        assert set(after) == set(OFFERED)
        for name in ("router-norm-change", "random", "router-magnitude"):
            expected = tuned.accuracies([name], [0, 0.25, 0.5, 0.75], steps)[0]
            assert after[name][0] == steps
            np.testing.assert_allclose(after[name][1], expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("values", [{"routing": "token-choice", "top": 2}, {"loss": "hinge"}])
def test_coupled_layers_are_tuned_one_by_one_from_rho_outwards(values: dict[str, Any]) -> None:
    tuned, view = _trained(**values), _view(fine_tune=True, rho=0.5, criterion="router-magnitude")
    pruned, order = Pruned(tuned), []
    work = pruned._do

    def noted(criterion: str, gone: int) -> None:
        order.append(gone)
        work(criterion, gone)

    pruned._do = noted  # type: ignore[method-assign]
    _all(pruned, view)
    assert order == [2, 2, 1, 1, 3, 3, 0, 0]
    steps, after = pruned.after(view, pruned.known)["router-magnitude"]
    assert steps == 20
    for gone in range(4):
        expected = tuned.accuracy(tuned.kept("router-magnitude", gone / 4), 20)
        np.testing.assert_allclose(after[gone], expected.numpy(), atol=1e-6)
    assert not pruned.lacks(dataclasses.replace(view, rho=0.0))
    assert pruned.lacks(dataclasses.replace(view, tuning_steps=30))
    assert not pruned.lacks(dataclasses.replace(view, fine_tune=False, tuning_steps=30))


def test_a_view_that_changes_meanwhile_is_followed() -> None:
    pruned = Pruned(_trained(loss="hinge"))
    views = [_view(fine_tune=True, rho=0.25)] * 3 + [_view(fine_tune=True, rho=0.75, criterion="random")]

    def latest() -> View:
        return views.pop(0) if len(views) > 1 else views[0]

    for _ in pruned.work(latest):
        pass
    done = {(name, gone) for name, gone, _ in pruned._results}
    assert {gone for name, gone in done if name == "random"} == {0, 1, 2, 3}
    assert {gone for name, gone in done if name == "router-norm-change"} == {1, 0}, "no more than was looked at"


def test_results_are_shown_again_as_they_were_known() -> None:
    pruned, view = Pruned(_trained()), _view()
    known = [pruned.known]
    for _ in pruned.work(lambda: view):
        known.append(pruned.known)
    reached = [pruned.after(view, number).get("random", (0, None))[0] for number in known]
    assert reached == [0, 10, 20]


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}])
def test_memory_and_operations_are_those_of_the_layer(values: dict[str, Any]) -> None:
    tuned = _trained(**values)
    pruned, run = Pruned(tuned), tuned.run
    samples = tuned.samples("validation", tuned.validation_samples)
    vectors = torch.eye(run.task.patterns)
    for gone in range(4):
        kept = pruned.kept["importance-score"][gone]
        smaller = tuned.pruned(kept)
        assert pruned.parameters(gone) == pytest.approx(smaller.parameters / tuned.after.parameters)
        counted = []
        for weights in (smaller, tuned.after):
            layers = [Layer(weights, trial, vectors, run.model) for trial in range(run.trials)]
            of = [counted_operations(one, vectors[samples.tokens[trial]]) for trial, one in enumerate(layers)]
            counted.append(np.mean(of))
        assert pruned.operations("importance-score", gone) == pytest.approx(counted[0] / counted[1], rel=1e-3)


def test_a_diverged_trial_has_no_accuracy_and_leaves_the_others() -> None:
    tuned = _trained(trials=3)
    broken = Pruned(dataclasses.replace(tuned, diverged=torch.tensor([False, True, False])))
    for values in _all(broken, _view()).plain.values():
        assert np.isnan(values[:, 1]).all() and np.isfinite(values[:, [0, 2]]).all()
    assert np.isnan(broken.after(_view(), broken.known)["random"][1][:, 1]).all()


def test_a_tuner_takes_the_groups_of_the_library(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = _trained(trials=3)
    whole = Tuner(tuned, tuned.after).advance(20)
    monkeypatch.setattr("moe_lab_widgets.pruning.prune.group_size", lambda *_: 2)
    tuner = Tuner(tuned, tuned.after)
    assert len(tuner._groups) == 2
    parts = tuner.advance(20)
    torch.testing.assert_close(parts.neurons, whole.neurons, atol=1e-5, rtol=1e-5)
    torch.testing.assert_close(parts.routers, whole.routers, atol=1e-5, rtol=1e-5)


# ---- records ----


def test_records_of_a_training_are_those_of_the_library() -> None:
    records, values = frames(**SMALL, fine_tune=True)
    tuned = fine_tune(run_of(values))
    assert [record.step for record in records[:31]] == list(range(31))
    assert records[0].shot is not None and not records[0].shot["norm_change"].any()
    last = records[-1]
    assert last.pruned is not None and last.shot is not None
    torch.testing.assert_close(last.pruned.tuned.after.neurons, tuned.after.neurons, rtol=0, atol=0)
    change = tuned.after.routers.norm(dim=2) - tuned.before.routers.norm(dim=2)
    np.testing.assert_allclose(last.shot["norm_change"], change.numpy(), atol=1e-5)
    np.testing.assert_allclose(last.accuracy, tuned.evaluation.accuracy().numpy(), atol=1e-6)
    assert {record.known for record in records} == {0, len(OFFERED), 2 * len(OFFERED)}
    measured = [record.step for record in records if record.shot is not None and "test_accuracy" in record.shot.values]
    assert len(set(measured)) == 11


def test_a_pretrained_run_shows_itself_before_it_has_pretrained() -> None:
    values = {**DEFAULTS, **SMALL, "start": "pre-trained", "trials": 1, "steps": 5}
    run: Iterator[Frame] = live(run_of(values), lambda: view_of(values))
    first, second = next(run), next(run)
    assert first.shot is None and outcome(first, view_of(values)) is None and not first.changes(0).any()
    assert second.shot is not None and second.step == 0


def test_lost_are_the_classes_whose_every_carrier_is_pruned() -> None:
    record = frames(**SMALL)[0][-1]
    assert record.pruned is not None and record.shot is not None
    record.shot.values["proficiency"][0] = [1, 0, 1, 0, 0, 0, 0, 0.6]
    kept = record.pruned.kept["random"]
    kept[2, 0] = torch.tensor([False, True, False, True, True, True, False, False])
    view = _view(criterion="random", rho=0.5)
    lost = record.lost(view, 0)
    assert [(side, experts.tolist()) for side, experts in lost] == [(0, [0, 2]), (1, [7])]
    kept[2, 0] = torch.tensor([True, True, False, False, False, False, True, True])
    assert record.lost(view, 0) == []
    np.testing.assert_array_equal(np.flatnonzero(record.carriers(0)), [0, 2, 7])


def test_the_trial_on_show_is_one_that_there_is() -> None:
    record = frames(**SMALL)[0][0]
    assert [record.trial(shown) for shown in (1, 2, 9)] == [0, 1, 1]
