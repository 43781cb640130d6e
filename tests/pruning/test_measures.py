"""Every measure against a loop over samples, tokens and experts."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.pruning import TokenMoE, TokenSamples, TokenTask, Weights
from moe_lab.pruning.measures import MEASURES, Evaluation, evaluate, measure
from moe_lab.pruning.select import pruned

EACH_ROUTING = pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
TASK = TokenTask(patterns=11, tokens=7, pair=2)


def random_layer(experts: int, patterns: int, neurons: int, seed: int = 0) -> Weights:
    draw = torch.Generator().manual_seed(seed)
    routers = torch.randn(2, experts, patterns, generator=draw, dtype=torch.float64)
    wide = 2 * torch.randn(2, experts, patterns, neurons, generator=draw, dtype=torch.float64)
    return Weights.unpruned(routers, wide)


def gates_by_hand(router: np.ndarray, tokens: list[int], routing: str, top: int) -> np.ndarray:
    """(R, n) G of every router and token."""
    scores = router[:, tokens]
    rows = scores if routing == "expert-choice" else scores.T
    gates = np.zeros_like(rows)
    for row, gate in zip(rows, gates, strict=True):
        best = sorted(range(len(row)), key=lambda j, row=row: (-row[j], j))[:top]
        total = sum(math.exp(row[j] - row[best[0]]) for j in best)
        for j in best:
            gate[j] = math.exp(row[j] - row[best[0]]) / total
    return gates if routing == "expert-choice" else gates.T


def by_hand(
    weights: Weights, before: torch.Tensor, samples: TokenSamples, model: TokenMoE, task: TokenTask, trial: int
) -> dict[str, Any]:
    """Everything that is measured of one trial but the training loss."""
    k, plus = weights.experts.shape[1], int((weights.signs > 0).sum())
    router, neurons = weights.routers[trial].numpy(), weights.neurons[trial].numpy()
    own_router = router[weights.experts[trial].numpy()]
    own = [task.specific[0] if s < plus else task.specific[1] for s in range(k)]
    other = [task.specific[1] if s < plus else task.specific[0] for s in range(k)]
    right, losses = [], []
    held: dict[tuple[int, int], list[float]] = {(s, q): [] for s in range(k) for q in task.specific}
    for tokens, label in zip(samples.tokens[trial].tolist(), samples.labels[trial].tolist(), strict=True):
        gates = gates_by_hand(router, tokens, model.routing, model.top)[weights.experts[trial].numpy()]
        f = 0.0
        for s in range(k):
            for j, q in enumerate(tokens):
                f += (1 if s < plus else -1) * gates[s, j] * sum(max(w, 0) for w in neurons[s, q])
                if q in task.specific:
                    held[s, q].append(gates[s, j])
        right.append(label * f > 0)
        losses.append(max(0, 1 - label * f))

    def proficiency(patterns: list[int]) -> list[float]:
        return [np.mean([gate >= 1 / model.top - 1e-12 for gate in held[s, q]]) for s, q in enumerate(patterns)]

    return {
        "test_accuracy": np.mean(right),
        "test_loss": np.mean(losses),
        "router_norm": [math.sqrt(sum(row**2)) for row in own_router],
        "norm_change": [
            math.sqrt(sum(row**2)) - math.sqrt(sum(b**2))
            for row, b in zip(own_router, before[trial].numpy(), strict=True)
        ],
        "difference_norm": [
            math.sqrt(sum((row - b) ** 2)) for row, b in zip(own_router, before[trial].numpy(), strict=True)
        ],
        "proficiency": proficiency(own),
        "cross_proficiency": proficiency(other),
        "gate": [np.mean(held[s, q]) for s, q in enumerate(own)],
        "least_gate": [min(held[s, q]) for s, q in enumerate(own)],
        "large_neurons": [np.mean([w > 1 for w in neurons[s, q]]) for s, q in enumerate(own)],
        "own_sum": [sum(max(w, 0) for w in neurons[s, q]) for s, q in enumerate(own)],
    }


@EACH_ROUTING
@pytest.mark.parametrize("top, experts, kept", [(1, 4, None), (3, 6, None), (3, 6, 2), (4, 8, 1)])
def test_every_measure_by_hand(routing, top, experts, kept):
    model = TokenMoE(experts=experts, neurons=3, routing=routing, top=top)
    weights, start = random_layer(experts, 11, 3), random_layer(experts, 11, 3, seed=1)
    if kept is not None:
        stays = torch.rand(2, 2, experts // 2, generator=torch.Generator().manual_seed(2)).argsort(2) < kept
        weights, start = (pruned(one, stays.flatten(1), routing) for one in (weights, start))
    samples = TASK.sample(50, trials=[0, 1], seed=3, dtype=torch.float64)
    found = measure(weights, start.own_routers, evaluate(weights, samples, model, TASK), model, TASK)
    assert set(found) == set(MEASURES) - {"train_loss"}
    for trial in range(2):
        for name, wanted in by_hand(weights, start.own_routers, samples, model, TASK, trial).items():
            np.testing.assert_allclose(found[name][trial], wanted, rtol=1e-10, atol=1e-12, err_msg=name)
    if kept is None and top > 1:
        assert 0 < float(found["proficiency"].mean()) < 1, "the test says nothing"


@EACH_ROUTING
@pytest.mark.parametrize("top", range(1, 13))
def test_proficiency_counts_a_gate_of_exactly_one_in_l(routing, top):
    """Equal scores give gates of 1/l, which rounding must not push below."""
    model = TokenMoE(experts=12, neurons=1, routing=routing, top=top)
    for dtype in (torch.float32, torch.float64):
        weights = Weights.unpruned(torch.full((1, 12, 8), 0.7, dtype=dtype), torch.ones(1, 12, 8, 1, dtype=dtype))
        task = TokenTask(patterns=8, tokens=top + 1)
        samples = task.sample(30, trials=[0], seed=0, dtype=dtype)
        found = measure(weights, weights.routers, evaluate(weights, samples, model, task), model, task)
        served = [1.0 if routing == "expert-choice" or s < top else 0.0 for s in range(12)]  # ties: the lowest number
        assert found["proficiency"][0].tolist() == served
        for name in ("gate", "least_gate"):
            assert found[name][0].tolist() == pytest.approx([share / top for share in served])


def test_a_class_without_samples_has_no_proficiency():
    """One test sample holds one of the two patterns; experts of the other class have nothing to be measured on."""
    model, weights = TokenMoE(experts=4, neurons=3, top=2), random_layer(4, 11, 3)
    samples = TASK.sample(1, trials=[0, 1], seed=3, dtype=torch.float64)
    found = measure(weights, weights.routers, evaluate(weights, samples, model, TASK), model, TASK)
    for trial in range(2):
        absent = slice(2, 4) if samples.labels[trial, 0] > 0 else slice(0, 2)
        assert found["proficiency"][trial, absent].isnan().all() and found["gate"][trial, absent].isnan().all()
        assert found["least_gate"][trial, absent].isinf().all()
        assert found["test_accuracy"][trial] in (0, 1)


def test_a_sample_that_nobody_answers_is_not_right():
    """y f = 0 is no right sign."""
    votes = torch.tensor([[[0.0, 1.0, -2.0], [0.0, -1.0, 1.0]]])
    nothing = torch.zeros_like(votes)
    seen = Evaluation(votes, nothing, nothing, torch.tensor([[1.0, 1.0, -1.0]]))
    assert seen.output.tolist() == [[0, 0, -1]] and seen.accuracy().tolist() == pytest.approx([1 / 3])
