"""Theorem 4.1 by enumeration and for random functions, and appendix C against simulation and hand computation."""

from __future__ import annotations

from dataclasses import replace

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from scipy.special import ndtr

from moe_lab.specialization import ClusterTask, theory, theory_noise, theory_single
from moe_lab.specialization.theory import (
    GaussianNoise,
    UniformNoise,
    additive_accuracy,
    additive_output,
    appendix_b,
    every_configuration,
    four_configurations,
    lemma_c_1,
    lemma_c_3,
    lemma_c_4,
    routing_probabilities,
    symmetrised,
    theorem_4_1,
    tight_classifier,
    worst_ratio,
)
from tests.specialization import oracle

CONSTANT = ClusterTask(feature=(1.0, 1.0), feature_noise=(1.0, 1.0))
UNLIKE = ClusterTask(feature=(1.9, 2.0), feature_noise=(0.5, 0.6), noise=0.1)


def signals_of(task: ClusterTask, trial: int = 0) -> torch.Tensor:
    return task.signals([trial], 0)[0]


def random_function(seed: int, dimension: int = 50):
    """Some function of a patch, neither odd nor even, from a small random network."""
    generator = torch.Generator().manual_seed(seed)
    first = torch.randn(dimension, 12, generator=generator, dtype=torch.float64)
    shift, last = torch.randn(2, 12, generator=generator, dtype=torch.float64)
    return lambda patches: torch.sin(patches @ first * 2 + shift) @ last


def test_everything_listed_is_there() -> None:
    assert all(hasattr(theory, name) for name in theory.__all__)
    assert theory.__all__ == sorted(theory.__all__)


# --- theorem 4.1 ------------------------------------------------------------------------------------------------------


def test_enumeration_holds_each_configuration_once() -> None:
    samples = every_configuration(signals_of(CONSTANT), (0.5, 2.0, 3.0))
    rows = torch.stack((samples.clusters, samples.others, samples.labels, samples.strengths[..., 2].sign()), -1)[0]
    assert len(samples) == len({tuple(row.tolist()) for row in rows}) == 4 * 3 * 2 * 2
    assert bool((samples.clusters != samples.others).all())
    v, c = signals_of(CONSTANT)[:4], signals_of(CONSTANT)[4:]
    k, other, y, epsilon = (int(value) for value in rows[7])
    torch.testing.assert_close(
        samples.patches()[0, 7], torch.stack((0.5 * y * v[k], 2.0 * c[k], 3.0 * epsilon * v[other]))
    )


@pytest.mark.parametrize("clusters", range(2, 9))
def test_tight_classifier_is_right_on_exactly_seven_eighths(clusters: int) -> None:
    task = CONSTANT.replace(clusters=clusters)
    f, samples = tight_classifier(signals_of(task)), every_configuration(signals_of(task))
    assert additive_accuracy(f, samples) == 7 / 8
    wrong = (samples.labels * additive_output(f, samples) <= 0)[0]
    agree = (samples.strengths[..., 2].sign() == samples.labels)[0]
    assert not wrong[agree].any()
    for one in range(clusters):
        for two in range(one):
            pair = ((samples.clusters == one) & (samples.others == two))[0]
            pair |= ((samples.clusters == two) & (samples.others == one))[0]
            assert wrong[pair & ~agree].sum() == 1 and (pair & ~agree).sum() == 4


@pytest.mark.parametrize("patches", [3, 4, 12])
@pytest.mark.parametrize("clusters", [2, 5, 8])
@pytest.mark.parametrize("ranges", [(1.0, 1.0), (0.5, 2.0)])
def test_tight_classifier_on_drawn_samples(patches: int, clusters: int, ranges: tuple[float, float]) -> None:
    task = CONSTANT.replace(patches=patches, clusters=clusters, feature=ranges, feature_noise=ranges)
    f = tight_classifier(signals_of(task))
    drawn = task.sample(4000, trials=[0], seed=0, dtype=torch.float64)
    assert additive_accuracy(f, drawn) == pytest.approx(7 / 8, abs=5 * np.sqrt(7 / 64 / 4000))
    found = theorem_4_1(f, task)
    assert found.holds and found["test error"] == 1 / 8
    assert additive_accuracy(f, task.sample(500, trials=[0], seed=0)) > 0.8  # float32 samples


def test_tight_classifier_reads_directions_only() -> None:
    signals = signals_of(CONSTANT)
    f = tight_classifier(signals, answer=5.0)
    v, c = signals[:4], signals[4:]
    rows = torch.stack((0.1 * v[0], -7 * v[2], 3 * c[1], -c[1], v[0] + v[1], 0 * v[0]))
    expected = [5 - 1 / 3, -(5 - 1 / 27), 1.5 / 9, 0, 0, 0]
    assert f(rows).tolist() == pytest.approx(expected)
    with pytest.raises(ValueError, match=r"answer \(G\) must be at least 1, .*: got G=0.5"):
        tight_classifier(signals, answer=0.5)


def test_four_configurations_are_those_of_the_proof() -> None:
    task = ClusterTask(patches=4)
    drawn = task.sample(6, trials=[0, 1], seed=3, dtype=torch.float64)
    t, i = 1, 4
    y, k, other = (int(part[t, i]) for part in (drawn.labels, drawn.clusters, drawn.others))
    alpha, beta, gamma = drawn.strengths[t, i].abs()
    v, c = drawn.signals[t, :4], drawn.signals[t, 4:]
    expected = [
        (y, k, (alpha * y * v[k], beta * c[k], -gamma * y * v[other])),
        (-y, k, (-alpha * y * v[k], beta * c[k], gamma * y * v[other])),
        (y, other, (gamma * y * v[other], beta * c[other], -alpha * y * v[k])),
        (-y, other, (-gamma * y * v[other], beta * c[other], alpha * y * v[k])),
    ]
    for part, (label, cluster, rows) in zip(four_configurations(drawn), expected, strict=True):
        assert int(part.labels[t, i]) == label and int(part.clusters[t, i]) == cluster
        torch.testing.assert_close(part.signal_patches()[t, i], torch.stack(rows))
        torch.testing.assert_close(part.noise, drawn.noise)
        assert not torch.equal(part.patches()[t, i], part.patches()[t, i - 1])


@given(seed=st.integers(0, 10**6), clusters=st.integers(2, 8), patches=st.integers(3, 7), alike=st.booleans())
@settings(max_examples=20, deadline=None)
def test_appendix_b_for_any_function_on_any_task(seed: int, clusters: int, patches: int, alike: bool) -> None:
    task = ClusterTask(clusters=clusters, patches=patches, feature_noise=(0.5, 2.0) if alike else (0.1, 9.0))
    f = random_function(seed)
    found = appendix_b(f, task, samples=40, seed=seed)
    assert found.holds and found["least wrong"] >= 1 and found["largest sum"] < 1e-10, found
    bound = theorem_4_1(f, task, samples=40, seed=seed)
    assert bound.state == ("holds" if alike else "assumption not met")
    assert bound["test error"] >= 1 / 8 or not alike


def test_an_output_that_is_not_a_sum_over_patches_breaks_the_identity(monkeypatch) -> None:
    """A classifier that sees which center is there is right on all four; only sums over patches are covered."""

    def reads_centers(f, samples):
        return samples.strengths[..., 0]

    monkeypatch.setattr(theory_single, "additive_output", reads_centers)
    found = appendix_b(lambda patches: patches, CONSTANT)
    assert found.state == "fails" and found["least wrong"] == 0 and found["largest sum"] > 1
    assert "at least 0 is wrong" in found.sentence
    assert theorem_4_1(lambda patches: patches, CONSTANT).state == "fails"


def test_where_the_noise_is_weaker_an_eighth_is_not_needed() -> None:
    v = signals_of(UNLIKE)[:4]
    found = theorem_4_1(lambda patches: ((patches @ v.T) ** 3).sum(-1), UNLIKE)
    assert found.state == "assumption not met" and found["test error"] == 0
    assert "alpha is in (1.9, 2.0), gamma in (0.5, 0.6)" in found.sentence
    assert repr(found).startswith(
        "theorem 4.1: assumption not met. The test error is 0.0000 in 4 versions of 500 samples"
    )


def test_a_constant_answer_counts_as_wrong_where_it_is_zero() -> None:
    assert theorem_4_1(lambda patches: torch.zeros(len(patches)), CONSTANT)["test error"] == 1
    assert theorem_4_1(lambda patches: torch.ones(len(patches)), CONSTANT)["test error"] == 0.5


def test_a_function_of_the_wrong_shape_is_refused() -> None:
    with pytest.raises(ValueError, match=r"f must return one number for each of the patches.*: got shape=\(2000, 50\)"):
        theorem_4_1(lambda patches: patches, CONSTANT)


def test_wrong_counts_ties_within_rounding() -> None:
    found = symmetrised(lambda patches: torch.zeros(len(patches)), CONSTANT.sample(5, trials=[0], seed=0))
    assert bool((found.wrong == 4).all())
    nudged = replace(found, margins=torch.tensor([[[1.0, 1e-12, -1.0, 0.5]]]))
    assert float(nudged.wrong) == 2


# --- lemma 5.1 and appendix C -----------------------------------------------------------------------------------------


def test_probabilities_by_hand() -> None:
    for gap in (0.0, 0.3, 0.99, 1.0, 4.0):
        loser = max(0.0, 1 - gap) ** 2 / 2
        np.testing.assert_allclose(routing_probabilities(np.array([gap, 0.0])), [1 - loser, loser], atol=1e-14)
    # Three experts, one ahead by .5: it wins surely with r > .5, else both others must stay below r + .5.
    ahead = 0.5 + (1 - 0.5**3) / 3
    np.testing.assert_allclose(
        routing_probabilities(np.array([-2.0, -1.5, -2.0])), [(1 - ahead) / 2, ahead, (1 - ahead) / 2], atol=1e-14
    )
    assert routing_probabilities(np.array([7.0])).tolist() == pytest.approx([1.0])
    np.testing.assert_allclose(routing_probabilities(np.zeros(16)), 1 / 16, atol=1e-13)


def test_gaussian_probabilities_of_two_experts() -> None:
    """h_1 + r_1 > h_2 + r_2 with r_1 - r_2 ~ N(0, 2 sigma^2)."""
    gap, sigma = 0.7, 0.4
    p = ndtr(gap / (sigma * 2**0.5))
    np.testing.assert_allclose(
        routing_probabilities(np.array([gap, 0.0]), GaussianNoise(sigma)), [p, 1 - p], atol=1e-10
    )


@given(
    h=st.lists(st.floats(-2, 2), min_size=1, max_size=9),
    noise=st.sampled_from([UniformNoise(), UniformNoise(-1, 2), GaussianNoise(0.5)]),
)
@settings(max_examples=40, deadline=None)
def test_probabilities_agree_with_counting(h: list[float], noise) -> None:
    exact = routing_probabilities(np.array(h), noise)
    assert exact.sum() == pytest.approx(1, abs=1e-9) and bool((exact >= -1e-12).all())
    np.testing.assert_allclose(exact, oracle.simulated_probabilities(np.array(h), noise, samples=20_000), atol=0.02)


def test_a_wider_range_is_a_narrower_score() -> None:
    h = np.array([0.3, -0.2, 0.0])
    np.testing.assert_allclose(
        routing_probabilities(h, UniformNoise(-5, 5)), routing_probabilities(h / 10, UniformNoise()), atol=1e-13
    )


@given(
    h=st.lists(st.floats(-1, 1), min_size=2, max_size=7),
    moved=st.floats(1e-4, 2),
    seed=st.integers(0, 99),
    noise=st.sampled_from([UniformNoise(), UniformNoise(0, 0.2), UniformNoise(0, 3), GaussianNoise(0.3)]),
)
@settings(max_examples=60, deadline=None)
def test_lemma_c_1_and_the_sharper_bound(h: list[float], moved: float, seed: int, noise) -> None:
    other = np.array(h) + moved * np.random.default_rng(seed).choice([-1.0, 1.0], len(h))
    found = lemma_c_1(np.array(h), other, noise)
    assert found.holds and found["ratio"] <= found["sharper bound"] + 1e-6 <= found["bound"] + 1e-6
    assert found["bound"] == pytest.approx(noise.density_bound * len(h) ** 2)
    assert lemma_c_3(np.array(h), noise).holds


def test_the_ratio_tends_to_two_for_every_number_of_experts() -> None:
    for experts in (2, 3, 8, 16):
        change = -np.ones(experts)
        change[0] = 1
        ratios = [lemma_c_1(np.zeros(experts), delta * change)["ratio"] for delta in (0.1, 0.01, 0.001)]
        assert ratios[0] <= ratios[1] + 1e-9 <= ratios[2] + 2e-9 <= 2 + 3e-9 and ratios[2] > 1.99


@pytest.mark.parametrize("experts", [2, 4, 8])
def test_search_for_the_worst_ratio(experts: int) -> None:
    found = worst_ratio(experts)
    assert 1.99 < found.ratio <= 2 + 1e-6 < experts**2
    again = lemma_c_1(found.scores, found.other)
    assert again["ratio"] == found.ratio
    leading = np.sort(found.scores)[-2:]
    assert leading[1] - leading[0] < 0.1


def test_a_smaller_density_means_smoother_routing() -> None:
    """Remark C.2."""
    assert UniformNoise(-1, 3).density_bound == 0.25
    assert GaussianNoise(2.0).density_bound == pytest.approx(1 / (2 * np.sqrt(2 * np.pi)))
    h, other = np.array([0.0, 0.1]), np.array([0.05, 0.05])
    for family in ((UniformNoise(0, 1), UniformNoise(0, 4)), (GaussianNoise(0.3), GaussianNoise(1.0))):
        sharp, smooth = (lemma_c_1(h, other, noise)["ratio"] for noise in family)
        assert smooth < sharp


def test_lemma_c_1_fails_where_routing_jumps() -> None:
    """Noise that is almost absent but claims a range of 1 breaks the bound."""

    class Pretender(UniformNoise):
        density_bound = 1.0  # type: ignore[assignment]

    found = lemma_c_1(np.array([0.0, 0.01]), np.array([0.01, 0.0]), Pretender(0.0, 1.0))
    assert found.holds
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(theory_noise, "routing_probabilities", lambda h, noise: (h == h.max()).astype(float))
        jump = lemma_c_1(np.array([0.0, 0.01]), np.array([0.01, 0.0]))
        assert jump.state == "fails" and "is 100 times |h - h^| = 0.01; the lemma allows 4 times" in jump.sentence
        assert lemma_c_3(np.array([0.0, 0.01])).state == "fails"
        patch.setattr(theory_noise, "routing_probabilities", lambda h, noise: (h == h.min()).astype(float))
        assert lemma_c_4(np.array([0.0, 1.5])).state == "fails"


def test_lemma_c_3_of_equal_scores() -> None:
    found = lemma_c_3(np.array([0.2, 0.2, 0.5]))
    assert found.holds and found["difference of equals"] < 1e-14 and 0 < found["ratio"] < 2


def test_lemma_c_4() -> None:
    found = lemma_c_4(np.array([0.0, 1.0, -3.0, 0.4]))
    assert found.holds and found["beaten"] == 2 and found["largest probability"] == 0
    assert lemma_c_4(np.array([0.0, 0.99])).sentence == "No score is 1 below the largest."
    assert lemma_c_4(np.array([0.0, 2.0]), UniformNoise(0, 3)).state == "assumption not met"
    assert lemma_c_4(np.array([0.0, 99.0]), GaussianNoise()).sentence == "Gaussian noise has no range."


@pytest.mark.parametrize(
    ("call", "sentence"),
    [
        (lambda: routing_probabilities(np.array([0.0, np.nan])), r"scores \(h\) must hold finite numbers: got 1 NaN"),
        (lambda: lemma_c_1(np.zeros(2), np.zeros(3)), "must have the same length and differ"),
        (lambda: lemma_c_1(np.zeros(2), np.zeros(2)), "must have the same length and differ"),
        (lambda: UniformNoise(1.0, 1.0), "high must be greater than low: got low=1.0, high=1.0"),
        (lambda: GaussianNoise(0.0), "sigma must be greater than 0: got sigma=0.0"),
        (lambda: worst_ratio(1), r"experts \(M\) must be at least 2: got M=1"),
        (lambda: worst_ratio(2, tries=0), "tries must be at least 1: got tries=0"),
    ],
)
def test_refusals(call, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        call()
