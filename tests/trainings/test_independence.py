"""Trial i of every model is the same alone and among others, in groups, portions and blocks of any size."""

from __future__ import annotations

import itertools
import math
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import patch_routing, pruning, specialization
from moe_lab.core.interrupts import Interrupted, interrupted_when
from moe_lab.core.routing import Scratch
from moe_lab.core.snapshots import Snapshot, final
from moe_lab.pruning import RandomStart, TokenMoE, TokenTask, fine_tune, learner, measures
from moe_lab.pruning.criteria import CRITERIA
from moe_lab.recovery import em, gridlock
from moe_lab.specialization import layer, learners
from tests.trainings.cases import (
    ALL,
    CLUSTER_TASK,
    CLUSTERS,
    DIGITS,
    MIXTURE_MODELS,
    OF_CLUSTERS,
    OF_LOSSES,
    OF_MIXTURES,
    OF_PATCHES,
    OF_TOKENS,
    PATCH_MODELS,
    PATCHES,
    PATTERNS,
    STARTS,
    TOKEN_MODELS,
    TOKEN_TASK,
    TOKENS,
    Case,
    each,
)


def compare(found: Snapshot, rows: slice, wanted: Snapshot, tolerance: float = 1e-9) -> None:
    """The rows of one Snapshot against all of another. Rows with fewer experts are compared on those they have."""
    assert found.steps[rows].tolist() == wanted.steps.tolist() and set(found.values) == set(wanted.values)
    assert found.finished[rows].tolist() == wanted.finished.tolist()
    for name, value in wanted.values.items():
        same = found[name][rows]
        if same.shape != value.shape:
            axis = 1 + found.measures[name].dims.index("expert")
            absent = same.take(range(value.shape[axis], same.shape[axis]), axis=axis)
            assert not np.nan_to_num(absent).any(), name  # NaN, or 0 for the patches that no expert keeps
            same = same.take(range(value.shape[axis]), axis=axis)
        np.testing.assert_allclose(same, value, rtol=tolerance, atol=tolerance, err_msg=name)


@each(ALL)
def test_a_trial_alone_is_the_trial_among_five(case: Case) -> None:
    among, alone = case.snapshots(trials=5), case.snapshots(trials=1, first_trial=3)
    tolerance = 1e-7 if case.train is gridlock.train else 1e-9
    assert len(alone) == len(among) or case.train is patch_routing.train  # which stops once a trial has converged
    for step, snapshot in enumerate(alone):
        compare(among[min(step, len(among) - 1)], slice(3, 4), snapshot, tolerance)
    if case.differs in among[-1].values:
        assert np.ptp(among[-1][case.differs], axis=0).max() > 1e-6, "all trials are the same: the test says nothing"
    else:
        assert np.ptp(among[-1]["train_loss"]) > 0


@each({**OF_CLUSTERS, **OF_TOKENS, **{name: OF_PATCHES[f"{name}, patterns"] for name in PATCH_MODELS}})
def test_float32_stays_close_to_float64(case: Case) -> None:
    """Paths part by rounding; what is measured agrees."""
    how: dict[str, Any] = {"trials": 12 if case.train is patch_routing.train else 6, "record_every": 1000}
    single, double = case.snapshots(**how, precision="float32")[-1], case.snapshots(**how)[-1]
    assert abs(single["test_accuracy"] - double["test_accuracy"]).mean() < 0.02
    assert (single.steps == double.steps).mean() > 0.7
    close = {"expert_feature": (0.05, 0.01), "router_norm": (1e-3, 1e-3), "coverage": (0, 0.05)}
    for name in close.keys() & single.values.keys():
        rtol, atol = close[name]
        np.testing.assert_allclose(single[name], double[name], rtol=rtol, atol=atol, err_msg=name)


@pytest.mark.parametrize(
    "case, name",
    [
        (OF_PATCHES["joint, patterns"], "alignment"),
        (OF_CLUSTERS["paper"], "router_center"),
        (OF_TOKENS["expert-choice, random"], "router_norm"),
        (OF_MIXTURES["spectral, identity"], "cosines"),
        (OF_LOSSES["loss l2"], "rows"),
    ],
    ids=["patches", "clusters", "tokens", "mixtures", "losses"],
)
def test_seeds_and_trials_differ(case: Case, name: str) -> None:
    first, second = (case.snapshots(trials=6, seed=seed)[-1][name] for seed in (4, 5))
    assert len({row.tobytes() for row in np.concatenate([first, second])}) == 12


@each({**OF_PATCHES, **OF_CLUSTERS, **OF_TOKENS, **OF_LOSSES, "mixtures": OF_MIXTURES["spectral, relu"]})
def test_a_run_can_be_left_between_two_snapshots(case: Case) -> None:
    """Every loop asks before each step whether the Snapshot is still wanted."""
    asked = itertools.count()
    run = case.train(case.model, case.task, **{**case.settings, "record_every": 1000}, trials=2)
    next(run)
    with interrupted_when(lambda: next(asked) == 3), pytest.raises(Interrupted):
        next(run)
    assert next(asked) == 4 and not list(run)


# --- groups, portions and blocks --------------------------------------------------------------------------------------

PAIRS = (7, 100, 1000)
"""Pairs of a sample and an expert that go through the rows at once: parts of experts, of trials, and several trials."""


@each(OF_CLUSTERS)
def test_groups_of_trials_and_parts_of_samples_do_not_show(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    few = {"trials": 3, "samples": 120, "test_samples": 58}
    wanted = case.snapshots(**few)
    run = specialization.ClusterRun(model=case.model, task=CLUSTER_TASK, **{**CLUSTERS, **few})
    for trials, pairs in zip((1, 2, 3), PAIRS, strict=True):
        monkeypatch.setattr(learners, "SAMPLES_AT_ONCE", trials * 120)
        monkeypatch.setattr(layer, "NUMBERS_IN_CACHE", pairs * 12)
        monkeypatch.setattr(layer, "SAMPLES_AT_ONCE", pairs)
        assert learners.trials_at_once(run) == trials
        for found, whole in zip(case.snapshots(**few), wanted, strict=True):
            compare(found, slice(0, 3), whole)


@each(OF_TOKENS)
def test_groups_of_trials_and_portions_of_samples_do_not_show(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    wanted = case.snapshots(trials=3, test_samples=40)
    assert isinstance(case.model, TokenMoE)
    wide = case.model.width(TOKEN_TASK.tokens, TOKEN_TASK.patterns) if case.model.routing == "expert-choice" else 4
    for trials, samples in ((1, 3), (2, 1), (3, 30)):
        monkeypatch.setattr(learner, "NUMBERS_AT_ONCE", trials * 8 * wide * 8)
        monkeypatch.setattr(learner, "DRAWN_AT_ONCE", samples * trials * 15)
        monkeypatch.setattr(measures, "BLOCK_SIZE", samples * 8 * wide)
        run = pruning.TokenRun(model=case.model, task=TOKEN_TASK, batch=8)
        assert learner.group_size(run) == trials
        for found, whole in zip(case.snapshots(trials=3, test_samples=40), wanted, strict=True):
            compare(found, slice(0, 3), whole)


@each({name: OF_MIXTURES[f"{name}, identity"] for name in MIXTURE_MODELS})
def test_products_of_pairs_kept_or_not_do_not_show(case: Case, monkeypatch: pytest.MonkeyPatch) -> None:
    """Many trials together have no room for them."""
    wanted = case.snapshots(trials=3)
    monkeypatch.setattr(em, "MOST_PAIRS", 10)
    for found, whole in zip(case.snapshots(trials=3), wanted, strict=True):
        compare(found, slice(0, 3), whole, 1e-7)


def variants(model: Any) -> list[tuple[Any, int]]:
    """Other settings that may share a batch with a model, and their N."""
    changes: list[dict[str, Any]] = [{"learning_rate": 0.7}, {}]
    if model.name != "cnn":
        changes += [{"patches_per_expert": 1}, {"patches_per_expert": 6}, {"patches_per_expert": 4}]
    if model.name == "joint":
        changes += [{"experts": 6}, {"experts": 1, "patches_per_expert": 2}, {"experts": 4, "learning_rate": 9.0}]
    return [(model.replace(**change), (20, 60, 44, 40)[i % 4]) for i, change in enumerate(changes)]


@pytest.mark.parametrize("task", [PATTERNS, DIGITS], ids=["patterns", "digits"])
@pytest.mark.parametrize("model", PATCH_MODELS.values(), ids=PATCH_MODELS.keys())
def test_a_run_alone_is_the_run_in_a_batch_with_other_settings(model: Any, task: Any) -> None:
    """Rows of one batch may differ in l, N, k and the learning rate."""
    how = {**PATCHES, "epochs": 6, "record_every": 1000, "precision": "float64"}
    mine = patch_routing.PatchRun(model=model, task=task, first_trial=2, **how)
    others = [mine.replace(model=other, samples=samples, trials=2, first_trial=0) for other, samples in variants(model)]
    batch, begin = [*others[:2], mine, *others[2:]], 0
    together = final(patch_routing.train_batch(batch))
    for run in batch:
        compare(together, slice(begin, begin + run.trials), final(patch_routing.train_batch([run])))
        begin += run.trials
    assert begin == together.trials


@pytest.mark.parametrize("routing", TOKEN_MODELS)
def test_a_trial_is_pruned_and_fine_tuned_the_same_alone(routing: str, monkeypatch: pytest.MonkeyPatch) -> None:
    """Scores, statistics, which experts are kept and what accuracy is left, in groups of one and of five."""
    how = {"model": TOKEN_MODELS[routing], "task": TOKEN_TASK, "start": STARTS["planted"], "precision": "float64"}
    among = fine_tune(pruning.TokenRun(trials=5, **how, **TOKENS))
    monkeypatch.setattr(learner, "NUMBERS_AT_ONCE", 1)
    alone = fine_tune(pruning.TokenRun(trials=1, first_trial=3, **how, **TOKENS))
    close = {"rtol": 1e-9, "atol": 1e-12}
    for criterion in CRITERIA:
        if criterion == "token-count" and routing == "expert-choice":
            continue  # every expert receives l tokens of each sample
        torch.testing.assert_close(among.scores(criterion)[3:4], alone.scores(criterion), **close)
        for share, steps in ((0.3, 0), (0.6, 4)):
            kept, mine = among.kept(criterion, share), alone.kept(criterion, share)
            assert torch.equal(kept[3:4], mine)
            assert float(among.accuracy(kept, steps)[3]) == float(alone.accuracy(mine, steps)[0])
            whole, single = among.tuned(kept, steps), alone.tuned(mine, steps)
            torch.testing.assert_close(whole.neurons[3:4], single.neurons, **close)
            torch.testing.assert_close(whole.routers[3:4], single.routers, **close)


# --- the same draws for models that are compared ----------------------------------------------------------------------


def first(case: Case, **changes: Any) -> Snapshot:
    return next(case.train(case.model.replace(**changes), case.task, trials=2, precision="float64", **case.settings))


def test_models_of_patches_start_from_the_same_data() -> None:
    joint, separate, cnn = (first(OF_PATCHES[f"{name}, patterns"])["example_patches"] for name in PATCH_MODELS)
    assert np.array_equal(joint, separate) and np.array_equal(joint, cnn)


def test_mixtures_of_clusters_start_from_the_same_data_and_filters() -> None:
    """Expert m and filter j are those of every larger mixture."""
    case = OF_CLUSTERS["paper"]
    cubic, linear, large, more = (
        first(case, **change) for change in ({}, {"activation": "linear"}, {"experts": 7}, {"filters": 9})
    )
    np.testing.assert_array_equal(cubic["expert_feature"], linear["expert_feature"])
    np.testing.assert_array_equal(cubic["dispatch"].sum(2), linear["dispatch"].sum(2))
    np.testing.assert_array_equal(large["expert_feature"][:, :4], cubic["expert_feature"])
    ahead = more["expert_feature"] - cubic["expert_feature"]  # of the first four filters, and five more
    assert (ahead >= -1e-7).all() and (ahead > 0.001).any()


@pytest.mark.parametrize("start", ["planted", "random"])
def test_routings_and_losses_of_tokens_start_from_the_same_weights(start: str) -> None:
    case = OF_TOKENS[f"expert-choice, {start}"]
    wanted = first(case)
    for other in (first(OF_TOKENS[f"token-choice, {start}"]), first(case, loss="hinge")):
        np.testing.assert_array_equal(wanted["router_norm"], other["router_norm"])
        np.testing.assert_array_equal(wanted["own_sum"], other["own_sum"])


def test_many_patterns_do_not_fill_the_memory(monkeypatch: pytest.MonkeyPatch) -> None:
    """Counts are as many numbers as there are patterns, whatever the number of tokens."""
    sizes: dict[str, int] = {}

    class Counted(Scratch):
        def __call__(self, name: str, like: torch.Tensor, *shape: int) -> torch.Tensor:
            sizes[name] = max(sizes.get(name, 0), math.prod(shape))
            return super().__call__(name, like, *shape)

    monkeypatch.setattr(learner, "Scratch", Counted)
    task, model = TokenTask(patterns=20_000, tokens=2), TokenMoE(experts=2, neurons=1, top=1)
    run = pruning.TokenRun(model=model, task=task, start=RandomStart(), trials=1, batch=1, device="cpu")
    weights = learner.start_weights(run, [0], torch.device("cpu"), torch.float32)
    step = learner.TokenLearner(weights, model, task, trials=[0], seed=0, batch=1)
    step.advance(30)
    assert 0 < sum(sizes.values()) < 10**6
