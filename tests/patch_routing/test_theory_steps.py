"""The lemmas' quantities in a small training, against eq. 1, 13 and 14 written as plain loops and autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from moe_lab.patch_routing import PatternTask, theory
from moe_lab.patch_routing import model as models
from moe_lab.patch_routing.theory_steps import small_steps
from moe_lab.trials import stream
from tests.patch_routing import oracle
from tests.patch_routing.oracle import Expert

TASK = PatternTask(patches=5, dimension=8, pattern_sets=12, distractors=1, noise=0.0)
M, K, KEPT, N, B, RATE = 12, 3, 3, 8, 10, 0.3
GIVEN = {"neurons": M, "experts": K, "patches_per_expert": KEPT, "samples": N, "batch_size": B, "learning_rate": RATE}


def trained(kind: theory.Kind, steps: int) -> tuple[list[Expert], list[Expert], bool]:
    """The experts before and after the steps, by the oracle of the room."""
    k, kept = {"separate": 2, "joint": K, "cnn": 1}[kind], TASK.patches if kind == "cnn" else KEPT
    train = TASK.sample(steps * B, trials=[0], seed=3, dtype=torch.float64)
    hidden = torch.as_tensor(models.initial_experts(0, 3, M, TASK.dimension)).chunk(k)
    outputs = torch.as_tensor(models.initial_outputs(0, 3, M, 1)).chunk(k)
    routers = list(torch.as_tensor(models.initial_routers(0, 3, k, TASK.patches, TASK.dimension)))
    x, labels = train.patches()[0], train.labels[0].tolist()
    if kind == "separate":
        signs = torch.tensor([1.0 - 2 * label for label in labels[:N]], dtype=torch.float64)
        direction = (signs[:, None] * x[:N].sum(1)).mean(0)
        routers = [w + sign * 100 * N / 20 / TASK.patches * direction for w, sign in zip(routers, (1, -1), strict=True)]
    first = [Expert(routers[s], hidden[s].clone(), outputs[s], kept) for s in range(k)]
    now, gated = first, kind == "joint"
    if kind == "cnn":
        now = first = [Expert(None, hidden[0].clone(), outputs[0], kept)]
    for batch in stream(3, 0, "steps").permutation(steps * B).reshape(steps, B):
        now, *_ = oracle.step(x[batch], [labels[i] for i in batch], now, learning_rate=RATE, gated=gated)
    return alone(first), alone(now), gated


def alone(experts: list[Expert]) -> list[Expert]:
    """The experts without the graphs that autograd keeps."""
    routers = [None if part.router is None else part.router.detach() for part in experts]
    return [Expert(w, part.hidden.detach(), part.outputs, part.kept) for w, part in zip(routers, experts, strict=True)]


@pytest.mark.parametrize("kind", ["separate", "joint", "cnn"])
def test_steps_are_those_of_the_oracle(kind: theory.Kind) -> None:
    seen = small_steps(kind, TASK, steps=3, seed=3, **GIVEN)
    test = TASK.sample(N, trials=[0], seed=3, split="test", dtype=torch.float64)
    samples, labels = test.patches()[0], test.labels[0].tolist()
    first, now, gated = trained(kind, 3)
    moved = max(float((b.hidden - a.hidden).norm(dim=1).max()) for a, b in zip(first, now, strict=True))
    values, shares, losses = [[], []], [], []
    for sample, label in zip(samples, labels, strict=True):
        f = float(oracle.output(sample, now, gated=gated)[0])
        y = 1 - 2 * label
        losses.append(math.log1p(math.exp(-y * f)))
        values[label].append(1 / (1 + math.exp(y * f)))
        for a, b in zip(first, now, strict=True):
            router, every = b.router, list(range(TASK.patches))
            places = oracle.top(sample @ router, KEPT) if kind == "separate" and router is not None else every
            bad = [
                any(
                    (float(a.hidden[r] @ sample[j]) >= 0) != (float(b.hidden[r] @ sample[j]) >= 0)
                    or abs(float(b.hidden[r] @ sample[j])) < moved
                    for j in places
                )
                for r in range(len(b.hidden))
            ]
            shares.append(np.mean(bad))
    over = KEPT if kind == "separate" else TASK.patches
    assert seen.loss[-1] == pytest.approx(np.mean(losses), rel=1e-9)
    assert seen.value[-1] == pytest.approx([np.mean(part) for part in values], rel=1e-9)
    assert seen.moved[-1] == pytest.approx(moved, rel=1e-9)
    assert seen.changed[-1] == pytest.approx(max(shares), abs=1e-12)
    assert seen.allowed[-1] == pytest.approx(2 * math.e * moved * over * math.sqrt(M), rel=1e-9)
    assert seen.required == pytest.approx(1 / (12 * TASK.delta**0.5))


def test_the_expected_gradient_at_the_start_is_the_pseudo_gradient() -> None:
    """Before any step the signs are those of the start, so that autograd of the mean loss is -a_r / 2 times P_r."""
    (expert,), _, _ = trained("cnn", 1)
    test = TASK.sample(N, trials=[0], seed=3, split="test", dtype=torch.float64)
    hidden = expert.hidden.clone().requires_grad_(True)
    f = ((test.patches()[0] @ hidden.T).clamp_min(0).sum(1) @ expert.outputs[:, 0]) / TASK.patches
    y = 1 - 2 * test.labels[0]
    torch.nn.functional.softplus(-y * f).mean().backward()
    assert hidden.grad is not None
    length = (2 * hidden.grad / expert.outputs).norm(dim=1)
    value = torch.sigmoid(-y * f.detach())
    most = max(float(value[test.labels[0] == label].mean()) for label in (0, 1))
    seen = small_steps("cnn", TASK, steps=1, seed=3, **GIVEN)
    large = float((length >= most / (TASK.patches * 12 * TASK.delta**0.5)).double().mean())
    assert seen.large[0] == pytest.approx(large)


def test_the_lemmas_are_about_two_classes() -> None:
    with pytest.raises(ValueError, match="two classes"):
        small_steps("cnn", PatternTask(classes=4))
