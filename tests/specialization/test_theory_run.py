"""Theorem 4.2, lemma 5.2 and lemma E.1 read off Snapshots: of real runs, and of some spoiled on purpose."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch

from moe_lab import final
from moe_lab.core.snapshots import Snapshot
from moe_lab.patch_routing import JointMoE, PatternTask
from moe_lab.patch_routing import train as train_patches
from moe_lab.specialization import ClusterTask, SingleExpert, SwitchMoE, train
from moe_lab.specialization.mixture import initial_experts
from moe_lab.specialization.theory_run import (
    conditions_4_2,
    groups,
    lemma_5_2,
    lemma_e_1,
    predicted_clusters,
    run_of,
    theorem_4_2,
)


def trained(model: SwitchMoE | SingleExpert, task: ClusterTask | None = None, **settings) -> Snapshot:
    given = {"samples": 2000, "trials": 2, "seed": 0, "steps": 300, "measure": "last", "test_samples": 1000} | settings
    return final(train(model, task or ClusterTask(), **given))


@pytest.fixture(scope="module")
def good() -> Snapshot:
    return trained(SwitchMoE(filters=8), test_samples=500)


def spoiled(snapshot: Snapshot, **values: np.ndarray) -> Snapshot:
    return replace(snapshot, values={**snapshot.values, **values})


def by_name(findings) -> dict[str, str]:
    return {finding.statement.removeprefix("theorem 4.2, "): finding.state for finding in findings}


def test_all_of_theorem_4_2_holds_for_cubic_experts(good: Snapshot) -> None:
    for trial in range(2):
        found = theorem_4_2(good, trial)
        assert all(finding.holds for finding in found), found
        assert 4 <= found[3]["used"] <= 8 and found[3]["good"] == 8


def test_what_linear_experts_miss() -> None:
    found = by_name(theorem_4_2(trained(SwitchMoE(filters=8, activation="linear")), 1))
    assert found["experts"] == found["router"] == "fails"


def test_each_statement_fails_where_it_is_broken(good: Snapshot) -> None:
    broken = {
        "training error": {"train_accuracy": np.array([0.9995, 1.0])},
        "test error": {"test_accuracy": np.array([0.98, 1.0])},
        "router": {"dispatch": np.full((2, 4, 8), 10.0)},
    }
    for name, values in broken.items():
        found = by_name(theorem_4_2(spoiled(good, **values), 0))
        assert found[name] == "fails" and list(found.values()).count("fails") == 1, (name, found)
    forgetful = good["expert_accuracy"].copy()
    forgetful[0, 5] = 0.8
    found = theorem_4_2(spoiled(good, expert_accuracy=forgetful), 0)
    assert by_name(found)["experts"] == "fails"
    assert (
        "7 of 8 experts have an error of at most 0.05 on their cluster; the largest error is 0.2000."
        in found[3].sentence
    )
    all_on_one = np.zeros((2, 8, 4))
    all_on_one[..., 2] = 1
    found = theorem_4_2(spoiled(good, expert_accuracy=all_on_one), 0)
    assert by_name(found)["groups"] == "fails" and "have 0, 0, 8, 0 experts" in found[2].sentence


def test_thresholds_are_the_callers(good: Snapshot) -> None:
    weaker = spoiled(good, test_accuracy=np.array([0.97, 1.0]))
    assert not theorem_4_2(weaker, 0)[1].holds
    assert theorem_4_2(weaker, 0, test_error=0.05)[1].holds
    assert theorem_4_2(spoiled(good, dispatch=np.full((2, 4, 8), 10.0)), 0, routed=0.2)[4].holds


def test_groups_by_hand(good: Snapshot) -> None:
    accuracy = np.zeros((1, 3, 2))
    accuracy[0] = [[0.96, 0.99], [0.6, 0.7], [1.0, 0.97]]
    dispatch = np.zeros((1, 2, 3))
    dispatch[0] = [[30, 5, 0], [10, 0, 0]]
    small = spoiled(good, expert_accuracy=accuracy, dispatch=dispatch)
    # Good on both, and sent more of cluster 0; good on neither, so the better one; unused, so the better one.
    assert groups(small).tolist() == [[0, 1, 0]]
    assert groups(small, expert_error=0.02).tolist() == [[1, 1, 0]]


def test_a_diverged_trial_fails_everything(good: Snapshot) -> None:
    found = theorem_4_2(replace(good, diverged=np.array([False, True])), 1)
    assert [finding.state for finding in found] == ["fails"] * 5
    assert found[0].sentence == "The trial diverged."


def test_refusals(good: Snapshot) -> None:
    with pytest.raises(ValueError, match="trial must be one of the Snapshot's: got trial=2, trials=2"):
        theorem_4_2(good, 2)
    single = trained(SingleExpert(filters=4), ClusterTask(scale=10.0), steps=1, samples=50, test_samples=20)
    with pytest.raises(ValueError, match="the Snapshot must have dispatch"):
        theorem_4_2(single)
    with pytest.raises(ValueError, match="must be of a SwitchMoE on a ClusterTask: got model='SingleExpert'"):
        lemma_5_2(single)
    patches = next(iter(train_patches(JointMoE(), PatternTask(), samples=100, trials=1, seed=0)))
    with pytest.raises(ValueError, match="must be of a SwitchMoE on a ClusterTask"):
        conditions_4_2(patches)


def test_the_run_is_read_back_from_the_record() -> None:
    model, task = SwitchMoE(experts=3, activation="gelu", filters=2), ClusterTask(clusters=3, feature=(1.0, 3.0))
    snapshot = trained(model, task, trials=1, first_trial=5, seed=9, steps=1, samples=30, test_samples=30)
    run = run_of(snapshot)
    assert (run.model, run.task, run.first_trial, run.seed) == (model, task, 5, 9)


def test_conditions(good: Snapshot) -> None:
    assert by_name(conditions_4_2(good)) == {
        "model": "holds",
        "initialization": "assumption not met",
        "experts": "holds",
        "samples": "holds",
    }
    other = SwitchMoE(experts=4, activation="linear", filters=2, initial_scale=0.5)
    found = conditions_4_2(trained(other, samples=40, steps=1, trials=1))
    assert list(by_name(found).values()) == ["assumption not met", "holds", "assumption not met", "assumption not met"]
    assert "sigma_0 = 0.5; required: d^(-1/3) = 0.27 to d^(-.01) = 0.96" in found[1].sentence


# --- lemma 5.2 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("activation", ["cubic", "relu"])
def test_prediction_equals_a_loop_over_the_definition(activation: str) -> None:
    model = SwitchMoE(experts=5, filters=4, activation=activation)
    run = run_of(trained(model, ClusterTask(clusters=3), first_trial=3, seed=4, steps=1, samples=30, test_samples=30))
    found = predicted_clusters(run, [3, 4])
    for row, trial in enumerate((3, 4)):
        signals = run.task.signals([trial], 4)[0].numpy()
        first = initial_experts([trial], 4, model, 50)[0].numpy()
        for m in range(5):
            products = {
                (k, j): (1 if j < 2 or activation == "cubic" else -1) * float(signals[k] @ first[m, j])
                for k in range(3)
                for j in range(4)
            }
            assert found[row, m] == max(products, key=products.__getitem__)[0]


def test_first_weights_say_more_than_guessing(good: Snapshot) -> None:
    found = lemma_5_2(good)
    assert 0.5 < found["best"] <= 1 and found["chance"] == 0.25
    assert found["weights"] == pytest.approx(found["best"], abs=0.15)
    assert lemma_5_2(good, agree=0.5).holds and lemma_5_2(good, agree=1.01).state == "fails"


def test_agreement_is_counted_against_the_prediction(good: Snapshot) -> None:
    predicted = predicted_clusters(run_of(good), [0, 1])
    as_foretold = np.eye(4)[predicted]  # (T, M, K)
    dispatch = 10 * np.swapaxes(as_foretold, 1, 2)
    dispatch[0, :, 0] = [0, 0, 0, 0]  # expert 0 of trial 0 serves nobody and is best elsewhere
    as_foretold[0, 0] = np.roll(as_foretold[0, 0], 1)
    dispatch[1, :, 3] = np.roll(dispatch[1, :, 3], 1)  # expert 3 of trial 1 is best where foretold, and serves another
    found = lemma_5_2(spoiled(good, expert_accuracy=as_foretold, dispatch=dispatch, expert_feature=as_foretold))
    assert found["best"] == found["weights"] == 15 / 16 and found["serves"] == 14 / 15
    assert (
        found.holds and "of 94% of the experts by accuracy, of 93% of the experts in use by dispatch" in found.sentence
    )


def test_linear_experts_are_outside_of_the_lemma() -> None:
    found = lemma_5_2(trained(SwitchMoE(filters=2, activation="linear"), steps=5, samples=100, test_samples=50))
    assert found.state == "assumption not met"


# --- lemma E.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("balancing", [0.0, 0.02])
def test_the_sum_of_the_routers_stays_zero(balancing: float) -> None:
    run = trained(SwitchMoE(filters=4, load_balancing=balancing), steps=60, samples=500, precision="float64")
    found = lemma_e_1(run)
    assert found.holds and found["sum"] < 1e-12 * found["largest"] and found["largest"] > 0.1


def test_the_authors_routers_do_not_sum_to_zero() -> None:
    found = lemma_e_1(trained(SwitchMoE.authors(filters=4), ClusterTask(scale=10.0), steps=30, samples=500))
    assert found.state == "assumption not met" and found["sum"] > 0.1 * found["largest"]
    assert found.sentence.endswith("The authors' objective uses no softmax.")


def test_lemma_e_1_fails_where_a_router_is_moved(good: Snapshot) -> None:
    assert lemma_e_1(good).holds
    moved = good["router_center"].copy()
    moved[0, 0, 0] += 0.1
    assert lemma_e_1(spoiled(good, router_center=moved)).state == "fails"
    assert torch.tensor(lemma_e_1(spoiled(good, router_center=moved))["sum"]) == pytest.approx(0.1, abs=1e-3)
