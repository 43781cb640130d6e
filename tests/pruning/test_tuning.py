"""What a training measures of pruning, for every criterion and rho at once, equals what is computed one by one."""

from __future__ import annotations

import dataclasses
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.saliency import UNMOVED, routers_unmoved, scores_where_defined, undefined_where
from moe_lab.core.snapshots import Snapshot
from moe_lab.pruning import FineTuned, TokenMoE, TokenRun, TokenTask, Weights
from moe_lab.pruning.criteria import CRITERIA, Criterion, Scores, Statistics, router_norm_change
from moe_lab.pruning.pruned import PruningTraining, kept_by_count
from moe_lab.pruning.select import kept_experts, ranks_by_sign
from moe_lab.pruning.tuning import PruningChoice, Tuner, Tuning

pytestmark = pytest.mark.usefixtures("float64")

CHUNK = 10


@undefined_where(routers_unmoved, UNMOVED)
def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    return -scores_where_defined(router_norm_change, before, after, statistics)[0]


OFFERED: dict[str, Criterion] = {**CRITERIA, "reversed": reversed_norm_change}
NAMES = list(OFFERED)
APART: list[dict[str, Any]] = [{}, {"routing": "token-choice", "top": 2}, {"loss": "hinge"}]


def trained(trials: int = 2, **model: Any) -> tuple[FineTuned, Snapshot]:
    """Returns a trained layer, and what its training has measured last."""
    layer = TokenMoE(**{"experts": 8, "router_learning_rate": 0.1, **model})
    task = TokenTask(patterns=100, tokens=40)
    run = TokenRun(model=layer, task=task, steps=30, trials=trials, test_samples=200, device="cpu", record_every=30)
    training = PruningTraining(run, OFFERED)
    *_, last = training.snapshots()
    return FineTuned.of(training), last


def choice_of(**values: Any) -> PruningChoice:
    usual = {"rho": 0.5, "criterion": "router-norm-change", "fine_tune": False, "tuning_steps": 20}
    return PruningChoice(**{**usual, **values})


def tuning_of(tuned: FineTuned, last: Snapshot) -> Tuning:
    return Tuning(tuned, last.values, NAMES, CHUNK)


def known(tuning: Tuning) -> set[tuple[str, int]]:
    """Returns of which criteria and counts there are results."""
    found = np.isfinite(tuning.accuracies).any((0, 1))
    return {(NAMES[one], int(gone)) for one, gone in zip(*found.nonzero(), strict=True)}


@pytest.mark.parametrize("values", APART)
def test_accuracies_of_all_choices_at_once_are_those_one_by_one(values: dict[str, Any]) -> None:
    tuned, last = trained(trials=3, **values)
    unranked = set() if values.get("routing") == "token-choice" else {"token-count"}
    assert {name for name, bad in zip(NAMES, last["undefined"].any(0), strict=True) if bad} == unranked
    kept = kept_by_count(torch.as_tensor(last["rank"]))
    for place, name in enumerate(NAMES):
        if name in unranked:
            assert np.isnan(last["score"][:, place]).all() and np.isnan(last["pruned_accuracy"][:, place]).all()
            continue
        criterion = OFFERED[name]
        expected = tuned.accuracies([criterion], [0, 0.25, 0.5, 0.75])[0]
        np.testing.assert_allclose(last["pruned_accuracy"][:, place].T, expected.numpy(), atol=1e-6)
        for gone in range(4):
            np.testing.assert_array_equal(kept[:, place, gone].numpy(), tuned.kept(criterion, gone / 4).numpy())
        np.testing.assert_allclose(last["score"][:, place], tuned.scores(criterion).numpy())
    np.testing.assert_allclose(last["score"][:, -1], -last["score"][:, 0])


def test_nothing_is_known_of_pruning_before_the_end_and_all_has_names() -> None:
    run = TokenRun(model=TokenMoE(experts=8), task=TokenTask(patterns=30, tokens=12), steps=4, record_every=2, trials=2)
    *early, last = PruningTraining(run).snapshots()
    for name in ("score", "undefined", "rank", "pruned_accuracy", "received"):
        assert all(np.isnan(one[name]).all() and one[name].shape == last[name].shape for one in early)
    assert list(last.coords["criterion"]) == list(CRITERIA) and last.coords["rho"] == [0, 0.25, 0.5, 0.75]


@pytest.mark.parametrize("values", APART)
def test_the_form_for_accelerators_finds_the_same(values: dict[str, Any]) -> None:
    (_, mine) = trained(**values)
    with as_on_accelerator():
        _, other = trained(**values)
    for name, found in mine.values.items():
        np.testing.assert_allclose(other[name], found, rtol=1e-9, atol=1e-9, err_msg=name)


def test_ties_and_scores_that_are_not_numbers_are_ranked_as_one_by_one() -> None:
    nan = float("nan")
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0], [nan, 1.0, nan, 2.0, nan, nan, nan, nan]])
    signs = torch.tensor([1.0, 1, 1, 1, -1, -1, -1, -1])
    kept = kept_by_count(ranks_by_sign(scores, signs))
    for gone in range(4):
        torch.testing.assert_close(kept[:, gone], kept_experts(scores, signs, (gone, gone)))


def test_one_fine_tuning_in_portions_serves_every_criterion_and_rho() -> None:
    tuned, last = trained()
    tuning, choice = tuning_of(tuned, last), choice_of()
    while tuning.lacks(choice):
        tuning.advance(choice)
    assert tuning.accuracies.shape == (2, 2, len(NAMES), 4)
    assert {name for name, _ in known(tuning)} == set(NAMES) - {"token-count"}
    for row, steps in enumerate((CHUNK, 2 * CHUNK)):
        for name in ("router-norm-change", "random", "router-magnitude"):
            expected = tuned.accuracies([name], [0, 0.25, 0.5, 0.75], steps)[0]
            np.testing.assert_allclose(tuning.accuracies[:, row, NAMES.index(name)].T, expected.numpy(), atol=1e-6)
    with pytest.raises(ValueError, match="a choice must lack a result"):
        tuning.advance(choice)


@pytest.mark.parametrize("values", APART[1:])
def test_coupled_layers_are_tuned_one_by_one_from_rho_outwards(values: dict[str, Any]) -> None:
    tuned, last = trained(**values)
    tuning, choice = tuning_of(tuned, last), choice_of(fine_tune=True, rho=0.5, criterion="router-magnitude")
    order, before = [], set[tuple[str, int]]()
    while tuning.lacks(choice):
        tuning.advance(choice)
        order += known(tuning) - before
        before = known(tuning)
    assert [gone for _, gone in order] == [2, 1, 3, 0]
    for gone in range(4):
        expected = tuned.accuracy(tuned.kept("router-magnitude", gone / 4), 20)
        mine = tuning.accuracies[:, 1, NAMES.index("router-magnitude"), gone]
        np.testing.assert_allclose(mine, expected.numpy(), atol=1e-6)
    assert not tuning.lacks(dataclasses.replace(choice, rho=0.0))
    assert tuning.lacks(dataclasses.replace(choice, tuning_steps=30))
    assert not tuning.lacks(dataclasses.replace(choice, fine_tune=False, tuning_steps=30))


def test_a_choice_that_changes_meanwhile_is_followed() -> None:
    tuning = tuning_of(*trained(loss="hinge"))
    for _ in range(3):
        tuning.advance(choice_of(fine_tune=True, rho=0.25))
    other = choice_of(fine_tune=True, rho=0.75, criterion="random")
    while tuning.lacks(other):
        tuning.advance(other)
    done = known(tuning)
    assert {gone for name, gone in done if name == "random"} == {0, 1, 2, 3}
    assert {gone for name, gone in done if name == "router-norm-change"} == {1, 0}, "no more than was looked at"


def test_a_diverged_trial_has_no_accuracy_and_leaves_the_others() -> None:
    tuned, last = trained(trials=3)
    for values in last.values.values():
        values[1] = np.nan
    tuning = tuning_of(dataclasses.replace(tuned, diverged=torch.tensor([False, True, False])), last)
    found = tuning.advance(choice_of())[:, 0, NAMES.index("random")]
    assert np.isnan(found[1]).all() and np.isfinite(found[[0, 2]]).all()


def test_a_tuner_takes_groups_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned, _ = trained(trials=3)
    whole = Tuner(tuned, tuned.after).advance(20)
    monkeypatch.setattr("moe_lab.pruning.checkpoints.group_size", lambda *_: 2)
    tuner = Tuner(tuned, tuned.after)
    assert len(tuner.learners) == 2
    parts = tuner.advance(20)
    torch.testing.assert_close(parts.neurons, whole.neurons, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(parts.routers, whole.routers, atol=1e-10, rtol=1e-10)
