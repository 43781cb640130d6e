"""RoutedMoE: its steps against plain loops and autograd, its measures by hand, and JointMoE as one of its cases."""

from __future__ import annotations

import math
from typing import Any

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.core.config import ConfigError
from moe_lab.core.snapshots import collect, final
from moe_lab.patch_routing import JointMoE, PatternTask, RoutedMoE, routed, train
from moe_lab.patch_routing.data import BACKGROUND
from moe_lab.patch_routing.joint import by_expert
from moe_lab.patch_routing.learners import autograd_step
from moe_lab.patch_routing.measures import MEASURES, PlaceCounts
from moe_lab.patch_routing.routed import ROUTINGS
from moe_lab.routers.choices import GATES
from tests.patch_routing import oracle
from tests.routers.test_choices import naive_capacity

SMALL = RoutedMoE(neurons=6, experts=3, batch_size=4)
PATCHES, DIMENSION, CLASSES = 5, 4, 3
CASES = {
    **{f"experts choose, {gates}": SMALL.replace(routing="expert-choice", gates=gates) for gates in GATES},
    **{
        f"patches choose, {gates}": SMALL.replace(gates=gates, experts_per_patch=2, capacity_factor=0.7)
        for gates in GATES
    },
    "by priority": SMALL.replace(order="priority", gates="sigmoid", experts_per_patch=2, capacity_factor=0.5),
    "one expert": SMALL.replace(gates="softmax-before"),
    "noise": SMALL.replace(experts_per_patch=2, router_noise=1.3),
    "noise on what experts choose": SMALL.replace(routing="expert-choice", router_noise=0.6),
    "soft": SMALL.replace(routing="soft", capacity_factor=1.2),
    "hash": SMALL.replace(routing="hash", experts_per_patch=2, capacity_factor=0.6),
}


def gates_of(scores: list[Tensor], gates: str, count: int) -> dict[int, Tensor]:
    """The gates of the `count` best of some scores, one by one."""
    chosen = oracle.top(torch.stack(scores).detach(), count)
    raised = [1 / (1 + torch.exp(-h)) if "sigmoid" in gates else torch.exp(h) for h in scores]
    summed = range(len(scores)) if gates == "softmax-before" else chosen
    total = torch.ones(()) if gates == "sigmoid" else torch.stack([raised[i] for i in summed]).sum()
    return {i: raised[i] / total for i in chosen}


def gate_table(sample: Tensor, rows: Tensor, model: RoutedMoE, noise: Tensor, hashed: Tensor) -> dict[Any, Tensor]:
    """{(expert, patch): gate} of one sample, in words of the definitions."""
    k, n, places = model.experts, len(sample), model.places(len(sample))
    if model.routing == "hash":
        kept = naive_capacity(hashed, hashed.double(), places, "arrival")
        return {(s, j): torch.ones((), dtype=sample.dtype) for j in range(n) for s in range(k) if kept[j, s]}
    scores = [[rows[s] @ sample[j] for j in range(n)] for s in range(k)]
    if model.router_noise:
        for s, j in np.ndindex(k, n):
            softplus = torch.log(1 + torch.exp(rows[k + s] @ sample[j]))
            scores[s][j] = scores[s][j] + model.router_noise * noise[s, j] * softplus
    if model.routing == "expert-choice":
        return {(s, j): g for s in range(k) for j, g in gates_of(scores[s], model.gates, places).items()}
    by_patch = [gates_of([scores[s][j] for s in range(k)], model.gates, model.experts_per_patch) for j in range(n)]
    asked = torch.tensor([[s in by_patch[j] for s in range(k)] for j in range(n)])
    values = torch.tensor([[scores[s][j].item() for s in range(k)] for j in range(n)])
    kept = naive_capacity(asked, values, places, model.order)
    return {(s, j): g for j in range(n) for s, g in by_patch[j].items() if kept[j, s]}


def naive_output(
    sample: Tensor, weights: Tensor, outputs: Tensor, model: RoutedMoE, noise: Tensor, hashed: Tensor
) -> Tensor:
    """f of one sample, one expert and one patch (or slot) at a time; `outputs` (m, c) are not divided yet."""
    n, m, k = len(sample), model.neurons, model.experts
    hidden, rows = weights[:m].view(k, m // k, -1), weights[m:]
    a = outputs.view(k, m // k, -1)
    answer = torch.zeros(outputs.shape[1], dtype=sample.dtype)
    if model.routing == "soft":
        raised = torch.exp(sample @ rows.T)  # (n, S)
        for slot in range(len(rows)):
            s = slot // model.places(n)
            mean = sum(raised[j, slot] / raised[:, slot].sum() * sample[j] for j in range(n))
            share = sum(raised[j, slot] / raised[j].sum() for j in range(n))
            answer = answer + share * (a[s] / n * torch.relu(hidden[s] @ mean)[:, None]).sum(0)
        return answer
    q = model.places(n) if model.routing == "expert-choice" else n
    for (s, j), gate in gate_table(sample, rows, model, noise, hashed).items():
        answer = answer + gate * (a[s] / q * torch.relu(hidden[s] @ sample[j])[:, None]).sum(0)
    return answer


def drawn(model: RoutedMoE, classes: int, seed: int = 0) -> dict[str, Any]:
    """Weights, a batch, and everything else of a step for two trials, in float64."""
    generator = torch.Generator().manual_seed(seed)

    def normal(*shape: int) -> Tensor:
        return torch.randn(shape, generator=generator, dtype=torch.float64)

    rows, columns = model.neurons + routed.router_rows(model, PATCHES), 1 if classes == 2 else classes
    outputs = normal(2, model.neurons, columns)
    directions, table = routed.hash_of((0, 1), 3, model, DIMENSION)
    rules = routed.RoutedRules(
        by_expert(outputs / routed.pooled(model, PATCHES), [model.experts] * 2),
        directions.double(),
        table,
        torch.tensor([0.7, 2.0], dtype=torch.float64)[:, None, None],
    )
    return {
        "weights": normal(2, rows, DIMENSION),
        "patches": normal(2, 4, PATCHES, DIMENSION),
        "labels": torch.randint(classes, (2, 4), generator=generator),
        "noise": normal(2, model.experts, 4, PATCHES) if model.router_noise else None,
        "outputs": outputs,
        "rules": rules,
    }


@pytest.mark.parametrize("classes", [2, CLASSES])
@pytest.mark.parametrize("name", CASES)
def test_a_step_is_that_of_plain_loops_and_autograd(name: str, classes: int) -> None:
    model = CASES[name]
    given = drawn(model, classes)

    def outputs(weights: Tensor) -> Tensor:
        return routed.routed_forward(weights, given["patches"], given["rules"], model, given["noise"]).outputs

    found, loss = autograd_step(given["weights"], outputs, given["labels"], given["rules"].learning_rate)
    for trial in (0, 1):
        weights = given["weights"][trial].clone().requires_grad_()
        directions, table = given["rules"].directions[trial], given["rules"].table[trial]
        losses, draws = [], given["noise"]
        for place, sample in enumerate(given["patches"][trial]):
            buckets = [sum(2**b for b, row in enumerate(directions) if row @ patch > 0) for patch in sample]
            hashed = table[torch.tensor(buckets)]
            noise = torch.zeros(model.experts, PATCHES) if draws is None else draws[trial, :, place]
            label = int(given["labels"][trial, place])
            f = naive_output(sample, weights, given["outputs"][trial], model, noise, hashed)
            losses.append(oracle.loss(f, label))
            assert float(loss.value[trial, place]) == pytest.approx(losses[-1].item(), rel=1e-10)
            assert bool(loss.right[trial, place]) == oracle.is_right(f.detach(), label)
        (slope,) = torch.autograd.grad(torch.stack(losses).mean(), weights)
        wanted = given["weights"][trial] - given["rules"].learning_rate[trial] * slope
        torch.testing.assert_close(found[trial], wanted, rtol=1e-9, atol=1e-12)
        assert (found[trial] != given["weights"][trial])[: model.neurons].any()


def test_expert_choice_with_as_many_places_is_jointmoe() -> None:
    how: dict[str, Any] = {
        "samples": 60,
        "trials": 3,
        "epochs": 4,
        "record_every": 5,
        "precision": "float64",
        "seed": 2,
    }
    task = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
    settings = {"neurons": 12, "experts": 4}
    wanted = collect(train(JointMoE(patches_per_expert=3, **settings), task, **how))
    found = collect(train(RoutedMoE(routing="expert-choice", capacity_factor=1.5, **settings), task, **how))
    for name in wanted:
        np.testing.assert_allclose(found[name], wanted[name], rtol=1e-8, atol=1e-10, err_msg=name)
    np.testing.assert_allclose(found["places_taken"], 3)


def test_what_finds_a_place_by_hand() -> None:
    """Two samples of three patches, two experts; o is patch 0, then patch 2, which is dropped."""
    asked = torch.tensor([[[[1, 1, 0], [0, 1, 1]], [[0, 0, 1], [1, 0, 0]]]]).bool()  # (1, k, b, n)
    mask = torch.tensor([[[[1, 0, 0], [0, 1, 0]], [[0, 0, 1], [1, 0, 0]]]]).bool()
    counts = PlaceCounts(1, False, 1, 2, 2, torch.zeros(1, dtype=torch.float64))
    now = routed.RoutedPass(routed.PatchChoice(asked, mask, mask.double()), torch.zeros(1, 1, 2, dtype=torch.float64))
    counts.add(now, torch.tensor([[0, 1]]), torch.tensor([[0, 2]]), torch.full((1, 2, 3), BACKGROUND))
    found = counts.values(torch.ones(1, 2, dtype=torch.bool))
    values = {name: found[name][0].tolist() for name in found if MEASURES[name].dims in ((), ("expert",))}
    assert values == {
        "signal_kept": 0.5, "signal_share": 0.25, "lost": pytest.approx(1 / 3), "dropped": pytest.approx(1 / 3),
        "places_taken": [1.0, 1.0], "turned_away": [1.0, 0.0],
    }  # fmt: skip


def test_what_slots_receive_of_o_by_hand() -> None:
    """Every slot takes a share of every patch: o's shares over all that two experts receive of two samples."""
    gates = torch.tensor([[[[0.5, 0.3, 0.2], [0.1, 0.2, 0.7]], [[0.25, 0.5, 0.25], [0.4, 0.4, 0.2]]]]).double()
    every = torch.ones_like(gates, dtype=torch.bool)
    counts = PlaceCounts(1, True, 1, 2, 2, torch.zeros(1, dtype=torch.float64))
    now = routed.RoutedPass(routed.PatchChoice(every, every, gates), torch.zeros(1, 1, 2, dtype=torch.float64))
    counts.add(now, torch.tensor([[0, 1]]), torch.tensor([[0, 2]]), torch.full((1, 2, 3), BACKGROUND))
    found = counts.values(torch.ones(1, 2, dtype=torch.bool))
    assert found["signal_share"].item() == pytest.approx((0.5 + 0.7 + 0.25 + 0.2) / 4)
    assert found["places_taken"].tolist() == [[1.0, 1.0]] and found["lost"].item() == 0


def test_every_routing_keeps_to_its_places_and_says_what_it_loses() -> None:
    task = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
    how: dict[str, Any] = {"samples": 40, "trials": 2, "epochs": 2, "test_samples": 60}
    for routing in ROUTINGS:
        model = RoutedMoE(neurons=12, experts=4, routing=routing, experts_per_patch=2, capacity_factor=1.5)
        last = final(train(model, task, **how))
        assert model.places(8) == 3 and last["places_taken"].max() <= 3
        kept, asked, gates = (last[f"example_{name}"] for name in ("kept", "asked", "gates"))
        assert (kept <= asked).all() and (gates[kept == 0] == 0).all()
        assert last["signal_share"].min() >= 0 and last["signal_kept"].max() <= 1
        if routing == "soft":
            assert last["lost"].max() == 0 and kept.all()
            np.testing.assert_allclose(gates.sum(-1), 1, rtol=1e-5)
        elif routing != "expert-choice":
            assert last["dropped"].min() >= 1 - 4 * 3 / 16 - 1e-6  # more are asked than there are places
            np.testing.assert_allclose(asked.sum(2), 2)
        assert "alignment" in last.values or routing == "hash"


def test_noise_is_drawn_in_training_alone_and_is_each_trials_own() -> None:
    task = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
    how: dict[str, Any] = {"samples": 40, "trials": 2, "epochs": 2, "precision": "float64"}
    quiet, noisy = (RoutedMoE(neurons=12, experts=4, router_noise=sigma) for sigma in (0.0, 1.0))
    starts = [next(train(model, task, **how)) for model in (quiet, noisy)]
    for name in ("test_accuracy", "places_taken", "example_gates"):
        np.testing.assert_array_equal(*(start[name] for start in starts), err_msg=name)
    ends = [final(train(noisy, task, **how, seed=seed)) for seed in (0, 0, 1)]
    np.testing.assert_array_equal(ends[0]["alignment"], ends[1]["alignment"])
    assert not np.array_equal(ends[0]["alignment"], ends[2]["alignment"])


def test_wrong_settings_are_one_sentence() -> None:
    with pytest.raises(ConfigError, match=r"experts_per_patch \(t\) must be at most experts \(k\): got t=9, k=8"):
        RoutedMoE(experts_per_patch=9)
    with pytest.raises(ConfigError, match=r"neurons \(m\) must be divisible by experts \(k\)"):
        RoutedMoE(experts=7)
    assert math.isclose(RoutedMoE(capacity_factor=1e-3).places(16), 1)
