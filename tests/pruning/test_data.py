"""Section 4.2's samples: one task-specific token, irrelevant ones drawn alike in both classes, orthonormal patterns."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.pruning import TokenSamples, TokenTask
from moe_lab.pruning.data import SampleStream

MANY = 20_000
"""Samples enough for shares to be known to a percent."""
UNLIKELY = 1e-4
"""p-values below it say that a distribution is another one. Seeds are fixed, so that no test changes its mind."""


def drawn(task: TokenTask, samples: int = 200, trials: tuple[int, ...] = (0, 1), **more: Any) -> TokenSamples:
    return task.sample(samples, trials=trials, seed=3, **{"dtype": torch.float64, **more})


def check_definition(task: TokenTask, samples: TokenSamples) -> None:
    """Every rule of section 4.2, read off the tokens."""
    first, second = task.specific
    assert ((samples.labels == 1) | (samples.labels == -1)).all()
    assert samples.tokens.shape == (*samples.labels.shape, task.tokens)
    assert samples.tokens.min() >= 0 and samples.tokens.max() < task.patterns == samples.patterns
    assert torch.equal((samples.tokens == first).sum(2), (samples.labels == 1).long())
    assert torch.equal((samples.tokens == second).sum(2), (samples.labels == -1).long())
    counts = samples.counts()
    assert counts.shape == (samples.tokens.shape[0], task.patterns, len(samples)) and counts.dtype == torch.float64
    for pattern in range(task.patterns):
        assert torch.equal(counts[:, pattern], (samples.tokens == pattern).sum(2).double())


@st.composite
def tasks(draw: st.DrawFn) -> TokenTask:
    """Valid tasks over all knobs, edges included."""
    patterns = draw(st.integers(3, 40))
    return TokenTask(
        patterns=patterns,
        tokens=draw(st.integers(2, 30)),
        zipf=draw(st.sampled_from([0.0, 0.5, 1.0, 4.0])),
        pair=draw(st.integers(0, (patterns - 2) // 2)),
    )


@given(tasks(), st.integers(1, 50))
@settings(max_examples=60, deadline=None)
def test_every_valid_task_keeps_the_definition(task: TokenTask, samples: int) -> None:
    check_definition(task, drawn(task, samples))
    assert task.frequencies.shape == task.irrelevant.shape == (task.patterns - 2,)
    assert task.frequencies.sum() == pytest.approx(1) and (np.diff(task.frequencies) <= 0).all()
    assert sorted([*task.irrelevant, *task.specific]) == list(range(task.patterns))


def test_the_pair_numbers_the_patterns():
    assert [TokenTask(patterns=8, pair=pair).specific for pair in range(4)] == [(0, 1), (2, 3), (4, 5), (6, 7)]
    assert TokenTask(patterns=8, pair=1).irrelevant.tolist() == [0, 1, 4, 5, 6, 7]


# --- distributions ----------------------------------------------------------------------------------------------------


@pytest.fixture(scope="module")
def many() -> tuple[TokenTask, TokenSamples]:
    task = TokenTask(patterns=12, tokens=8)
    return task, drawn(task, MANY, trials=(0,))


def test_the_classes_are_balanced(many):
    _, samples = many
    positive = int((samples.labels == 1).sum())
    assert scipy.stats.binomtest(positive, MANY).pvalue > UNLIKELY


def test_the_task_token_may_be_anywhere_whatever_the_class(many):
    task, samples = many
    places = samples.tokens[0] < 2
    for sign in (1, -1):
        counts = places[samples.labels[0] == sign].sum(0).numpy()
        assert len(counts) == task.tokens and scipy.stats.chisquare(counts).pvalue > UNLIKELY


@pytest.mark.parametrize("zipf", [0.0, 0.7, 2.0])
def test_irrelevant_patterns_have_their_frequencies_in_each_class_and_at_each_place(zipf):
    task = TokenTask(patterns=12, tokens=8, zipf=zipf, pair=2)
    samples = drawn(task, MANY, trials=(0,))
    parts = {f"class {sign}": samples.tokens[0, samples.labels[0] == sign] for sign in (1, -1)}
    parts |= {f"place {place}": samples.tokens[0, :, [place]] for place in (0, 3, 7)}
    for name, tokens in parts.items():
        counts = np.bincount(tokens.flatten().numpy(), minlength=12)[task.irrelevant]
        wanted = np.arange(1, 11) ** -zipf
        wanted = wanted / wanted.sum() * counts.sum()
        assert scipy.stats.chisquare(counts, wanted).pvalue > UNLIKELY, name


def test_tokens_of_a_sample_are_independent(many):
    """Neighbours, first and last: a table of pairs is the product of its margins."""
    _, samples = many
    tokens = samples.tokens[0].numpy()
    for one, other in ((0, 1), (3, 4), (0, 7)):
        both = (tokens[:, one] > 1) & (tokens[:, other] > 1)
        table = np.histogram2d(tokens[both, one], tokens[both, other], bins=10)[0]
        assert scipy.stats.chi2_contingency(table).pvalue > UNLIKELY


# --- patterns as vectors ----------------------------------------------------------------------------------------------


def test_patterns_are_random_orthonormal_vectors():
    task = TokenTask(patterns=30)
    vectors = task.vectors((4, 0), seed=3)
    assert vectors.shape == (2, 30, 30) and vectors.dtype == torch.float64
    eye = torch.eye(30, dtype=torch.float64).expand(2, -1, -1)
    torch.testing.assert_close(vectors @ vectors.mT, eye, rtol=0, atol=1e-12)
    assert torch.equal(vectors[1:], task.vectors((0,), seed=3))
    assert not torch.equal(vectors[0], vectors[1]) and not torch.equal(vectors[1], task.vectors((0,), seed=4)[0])


def test_no_direction_is_preferred():
    """Rotations of either sign of every direction alike: components of q_1 have mean 0 and square 1/d."""
    vectors = TokenTask(patterns=5).vectors(range(2000), seed=0)
    assert vectors.mean(0).abs().max() < 0.06
    assert (vectors.square().mean(0) - 0.2).abs().max() < 0.03


# --- who draws what ---------------------------------------------------------------------------------------------------

EACH_ZIPF = pytest.mark.parametrize("zipf", [0.0, 1.0])


def same(one: TokenSamples, other: TokenSamples) -> bool:
    return torch.equal(one.tokens, other.tokens) and torch.equal(one.labels, other.labels)


@EACH_ZIPF
@pytest.mark.parametrize("cut", [(1,) * 12, (5, 7), (3, 1, 8), (12,)])
def test_portions_of_a_stream_are_one_long_draw(cut, zipf):
    task = TokenTask(patterns=20, tokens=7, zipf=zipf)
    named: dict[str, Any] = {"trials": [2, 5], "seed": 3, "split": "post"}
    stream, whole = SampleStream(task, **named), task.sample(12, **named)
    for begin, end in pairwise(np.cumsum([0, *cut]).tolist()):
        assert same(stream.sample(end - begin), whole.only(begin, end))


def test_a_trial_named_twice_gets_its_samples_twice():
    """Variants of one trial train side by side on the same samples, portion after portion."""
    task = TokenTask(patterns=20, tokens=7)
    stream, plain = (SampleStream(task, trials=trials, seed=3) for trials in ([4, 1, 4, 4], [4, 1]))
    for samples in (5, 3):
        many, few = stream.sample(samples), plain.sample(samples)
        assert torch.equal(many.tokens, few.tokens[[0, 1, 0, 0]]) and torch.equal(many.labels, few.labels[[0, 1, 0, 0]])


def test_a_slider_changes_what_it_names_and_nothing_else():
    """Labels and places stay when zipf moves; another pair is the same samples under other names."""
    base, skewed = (drawn(TokenTask(patterns=20, tokens=7, zipf=zipf)) for zipf in (0.0, 1.0))
    assert torch.equal(base.labels, skewed.labels) and torch.equal(base.tokens < 2, skewed.tokens < 2)
    assert not torch.equal(base.tokens, skewed.tokens)
    other = drawn(TokenTask(patterns=20, tokens=7, pair=1))
    names = torch.tensor([2, 3, 0, 1, *range(4, 20)])
    assert torch.equal(names[base.tokens], other.tokens) and torch.equal(base.labels, other.labels)


def test_precision_is_that_of_labels_and_counts():
    single, double = (drawn(TokenTask(), 5, dtype=dtype) for dtype in (torch.float32, torch.float64))
    assert single.labels.dtype == single.counts().dtype == torch.float32
    assert torch.equal(single.counts().double(), double.counts())
