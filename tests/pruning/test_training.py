"""Fine-tuning: what it computes, against the oracle; what it tells, and when; how it ends."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import nullcontext
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import pruning
from moe_lab.core.snapshots import Snapshot
from moe_lab.pruning import (
    BranchStart,
    PlantedStart,
    RandomStart,
    TokenMoE,
    TokenRun,
    TokenTask,
    fine_tune,
    train,
    train_run,
)
from moe_lab.pruning.learner import start_weights
from moe_lab.pruning.training import TokenTraining
from tests.helpers.needs import needs_cuda
from tests.pruning import oracle
from tests.second_device import second_device

TASK = TokenTask(patterns=24, tokens=10)
MODEL = TokenMoE(experts=6, neurons=4, top=3)
FAST: dict[str, Any] = {
    "steps": 8,
    "batch": 6,
    "trials": 3,
    "seed": 11,
    "test_samples": 60,
    "device": "cpu",
    "start": PlantedStart(important=1, others_norm=4.0),
}
CASES: dict[str, tuple[TokenMoE, dict[str, Any]]] = {
    "expert-choice": (MODEL, {}),
    "token-choice": (MODEL.replace(routing="token-choice", top=2), {}),
    "hinge": (MODEL.replace(loss="hinge", learning_rate=1.0), {}),
    "random start": (MODEL, {"start": RandomStart(router_scale=0.5, neuron_scale=0.3)}),
    "branches": (MODEL, {"start": BranchStart(tasks=2, steps=3, batch=4)}),
}
EACH = pytest.mark.parametrize("name", CASES)


def trained(name: str, **changes: Any) -> Iterator[Snapshot]:
    model, more = CASES[name]
    return train(model, TASK, **{**FAST, **more, **changes})


# --- against the paper's algorithm ----------------------------------------------------------------------------------


@EACH
def test_a_training_is_the_papers_algorithm(name):
    """Checkpoint, data, steps and measures together, step by step in float64, on vectors."""
    model, more = CASES[name]
    run = TokenRun(model=model, task=TASK, **{**FAST, **more, "precision": "float64", "record_every": 1})
    snapshots = list(train_run(run))
    weights = start_weights(run, run.trial_numbers, torch.device("cpu"), torch.float64)
    rules: dict[str, Any] = {"routing": model.routing, "top": model.top}
    rates: dict[str, Any] = {"loss": model.loss, "eta_e": model.learning_rate, "eta_r": model.router_learning_rate}
    signs = weights.signs
    for trial in range(3):
        patterns = TASK.vectors([trial], 11)[0]
        routers, neurons = weights.routers[trial] @ patterns, weights.neurons[trial].mT @ patterns
        mixture = start = oracle.Mixture(routers, neurons, signs, list(range(6)))
        data = {
            split: TASK.sample(count, trials=[trial], seed=11, split=split, dtype=torch.float64)
            for split, count in (("train", 48), ("test", 60))
        }
        x = {split: oracle.tokens_of(part.tokens[0], patterns) for split, part in data.items()}
        for step, snapshot in enumerate(snapshots):
            if step:
                now = slice(6 * (step - 1), 6 * step)
                labels = data["train"].labels[0, now]
                mixture, outputs = oracle.step(x["train"][now], labels, mixture, **rules, **rates)
                loss = float(oracle.losses(outputs, labels, "hinge").mean())
                assert snapshot["train_loss"][trial] == pytest.approx(loss, rel=1e-9)
            y, outputs = data["test"].labels[0], oracle.votes(x["test"], mixture, **rules).sum(1)
            assert snapshot["test_accuracy"][trial] == pytest.approx(float((y * outputs > 0).double().mean()))
            assert snapshot["test_loss"][trial] == pytest.approx(
                float(oracle.losses(outputs, y, "hinge").mean()), rel=1e-9
            )
            norms = mixture.routers.norm(dim=1)
            for measure, wanted in (
                ("router_norm", norms),
                ("norm_change", norms - start.routers.norm(dim=1)),
                ("difference_norm", (mixture.routers - start.routers).norm(dim=1)),
            ):
                np.testing.assert_allclose(snapshot[measure][trial], wanted, rtol=1e-7, atol=1e-10, err_msg=measure)
            specific = patterns[list(TASK.specific)]
            answers = mixture.neurons @ specific.T  # (k, m, 2)
            own = torch.cat((answers[:3, :, 0], answers[3:, :, 1]))
            np.testing.assert_allclose(snapshot["own_sum"][trial], own.relu().sum(1), rtol=1e-7, atol=1e-10)
    moved = snapshots[-1]["difference_norm"]
    assert (moved > 1e-4).any(), "nothing moved: the test says nothing"


def test_the_live_default_learns():
    """From even odds to every sample, and the important routers grow."""
    first, *_, last = train(TokenMoE(), TokenTask(), trials=2, test_samples=200, record_every=110, device="cpu", seed=1)
    assert (last["test_accuracy"] == 1).all() and (last["train_loss"] < first["test_loss"]).all()
    assert ((last["norm_change"] > 2).sum(1) == 4).all() and (abs(last["norm_change"]) < 0.1).sum(1).tolist() == [
        16,
        16,
    ]


# --- Snapshots ------------------------------------------------------------------------------------------------------


@EACH
def test_at_step_zero_nothing_has_changed(name):
    first, *_, last = trained(name)
    assert np.isnan(first["train_loss"]).all() and np.isfinite(last["train_loss"]).all()
    assert not first["norm_change"].any() and not first["difference_norm"].any()


@EACH
def test_the_checkpoints_are_those_that_were_measured(name):
    """`fine_tune` keeps what `train` measures, and `TokenTraining` gives it at any step, as copies."""
    model, more = CASES[name]
    run = TokenRun(model=model, task=TASK, **{**FAST, **more, "record_every": 4})
    training = TokenTraining(run)
    for snapshot in training.snapshots():
        norms = training.after.routers.norm(dim=2)
        np.testing.assert_allclose(snapshot["router_norm"], norms, rtol=1e-6)
        np.testing.assert_allclose(
            snapshot["norm_change"], norms - training.before.routers.norm(dim=2), rtol=1e-4, atol=1e-5
        )
    tuned = fine_tune(run)
    for name_, wanted in (("before", training.before), ("after", training.after)):
        found = getattr(tuned, name_)
        assert torch.equal(found.routers, wanted.routers) and torch.equal(found.neurons, wanted.neurons)
    assert not torch.equal(tuned.before.routers, tuned.after.routers)
    copy = training.after
    copy.neurons.zero_()
    assert training.after.neurons.any()


# --- on another device ------------------------------------------------------------------------------------------------


@EACH
@pytest.mark.parametrize("device", ["second", pytest.param("cuda", marks=needs_cuda)])
def test_checkpoints_and_pruning_on_a_device_are_those_on_the_cpu(name, device):
    with second_device() if device == "second" else nullcontext():
        compare_checkpoints(name, device)


def compare_checkpoints(name, device):
    model, more = CASES[name]
    run = TokenRun(model=model, task=TASK, **{**FAST, **more, "precision": "float64"})
    cpu, there = (fine_tune(run.replace(device=where)) for where in ("cpu", device))
    for criterion in pruning.criteria.CRITERIA:
        if criterion == "token-count" and model.routing == "expert-choice":
            continue  # every expert receives l tokens of each sample
        torch.testing.assert_close(there.scores(criterion).cpu(), cpu.scores(criterion), rtol=1e-8, atol=1e-9)
        kept = cpu.kept(criterion, 0.5)
        for steps in (0, 3):
            found = there.accuracy(kept.to(device), steps).cpu()
            torch.testing.assert_close(found, cpu.accuracy(kept, steps), equal_nan=True)


# --- divergence -----------------------------------------------------------------------------------------------------


def broken(name: str, value: float, part: str) -> list[Snapshot]:
    """A run, with a weight of the second trial broken after step 0."""
    model, more = CASES[name]
    training = TokenTraining(TokenRun(model=model, task=TASK, **{**FAST, **more, "record_every": 2}))
    run = training.snapshots()
    snapshots = [next(run)]
    [group] = training.learners
    getattr(group.weights, part)[1, 0] = value
    group.sums.copy_(group.weights.sums)
    return [*snapshots, *run]


@pytest.mark.parametrize("part", ["routers", "neurons"])
@pytest.mark.parametrize("value", [np.nan, np.inf, 3e38])
@pytest.mark.parametrize("name", ["expert-choice", "token-choice", "hinge"])
def test_a_diverged_trial_says_so_and_leaves_the_others_alone(name, value, part):
    whole = list(trained(name, record_every=2))
    run = broken(name, value, part=part)
    for snapshot, wanted in zip(run[1:], whole[1:], strict=True):
        assert snapshot.diverged.tolist() == [False, True, False]
        assert snapshot.finished.tolist() == [wanted.finished[0], True, wanted.finished[2]]
        assert snapshot.steps.tolist() == [wanted.step, 2, wanted.step]
        for measure, numbers in snapshot.values.items():
            assert np.isnan(numbers[1]).all(), measure
            np.testing.assert_array_equal(numbers[[0, 2]], wanted[measure][[0, 2]], err_msg=measure)  # bit for bit
