"""Pulls on routers against autograd through eq. 1 in plain loops, where only the patches of one pattern reach w_s."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
import xarray as xr
from torch import Tensor

from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, initialization, pulls
from moe_lab.patch_routing.pulls import PATTERNS, router_pulls
from tests.patch_routing import oracle
from tests.patch_routing.oracle import Expert

TASK = PatternTask(patches=7, dimension=8, pattern_sets=12, distractors=3, noise=0.1, delta_d=0.3)
M, K, KEPT, N, RATE, SEED, TRIAL = 12, 3, 4, 10, 0.7, 3, 2
MODEL = JointMoE(neurons=M, experts=K, patches_per_expert=KEPT, batch_size=N, learning_rate=RATE)


@pytest.fixture(scope="module")
def found() -> xr.Dataset:
    """Steps on all samples at once, so that the oracle need not know which samples a step draws."""
    return router_pulls(MODEL, TASK, samples=N, steps=3, trial=TRIAL, seed=SEED)


def pattern_of(role: int, side: int) -> str:
    return {0: ["o1", "o2"][side], 1: f"distractors of o{side + 1}", 2: "other patches"}[role]


def gradients(sample: Tensor, label: int, experts: list[Expert], reach: list[bool]) -> list[Tensor]:
    """-dL/dw_s of every expert, where w_s acts through the scores of the patches that `reach` alone."""
    routers = [expert.router.clone().requires_grad_(True) for expert in experts]
    answer = torch.zeros(1, dtype=torch.float64)
    for expert, w in zip(experts, routers, strict=True):
        scores = [x @ (w if one else w.detach()) for x, one in zip(sample, reach, strict=True)]
        places = oracle.top(torch.stack(scores), expert.kept)
        total = sum(torch.exp(scores[place]) for place in places)
        for place in places:
            says = (expert.outputs[:, 0] / expert.kept * torch.relu(expert.hidden @ sample[place])).sum()
            answer = answer + torch.exp(scores[place]) / total * says
    found = torch.autograd.grad(oracle.loss(answer, label), routers, allow_unused=True)  # none where no patch is kept
    return [torch.zeros_like(w) if one is None else -one for w, one in zip(routers, found, strict=True)]


def test_every_pull_is_what_autograd_finds_at_every_step(found: xr.Dataset) -> None:
    train = TASK.sample(N, trials=[TRIAL], seed=SEED, dtype=torch.float64)
    samples, labels = train.patches()[0], train.labels[0].tolist()
    hidden = initialization.initial_experts([TRIAL], SEED, M, TASK.dimension)[0].chunk(K)
    outputs = initialization.initial_outputs([TRIAL], SEED, M, 1)[0].chunk(K)
    routers = initialization.initial_routers([TRIAL], SEED, K, TASK.patches, TASK.dimension)[0]
    experts = [Expert(routers[s], hidden[s].clone(), outputs[s], KEPT) for s in range(K)]
    o = TASK.class_patterns()
    for step in range(4):
        now = found.sel(step=step)
        for pattern in PATTERNS:
            parts = [torch.zeros(TASK.dimension, dtype=torch.float64) for _ in range(K)]
            for i, sample in enumerate(samples):
                kinds = zip(train.roles[0, i].tolist(), train.sides[0, i].tolist(), strict=True)
                reach = [pattern_of(*kind) == pattern for kind in kinds]
                if any(reach):
                    for s, part in enumerate(gradients(sample, labels[i], experts, reach)):
                        parts[s] += part / N
            for s, part in enumerate(parts):
                one = now.sel(expert=s + 1, pattern=pattern)
                np.testing.assert_allclose(one["pull"], [float(part @ o[0]), float(part @ o[1])], atol=1e-14)
                assert float(one["pull_size"]) == pytest.approx(float(part.norm()), abs=1e-14)
        for s, expert in enumerate(experts):
            one = now.sel(expert=s + 1)
            np.testing.assert_allclose(one["router"], (o @ expert.router).tolist(), rtol=1e-9, atol=1e-15)
            assert float(one["router_size"]) == pytest.approx(float(expert.router.norm()), rel=1e-9)
        experts, losses, right = oracle.step(samples, labels, experts, learning_rate=RATE, gated=True)
        assert float(now["train_loss"]) == pytest.approx(np.mean(losses), rel=1e-12)
        assert float(now["train_accuracy"]) == pytest.approx(np.mean(right))
        experts = [Expert(one.router.detach(), one.hidden.detach(), one.outputs, one.kept) for one in experts]


def test_a_step_adds_the_pulls_to_the_routers(found: xr.Dataset) -> None:
    moved = found["router"].diff("step").values
    np.testing.assert_allclose(moved, RATE * found["pull"].sum("pattern").values[:-1], rtol=1e-9)
    assert found.attrs["learning_rate"] == RATE
    np.testing.assert_allclose(found["patches"].sum("pattern"), KEPT)


def test_attrs_make_it_again_and_records_are_those_of_the_same_run(found: xr.Dataset) -> None:
    names: dict[str, Any] = {**vars(pulls), "JointMoE": JointMoE, "PatternTask": PatternTask}
    assert eval(found.attrs["call"], names).identical(found)
    thinned = router_pulls(MODEL, TASK, samples=N, steps=3, record_every=2, trial=TRIAL, seed=SEED)
    assert thinned["step"].values.tolist() == [0, 2]
    xr.testing.assert_allclose(thinned, found.sel(step=[0, 2]))


def test_with_one_patch_nothing_pulls() -> None:
    data = router_pulls(MODEL.replace(patches_per_expert=1), TASK, samples=N, steps=1)
    assert not data["pull"].any()


def test_digits_have_no_distractors() -> None:
    data = router_pulls(task=DigitTask(), samples=20, steps=1)
    assert not data["pull"].sel(pattern=list(PATTERNS[2:4])).any()
    assert (data["pull_size"].sel(pattern=["o1", "other patches"]).max(("step", "expert")) > 0).all()


def test_what_has_no_pulls_is_refused() -> None:
    class Own(JointMoE):
        def route(self, scores: Tensor, patches_per_expert: Tensor) -> tuple[Tensor, Tensor]:
            return super().route(scores, patches_per_expert)

    with pytest.raises(ValueError, match=r"model must have the router of eq\. 4: got model='Own'"):
        router_pulls(Own(), TASK, samples=N)
    with pytest.raises(ValueError, match=r"two classes \(c\): got c=4"):
        router_pulls(task=PatternTask(classes=4), samples=20, steps=1)
    with pytest.raises(ValueError, match="record_every must be from 1 to steps: got record_every=3, steps=2"):
        router_pulls(MODEL, TASK, samples=N, steps=2, record_every=3)
    with pytest.raises(ValueError, match="model must be"):
        router_pulls(CNN(), TASK)
