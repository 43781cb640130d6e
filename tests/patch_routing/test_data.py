"""The geometry of section 4.2 measured on drawn samples, for every setting that a Config accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import assume, given, settings
from hypothesis import strategies as st

from moe_lab.patch_routing import PatternTask
from moe_lab.patch_routing.data import BACKGROUND, DISTRACTOR, SIGNAL, PatchSamples

FAST = settings(max_examples=60, deadline=None)


def drawn(task: PatternTask, samples: int = 240, trials: tuple[int, ...] = (0, 1), **more: Any) -> PatchSamples:
    return task.sample(samples, trials=trials, seed=3, **{"dtype": torch.float64, **more})


def patches_of(samples: PatchSamples, role: int) -> tuple[np.ndarray, np.ndarray]:
    """All patches of a role, (count, d), and the side of each."""
    chosen = (samples.roles == role).numpy()
    return samples.patches().numpy()[chosen], samples.sides.numpy()[chosen]


def check_geometry(task: PatternTask, samples: PatchSamples) -> None:
    """Every rule of the class's docstring, to rounding; the noise must be 0."""
    o, c = task.class_patterns().numpy(), task.classes
    everything = samples.patches().numpy()
    np.testing.assert_allclose(np.linalg.norm(everything, axis=-1), 1, atol=1e-9)
    np.testing.assert_allclose(o @ o.T, np.where(np.eye(c, dtype=bool), 1, task.delta_d), atol=1e-9)

    signals, sides = patches_of(samples, SIGNAL)
    np.testing.assert_allclose(signals, o[sides], atol=1e-9)
    assert ((samples.roles == SIGNAL).sum(-1) == 1).all()
    place = samples.signal[..., None]
    assert (samples.roles.gather(-1, place) == SIGNAL).all()
    assert (samples.sides.gather(-1, place)[..., 0] == samples.labels).all()

    distractors, sides = patches_of(samples, DISTRACTOR)
    assert (np.abs(distractors @ o.T) <= task.delta_r + 1e-9).all()
    products = distractors @ o.T
    own = np.take_along_axis(products, sides[:, None], axis=1)
    others = np.where(np.eye(c, dtype=bool)[sides], -np.inf, products)
    np.testing.assert_allclose(own[:, 0] - others.max(axis=1), task.gap, atol=1e-9)
    np.testing.assert_allclose(own[:, 0] - np.where(np.isinf(others), np.inf, others).min(axis=1), task.gap, atol=1e-9)

    background, sides = patches_of(samples, BACKGROUND)
    assert (sides == -1).all()
    assert (np.abs(background @ o.T) <= task.delta_r + 1e-9).all()
    np.testing.assert_allclose(background @ o.T, (background @ o.T)[:, :1].repeat(c, axis=1), atol=1e-9)

    count = task.distractors if task.gap > 0 else 0
    assert ((samples.roles == DISTRACTOR).sum(-1) == count).all()
    assert measured_l_star(task, everything, samples) == task.l_star


def measured_l_star(task: PatternTask, everything: np.ndarray, samples: PatchSamples) -> int:
    """One more than the most irrelevant patches of one side in a sample, by their geometry alone."""
    o = task.class_patterns().numpy()
    most = 0
    for side in range(task.classes):
        for other in set(range(task.classes)) - {side}:
            leaning = (everything @ (o[side] - o[other]) > max(task.gap, 1e-6) / 2) & (samples.roles != SIGNAL).numpy()
            most = max(most, int(leaning.sum(-1).max()))
    return most + 1


@st.composite
def tasks(draw: st.DrawFn) -> PatternTask:
    """Valid tasks over all knobs, edges included."""
    classes = draw(st.integers(2, 5))
    patches = draw(st.integers(2, 24))
    low = -0.99 if classes == 2 else -1 / (classes - 1) + 0.01
    values = {
        "patches": patches,
        "classes": classes,
        "dimension": draw(st.integers(max(4, classes + 2), 24)),
        "pattern_sets": draw(st.integers(classes + 1, 40)),
        "distractors": draw(st.integers(0, patches - 1)),
        "delta_d": draw(st.floats(low, 0.99)),
        "delta_r": draw(st.floats(0, 0.99)),
        "noise": 0.0,
    }
    room = min(
        values["delta_r"] * classes / (classes - 1),
        0.9 * np.sqrt((1 - values["delta_d"]) * classes / (classes - 1)),
        1.99,
    )
    values["gap"] = draw(st.one_of(st.just(0.0), st.just(room), st.floats(0, room)))
    assume(values["gap"] == 0 or values["gap"] > 1e-3)
    return PatternTask(**values)


@given(tasks())
@FAST
def test_every_valid_task_keeps_the_rules(task: PatternTask) -> None:
    check_geometry(task, drawn(task, samples=4 * task.classes))


@pytest.mark.parametrize("classes", [2, 4])
def test_geometry_of_many_samples(classes: int) -> None:
    for changes in ({}, {"gap": 0.3, "delta_d": 0.8}, {"distractors": 0}, {"delta_d": -0.2}, {"patches": 5}):
        task = PatternTask(noise=0, classes=classes, **changes)
        check_geometry(task, drawn(task))


def test_the_bounds_on_overlap_are_reached() -> None:
    """delta_r is not only kept but used: otherwise the knob would do nothing."""
    task = PatternTask(noise=0, delta_r=0.6)
    background, _ = patches_of(drawn(task), BACKGROUND)
    assert np.abs(background @ task.class_patterns().numpy().T).max() > 0.55


@pytest.mark.parametrize("classes", [2, 3, 4])
def test_labels_balance_in_every_even_prefix(classes: int) -> None:
    labels = drawn(PatternTask(classes=classes), samples=12 * classes).labels
    for prefix in range(classes, 12 * classes + 1, classes):
        for trial in labels[:, :prefix]:
            assert (torch.bincount(trial, minlength=classes) == prefix // classes).all()


@pytest.mark.parametrize("classes", [2, 4])
def test_both_sides_of_distractors_appear_in_every_class(classes: int) -> None:
    """A distractor says nothing about the label: its side is drawn whatever the class."""
    samples = drawn(PatternTask(classes=classes), samples=200 * classes)
    side = samples.sides.masked_fill(samples.roles != DISTRACTOR, -1).amax(-1)
    assert (side >= 0).all()
    for label in range(classes):
        shares = torch.bincount(side[samples.labels == label], minlength=classes) / (samples.labels == label).sum()
        assert (shares - 1 / classes).abs().max() < 0.1


def test_the_signal_is_at_every_place_equally_often() -> None:
    samples = drawn(PatternTask(patches=8), samples=4000, trials=(0,))
    assert (torch.bincount(samples.signal[0], minlength=8) / 4000 - 1 / 8).abs().max() < 0.03


def test_distractors_of_a_sample_are_of_one_side_and_not_all_the_same() -> None:
    samples = drawn(PatternTask(noise=0))
    sides = samples.sides.masked_fill(samples.roles != DISTRACTOR, -1)
    largest = sides.amax(-1, keepdim=True)
    assert ((sides == -1) | (sides == largest)).all()
    one = samples.patches()[0, 0][samples.roles[0, 0] == DISTRACTOR]
    assert torch.pdist(one).min() > 1e-3


def test_pattern_sets_are_small_balls() -> None:
    """With p sets, all irrelevant patches lie within the ball's diameter of one of p centres (section 4.2)."""
    task = PatternTask(pattern_sets=8, noise=0)
    centres = task.set_centres(0, 3)
    irrelevant = np.concatenate([patches_of(drawn(task, trials=(0,)), role)[0] for role in (DISTRACTOR, BACKGROUND)])
    distance = np.linalg.norm(irrelevant[:, None] - centres, axis=-1)
    diameter = np.sqrt((1 - task.delta_r**2) / (task.dimension * task.pattern_sets**2))
    assert distance.min(axis=1).max() <= diameter / 2 + 1e-12
    assert distance.min(axis=1).mean() > 0  # not all at the centre
    assert len(np.unique(distance.argmin(axis=1))) == 8


@pytest.mark.parametrize("noise", [0.1, 1.0])
def test_noise_has_the_size_that_it_says(noise: float) -> None:
    clean, noisy = (drawn(PatternTask(noise=level)).patches() for level in (0.0, noise))
    difference = noisy - clean
    assert abs(float(difference.norm(dim=-1).square().mean().sqrt()) - noise) < 0.02 * noise
    assert abs(float(difference.mean())) < 0.02 * noise
    clean, noisy = (drawn(PatternTask(noise=level), split="test").patches() for level in (0.0, noise))
    assert not torch.isclose(noisy - clean, difference).all(-1).any(), "test samples have noise of their own"


def test_training_and_test_samples_share_patterns_and_nothing_else() -> None:
    task = PatternTask(noise=0, pattern_sets=6)
    train, test = drawn(task, trials=(0,)), drawn(task, trials=(0,), split="test")
    centres = task.set_centres(0, 3)
    for samples in (train, test):
        found = patches_of(samples, BACKGROUND)[0]
        assert np.linalg.norm(found[:, None] - centres, axis=-1).min(axis=1).max() < 0.1
    assert not torch.equal(train.signal, test.signal)
    shared = torch.cdist(*(part.patches().flatten(0, 2)[:500] for part in (train, test))) < 1e-12
    both_signals = (train.roles.flatten()[:500, None] == SIGNAL) & (test.roles.flatten()[None, :500] == SIGNAL)
    assert not (shared & ~both_signals).any()


# --- who draws what -------------------------------------------------------------------------------------------------


def test_changing_the_noise_keeps_everything_else() -> None:
    """Moving the noise slider compares like with like: the same patterns at the same places."""
    quiet, loud = drawn(PatternTask(noise=0.1)), drawn(PatternTask(noise=1))
    for name in ("labels", "signal", "roles", "sides"):
        assert torch.equal(getattr(quiet, name), getattr(loud, name))


# --- numbers that follow ----------------------------------------------------------------------------------------------


def test_l_star_and_delta() -> None:
    assert PatternTask().l_star == 5 and PatternTask(distractors=0).l_star == 1
    assert PatternTask(gap=0).l_star == 1  # patches that do not lean are no distractors
    assert PatternTask(delta_d=0.8, gap=0.3).delta == pytest.approx(1 / (1 - 0.64))
    assert PatternTask(delta_d=0).delta == pytest.approx(1 / (1 - 0.36))
    assert PatternTask(delta_d=-0.9).delta == pytest.approx(1 / (1 - 0.81))
