"""Trial i is the same alone and among others, in groups and blocks of any size."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.specialization import ClusterTask, Run, SingleExpert, SwitchMoE, learners, train
from moe_lab.training import Snapshot, final

TASK = ClusterTask(clusters=3, dimension=12, patches=5)
MODELS = {
    "paper": SwitchMoE(experts=4, filters=4, learning_rate=0.03),
    "paper, general form": SwitchMoE(experts=4, filters=4, learning_rate=0.03, activation="gelu"),
    "paper, linear": SwitchMoE(experts=4, filters=4, learning_rate=0.03, activation="linear"),
    "paper, balanced": SwitchMoE(experts=4, filters=4, learning_rate=0.03, load_balancing=0.05),
    "authors": SwitchMoE.authors(experts=4, filters=4, learning_rate=0.03),
    "single": SingleExpert(filters=4),
}
EACH_MODEL = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())
HANDS = (1, 32_000, 64_000, 10**7)  # numbers at once: three blocks of samples, one trial a group, two, all
SETTINGS: dict[str, Any] = {
    "samples": 600,
    "test_samples": 290,
    "seed": 4,
    "steps": 10,
    "record_every": 5,
    "device": "cpu",
    "precision": "float64",
}


def compare(found: Snapshot, rows: slice, wanted: Snapshot, tolerance: float = 1e-9) -> None:
    assert found.step == wanted.step and set(found.values) == set(wanted.values)
    for name, value in wanted.values.items():
        np.testing.assert_allclose(found[name][rows], value, rtol=tolerance, atol=tolerance, err_msg=name)


@EACH_MODEL
def test_a_trial_alone_is_the_trial_among_five(model):
    among = list(train(model, TASK, trials=5, **SETTINGS))
    alone = list(train(model, TASK, trials=1, first_trial=3, **SETTINGS))
    for a, b in zip(among, alone, strict=True):
        compare(a, slice(3, 4), b)
    assert np.ptp(among[-1]["expert_feature"], axis=0).min() > 0, "all trials are the same: the test says nothing"


@EACH_MODEL
def test_groups_and_blocks_do_not_show(model, monkeypatch):
    """Trials one by one, or a few, or all at once, in one block of samples or in three."""
    monkeypatch.setattr(learners, "_NUMBERS_AT_ONCE", HANDS[-1])
    wanted = list(train(model, TASK, trials=3, **SETTINGS))
    run = Run(model=model, task=TASK, trials=3, **SETTINGS)
    for hand in HANDS[:-1]:
        monkeypatch.setattr(learners, "_NUMBERS_AT_ONCE", hand)
        for a, b in zip(wanted, train(model, TASK, trials=3, **SETTINGS), strict=True):
            compare(a, slice(0, 3), b)
        trials, size = learners.block_size(run, 600)
        assert trials >= 1 and size <= 600


def test_the_sizes_above_cross_groups_and_blocks(monkeypatch):
    """Otherwise the test above would compare a thing with itself."""
    run = Run(model=MODELS["paper"], task=TASK, trials=5, **SETTINGS)
    seen = set()
    for hand in HANDS:
        monkeypatch.setattr(learners, "_NUMBERS_AT_ONCE", hand)
        trials, size = learners.block_size(run, 600)
        seen.add((min(trials, 5), -(-600 // size)))
    assert seen == {(1, 3), (1, 1), (2, 1), (5, 1)}  # trials in a group, and their blocks


def test_models_of_a_trial_start_from_the_same_data_and_filters():
    """Activations are compared on the same draws; expert m and filter j are those of every larger mixture."""
    firsts = [next(train(MODELS[name], TASK, trials=2, **SETTINGS)) for name in ("paper", "paper, linear")]
    np.testing.assert_array_equal(firsts[0]["expert_feature"], firsts[1]["expert_feature"])
    np.testing.assert_array_equal(firsts[0]["dispatch"].sum(2), firsts[1]["dispatch"].sum(2))
    large = next(train(MODELS["paper"].replace(experts=7), TASK, trials=2, **SETTINGS))
    np.testing.assert_array_equal(large["expert_feature"][:, :4], firsts[0]["expert_feature"])
    more = next(train(MODELS["paper"].replace(filters=9), TASK, trials=2, **SETTINGS))
    assert (more["expert_feature"] >= firsts[0]["expert_feature"]).all()  # the first four filters, and five more


@EACH_MODEL
def test_float32_stays_close_to_float64(model):
    single, double = (
        final(train(model, TASK, trials=6, **{**SETTINGS, "precision": p, "record_every": 1000}))
        for p in ("float32", "float64")
    )
    assert abs(single["test_accuracy"] - double["test_accuracy"]).mean() < 0.02
    np.testing.assert_allclose(single["expert_feature"], double["expert_feature"], rtol=0.05, atol=0.01)


def test_seeds_and_trials_differ():
    a, b = (final(train(MODELS["paper"], TASK, trials=6, **{**SETTINGS, "seed": seed})) for seed in (4, 5))
    rows = np.concatenate([a["router_center"], b["router_center"]])
    assert len({row.tobytes() for row in rows}) == 12
