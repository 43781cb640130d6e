"""A trial is what it is alone: neither its company nor the portions, groups and blocks of a device show in it."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.pruning import (
    BranchStart,
    PlantedStart,
    RandomStart,
    Run,
    TokenMoE,
    TokenTask,
    fine_tune,
    learner,
    measures,
    train,
)
from moe_lab.pruning.criteria import CRITERIA
from moe_lab.training import Snapshot, final

TASK = TokenTask(patterns=30, tokens=12, zipf=0.5)
MODELS = {
    "expert-choice": TokenMoE(experts=8, neurons=4, top=3, learning_rate=0.3, router_learning_rate=0.2),
    "token-choice": TokenMoE(
        experts=8, neurons=4, top=2, routing="token-choice", learning_rate=0.3, router_learning_rate=0.2
    ),
}
STARTS = {
    "planted": PlantedStart(others_norm=5.0),
    "random": RandomStart(router_scale=0.1, neuron_scale=0.1),
    "branches": BranchStart(tasks=2, steps=5, batch=6),
}
SETTINGS: dict[str, Any] = {
    "steps": 12,
    "batch": 8,
    "seed": 4,
    "test_samples": 90,
    "record_every": 5,
    "device": "cpu",
    "precision": "float64",
}
EACH_MODEL = pytest.mark.parametrize("routing", MODELS)
EACH_START = pytest.mark.parametrize("start", STARTS)


def given(routing: str, start: str, **more: Any) -> dict[str, Any]:
    return {"model": MODELS[routing], "task": TASK, "start": STARTS[start], **SETTINGS, **more}


def compare(found: Snapshot, rows: slice, wanted: Snapshot, tolerance: float = 1e-9) -> None:
    assert found.step == wanted.step and set(found.values) == set(wanted.values)
    for name, value in wanted.values.items():
        np.testing.assert_allclose(found[name][rows], value, rtol=tolerance, atol=tolerance, err_msg=name)


@EACH_START
@EACH_MODEL
def test_a_trial_alone_is_the_trial_among_five(routing, start):
    among = list(train(**given(routing, start, trials=5)))
    alone = list(train(**given(routing, start, trials=1, first_trial=3)))
    for a, b in zip(among, alone, strict=True):
        compare(a, slice(3, 4), b)
    assert np.ptp(among[-1]["router_norm"], axis=0).min() > 1e-6, "all trials are the same: the test says nothing"


@EACH_START
@EACH_MODEL
def test_groups_portions_and_blocks_do_not_show(routing, start, monkeypatch):
    """Trials one by one, or a few, or all at once; samples drawn and looked at in small portions or in one."""
    how = given(routing, start, trials=3, test_samples=40)
    wanted = list(train(**how))
    wide = MODELS[routing].width(TASK.tokens, TASK.patterns) if routing == "expert-choice" else 4
    for trials, samples in ((1, 3), (2, 1), (3, 30)):
        monkeypatch.setattr(learner, "_NUMBERS_AT_ONCE", trials * 8 * wide * 8)
        monkeypatch.setattr(learner, "_DRAWN_AT_ONCE", samples * trials * 15)
        monkeypatch.setattr(measures, "_BLOCK_SIZE", samples * 8 * wide)
        assert learner.group_size(MODELS[routing], TASK, 8, torch.device("cpu")) == trials
        for a, b in zip(wanted, train(**how), strict=True):
            compare(a, slice(0, 3), b)


@EACH_MODEL
def test_a_trial_is_pruned_and_fine_tuned_the_same_alone(routing, monkeypatch):
    """Scores, statistics, who is kept and what accuracy is left, in groups of one and of five."""
    among = fine_tune(Run(**given(routing, "planted", trials=5)))
    monkeypatch.setattr(learner, "_NUMBERS_AT_ONCE", 1)
    alone = fine_tune(Run(**given(routing, "planted", trials=1, first_trial=3)))
    for criterion in CRITERIA:
        torch.testing.assert_close(among.scores(criterion)[3:4], alone.scores(criterion), rtol=1e-9, atol=1e-12)
        for share, steps in ((0.3, 0), (0.6, 4)):
            kept, mine = among.kept(criterion, share), alone.kept(criterion, share)
            assert torch.equal(kept[3:4], mine)
            assert float(among.accuracy(kept, steps)[3]) == float(alone.accuracy(mine, steps)[0])
            whole, one = among.tuned(kept, steps), alone.tuned(mine, steps)
            torch.testing.assert_close(whole.neurons[3:4], one.neurons, rtol=1e-9, atol=1e-12)
            torch.testing.assert_close(whole.routers[3:4], one.routers, rtol=1e-9, atol=1e-12)


@pytest.mark.parametrize("start", ["planted", "random"])
def test_routings_and_losses_of_a_trial_start_from_the_same_weights(start):
    """They are compared on the same draws."""
    firsts = [next(train(**given(routing, start, trials=2))) for routing in MODELS]
    hinge = given("expert-choice", start, trials=2)
    firsts.append(next(train(**{**hinge, "model": hinge["model"].replace(loss="hinge")})))
    for other in firsts[1:]:
        np.testing.assert_array_equal(firsts[0]["router_norm"], other["router_norm"])
        np.testing.assert_array_equal(firsts[0]["own_sum"], other["own_sum"])


def test_many_patterns_do_not_fill_the_memory():
    """Counts are as many numbers as there are patterns, whatever the number of tokens."""
    task = TokenTask(patterns=20_000, tokens=2)
    model = TokenMoE(experts=2, neurons=1, top=1)
    run = Run(model=model, task=task, start=RandomStart(), trials=1, batch=1, device="cpu")
    weights = learner.start_weights(run, [0], torch.device("cpu"), torch.float32)
    one = learner.Learner(weights, model, task, trials=[0], seed=0, batch=1)
    one.advance(30)
    assert sum(held.numel() for held in one._scratch._held.values()) < 10**6


@EACH_START
@EACH_MODEL
def test_float32_stays_close_to_float64(routing, start):
    single, double = (
        final(train(**given(routing, start, trials=6, precision=p, record_every=1000))) for p in ("float32", "float64")
    )
    assert abs(single["test_accuracy"] - double["test_accuracy"]).mean() < 0.02
    np.testing.assert_allclose(single["router_norm"], double["router_norm"], rtol=1e-3, atol=1e-3)


def test_seeds_and_trials_differ():
    a, b = (final(train(**given("expert-choice", "random", trials=6, seed=seed))) for seed in (4, 5))
    rows = np.concatenate([a["router_norm"], b["router_norm"]])
    assert len({row.tobytes() for row in rows}) == 12
