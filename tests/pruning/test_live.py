"""Results computed for every criterion and rho at once equal those computed one by one."""

from __future__ import annotations

import dataclasses
from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.pruning import FineTuned, TokenMoE, TokenRun, TokenTask, Weights, fine_tune
from moe_lab.pruning.criteria import CRITERIA, Criterion, Scores, Statistics, router_norm_change
from moe_lab.pruning.layer import Layer, counted_operations
from moe_lab.pruning.live import FineTuning, Pruned, PruningChoice, Tuner
from moe_lab.pruning.select import kept_by_count, kept_experts

pytestmark = pytest.mark.usefixtures("float64")

CHUNK = 10


def reversed_norm_change(before: Weights, after: Weights, statistics: Statistics) -> Scores:
    return -router_norm_change(before, after, statistics)


OFFERED: dict[str, Criterion] = {**CRITERIA, "reversed": reversed_norm_change}


def trained(trials: int = 2, **model: Any) -> FineTuned:
    layer = TokenMoE(**{"experts": 8, "router_learning_rate": 0.1, **model})
    task = TokenTask(patterns=100, tokens=40)
    return fine_tune(TokenRun(model=layer, task=task, steps=30, trials=trials, test_samples=200, device="cpu"))


def choice_of(**values: Any) -> PruningChoice:
    usual = {"rho": 0.5, "criterion": "router-norm-change", "fine_tune": False, "tuning_steps": 20}
    return PruningChoice(**{**usual, **values})


def finished(pruned: Pruned, choice: PruningChoice) -> FineTuning:
    tuning = FineTuning(pruned, CHUNK)
    for _ in tuning.work(lambda: choice):
        pass
    return tuning


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}, {"loss": "hinge"}])
def test_accuracies_of_all_choices_at_once_are_those_one_by_one(values: dict[str, Any]) -> None:
    tuned = trained(trials=3, **values)
    pruned = Pruned(tuned, OFFERED)
    unranked = set() if values.get("routing") == "token-choice" else {"token-count"}
    assert set(pruned.undefined) == unranked == set(OFFERED) - set(pruned.kept)
    for name in pruned.kept:
        criterion = OFFERED[name]
        expected = tuned.accuracies([criterion], [0, 0.25, 0.5, 0.75])[0]
        np.testing.assert_allclose(pruned.plain[name], expected.numpy(), atol=1e-6)
        for gone in range(4):
            np.testing.assert_array_equal(pruned.kept[name][gone].numpy(), tuned.kept(criterion, gone / 4).numpy())
        np.testing.assert_allclose(pruned.scores[name], tuned.scores(criterion).numpy())
    np.testing.assert_allclose(pruned.scores["reversed"], -pruned.scores["router-norm-change"])


def test_ties_and_scores_that_are_not_numbers_are_ranked_as_one_by_one() -> None:
    nan = float("nan")
    scores = torch.tensor([[1.0, 2.0, 2.0, 2.0, 0.0, 0.0, 0.0, 0.0], [nan, 1.0, nan, 2.0, nan, nan, nan, nan]])
    signs = torch.tensor([1.0, 1, 1, 1, -1, -1, -1, -1])
    kept = kept_by_count(scores, signs)
    for gone in range(4):
        torch.testing.assert_close(kept[gone], kept_experts(scores, signs, (gone, gone)))


def test_one_fine_tuning_in_portions_serves_every_criterion_and_rho() -> None:
    tuned, choice = trained(), choice_of()
    pruned = Pruned(tuned, OFFERED)
    results = finished(pruned, choice).results
    for steps in (CHUNK, 2 * CHUNK):
        after = pruned.after(dataclasses.replace(choice, tuning_steps=steps), results)
        assert set(after) == set(OFFERED) - {"token-count"}
        for name in ("router-norm-change", "random", "router-magnitude"):
            expected = tuned.accuracies([name], [0, 0.25, 0.5, 0.75], steps)[0]
            assert after[name][0] == steps
            np.testing.assert_allclose(after[name][1], expected.numpy(), atol=1e-6)


@pytest.mark.parametrize("values", [{"routing": "token-choice", "top": 2}, {"loss": "hinge"}])
def test_coupled_layers_are_tuned_one_by_one_from_rho_outwards(values: dict[str, Any]) -> None:
    tuned, choice = trained(**values), choice_of(fine_tune=True, rho=0.5, criterion="router-magnitude")
    pruned = Pruned(tuned, OFFERED)
    tuning = FineTuning(pruned, CHUNK)
    known = [{}, *tuning.work(lambda: choice)]
    new = [results.keys() - before.keys() for before, results in pairwise(known)]
    assert [gone for ((_, gone, _),) in new] == [2, 2, 1, 1, 3, 3, 0, 0]
    steps, after = pruned.after(choice, tuning.results)["router-magnitude"]
    assert steps == 20
    for gone in range(4):
        expected = tuned.accuracy(tuned.kept("router-magnitude", gone / 4), 20)
        np.testing.assert_allclose(after[gone], expected.numpy(), atol=1e-6)
    assert not tuning.lacks(dataclasses.replace(choice, rho=0.0))
    assert tuning.lacks(dataclasses.replace(choice, tuning_steps=30))
    assert not tuning.lacks(dataclasses.replace(choice, fine_tune=False, tuning_steps=30))


def test_a_choice_that_changes_meanwhile_is_followed() -> None:
    tuning = FineTuning(Pruned(trained(loss="hinge"), OFFERED), CHUNK)
    choices = [choice_of(fine_tune=True, rho=0.25)] * 3 + [choice_of(fine_tune=True, rho=0.75, criterion="random")]

    def latest() -> PruningChoice:
        return choices.pop(0) if len(choices) > 1 else choices[0]

    for _ in tuning.work(latest):
        pass
    done = {(name, gone) for name, gone, _ in tuning.results}
    assert {gone for name, gone in done if name == "random"} == {0, 1, 2, 3}
    assert {gone for name, gone in done if name == "router-norm-change"} == {1, 0}, "no more than was looked at"


def test_results_are_shown_again_as_they_were_known() -> None:
    pruned, choice = Pruned(trained(), OFFERED), choice_of()
    known = [{}, *FineTuning(pruned, CHUNK).work(lambda: choice)]
    reached = [pruned.after(choice, results).get("random", (0, None))[0] for results in known]
    assert reached == [0, 10, 20]


@pytest.mark.parametrize("values", [{}, {"routing": "token-choice", "top": 2}])
def test_memory_and_operations_are_those_of_the_layer(values: dict[str, Any]) -> None:
    tuned = trained(**values)
    pruned, run = Pruned(tuned, OFFERED), tuned.run
    samples = tuned.samples("validation", tuned.validation_samples)
    vectors = torch.eye(run.task.patterns, dtype=tuned.after.routers.dtype)
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
    tuned = trained(trials=3)
    broken = Pruned(dataclasses.replace(tuned, diverged=torch.tensor([False, True, False])), OFFERED)
    for values in broken.plain.values():
        assert np.isnan(values[:, 1]).all() and np.isfinite(values[:, [0, 2]]).all()
    assert np.isnan(broken.after(choice_of(), finished(broken, choice_of()).results)["random"][1][:, 1]).all()


def test_a_tuner_takes_groups_of_trials(monkeypatch: pytest.MonkeyPatch) -> None:
    tuned = trained(trials=3)
    whole = Tuner(tuned, tuned.after).advance(20)
    monkeypatch.setattr("moe_lab.pruning.checkpoints.group_size", lambda *_: 2)
    tuner = Tuner(tuned, tuned.after)
    assert len(tuner.learners) == 2
    parts = tuner.advance(20)
    torch.testing.assert_close(parts.neurons, whole.neurons, atol=1e-10, rtol=1e-10)
    torch.testing.assert_close(parts.routers, whole.routers, atol=1e-10, rtol=1e-10)
