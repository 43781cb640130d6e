"""The bounds against the paper's own sentences, l* against a loop, and lemma K.1 against a classifier."""

from __future__ import annotations

from typing import get_args

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.patch_routing import DigitTask, PatternTask
from moe_lab.patch_routing.theory import (
    Kind,
    Quantity,
    Sizes,
    advantage,
    bound,
    closer,
    delta,
    l_star,
    linear_separability,
    model_complexity,
    sample_complexity,
)

KINDS: tuple[Kind, ...] = get_args(Kind)
QUANTITIES: tuple[Quantity, ...] = get_args(Quantity)


# --- delta ------------------------------------------------------------------------------------------------------------


def test_delta_by_hand() -> None:
    assert delta(0.0, 0.0) == 1
    assert delta(0.5, 0.0) == pytest.approx(4 / 3)
    assert delta(0.0, 0.5) == pytest.approx(4 / 3)
    assert delta(0.6, 0.8) == pytest.approx(1 / 0.36)
    assert delta([0.1, -0.7, 0.3], 0.2) == pytest.approx(1 / 0.51)  # appendix M: the largest of all pairs


def test_delta_grows_towards_both_ends_against_the_text() -> None:
    values = [delta(overlap, 0.0) for overlap in (-0.99, -0.5, 0.0, 0.5, 0.99)]
    assert values[0] > values[1] > values[2] < values[3] < values[4]


def test_delta_is_that_of_the_task() -> None:
    task = PatternTask(delta_d=0.3, delta_r=0.7)
    assert delta(task.delta_d, task.delta_r) == pytest.approx(task.delta)


@pytest.mark.parametrize(
    ("arguments", "sentence"),
    [
        ((1.0, 0.0), "delta_d must be greater than -1 and less than 1: got delta_d=1.0"),
        (([0.1, -1.0], 0.0), "got delta_d=-1.0"),
        ((0.0, 1.0), "delta_r must be at least 0 and less than 1: got delta_r=1.0"),
        ((float("nan"), 0.0), "got delta_d=nan"),
    ],
)
def test_delta_refuses_what_no_vectors_have(arguments: tuple, sentence: str) -> None:
    with pytest.raises(ValueError, match=sentence):
        delta(*arguments)


# --- bounds -----------------------------------------------------------------------------------------------------------


def test_theorems_by_hand() -> None:
    sizes = Sizes(patches=4, patches_per_expert=2, experts=3, pattern_sets=2, delta=2.0, error=0.5)
    shared = 2**12 * 2**6 * 2**16
    assert sample_complexity("separate", sizes) == 2**8 * shared
    assert sample_complexity("joint", sizes) == 3**4 * 2**6 * shared
    assert sample_complexity("cnn", sizes) == 4**8 * shared
    assert model_complexity("separate", sizes) == 2**10 * shared
    assert model_complexity("joint", sizes) == 3**3 * 4**2 * 2**6 * shared
    assert model_complexity("cnn", sizes) == 4**10 * shared
    assert bound("iterations", "joint", sizes) == 3**2 * 2**2 * 2**6 * 2**3 * 2**8


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("classes", [2, 5])
def test_samples_are_batch_times_iterations(kind: Kind, classes: int) -> None:
    if kind == "cnn" and classes > 2:
        pytest.skip("appendix M has no CNN")
    sizes = Sizes(patches=10, patches_per_expert=3, experts=5, pattern_sets=4, delta=1.5, error=0.2, classes=classes)
    product = bound("batch", kind, sizes) * bound("iterations", kind, sizes)
    assert bound("samples", kind, sizes) == pytest.approx(product, rel=1e-12)


@given(n=st.integers(2, 64), share=st.floats(0, 1), k=st.integers(1, 16))
@settings(max_examples=50, deadline=None)
def test_ratios_of_the_text(n: int, share: float, k: int) -> None:
    l = max(1, round(share * n))  # noqa: E741 - the paper's l
    sizes = Sizes(patches=n, patches_per_expert=l, experts=k, pattern_sets=9, delta=2.5, error=0.07)
    assert advantage("samples", "separate", sizes) == pytest.approx((n / l) ** 8)
    assert advantage("neurons", "separate", sizes) == pytest.approx((n / l) ** 10)
    assert advantage("samples", "joint", sizes) == pytest.approx(n**8 / (k**4 * l**6))
    # The text prints n^10 / (k^3 l^6), but M_J of theorem 4.5 holds n^2 itself.
    assert advantage("neurons", "joint", sizes) == pytest.approx(n**8 / (k**3 * l**6))
    for quantity in QUANTITIES:
        assert advantage(quantity, "cnn", sizes) == 1


def test_with_samples_fixed_the_error_scales_as_the_text_says() -> None:
    """After theorem 4.5: eps scales as k^(1/4) l^(3/8) at a fixed number of samples."""
    small = Sizes(experts=2, patches_per_expert=2, error=0.01)
    error = 0.01 * (8 / 2) ** (1 / 4) * (6 / 2) ** (3 / 8)
    large = Sizes(experts=8, patches_per_expert=6, error=error)
    assert sample_complexity("joint", small) == pytest.approx(sample_complexity("joint", large))


def test_appendix_m_adds_powers_of_the_classes() -> None:
    two, four = Sizes(classes=2), Sizes(classes=4)
    powers = {
        ("samples", "separate"): 12,
        ("neurons", "separate"): 11,
        ("samples", "joint"): 8,
        ("neurons", "joint"): 8,
    }
    for (quantity, kind), power in powers.items():
        assert bound(quantity, kind, four) == pytest.approx(4.0**power * bound(quantity, kind, two))
    with pytest.raises(ValueError, match=r"no bound for a CNN with more than two classes \(c\): got c=4"):
        sample_complexity("cnn", four)


def test_large_values_do_not_wrap_around() -> None:
    sizes = Sizes(patches=1000, patches_per_expert=1000, experts=100, pattern_sets=1000, error=0.01)
    assert 1e90 < sample_complexity("joint", sizes) < 1e100


# --- l* ---------------------------------------------------------------------------------------------------------------


def test_closer_by_hand() -> None:
    patterns = torch.eye(3, 4, dtype=torch.float64)
    patches = torch.tensor([[0.9, 0.1, 0, 0], [0.5, 0.3, 0, 0], [0.4, 0.1, 0.3, 0], [0, 0, 0.9, 0], [0, 0, 0, 1]])
    assert closer(patches.double(), patterns, 0.25).tolist() == [
        [True, False, False],
        [False, False, False],  # leads by .2 only
        [False, False, False],  # leads o_2 by .3, but o_3 by .1
        [False, False, True],
        [False, False, False],
    ]


@pytest.mark.parametrize("distractors", [0, 1, 4, 9])
@pytest.mark.parametrize("geometry", [{}, {"gap": 0.3, "delta_d": 0.8}, {"classes": 4, "gap": 0.5}, {"delta_d": -0.5}])
def test_l_star_counted_in_samples_is_that_of_the_task(distractors: int, geometry: dict) -> None:
    task = PatternTask(distractors=distractors, noise=0.0, **geometry)
    assert l_star(task, samples=200, seed=3) == task.l_star == distractors + 1


def test_l_star_equals_a_loop_over_the_definition() -> None:
    task = PatternTask(noise=1.0, distractors=3)
    drawn = task.sample(60, trials=[2], seed=1, dtype=torch.float64)
    o_1, o_2 = task.class_patterns().numpy()
    most = 0
    for patches, signal in zip(drawn.patches()[0].numpy(), drawn.signal[0].tolist(), strict=True):
        leads = [float((o_1 - o_2) @ q) for place, q in enumerate(patches) if place != signal]
        most = max(most, sum(lead > 0.5 for lead in leads), sum(-lead > 0.5 for lead in leads))
    assert l_star(task, samples=60, trial=2, seed=1, threshold=0.5) == most + 1


def test_noise_inflates_l_star() -> None:
    counted = [l_star(PatternTask(noise=noise), seed=0) for noise in (0.0, 0.3, 1.0, 1.5)]
    assert counted[:2] == [5, 5] and counted[1] < counted[2] < counted[3]


def test_most_samples_need_fewer_than_the_worst() -> None:
    task = PatternTask(noise=1.0)
    assert l_star(task, share=0.5) < l_star(task)
    with pytest.raises(ValueError, match="share must be greater than 0 and at most 1: got share=0"):
        l_star(task, share=0.0)


def test_l_star_of_digits_lies_between_its_bounds() -> None:
    assert 1 <= l_star(DigitTask(), share=0.9) <= l_star(DigitTask()) <= 16


# --- lemma K.1 --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("seed", [0, 1])
def test_no_hyperplane_separates_many_pattern_sets(seed: int) -> None:
    found = linear_separability(PatternTask(pattern_sets=256, distractors=6, noise=0.0), samples=2000, seed=seed)
    assert 0.5 < found.test_accuracy < 0.68 and found.train_accuracy < 0.8


@pytest.mark.parametrize("seed", [0, 1])
def test_a_hyperplane_separates_few_pattern_sets_against_the_lemma(seed: int) -> None:
    task = PatternTask(pattern_sets=16, distractors=6, noise=0.0)
    assert task.l_star == 7 and task.pattern_sets < task.dimension - 2
    found = linear_separability(task, samples=2000, seed=seed)
    assert found.train_accuracy == found.test_accuracy == 1


def test_the_hyperplane_is_the_one_of_the_argument() -> None:
    """With p < d - 2, some h is equal on all set centres and prefers o_1 to o_2: least squares finds it."""
    task = PatternTask(pattern_sets=16, distractors=6, noise=0.0)
    o_1, o_2 = task.class_patterns().numpy()
    rows = np.vstack([task.set_centres(0, 0), o_1, o_2])
    h = np.linalg.lstsq(rows, np.r_[np.zeros(16), 1.0, -1.0], rcond=None)[0]
    drawn = task.sample(2000, trials=[0], seed=0, split="test", dtype=torch.float64)
    values = drawn.patches()[0].numpy().sum(axis=1) @ h
    np.testing.assert_array_equal(values < 0, drawn.labels[0].numpy() == 1)


def test_without_distractors_a_hyperplane_separates() -> None:
    assert linear_separability(PatternTask(distractors=0, noise=0.0), samples=2000).test_accuracy > 0.99


def test_separability_says_what_it_was_measured_on() -> None:
    found = linear_separability(PatternTask(noise=0.0), samples=400, test_samples=100)
    assert found.samples == 400 and found.features in (32, 16 * 32)
    with pytest.raises(ValueError, match=r"samples \(N\) must be a positive multiple of classes \(2\)"):
        linear_separability(PatternTask(), samples=401)
