"""Runs as streams: against a training by the oracle, when rows end, and what Snapshots hold."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.core.snapshots import Snapshot, final
from moe_lab.core.trials import stream
from moe_lab.patch_routing import CNN, JointMoE, PatchRun, PatternTask, SeparateMoE, initialization, train, train_batch
from moe_lab.patch_routing import learner as learner_module
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.batch import samples_of
from moe_lab.patch_routing.phase import phase_tables
from moe_lab.patch_routing.training import PatchTraining
from tests.patch_routing import oracle
from tests.patch_routing.oracle import Expert

TASK = PatternTask(patches=6, dimension=8, pattern_sets=12, distractors=2)
WILD = TASK.replace(noise=10)  # patches so long that a huge step size overflows float32
FAST: dict[str, Any] = {"samples": 40, "trials": 3, "test_samples": 60, "epochs": 4, "seed": 11, "device": "cpu"}
MODELS = [JointMoE(neurons=12, experts=3, patches_per_expert=3), SeparateMoE(neurons=12, patches_per_expert=3), CNN()]
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)


# --- a whole training, step by step, in the oracle ------------------------------------------------------------------


def by_oracle(model: models.Model, task: PatternTask, *, samples: int, epochs: int, test: int, seed: int, trial: int):
    """Algorithms 1 and 2 for one trial; shares only the drawn numbers with moe_lab. Returns test accuracy and loss."""
    drawn = {
        split: task.sample(count, trials=[trial], seed=seed, split=split, dtype=torch.float64)
        for split, count in (("train", samples), ("test", test))
    }
    x = {split: part.patches()[0] for split, part in drawn.items()}
    labels = {split: part.labels[0].tolist() for split, part in drawn.items()}
    c, n, d = task.classes, task.patches, task.dimension
    k = model.experts if isinstance(model, JointMoE) else c if isinstance(model, SeparateMoE) else 1
    kept = n if isinstance(model, CNN) else model.patches_per_expert
    m, rate = model.neurons, model.learning_rate or task.learning_rate
    theirs = model.recipe == "authors"  # the start and pooling of the authors' code
    hidden = initialization.initial_experts([trial], seed, m, d)[0]
    hidden = (hidden * m**0.5 * (0.01 if model.name == "joint" else 0.1) if theirs else hidden).chunk(k)
    outputs = initialization.initial_outputs([trial], seed, m, 1 if c == 2 else c)[0].chunk(k)
    if theirs and model.name == "separate":
        outputs = tuple(torch.full_like(a, sign) for a, sign in zip(outputs, (1, -1), strict=True))
    if theirs:
        outputs = tuple(a * kept / n for a in outputs)  # eq. 1 divides by l, global average pooling by n
    routers: list[Any] = [None] * k
    if not isinstance(model, CNN):
        scale = (0.0001 if model.name == "joint" else 0.1) * n**2 * d**0.5 if theirs else 1.0
        routers = list(scale * initialization.initial_routers([trial], seed, k, n, d)[0])
    if isinstance(model, SeparateMoE):
        few, rate_r = model.router_samples or samples, 0.2 if theirs else 1 / n
        routers = routers_by_sgd(routers, x["train"][:few], labels["train"][:few], model, rate_r)
    experts = [Expert(routers[s], hidden[s].clone(), outputs[s], kept) for s in range(k)]
    order, gated = stream(seed, trial, f"order/{samples}"), isinstance(model, JointMoE)
    for _ in range(epochs):
        for batch in np.split(order.permutation(samples), samples // model.batch_size):
            chosen = [labels["train"][i] for i in batch]
            before = [expert.router for expert in experts]
            experts, *_ = oracle.step(x["train"][batch], chosen, experts, learning_rate=rate, gated=gated)
            if not gated:
                assert all(a is None or torch.equal(a, b.router) for a, b in zip(before, experts, strict=True))
    answers = [oracle.output(sample, experts, gated=gated) for sample in x["test"]]
    right = [oracle.is_right(a, label) for a, label in zip(answers, labels["test"], strict=True)]
    losses = [
        oracle.loss(oracle.output(sample, experts, gated=gated), label).item()
        for sample, label in zip(x["train"], labels["train"], strict=True)
    ]
    return np.mean(right), np.mean(losses), [expert.router for expert in experts]


def routers_by_sgd(
    routers: list[Any], x: torch.Tensor, labels: list[int], model: SeparateMoE, rate: float
) -> list[Any]:
    """Algorithm 1, step 2, on eq. 6 by autograd, pair by pair (appendix M.1)."""
    trained = list(routers)
    for first in range(0, len(routers), 2):
        mine = [i for i, label in enumerate(labels) if label in (first, first + 1)]
        signs = [1 if labels[i] == first else -1 for i in mine]
        for _ in range(model.router_epochs * len(labels) // model.batch_size):
            pair = [part.clone().requires_grad_(True) for part in trained[first : first + 2]]
            slopes = torch.autograd.grad(oracle.router_loss(*pair, x[mine], signs), pair)
            trained[first : first + 2] = [w.detach() - rate * g for w, g in zip(pair, slopes, strict=True)]
    return trained


@pytest.mark.parametrize("classes", [2, 4])
@EACH
def test_a_training_is_the_papers_algorithm(model, classes):
    """Data, order, weights, routing tables, pooling and the step size together, in float64."""
    task = TASK.replace(classes=classes, noise=1)
    model = model.replace(batch_size=8, **({"router_epochs": 3} if model.name == "separate" else {}))
    if model.name != "cnn":
        model = model.replace(**({"experts": 4} if model.name == "joint" else {}))
    run = final(
        train(model, task, samples=24, trials=2, seed=2, epochs=3, test_samples=40, precision="float64", device="cpu")
    )
    for trial in range(2):
        accuracy, loss, routers = by_oracle(model, task, samples=24, epochs=3, test=40, seed=2, trial=trial)
        assert run["test_accuracy"][trial] == pytest.approx(accuracy, abs=1e-12)
        assert run["train_loss"][trial] == pytest.approx(loss, rel=1e-9)
        if model.name != "cnn":
            unit = torch.nn.functional.normalize(torch.stack(routers), dim=1)
            cosines = (unit.detach() @ task.class_patterns().T).numpy()
            np.testing.assert_allclose(run["alignment"][trial], cosines, rtol=1e-7, atol=1e-9)


@pytest.mark.parametrize("model", [*MODELS, SeparateMoE(neurons=12, patches_per_expert=3, router_samples=8)])
def test_the_authors_recipe_is_what_their_code_does_until_the_last_epoch(model):
    model = model.replace(batch_size=8, recipe="authors", learning_rate=0.2)
    model = model.replace(**({"router_epochs": 3} if model.name == "separate" else {}))
    given: dict[str, Any] = {"samples": 24, "epochs": 2, "seed": 2}
    run = final(
        train(model, TASK, trials=1, test_samples=40, until="epochs", precision="float64", device="cpu", **given)
    )
    accuracy, loss, _ = by_oracle(model, TASK, test=40, trial=0, **given)
    assert run["test_accuracy"][0] == pytest.approx(accuracy, abs=1e-12)
    assert run["train_loss"][0] == pytest.approx(loss, rel=1e-9)


def test_a_trial_goes_on_without_error_where_the_epochs_alone_end_it():
    easy = TASK.replace(distractors=0, noise=0)
    steps = {
        until: final(train(MODELS[0], easy, **{**FAST, "epochs": 30, "until": until})).steps
        for until in ("no error", "epochs")
    }
    assert (steps["epochs"] == 60).all() and (steps["no error"] < 60).all()


@pytest.mark.parametrize("where", [nullcontext, as_on_accelerator], ids=["host", "device"])
@EACH
def test_a_trial_ends_after_the_first_epoch_that_leaves_no_error(model, where):
    """Of the weights at the end of the epoch, also where many samples were wrong on the way there."""
    task, how = TASK.replace(noise=0, distractors=0), {**FAST, "epochs": 60, "record_every": 2}
    rate = 16.0 if model.name == "joint" else 4.0  # an epoch is two steps, in which much is learned
    model = model.replace(neurons=12, learning_rate=rate)
    first, on_the_way = np.zeros(3, dtype=int), np.zeros(3)
    runs = [PatchRun(model=model, task=task, **how, until="epochs")]
    training = PatchTraining(runs, samples_of(runs))
    for snapshot in training.snapshots():
        if snapshot.step and not snapshot.finished.any():
            ends = (first == 0) & (training.learner.training_error()[0] == 0).numpy()
            first[ends], on_the_way[ends] = snapshot.step, 1 - snapshot["train_accuracy"][ends]
    assert (first > 0).all() and on_the_way.max() > 0.05, "no trial had many errors in its last epoch"
    with where():
        assert final(train(model, task, **how)).steps.tolist() == first.tolist()


# --- the measures, counted by hand ----------------------------------------------------------------------------------


@EACH
def test_routing_measures_are_what_they_say(model):
    if model.name == "cnn":
        snapshot = next(train(model, TASK, **FAST))
        assert set(snapshot.values) & {"coverage", "alignment", "gate_matrix"} == set()
        return
    snapshot = next(train(model, TASK, **FAST, precision="float64"))
    test = TASK.sample(60, trials=[1], seed=11, split="test", dtype=torch.float64)
    k = model.experts if model.name == "joint" else 2
    routers = initialization.initial_routers([1], 11, k, TASK.patches, TASK.dimension)[0]
    if model.name == "separate":
        data = TASK.sample(40, trials=[1], seed=11, dtype=torch.float64)
        routers = torch.stack(routers_by_sgd(list(routers), data.patches()[0], data.labels[0].tolist(), model, 1 / 6))
    received, largest, gate_sum, load = np.zeros((k, 2)), np.zeros((k, 2)), np.zeros((k, 2)), np.zeros((k, 3))
    for sample, label, place, roles in zip(
        test.patches()[0], test.labels[0].tolist(), test.signal[0].tolist(), test.roles[0].tolist(), strict=True
    ):
        for s in range(k):
            values = sample @ routers[s]
            places = oracle.top(values, model.patches_per_expert)
            gates = dict(zip(places, torch.softmax(values[places], 0).tolist(), strict=True))
            if model.name == "separate":
                gates = dict.fromkeys(places, 1.0)
            received[s, label] += place in places
            gate_sum[s, label] += gates.get(place, 0)
            largest[s, label] += place in gates and gates[place] >= max(gates.values())
            for j in places:
                load[s, roles[j]] += 1
    assert snapshot["expert_coverage"][1] == pytest.approx(received / 30)
    assert snapshot["coverage"][1] == pytest.approx((received / 30).max(axis=0))
    assert snapshot["gate_matrix"][1] == pytest.approx(gate_sum / 30)
    assert snapshot["expert_load"][1] == pytest.approx(load / 60)
    assert snapshot["expert_load"][1].sum(axis=1) == pytest.approx([model.patches_per_expert] * k)
    if model.name == "joint":  # separate training has no largest gate: all are 1
        assert snapshot["largest_gate"][1] == pytest.approx((largest / 30).max(axis=0))


@EACH
def test_examples_are_the_first_test_sample_of_each_class(model):
    first, *_, last = train(model, TASK, **FAST)
    test = TASK.sample(2, trials=[0, 1, 2], seed=11, split="test")
    assert np.array_equal(first["example_patches"], test.patches().numpy())
    assert np.array_equal(first["example_roles"], test.roles.numpy())
    assert np.array_equal(first["example_sides"], test.sides.numpy())
    if model.name != "cnn":
        for snapshot in (first, last):
            assert (snapshot["example_kept"].sum(-1) == model.patches_per_expert).all()


# --- when rows end --------------------------------------------------------------------------------------------------


@EACH
def test_a_row_ends_at_zero_training_error_and_stands_still(model):
    snapshots = list(train(model, TASK.replace(noise=0.1), **{**FAST, "epochs": 200}, record_every=1))
    last = snapshots[-1]
    assert last.finished.all() and (last["train_accuracy"] == 1).all() and not last.diverged.any()
    assert len(set(last.steps.tolist())) > 1, "all ended together: the test says nothing"
    for trial, end in enumerate(last.steps):
        assert end % 2 == 0  # epochs of two steps
        after = [snapshot for snapshot in snapshots if snapshot.step >= end]
        for snapshot in after:
            assert snapshot.finished[trial] and snapshot.steps[trial] == end
            for name, value in snapshot.values.items():
                np.testing.assert_array_equal(value[trial], after[0][name][trial], err_msg=name)
        assert not any(snapshot.finished[trial] for snapshot in snapshots if snapshot.step < end)


def test_finished_rows_leave_the_batch():
    """What the learner computes on shrinks; the Snapshots keep all rows."""
    how = {"trials": 5, "seed": 0, "device": "cpu", "test_samples": 100, "record_every": 1}
    runs = [PatchRun(model=SeparateMoE(), task=PatternTask(), **how)]
    training, sizes = PatchTraining(runs, samples_of(runs)), []
    for snapshot in training.snapshots():
        held = len(training.learner.weights)
        assert held == (~snapshot.finished).sum() and snapshot.trials == 5
        sizes.append(held)
    assert sizes[0] == 5 and sizes[-1] == 0 and len(set(sizes)) >= 3


@EACH
def test_rows_without_error_are_found_block_by_block(model, monkeypatch):
    """Against the exact training error, at every step of rows of different N; a row that is broken says so."""
    monkeypatch.setattr(learner_module, "GIVE_UP_AFTER", 7)
    runs = [
        PatchRun(model=model, task=TASK.replace(noise=0.1), **{**FAST, "samples": n, "epochs": 60}) for n in (40, 100)
    ]
    runs, seen = [each.replace(record_every=1) for each in runs], set()
    training = PatchTraining(runs, samples_of(runs))
    for snapshot in training.snapshots():
        learner = training.learner
        if snapshot.finished.all():
            break
        right, finite = learner.without_error(np.arange(len(learner.group)))
        np.testing.assert_array_equal(right, (learner.training_error()[0] == 0).numpy())
        assert finite.all()
        seen |= set(right.tolist())
        if seen == {False, True} and right.any():
            break
    assert seen == {False, True}, "all alike: the test says nothing"
    row = int(right.argmax())
    labels, count = learner.train.labels[int(learner.group[row])], int(learner.samples[row])
    for place in (0, 6, 7, count - 1):  # in the first block and beside its end: a single error is enough
        labels[place] = 1 - labels[place]
        assert not learner.without_error(np.array([row]))[0][0], place
        labels[place] = 1 - labels[place]
    assert learner.without_error(np.array([row]))[0][0]
    learner.weights[0] = torch.nan
    right, finite = learner.without_error(np.arange(len(learner.group)))
    assert not finite[0] and finite[1:].all() and not right[0]


@EACH
def test_rows_that_step_in_parts_step_the_same(model, monkeypatch):
    whole = final(train(model, TASK, **FAST))
    monkeypatch.setattr(learner_module, "NUMBERS_IN_CACHE", 1)
    apart = final(train(model, TASK, **FAST))
    for name, value in whole.values.items():
        np.testing.assert_allclose(apart[name], value, rtol=1e-5, atol=1e-6, err_msg=name)


@EACH
@pytest.mark.parametrize("samples, batch, steps", [(40, 20, 8), (50, 20, 12), (40, 40, 4)])
def test_the_epoch_limit_is_kept(model, samples, batch, steps):
    """Random labels in effect (all noise): no row reaches zero error, all use every epoch, rounded up to batches."""
    model = model.replace(batch_size=batch, learning_rate=1e-3)
    last = final(train(model, WILD, **{**FAST, "samples": samples}))
    assert last.step == steps and last.steps.tolist() == [steps] * 3 and last.finished.all()


# --- divergence -----------------------------------------------------------------------------------------------------


def test_on_a_map_a_diverged_training_is_a_failure_and_not_a_hole() -> None:
    sizes: dict[str, Any] = {"patches_per_expert": (2, 6), "samples": (40, 60), "trials": 2, "test_samples": 100}
    *_, last = phase_tables(WILD, SeparateMoE(neurons=12, learning_rate=1e38), **sizes, device="cpu")
    assert np.isnan(last["test_accuracy"]).all() and last["done"].all() and (last["success"] == 0).all()


@pytest.mark.parametrize("kind", [SeparateMoE, CNN])
@pytest.mark.parametrize("measure", ["every", "last"])
def test_a_diverged_row_says_so_and_leaves_the_others_alone(kind, measure):
    def of(learning_rate: float) -> PatchRun:
        model = kind(neurons=12, learning_rate=learning_rate)
        return PatchRun(model=model, task=WILD, **FAST, measure=measure)

    together = list(train_batch([of(2.0), of(1e38), of(0.5)]))
    last = together[-1]
    assert last.diverged.tolist() == [False] * 3 + [True] * 3 + [False] * 3 and last.finished.all()
    for name, measured in last.measures.items():
        if not measured.constant:
            assert np.isnan(last[name][3:6]).all(), name
    for rows, run in ((slice(0, 3), of(2.0)), (slice(6, 9), of(0.5))):
        alone = final(train_batch([run]))
        assert last.steps[rows].tolist() == alone.steps.tolist() and not alone.diverged.any()
        for name in alone.values:
            np.testing.assert_allclose(last[name][rows], alone[name], rtol=1e-3, atol=1e-4, err_msg=name)
    for snapshot in together:  # no Snapshot shows what a broken row answers
        if "test_accuracy" in snapshot.values:
            broken = ~np.isfinite(snapshot["train_loss"])
            assert np.isnan(snapshot["test_accuracy"][broken]).all()


# --- Snapshots ------------------------------------------------------------------------------------------------------


def steps_of(run: Iterator[Snapshot]) -> list[int]:
    return [snapshot.step for snapshot in run]


@EACH
def test_step_zero_is_before_training(model):
    first, *_, last = train(model, TASK, **FAST)
    assert abs(first["train_loss"] - np.log(2)).max() < 0.5 and (last["train_loss"] < first["train_loss"]).all()


def test_training_values_are_means_over_the_steps_since_the_last_record():
    how = {**FAST, "until": "epochs", "epochs": 6, "samples": 40, "precision": "float64"}
    model = JointMoE(neurons=12, experts=3, patches_per_expert=3, batch_size=10)  # an epoch has four steps
    each, fourth = (list(train(model, TASK, **{**how, "record_every": every})) for every in (1, 4))
    for name in ("train_accuracy", "train_loss"):
        for now in fourth[1:-1]:  # the last one is exact
            steps = [each[step][name] for step in range(now.step - 3, now.step + 1)]
            np.testing.assert_allclose(now[name], np.mean(steps, axis=0), rtol=1e-9)
