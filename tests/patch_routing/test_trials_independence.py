"""Trial i is the same alone, among others, and in a batch of rows with other l, N, k and step sizes."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.patch_routing import CNN, DigitTask, JointMoE, PatternTask, Run, SeparateMoE, train, train_batch
from moe_lab.training import Snapshot, final

PATTERNS = PatternTask(patches=8, dimension=12, pattern_sets=24, distractors=2)
DIGITS = DigitTask(patches=6)
SETTINGS: dict[str, Any] = {"epochs": 12, "test_samples": 80, "seed": 4, "device": "cpu", "record_every": 1}
MODELS = [
    JointMoE(neurons=12, experts=3, patches_per_expert=3, batch_size=10),
    SeparateMoE(neurons=12, patches_per_expert=3, batch_size=10),
    CNN(neurons=12, batch_size=10),
]
EACH_MODEL = pytest.mark.parametrize("model", MODELS, ids=lambda model: model.name)
EACH_TASK = pytest.mark.parametrize(
    "task",
    [PATTERNS, PATTERNS.replace(classes=4), DIGITS, DIGITS.replace(noise=0.4)],
    ids=["patterns", "four classes", "digits", "noisy digits"],
)


def compare(found: Snapshot, rows: slice, wanted: Snapshot, *, tolerance: float) -> None:
    """The rows of one Snapshot against all of another. Rows with fewer experts are compared on those they have."""
    assert found.steps[rows].tolist() == wanted.steps.tolist()
    assert found.finished[rows].tolist() == wanted.finished.tolist()
    for name, value in wanted.values.items():
        same = found[name][rows]
        if "expert" in found.measures[name].dims:
            axis = 1 + found.measures[name].dims.index("expert")
            absent = same.take(range(value.shape[axis], same.shape[axis]), axis=axis)
            assert not np.nan_to_num(absent).any(), name  # NaN, or 0 for the patches that no expert keeps
            same = same.take(range(value.shape[axis]), axis=axis)
        np.testing.assert_allclose(same, value, rtol=tolerance, atol=tolerance, err_msg=name)


@EACH_TASK
@EACH_MODEL
def test_a_trial_alone_is_the_trial_among_five(model, task):
    given = {"samples": 40, "precision": "float64", **SETTINGS}
    among = list(train(model, task, trials=5, **given))
    alone = list(train(model, task, trials=1, first_trial=3, **given))
    for step, snapshot in enumerate(alone):
        compare(among[min(step, len(among) - 1)], slice(3, 4), snapshot, tolerance=1e-9)


def variants(model) -> list[tuple[Any, int]]:
    """Other settings that may share a batch with a model, and their N."""
    changes: list[dict[str, Any]] = [{"learning_rate": 0.7}, {}]
    if model.name != "cnn":
        changes += [{"patches_per_expert": 1}, {"patches_per_expert": 6}, {"patches_per_expert": 4}]
    if model.name == "joint":
        changes += [{"experts": 6}, {"experts": 1, "patches_per_expert": 2}, {"experts": 4, "learning_rate": 9.0}]
    return [(model.replace(**change), (20, 60, 44, 40)[i % 4]) for i, change in enumerate(changes)]


@pytest.mark.parametrize("task", [PATTERNS, DIGITS], ids=["patterns", "digits"])
@EACH_MODEL
def test_a_run_alone_is_the_run_in_a_batch_of_others(model, task):
    how = {**SETTINGS, "epochs": 6, "record_every": 1000}
    mine = Run(model=model, task=task, samples=40, first_trial=2, precision="float64", **how)
    others = [mine.replace(model=other, samples=samples, trials=2, first_trial=0) for other, samples in variants(model)]
    batch, begin = [*others[:2], mine, *others[2:]], 0
    together = final(train_batch(batch))
    for run in batch:
        compare(together, slice(begin, begin + run.trials), final(train_batch([run])), tolerance=1e-9)
        begin += run.trials
    assert begin == together.trials


@EACH_MODEL
def test_float32_stays_close_to_float64(model):
    """Paths part by rounding, and rows may end an epoch apart; what is measured agrees."""
    given = {"samples": 40, "trials": 12, **{**SETTINGS, "record_every": 1000}}
    single, double = (final(train(model, PATTERNS, precision=p, **given)) for p in ("float32", "float64"))
    assert abs(single["test_accuracy"] - double["test_accuracy"]).mean() < 0.02
    assert (single.steps == double.steps).mean() > 0.7
    if model.name != "cnn":
        np.testing.assert_allclose(single["coverage"], double["coverage"], atol=0.05)


def test_models_of_a_trial_start_from_the_same_neurons_and_data():
    """Models are compared on the same draws: joint, separate and CNN share data, order and initial neurons."""
    patches = {}
    for model in MODELS:
        first = next(train(model, PATTERNS, samples=40, trials=2, **SETTINGS))
        patches[model.name] = first["example_patches"]
    assert np.array_equal(patches["joint"], patches["separate"]) and np.array_equal(patches["joint"], patches["cnn"])


def test_seeds_and_trials_differ():
    a = final(train(MODELS[0], PATTERNS, samples=40, trials=6, **SETTINGS))
    b = final(train(MODELS[0], PATTERNS, samples=40, trials=6, **{**SETTINGS, "seed": 5}))
    assert len({tuple(row.ravel()) for row in np.concatenate([a["alignment"], b["alignment"]])}) == 12
