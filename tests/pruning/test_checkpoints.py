"""Before and after fine-tuning: what pruning leaves, and fine-tuning what is left."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core.snapshots import final
from moe_lab.pruning import BranchStart, FineTuned, PlantedStart, TokenMoE, TokenRun, TokenTask, fine_tune
from moe_lab.pruning.criteria import CRITERIA, UndefinedCriterionError
from moe_lab.pruning.learner import start_weights
from moe_lab.pruning.select import pruned
from moe_lab.pruning.training import TokenTraining
from tests.pruning import oracle

TASK = TokenTask(patterns=26, tokens=10)
MODEL = TokenMoE(experts=8, neurons=4, top=3, learning_rate=0.3, router_learning_rate=0.3)
MODELS = {
    "expert-choice": MODEL,
    "token-choice": MODEL.replace(routing="token-choice", top=2),
    "true hinge": MODEL.replace(loss="hinge"),
}
EACH = pytest.mark.parametrize("name", MODELS)
COUPLED = pytest.mark.parametrize("name", ["token-choice", "true hinge"])


def defined(routing: str) -> list[str]:
    """The criteria that can rank experts: where these choose, all receive equally many tokens."""
    return [name for name in CRITERIA if name != "token-count" or routing == "token-choice"]


def run_of(name: str, **more: Any) -> TokenRun:
    given: dict[str, Any] = {
        "start": PlantedStart(others_norm=4.0, others_neurons=0.4),
        "steps": 25,
        "batch": 8,
        "trials": 3,
        "seed": 2,
        "test_samples": 150,
        "device": "cpu",
        "precision": "float64",
    }
    return TokenRun(model=MODELS[name], task=TASK, **{**given, **more})


@pytest.fixture(scope="module")
def tuned() -> dict[str, FineTuned]:
    return {name: fine_tune(run_of(name)) for name in MODELS}


def kept_by_chance(seed: int, plus: int = 2, minus: int = 3) -> Tensor:
    """(3, 8) bool: other experts in every trial."""
    draw = torch.Generator().manual_seed(seed)
    parts = [torch.rand(3, 4, generator=draw).argsort(1) < count for count in (plus, minus)]
    return torch.cat(parts, dim=1)


# --- accuracy after pruning -------------------------------------------------------------------------------------------


@EACH
def test_accuracy_is_that_of_the_layer_that_is_really_pruned(tuned, name):
    """Read off the votes of the whole layer; equal to routing the samples through the smaller one."""
    one = tuned[name]
    for seed in range(4):
        kept = kept_by_chance(seed)
        assert torch.equal(one.accuracy(kept), one.evaluate(one.pruned(kept)).accuracy())
    assert torch.equal(one.accuracy(torch.ones_like(kept)), one.evaluation.accuracy())


@EACH
def test_accuracy_is_the_oracles(tuned, name):
    """On vectors, with a layer that never had the pruned experts."""
    one, kept = tuned[name], kept_by_chance(7)
    smaller = one.pruned(kept)
    for trial in range(3):
        patterns = TASK.vectors([trial], 2)[0]
        mixture = oracle.Mixture(
            smaller.routers[trial] @ patterns,
            smaller.neurons[trial].mT @ patterns,
            smaller.signs,
            smaller.experts[trial].tolist(),
        )
        x, y = oracle.tokens_of(one.test.tokens[trial], patterns), one.test.labels[trial]
        outputs = oracle.votes(x, mixture, MODELS[name].routing, MODELS[name].top).sum(1)
        assert float(one.accuracy(kept)[trial]) == pytest.approx(float((y * outputs > 0).double().mean()))


@EACH
def test_all_criteria_and_shares_at_once(tuned, name):
    one, shares = tuned[name], (0.0, 0.25, 0.75)
    for steps in (0, 4):
        found = one.accuracies(defined(name), shares, steps)
        assert found.shape == (len(defined(name)), 3, 3)
        for row, criterion in enumerate(defined(name)):
            for column, share in enumerate(shares):
                assert torch.equal(found[row, column], one.accuracy(one.kept(criterion, share), steps))
    assert torch.equal(one.accuracies([CRITERIA["random"]], (0.5,)), one.accuracies(["random"], iter([0.5])))


def test_what_is_asked_again_is_not_computed_again(tuned, monkeypatch):
    one = tuned["expert-choice"]
    kept = kept_by_chance(0)
    first = one.accuracy(kept), one.accuracy(kept, 4), one.statistics
    monkeypatch.setattr("moe_lab.pruning.checkpoints.evaluate", None)
    monkeypatch.setattr("moe_lab.pruning.checkpoints.TokenLearner", None)
    monkeypatch.setattr("moe_lab.pruning.checkpoints.routing_statistics", None)
    assert torch.equal(one.accuracy(kept), first[0]) and torch.equal(one.accuracy(kept, 4), first[1])
    assert one.statistics is first[2]


def test_fine_tune_measures_what_train_measures(tuned):
    for name in MODELS:
        last = final(TokenTraining(run_of(name)).snapshots())
        np.testing.assert_array_equal(tuned[name].evaluation.accuracy(), last["test_accuracy"])
        np.testing.assert_allclose(tuned[name].scores("router-norm-change"), last["norm_change"], rtol=1e-9, atol=1e-12)


def test_a_training_can_be_pruned_on_its_way():
    training = TokenTraining(run_of("expert-choice", record_every=10))
    seen = []
    for _ in training.snapshots():
        seen.append(FineTuned.of(training))
    steps = [float((one.after.routers - one.before.routers).norm()) for one in seen]
    assert steps[0] == 0 and steps == sorted(steps) and len(set(steps)) == 4
    with pytest.raises(UndefinedCriterionError):
        seen[0].scores("router-norm-change")


def test_validation_samples_are_other_samples(tuned):
    one = tuned["expert-choice"]
    assert not torch.equal(one.samples("validation", 150).tokens, one.test.tokens)
    assert torch.equal(one.samples("test", 150).tokens, one.test.tokens)


# --- fine-tuning the pruned layer -------------------------------------------------------------------------------------


def oracle_tuned(one: FineTuned, kept: Tensor, steps: int, trial: int) -> oracle.Mixture:
    """The pruned layer of a trial after fine-tuning, by autograd on vectors, on the same fresh samples."""
    run, smaller, patterns = one.run, one.pruned(kept), TASK.vectors([trial], 2)[0]
    mixture = oracle.Mixture(
        smaller.routers[trial] @ patterns,
        smaller.neurons[trial].mT @ patterns,
        smaller.signs,
        smaller.experts[trial].tolist(),
    )
    data = TASK.sample(steps * run.batch, trials=[trial], seed=run.seed, split="post", dtype=torch.float64)
    for step in range(steps):
        now = slice(step * run.batch, (step + 1) * run.batch)
        x, y = oracle.tokens_of(data.tokens[0, now], patterns), data.labels[0, now]
        model = run.model
        rates: dict[str, Any] = {"eta_e": model.learning_rate, "eta_r": model.router_learning_rate}
        mixture, _ = oracle.step(x, y, mixture, routing=model.routing, top=model.top, loss=model.loss, **rates)
    return mixture


@EACH
def test_fine_tuning_the_pruned_layer_is_the_papers(tuned, name):
    """Algorithm 1, step 4: fresh samples, the experts that are left, and frozen routers where tokens choose."""
    one, kept = tuned[name], kept_by_chance(3)
    found = one.tuned(kept, 5)
    for trial in (0, 2):
        wanted, patterns = oracle_tuned(one, kept, 5, trial), TASK.vectors([trial], 2)[0]
        torch.testing.assert_close(found.routers[trial] @ patterns, wanted.routers, rtol=1e-9, atol=1e-9)
        torch.testing.assert_close(found.neurons[trial].mT @ patterns, wanted.neurons, rtol=1e-9, atol=1e-9)
    accuracy = one.evaluate(found).accuracy()
    assert torch.equal(one.accuracy(kept, 5), accuracy)
    assert float((found.own_routers - one.pruned(kept).own_routers).abs().max()) > 1e-3, "nothing moved"


@EACH
def test_fine_tuning_leaves_the_checkpoints_alone(tuned, name):
    one = tuned[name]
    before, after = one.before.clone(), one.after.clone()
    for kept in (kept_by_chance(3), torch.ones(3, 8, dtype=torch.bool)):
        one.tuned(kept, 3)
    for now, then in ((one.before, before), (one.after, after)):
        assert torch.equal(now.routers, then.routers) and torch.equal(now.neurons, then.neurons)
    assert torch.equal(one.tuned(kept, 0).neurons, one.after.neurons)


def test_experts_that_choose_are_fine_tuned_apart(tuned):
    """With the gradient of 1 - y f, those kept become in the pruned layer what they become in the whole one.

    So one fine-tuning of the whole layer serves every rho and every criterion.
    """
    one = tuned["expert-choice"]
    whole = one.tuned(torch.ones(3, 8, dtype=torch.bool), 6)
    for seed in range(3):
        kept = kept_by_chance(seed)
        alone = one.tuned(kept, 6)
        wanted = pruned(whole, kept, "expert-choice")
        torch.testing.assert_close(alone.routers, wanted.routers, rtol=1e-12, atol=1e-13)
        torch.testing.assert_close(alone.neurons, wanted.neurons, rtol=1e-12, atol=1e-13)
        votes = one.tuned_whole(6).votes * kept[..., None]
        torch.testing.assert_close(one.evaluate(alone).output, votes.sum(1), rtol=1e-10, atol=1e-11)
        assert torch.equal(one.accuracy(kept, 6), one.evaluate(alone).accuracy())


@COUPLED
def test_where_experts_know_of_each_other_they_are_not(tuned, name):
    """Otherwise the identity above would say nothing: here pruning changes what the others learn."""
    one, kept = tuned[name], kept_by_chance(0)
    whole = pruned(one.tuned(torch.ones(3, 8, dtype=torch.bool), 6), kept, MODELS[name].routing)
    assert float((one.tuned(kept, 6).neurons - whole.neurons).abs().max()) > 1e-4
    assert one.run.model.coupled and not MODEL.coupled
    sentence = r"^experts that are trained apart need routing='expert-choice' and loss='linear': got routing="
    with pytest.raises(ValueError, match=sentence):
        one.tuned_whole(6)


# --- diverged trials --------------------------------------------------------------------------------------------------


@EACH
def test_a_diverged_trial_has_no_accuracy(name):
    training = TokenTraining(run_of(name, measure="last"))
    snapshots = training.snapshots()
    next(snapshots)
    training.learners[0].weights.routers[1] = torch.nan
    for _ in snapshots:
        pass
    one, whole = FineTuned.of(training), fine_tune(run_of(name))
    assert one.diverged.tolist() == [False, True, False]
    for criterion in ("random", "importance-score", "router-norm-change", "neuron-magnitude"):
        kept = one.kept(criterion, 0.5)
        assert kept.sum(1).tolist() == [4, 4, 4]
        for steps in (0, 3):
            accuracy, wanted = one.accuracy(kept, steps), whole.accuracy(whole.kept(criterion, 0.5), steps)
            assert accuracy.isnan().tolist() == [False, True, False]
            assert torch.equal(accuracy[[0, 2]], wanted[[0, 2]])


def test_a_trial_that_diverged_has_no_accuracy_whatever_its_weights_are(tuned):
    one = tuned["expert-choice"]
    marked = FineTuned(one.run, one.before, one.after, torch.tensor([True, False, False]))
    for steps in (0, 3):
        assert marked.accuracy(kept_by_chance(0), steps).isnan().tolist() == [True, False, False]


def test_a_trial_that_diverges_after_pruning_has_no_accuracy():
    """Its votes are NaN, or infinite."""
    one = fine_tune(run_of("expert-choice"))
    one.after.neurons[2, 0] = torch.inf
    kept = torch.ones(3, 8, dtype=torch.bool)
    assert one.accuracy(kept).isnan().tolist() == [False, False, True]


# --- l = 1 ------------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("start", ["planted", "pretrained"])
@pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
@pytest.mark.parametrize("precision", ["float32", "float64"])
def test_with_l_1_the_change_of_the_routers_is_undefined(routing, start, precision):
    """Every gate is 1, whatever the router says: it has no slope. Other criteria go on."""
    model = MODEL.replace(routing=routing, top=1)
    first = PlantedStart() if start == "planted" else BranchStart(tasks=2, steps=4, batch=4)
    one = fine_tune(run_of("expert-choice", precision=precision, steps=10).replace(model=model, start=first))
    for criterion in ("router-norm-change", "router-difference-norm"):
        with pytest.raises(UndefinedCriterionError, match=r"with l=1 each gate is 1 .*moved in 3 of 3 trials$"):
            one.kept(criterion, 0.5)
    for criterion in set(defined(routing)) - {"router-norm-change", "router-difference-norm"}:
        assert one.accuracy(one.kept(criterion, 0.5)).isfinite().all()


# --- wrong input ------------------------------------------------------------------------------------------------------


@EACH
def test_a_number_of_steps_is_not_negative(tuned, name):
    one, kept = tuned[name], kept_by_chance(0)
    for ask in (one.tuned, one.accuracy):
        with pytest.raises(ValueError, match=r"^fine-tuning steps must be a whole number >= 0: got steps=-1$"):
            ask(kept, -1)


@EACH
def test_a_choice_of_experts_that_does_not_fit_is_refused(tuned, name):
    one = tuned[name]
    for ask in (lambda kept: one.pruned(kept), lambda kept: one.accuracy(kept), lambda kept: one.accuracy(kept, 2)):
        with pytest.raises(ValueError, match=r"^kept must state for each expert of each trial .*: got kept=\(3, 7\)"):
            ask(torch.ones(3, 7, dtype=torch.bool))
    with pytest.raises(ValueError, match=r"^a criterion must be one of .*: got criterion='norm'$"):
        one.scores("norm")
    with pytest.raises(ValueError, match=r"^prune must be at least 0 and less than 1: got prune=1\.0$"):
        one.kept("random", 1.0)
    with pytest.raises(ValueError, match=r"^of the 4 experts that vote - .*: got pruned=4$"):
        one.kept("random", (0, 4))


def test_before_is_the_start(tuned):
    for name in MODELS:
        run = tuned[name].run
        wanted = start_weights(run, run.trial_numbers, torch.device("cpu"), torch.float64)
        assert torch.equal(tuned[name].before.routers, wanted.routers)
        assert torch.equal(tuned[name].before.neurons, wanted.neurons)
