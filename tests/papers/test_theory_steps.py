"""The lemmas' quantities in a small training, against eq. 1, 13 and 14 written as plain loops and autograd."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch

from moe_lab.core.trials import stream
from moe_lab.patch_routing import PatternTask, initialization, theory
from moe_lab_papers.pmoe2023.theory_steps import small_steps
from tests.patch_routing import oracle
from tests.patch_routing.oracle import Expert

TASK = PatternTask(patches=5, dimension=8, pattern_sets=12, distractors=1, noise=0.0)
M, K, KEPT, N, B, RATE = 12, 3, 3, 8, 10, 0.3
GIVEN = {"neurons": M, "experts": K, "patches_per_expert": KEPT, "samples": N, "batch_size": B, "learning_rate": RATE}


def trained(kind: theory.Kind, steps: int) -> tuple[list[Expert], list[Expert], bool]:
    """The experts before and after the steps, by the oracle of the room."""
    k, kept = {"separate": 2, "joint": K, "cnn": 1}[kind], TASK.patches if kind == "cnn" else KEPT
    train = TASK.sample(steps * B, trials=[0], seed=3, dtype=torch.float64)
    hidden = initialization.initial_experts([0], 3, M, TASK.dimension)[0].chunk(k)
    outputs = initialization.initial_outputs([0], 3, M, 1)[0].chunk(k)
    routers = list(initialization.initial_routers([0], 3, k, TASK.patches, TASK.dimension)[0])
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


def gate_of(sample: torch.Tensor, place: int, expert: Expert, *, gated: bool) -> float:
    """G of one patch, 0 where the expert does not keep it."""
    if expert.router is None:
        return 1.0
    values = sample @ expert.router
    kept = oracle.top(values, expert.kept)
    if place not in kept:
        return 0.0
    return float(torch.exp(values[place]) / torch.exp(values[kept]).sum()) if gated else 1.0


@pytest.mark.parametrize("kind", ["separate", "joint", "cnn"])
def test_first_order_and_part_along_o_are_those_of_autograd(kind: theory.Kind) -> None:
    first, now, gated = trained(kind, 1)
    seen = small_steps(kind, TASK, steps=1, seed=3, **GIVEN)
    test = TASK.sample(N, trials=[0], seed=3, split="test", dtype=torch.float64)
    samples, labels, places = test.patches()[0], test.labels[0].tolist(), test.signal[0].tolist()

    def mean_loss(experts: list[Expert]) -> torch.Tensor:
        pairs = zip(samples, labels, strict=True)
        return torch.stack([oracle.loss(oracle.output(x, experts, gated=gated), y) for x, y in pairs]).mean()

    for part in first:
        part.hidden.requires_grad_(True)
    slopes = torch.autograd.grad(mean_loss(first), [part.hidden for part in first])
    for part in first:
        part.hidden.requires_grad_(False)
    taken = [before.hidden - after.hidden for before, after in zip(first, now, strict=True)]
    assert seen.predicted[0] == pytest.approx(sum(float((a * b).sum()) for a, b in zip(taken, slopes, strict=True)))
    stayed = [Expert(a.router, b.hidden, b.outputs, b.kept) for a, b in zip(first, now, strict=True)]
    assert seen.hidden_loss[0] == pytest.approx(float(mean_loss(stayed)))
    if kind == "joint":
        assert seen.hidden_loss[0] != pytest.approx(seen.loss[1], rel=1e-9)  # routers have moved

    answers = [float(oracle.output(x, first, gated=gated)[0]) for x in samples]
    values = [1 / (1 + math.exp((1 - 2 * y) * f)) for y, f in zip(labels, answers, strict=True)]
    found, stated, errors = 0.0, 0.0, []
    for expert, slope in zip(first, slopes, strict=True):
        lengths, of_class = -2 * slope / expert.outputs, []
        for label, (o, sign) in enumerate(zip(TASK.class_patterns().double(), (1, -1), strict=True)):
            own = [i for i in range(N) if labels[i] == label]
            gates = [gate_of(samples[i], places[i], expert, gated=gated) for i in own]
            of_class.append(float(np.mean([gate * values[i] for gate, i in zip(gates, own, strict=True)])))
            active, parts = expert.hidden @ o >= 0, sign * (lengths @ o)
            if 0 < int(active.sum()) < len(active):
                found += float(parts[active].mean() - parts[~active].mean())
                stated += of_class[-1] / expert.kept
        errors.append(of_class)
    assert seen.along[0] == pytest.approx(found / stated)
    by_class = [float(np.mean([values[i] for i in range(N) if labels[i] == label])) for label in (0, 1)]
    expected = {"cnn": max(by_class), "separate": math.hypot(*by_class), "joint": math.hypot(*map(max, errors))}
    assert seen.error[0] == pytest.approx(expected[kind])


def test_neurons_on_one_side_of_o_tell_nothing() -> None:
    seen = small_steps("cnn", TASK, steps=1, **{**GIVEN, "neurons": 1, "experts": 1})
    assert np.isnan(seen.along).all()


def test_a_router_that_moves_lifts_the_loss_where_the_hidden_weights_lower_it() -> None:
    """It takes other patches into its top l (lemma H.4)."""
    task = PatternTask(noise=0.0, pattern_sets=16)
    how = {"neurons": 100, "learning_rate": 0.05, "steps": 6, "samples": 200, "batch_size": 200}
    seen = small_steps("joint", task, seed=1, **how)
    hidden, whole = seen.loss[:-1] - seen.hidden_loss, -np.diff(seen.loss)
    np.testing.assert_allclose(hidden, seen.predicted, rtol=0.01)
    assert np.abs(whole / seen.predicted - 1).max() > 3
    assert (hidden > 0).all() and (whole < 0).any()


def test_the_lemmas_are_about_two_classes() -> None:
    with pytest.raises(ValueError, match="two classes"):
        small_steps("cnn", PatternTask(classes=4))
