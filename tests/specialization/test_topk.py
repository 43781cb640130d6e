"""The mixture with top-k routing: its step against autograd on printed formulas, and against the switch mixture."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core.snapshots import final
from moe_lab.core.training import samples_of
from moe_lab.core.trials import stream
from moe_lab.specialization import ClusterRun, ClusterTask, SwitchMoE, TopKMoE, mixture, train
from moe_lab.specialization.learners import MixtureLearner
from moe_lab.specialization.measures import MEASURES, TOP_K_MEASURES
from moe_lab.specialization.noise import router_noise
from tests.specialization import oracle

TASK = ClusterTask(clusters=3, dimension=12, patches=5)
SMALL: dict[str, Any] = {"samples": 60, "test_samples": 50, "seed": 4, "device": "cpu", "precision": "float64"}
LARGE: dict[str, Any] = {"experts": 5, "filters": 4, "initial_scale": 0.4, "initial_router": 0.3, "lead": 0.5}
MODELS = {
    "switch": TopKMoE(**LARGE),
    "top-2": TopKMoE(experts_per_sample=2, equal_steps=False, learning_rate=0.3, **LARGE),
    "top-2 and shared": TopKMoE(experts_per_sample=2, shared=2, **LARGE),
    "linear, importance": TopKMoE(activation="linear", shared=1, balancing="importance", strength=0.3, **LARGE),
    "gelu, switch loss": TopKMoE(activation="gelu", experts_per_sample=3, balancing="switch", strength=0.3, **LARGE),
    "relu, z-loss": TopKMoE(activation="relu", experts_per_sample=2, balancing="z-loss", strength=0.1, **LARGE),
    "tanh, bias": TopKMoE(activation="tanh", experts_per_sample=2, balancing="bias", strength=0.2, **LARGE),
}


def plain_loss(
    patches: Tensor, labels: Tensor, noise: Tensor, bias: list[float], filters: Tensor, routers: Tensor, model: TopKMoE
) -> tuple[Tensor, list[float]]:
    """The loss of one trial, sample by sample, and each expert's share of the assignments."""
    rules = oracle.Rules(model.activation, "paper", 0, 0)
    f = oracle.outputs(patches, oracle.Mixture(filters, None, routers), rules)
    h, counts, total = oracle.scores(patches, routers), [0] * model.experts, torch.zeros((), dtype=torch.float64)
    gates = h.exp() / h.exp().sum(1, keepdim=True)
    for n, label in enumerate(labels):
        preferred = [(h[n, m] + noise[m, n]).item() + bias[m] for m in range(model.experts)]
        best = sorted(range(model.experts), key=lambda m: (-preferred[m], m))[: model.experts_per_sample]
        output = sum(gates[n, m] * f[n, m] for m in best) + sum(f[n, m] for m in range(model.experts, f.shape[1]))
        total = total + torch.log1p(torch.exp(-label * output)) / len(labels)
        for m in best:
            counts[m] += 1
    load, mean = [count / sum(counts) for count in counts], gates.mean(0)
    if model.balancing == "switch":
        total = total + model.strength * model.experts * sum(load[m] * mean[m] for m in range(model.experts))
    if model.balancing == "importance":
        total = total + model.strength * ((mean - mean.mean()) ** 2).mean() / mean.mean() ** 2
    if model.balancing == "z-loss":
        total = total + model.strength * (h.exp().sum(1).log() ** 2).mean()
    return total, load


@pytest.mark.parametrize("name", MODELS)
def test_two_steps_are_those_of_autograd(name: str) -> None:
    model = MODELS[name]
    run = ClusterRun(model=model, task=TASK, trials=2, steps=2, **SMALL)
    data = samples_of(run, [0, 1], "train")
    learner = MixtureLearner(run, [0, 1])
    streams = [stream(4, trial, "router noise") for trial in (0, 1)]
    patches, labels = data.patches(), data.labels.double()
    for _ in range(2):
        noise = router_noise(model, streams, 60, learner.like)
        before = mixture.State(*(part.clone() for part in learner.state))
        learner.advance(1)
        for trial in (0, 1):
            filters, routers = (part[trial].clone().requires_grad_() for part in before[:2])
            bias = before.bias[trial].tolist()
            loss, load = plain_loss(patches[trial], labels[trial], noise[trial], bias, filters, routers, model)
            by_filters, by_routers = torch.autograd.grad(loss, (filters, routers))
            if model.equal_steps:
                by_filters = torch.stack([one / max(one.norm().item(), 1e-300) for one in by_filters])
            if model.balancing == "bias":
                signs = [(share < 1 / model.experts) - (share > 1 / model.experts) for share in load]
                bias = [b + model.strength * sign for b, sign in zip(bias, signs, strict=True)]
            close: dict[str, Any] = {"rtol": 1e-9, "atol": 1e-11}
            wanted = filters - model.learning_rate * by_filters
            torch.testing.assert_close(learner.state.experts[trial], wanted.detach(), **close)
            wanted = routers - model.router_learning_rate * by_routers
            torch.testing.assert_close(learner.state.routers[trial], wanted.detach(), **close)
            torch.testing.assert_close(learner.state.bias[trial], torch.tensor(bias, dtype=torch.float64), **close)
            assert learner.loss[trial].item() == pytest.approx(loss.item(), rel=1e-9)


@pytest.mark.parametrize("activation", ["cubic", "gelu"])
def test_one_expert_per_sample_is_the_switch_mixture(activation: str) -> None:
    shared: dict[str, Any] = {"experts": 4, "filters": 4, "learning_rate": 0.03, "activation": activation}
    settings: dict[str, Any] = {**SMALL, "samples": 300, "trials": 2, "steps": 20}
    switch = final(train(SwitchMoE(load_balancing=0.02, **shared), TASK, **settings))
    ours = final(train(TopKMoE(balancing="switch", strength=0.02, **shared), TASK, **settings))
    for measure, wanted in switch.values.items():
        if measure != "train_loss":  # at the end the loss of both is without the balancing
            np.testing.assert_allclose(ours[measure], wanted, rtol=1e-9, atol=1e-11, err_msg=measure)


def test_all_experts_for_every_sample_leave_the_load_even() -> None:
    model = TopKMoE(experts=4, experts_per_sample=4, filters=4)
    last = final(train(model, TASK, trials=2, steps=5, **SMALL))
    np.testing.assert_allclose(last["expert_load"], 0.25)
    np.testing.assert_allclose(last["load_entropy"], np.log(4))
    assert (last["dispatch"].sum((1, 2)) == 4 * 50).all()


def test_loads_and_agreement_are_those_of_the_dispatch() -> None:
    last = final(train(TopKMoE(experts=4, experts_per_sample=2, filters=4, shared=2), TASK, trials=2, steps=3, **SMALL))
    assert set(last.values) == set(MEASURES | TOP_K_MEASURES)
    received = last["dispatch"].sum(1)
    np.testing.assert_allclose(last["expert_load"], received / 100)
    np.testing.assert_allclose(last["agreement"], last["dispatch"].max(1).sum(1) / 100)


def test_the_lead_is_the_first_score_of_expert_1_on_the_mean_sample() -> None:
    run = ClusterRun(model=TopKMoE(lead=2.5, filters=4), task=TASK, trials=2, **SMALL)
    data = samples_of(run, [0, 1], "train")
    learner = MixtureLearner(run, [0, 1])
    means = data.patches().sum(2).mean(1)
    torch.testing.assert_close((learner.state.routers[:, 0] * means).sum(1), torch.full((2,), 2.5).double())
    assert not learner.state.routers[:, 1:].any()


def test_a_lead_collapses_linear_experts_and_balancing_cures_it() -> None:
    """From a lead of 4 one or two of eight experts carry everything; with the importance loss all eight work."""
    model = TopKMoE(activation="linear", lead=4.0)
    settings: dict[str, Any] = {"samples": 600, "test_samples": 600, "trials": 2, "steps": 150, "device": "cpu"}
    fallen = final(train(model, ClusterTask(), **settings))
    cured = final(train(model.replace(balancing="importance", strength=0.1), ClusterTask(), **settings))
    assert (fallen["load_entropy"] < np.log(2.5)).all() and (fallen["test_accuracy"] < 0.9).all()
    assert (cured["load_entropy"] > np.log(6)).all() and (cured["test_accuracy"] > 0.97).all()
    assert (cured["agreement"] > fallen["agreement"] + 0.3).all()
