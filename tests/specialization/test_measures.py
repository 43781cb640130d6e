"""What is measured, by hand and by brute force through the oracle."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from hypothesis.extra import numpy as arrays
from torch.nn.functional import one_hot

from moe_lab.core.snapshots import final
from moe_lab.routers.balance import dispatch_entropy
from moe_lab.specialization import ClusterRun, ClusterTask, SingleExpert, SwitchMoE, learners, train
from moe_lab.specialization.measures import MEASURES, counted, largest_products
from moe_lab.specialization.noise import evaluation_noise
from tests.specialization import oracle


def entropy(table: list[list[float]]) -> float:
    return float(dispatch_entropy(torch.tensor(table, dtype=torch.float64)))


def test_entropy_by_hand():
    """Rows are clusters, columns are experts (eq. 6.1)."""
    assert entropy([[5, 0, 0], [0, 7, 1]]) == 0  # every expert serves one cluster
    assert entropy([[3, 3], [3, 3], [3, 3]]) == pytest.approx(math.log(3))
    assert entropy([[1], [3]]) == pytest.approx(-(0.25 * math.log(0.25) + 0.75 * math.log(0.75)))
    half = 4 / 6 * math.log(2)  # the first expert has 4 of 6 samples, of both clusters alike; the second has one kind
    assert entropy([[2, 2], [2, 0]]) == pytest.approx(half)


def test_entropy_of_the_papers_tables():
    """Table 4's final dispatch separates the clusters; table 6's, of linear experts, hardly does."""
    four = [[0, 0, 0, 0, 0, 3971, 0, 0], [0, 0, 4009, 0, 0, 0, 0, 0], [0] * 7 + [4041], [0, 3979] + [0] * 6]
    assert entropy(four) == 0
    six = [
        [0, 630, 1629, 1298, 27, 87, 4, 296],
        [136, 1107, 1884, 651, 0, 0, 0, 231],
        [0, 594, 1976, 1471, 0, 0, 0, 0],
        [0, 377, 1480, 1891, 0, 0, 0, 231],
    ]
    assert 1.2 < entropy(six) < math.log(4)


tables = arrays.arrays(
    np.float64,
    st.tuples(st.integers(1, 6), st.integers(1, 7)),
    elements=st.integers(0, 9).map(float),
).filter(lambda table: table.sum() > 0)


@given(tables)
@settings(max_examples=200, deadline=None)
def test_entropy_is_the_printed_formula_within_its_bounds(table):
    clusters, experts = table.shape
    wanted = 0.0
    for m in range(experts):
        received = table[:, m].sum()
        for k in range(clusters):
            if table[k, m]:
                wanted -= received / table.sum() * table[k, m] / received * math.log(table[k, m] / received)
    found = float(dispatch_entropy(torch.as_tensor(table)))
    assert found == pytest.approx(wanted, abs=1e-12)
    assert -1e-12 <= found <= math.log(clusters) + 1e-12
    permuted = torch.as_tensor(table)[torch.randperm(clusters)][:, torch.randperm(experts)]
    assert float(dispatch_entropy(permuted)) == pytest.approx(found, abs=1e-12)  # names do not matter


def test_entropy_of_many_trials_at_once():
    many = torch.randint(5, (3, 2, 4, 6)).double() + 1
    assert dispatch_entropy(many).shape == (3, 2)
    assert float(dispatch_entropy(many)[2, 1]) == pytest.approx(float(dispatch_entropy(many[2, 1])))


def test_counts_by_brute_force():
    draw = torch.Generator().manual_seed(0)
    outputs = torch.randn(2, 3, 30, generator=draw)
    places = torch.randint(3, (2, 30), generator=draw)
    labels = 2.0 * torch.randint(2, (2, 30), generator=draw) - 1
    clusters = torch.randint(4, (2, 30), generator=draw)
    winner = outputs.gather(1, places[:, None])[:, 0]
    found = counted(outputs, one_hot(places, 3).mT.float(), winner, labels, clusters, 4)
    for t in range(2):
        for k in range(4):
            mine = clusters[t] == k
            right = labels[t] * winner[t] > 0
            assert float(found["cluster_accuracy"][t, k]) == pytest.approx(float(right[mine].float().mean()))
            for m in range(3):
                assert found["dispatch"][t, k, m] == int((mine & (places[t] == m)).sum())
                alone = (labels[t] * outputs[t, m] > 0)[mine].float().mean()
                assert float(found["expert_accuracy"][t, m, k]) == pytest.approx(float(alone))
        assert float(found["test_accuracy"][t]) == pytest.approx(float((labels[t] * winner[t] > 0).float().mean()))


def test_a_cluster_without_samples_has_no_accuracy():
    ones, chosen = torch.ones(1, 4), torch.tensor([[[1.0] * 4, [0.0] * 4]])
    found = counted(torch.ones(1, 2, 4), chosen, ones, ones, torch.tensor([[0, 0, 2, 2]]), 3)
    assert found["cluster_accuracy"].isnan().tolist() == [[False, True, False]]
    assert found["expert_accuracy"].isnan().tolist() == [[[False, True, False]] * 2]
    assert found["dispatch"][0].sum(1).tolist() == [2, 0, 2] and found["test_accuracy"].tolist() == [1]


def test_largest_products_by_brute_force():
    draw = torch.Generator().manual_seed(1)
    filters, signals = (torch.randn(2, *shape, 6, generator=draw) for shape in ((3, 4), (10,)))
    feature, center = largest_products(filters, signals)
    for t in range(2):
        for m in range(3):
            for k in range(5):
                for found, s in ((feature, k), (center, 5 + k)):
                    wanted = max(abs(float(w @ signals[t, s])) for w in filters[t, m])
                    assert float(found[t, m, k]) == pytest.approx(wanted, rel=1e-5)


# --- of a whole model -------------------------------------------------------------------------------------------------

TASK = ClusterTask(clusters=3, dimension=12, patches=5)
SETTINGS = {"samples": 60, "test_samples": 90, "trials": 2, "seed": 7, "precision": "float64", "device": "cpu"}


@pytest.mark.parametrize("objective", ["paper", "authors"])
@pytest.mark.parametrize("activation", ["cubic", "linear", "tanh"])
def test_a_learners_measures_by_brute_force(activation, objective):
    """Router, filters and test samples against the oracle, one sample at a time."""
    make = SwitchMoE if objective == "paper" else SwitchMoE.authors
    model = make(experts=4, filters=4, activation=activation, initial_scale=0.1, learning_rate=0.05)
    run = ClusterRun(model=model, task=TASK, **SETTINGS)
    learner = learners.MixtureLearner(run, range(2))
    learner.advance(15)
    found = learner.measure(whole=False)
    rules = oracle.Rules(activation, objective, 1, 1)
    test = TASK.sample(90, trials=range(2), seed=7, split="test", dtype=torch.float64)
    for t in range(2):
        filters, router = learner.state.experts[t], learner.state.routers[t, :, :12]
        mixture = oracle.Mixture(filters[..., :12], filters[..., 12] if model.biases else None, router)
        h = oracle.scores(test.patches()[t], router)
        noise = 0 if objective == "paper" else evaluation_noise(run, model, range(2), "test", learner.like)[t].T
        sent = oracle.winners(h + noise)
        every = oracle.outputs(test.patches()[t], mixture, rules)
        gates = h.softmax(1) if objective == "paper" else h + noise
        table, right = torch.zeros(3, 4), torch.zeros(3)
        for i, (m, k, y) in enumerate(zip(sent, test.clusters[t].tolist(), test.labels[t].tolist(), strict=True)):
            table[k, m] += 1
            right[k] += bool(y * gates[i, m] * every[i, m] > 0)
        assert torch.equal(found["dispatch"][t].float(), table)
        assert float(found["test_accuracy"][t]) == pytest.approx(float(right.sum() / 90))
        assert found["cluster_accuracy"][t].tolist() == pytest.approx((right / table.sum(1)).tolist())
        assert float(found["dispatch_entropy"][t]) == pytest.approx(entropy(table.tolist()))
        assert found["expert_load"][t].tolist() == pytest.approx((table.sum(0) / 90).tolist())
        for k in range(3):
            v, c = test.signals[t, k], test.signals[t, 3 + k]
            for m in range(4):
                mine = test.clusters[t] == k
                alone = (test.labels[t] * every[:, m] > 0)[mine].double().mean()
                assert float(found["expert_accuracy"][t, m, k]) == pytest.approx(float(alone))
                for name, direction in (("feature", v), ("center", c)):
                    largest = (filters[m, :, :12] @ direction).abs().max()
                    assert float(found[f"expert_{name}"][t, m, k]) == pytest.approx(float(largest))
                    assert float(found[f"router_{name}"][t, m, k]) == pytest.approx(float(router[m] @ direction))


def test_every_measure_is_recorded_with_its_axes_and_adds_up():
    last = final(train(SwitchMoE(experts=4, filters=4), TASK, **SETTINGS, steps=5))
    assert set(last.values) == set(MEASURES)
    sizes = {"cluster": 3, "expert": 4}
    for name, value in last.values.items():
        assert value.shape == (2, *(sizes[dim] for dim in MEASURES[name].dims)), name
        assert last.measures[name] == MEASURES[name] and MEASURES[name].meaning
    assert last["dispatch"].sum((1, 2)).tolist() == [90, 90]
    test = TASK.sample(90, trials=range(2), seed=7, split="test")
    for t in range(2):
        assert last["dispatch"][t].sum(1).tolist() == torch.bincount(test.clusters[t], minlength=3).tolist()
    np.testing.assert_allclose(last["expert_load"].sum(1), 1)
    np.testing.assert_allclose(last["dispatch"].sum(1) / 90, last["expert_load"])
    by_cluster = (last["cluster_accuracy"] * last["dispatch"].sum(2)).sum(1) / 90
    np.testing.assert_allclose(by_cluster, last["test_accuracy"])


def test_the_single_expert_is_measured_where_that_means_something():
    last = final(train(SingleExpert(filters=4), TASK, **SETTINGS, steps=5))
    absent = {"dispatch_entropy", "dispatch", "expert_load", "router_feature", "router_center"}
    assert set(last.values) == set(MEASURES) - absent
    np.testing.assert_allclose(last["expert_accuracy"][:, 0], last["cluster_accuracy"])
