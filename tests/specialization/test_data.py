"""Definition 3.1 measured on drawn samples, for every task that a Config accepts."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.specialization import ClusterSamples, ClusterTask
from moe_lab.specialization.data import CENTER, FEATURE, FEATURE_NOISE, RANDOM_NOISE, ROLES

FAST = settings(max_examples=60, deadline=None)
MANY = 20_000
"""Samples enough for shares to be known to a percent."""


def drawn(task: ClusterTask, samples: int = 200, trials: tuple[int, ...] = (0, 1), **more: Any) -> ClusterSamples:
    return task.sample(samples, trials=trials, seed=3, **{"dtype": torch.float64, **more})


def parts(samples: ClusterSamples) -> list[torch.Tensor]:
    """Everything but the signals, which have no axis of samples."""
    names = ("labels", "clusters", "others", "strengths", "noise", "order")
    return [getattr(samples, name) for name in names]


def patch_of(samples: ClusterSamples, role: int) -> torch.Tensor:
    """(trials, N, d) the one patch of a role in every sample, found by its role in the shuffled sample."""
    found = samples.roles == role
    assert (found.sum(-1) == 1).all()
    return samples.patches()[found].view(*found.shape[:2], -1)


def check_definition(task: ClusterTask, samples: ClusterSamples) -> None:
    """Every rule of definition 3.1, read off the shuffled patches."""
    k, s = task.clusters, task.scale
    signals = samples.signals
    eye = torch.eye(2 * k, dtype=torch.float64).expand(len(signals), -1, -1)
    torch.testing.assert_close(signals @ signals.mT, eye, rtol=0, atol=1e-12)  # orthonormal
    patches = samples.patches()
    assert patches.shape == (*samples.labels.shape, task.patches, task.dimension) and samples.kinds == k
    assert ((samples.labels == 1) | (samples.labels == -1)).all()
    assert ((samples.clusters >= 0) & (samples.clusters < k)).all()
    assert ((samples.others >= 0) & (samples.others < k) & (samples.others != samples.clusters)).all()
    trial = torch.arange(len(signals))[:, None]
    wanted = {
        FEATURE: (signals[trial, samples.clusters], task.feature, samples.labels),
        CENTER: (signals[trial, samples.clusters + k], task.center, torch.ones_like(samples.labels)),
        FEATURE_NOISE: (signals[trial, samples.others], task.feature_noise, None),
    }
    for role, (direction, (low, high), sign) in wanted.items():
        patch = patch_of(samples, role)
        along = (patch * direction).sum(-1)
        torch.testing.assert_close(patch, along[..., None] * direction, rtol=0, atol=1e-9 * s)  # nothing else in it
        assert (along.abs() >= s * low * (1 - 1e-9)).all() and (along.abs() <= s * high * (1 + 1e-9)).all(), ROLES[role]
        if sign is not None:
            assert (along.sign() == sign).all(), ROLES[role]
    assert ((samples.roles == RANDOM_NOISE).sum(-1) == task.patches - 3).all()
    if task.noise == 0:
        assert not samples.noise.any()
    assert (samples.order.sort(-1).values == torch.arange(task.patches)).all()  # each patch once


@st.composite
def tasks(draw: st.DrawFn) -> ClusterTask:
    """Valid tasks over all knobs, edges included."""

    def span() -> tuple[float, float]:
        low = draw(st.floats(0.01, 5))
        return low, low + draw(st.one_of(st.just(0.0), st.floats(0, 5)))

    clusters = draw(st.integers(2, 7))
    return ClusterTask(
        clusters=clusters,
        patches=draw(st.integers(3, 9)),
        dimension=draw(st.integers(max(4, 2 * clusters), 24)),
        feature=span(),
        center=span(),
        feature_noise=span(),
        noise=draw(st.sampled_from([0.0, 0.5, 4.0])),
        scale=draw(st.sampled_from([1.0, 10.0, 0.1])),
        one_data_set=draw(st.booleans()),
    )


@given(tasks())
@FAST
def test_every_valid_task_keeps_the_definition(task: ClusterTask) -> None:
    check_definition(task, drawn(task, samples=40))


@pytest.mark.parametrize("number", [1, 2, 3, 4])
def test_the_settings_of_the_paper(number):
    """Section 6.1 and appendix A.2."""
    task = ClusterTask.setting(number)
    assert (task.clusters, task.patches, task.dimension) == (4, 4, 50)
    assert task.feature == (0.5, 2) and task.center == (1, 2)
    assert task.feature_noise == ((0.5, 3) if number in (1, 2) else (0.5, 2))
    assert task.noise == (1 if number in (1, 3) else 2)
    assert task.scale == 1 and not task.one_data_set
    check_definition(task, drawn(task))


def test_the_defaults_are_setting_3():
    assert ClusterTask() == ClusterTask.setting(3)


# --- distributions ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> tuple[ClusterTask, ClusterSamples]:
    task = ClusterTask(patches=5, clusters=4, feature=(0.5, 2.0), center=(1.0, 2.0), feature_noise=(0.5, 3.0))
    return task, drawn(task, samples=MANY, trials=(0,))


def test_pairs_of_clusters_are_uniform(many):
    _, samples = many
    pairs = torch.bincount(4 * samples.clusters[0] + samples.others[0], minlength=16).view(4, 4) / MANY
    assert not pairs.diagonal().any()
    off = pairs[~torch.eye(4, dtype=torch.bool)]
    assert (off - 1 / 12).abs().max() < 0.01


def test_clusters_of_an_unequal_task_have_their_shares_and_all_else_is_as_before():
    """rho = 2: 8, 4, 2 and 1 of 15. With rho = 1 samples are those of a task without it."""
    task = ClusterTask(imbalance=2.0)
    np.testing.assert_allclose(task.shares, np.array([8, 4, 2, 1]) / 15)
    unequal, equal = (drawn(one, samples=MANY, trials=(0,)) for one in (task, ClusterTask()))
    found = torch.bincount(unequal.clusters[0], minlength=4) / MANY
    assert (found - torch.as_tensor(task.shares)).abs().max() < 0.015
    same = unequal.clusters == equal.clusters
    assert 0.3 < float(same.double().mean()) < 0.9 and torch.equal(unequal.others[same], equal.others[same])
    for name in ("labels", "strengths", "noise", "order"):
        assert torch.equal(getattr(unequal, name), getattr(equal, name)), name
    assert not (unequal.clusters == unequal.others).any()


def test_labels_and_signs_are_fair_and_independent(many):
    """The label tells nothing of the cluster, of the other cluster, of epsilon, or of any strength."""
    _, samples = many
    y, epsilon = samples.labels[0].double(), samples.strengths[0, :, 2].sign()
    assert abs(float(y.mean())) < 0.03 and abs(float(epsilon.mean())) < 0.03
    for part in (epsilon, *samples.strengths[0].abs().T):
        assert abs(np.corrcoef(y, part)[0, 1]) < 0.03
    for part in (samples.clusters[0], samples.others[0]):
        for k in range(4):
            assert abs(float(y[part == k].mean())) < 0.06
            assert abs(float(epsilon[part == k].mean())) < 0.06


def test_strengths_are_uniform_and_independent(many):
    task, samples = many
    strengths = samples.strengths[0].abs().numpy()
    for values, (low, high) in zip(strengths.T, (task.feature, task.center, task.feature_noise), strict=True):
        shares, _ = np.histogram(values, bins=10, range=(low, high))
        assert shares.sum() == MANY and np.abs(shares / MANY - 0.1).max() < 0.01
    assert np.abs(np.corrcoef(strengths.T) - np.eye(3)).max() < 0.03


def test_random_noise_has_variance_sigma_p_squared_over_d(many):
    task, _ = many
    for noise, scale in ((task.noise, 1.0), (3.0, 1.0), (2.0, 10.0)):
        at = drawn(task.replace(noise=noise, scale=scale), samples=4000, trials=(0,))
        found = at.noise[0].flatten(0, 1)
        covariance = found.T @ found / len(found) / (scale * noise) ** 2
        assert (covariance.diagonal() - 1 / 50).abs().max() < 0.003  # 8000 rows: one diagonal entry is known to .0003
        assert (covariance - covariance.diagonal().diag()).abs().max() < 0.002
        assert abs(float((found / scale / noise).square().sum(1).mean()) - 1) < 0.02  # length sigma_p
        kurtosis = float((found**4).mean() / (found**2).mean() ** 2)
        assert abs(kurtosis - 3) < 0.1


def test_every_order_of_the_patches_is_as_likely(many):
    _, samples = many
    place = samples.order[0].argsort(-1)  # of each patch
    for role in range(5):
        assert (torch.bincount(place[:, role], minlength=5) / MANY - 1 / 5).abs().max() < 0.012
    ahead = (place[:, FEATURE] < place[:, CENTER]).double().mean()
    assert abs(float(ahead) - 0.5) < 0.015


def test_the_order_tells_nothing_of_the_label(many):
    _, samples = many
    for role in (FEATURE, CENTER, FEATURE_NOISE):
        place = samples.order[0].argsort(-1)[:, role].double()
        assert abs(np.corrcoef(place, samples.labels[0])[0, 1]) < 0.03


def test_signals_have_no_direction_of_their_own():
    """Random in all of space: over trials, no coordinate is preferred, and no sign."""
    signals = ClusterTask(clusters=2, dimension=6).signals(range(3000), seed=0)
    assert signals.mean(0).abs().max() < 0.04
    assert (signals.square().mean(0) - 1 / 6).abs().max() < 0.02


# --- parts and patches ------------------------------------------------------------------------------------------------


@given(tasks())
@FAST
def test_patches_are_the_parts_in_their_order(task: ClusterTask) -> None:
    samples = drawn(task, samples=12)
    patches = samples.patches()
    for trial in range(2):
        for i in range(12):
            named = dict(zip((FEATURE, CENTER, FEATURE_NOISE), samples.signal_patches()[trial, i], strict=True))
            named |= dict(enumerate(samples.noise[trial, i], start=RANDOM_NOISE))
            for place, which in enumerate(samples.order[trial, i].tolist()):
                assert torch.equal(patches[trial, i, place], named[which])
                assert samples.roles[trial, i, place] == min(which, RANDOM_NOISE)


def test_directions_and_strengths_make_the_signal_patches():
    samples = drawn(ClusterTask())
    for i in range(20):
        for role in (FEATURE, CENTER, FEATURE_NOISE):
            signal = samples.signals[1, samples.directions[1, i, role]]
            assert torch.equal(samples.signal_patches()[1, i, role], samples.strengths[1, i, role] * signal)


# --- who draws what ---------------------------------------------------------------------------------------------------


def test_training_and_test_samples_share_the_signals_and_nothing_else():
    train, test = drawn(ClusterTask()), drawn(ClusterTask(), split="test")
    assert torch.equal(train.signals, test.signals)
    assert torch.equal(train.signals, ClusterTask().signals((0, 1), 3))
    for a, b in zip(parts(train), parts(test), strict=True):
        assert not torch.equal(a, b)
    assert not torch.isin(train.strengths, test.strengths).any() and not torch.isin(train.noise, test.noise).any()


def test_one_data_set_for_all_trials():
    """The authors' ten runs see the same samples; only what they start from differs."""
    task = ClusterTask(one_data_set=True)
    samples = drawn(task, trials=(5, 2))
    first = drawn(ClusterTask(), trials=(0,))
    for a, b in zip([samples.signals, *parts(samples)], [first.signals, *parts(first)], strict=True):
        assert torch.equal(a, b.expand_as(a))


@pytest.mark.parametrize("scale", [10.0, 0.3])
def test_scale_multiplies_every_patch(scale):
    plain, scaled = drawn(ClusterTask(patches=5)), drawn(ClusterTask(patches=5, scale=scale))
    torch.testing.assert_close(scaled.patches(), scale * plain.patches(), rtol=1e-12, atol=0)
    assert torch.equal(plain.order, scaled.order)


def test_a_slider_changes_what_it_names_and_nothing_else():
    """Moving sigma_p or gamma compares like with like."""
    base, loud, wide = (drawn(ClusterTask(**change)) for change in ({}, {"noise": 2.0}, {"feature_noise": (0.5, 3.0)}))
    torch.testing.assert_close(loud.noise, 2 * base.noise)
    assert torch.equal(loud.strengths, base.strengths) and torch.equal(loud.order, base.order)
    assert torch.equal(wide.strengths[..., :2], base.strengths[..., :2]) and torch.equal(wide.noise, base.noise)
    assert (wide.strengths[..., 2].abs() >= base.strengths[..., 2].abs()).all()
