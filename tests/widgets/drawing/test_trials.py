"""Many trials as bands, and the trials that stand for all."""

from __future__ import annotations

import numpy as np
import pytest
from matplotlib.collections import PolyCollection
from matplotlib.figure import Figure

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.trials import MOST_LINES, WIDE, bands, density, few, spread_words, trials


def test_bands_are_the_quantiles_of_the_trials_that_have_not_diverged() -> None:
    random = np.random.default_rng(0)
    x, values = np.linspace(0, 1, 5), random.normal(size=(5, 200))
    values[3, 10:] = np.nan
    values[4] = np.nan
    outlines = bands(x, values)
    assert [outline.shape for outline in outlines] == [(8, 2), (8, 2)], "there and back, without the last place"
    for outline, (low, high) in zip(outlines, ((0.05, 0.95), (0.25, 0.75)), strict=True):
        np.testing.assert_array_equal(outline[:4, 0], x[:4])
        np.testing.assert_array_equal(outline[4:, 0], x[3::-1])
        for place in range(4):
            finite = np.sort(values[place][np.isfinite(values[place])])
            ranks = np.arange(len(finite)) / (len(finite) - 1)
            np.testing.assert_allclose(outline[place, 1], np.interp(low, ranks, finite), atol=1e-12)
            np.testing.assert_allclose(outline[7 - place, 1], np.interp(high, ranks, finite), atol=1e-12)
    assert bands(x[:1], values[:1]) == [] and bands(x, np.full((5, 20), np.nan)) == []


def test_few_trials_stand_for_all_at_even_ranks() -> None:
    assert few(np.array([3.0, 1.0, 2.0])).tolist() == [0, 1, 2]
    values = np.random.default_rng(1).permutation(1200).astype(float)
    assert values[few(values)].tolist() == [50.0 + 100 * place for place in range(MOST_LINES)]
    fallen = values < 300
    assert fallen[few(values)].sum() == 3, "a quarter of the marks for a quarter of the trials"


def test_a_density_shows_both_places_where_trials_end() -> None:
    limits = (0.0, 2.0, 0.4, 1.0)
    values = np.r_[np.full(30, 0.5125), np.full(10, 0.9025), np.full(5, np.nan), np.full(2, 3.0)]
    (outline,) = density(values, limits)
    x, y = outline.T
    assert x[0] == x[-1] == 2.0 and (np.diff(y) > 0).all(), "from the right edge, and back to it"
    widths = {at: 2.0 - x[np.abs(y - at).argmin()] for at in (0.5125, 0.7, 0.9025, 0.9925)}
    assert widths[0.5125] == x.max() - x.min() == pytest.approx(2.0 * WIDE), "the most trials"
    assert abs(widths[0.9025] / widths[0.5125] - 1 / 3) < 0.05 and widths[0.7] == 0, "10 of 30, and none between"
    assert 0 < widths[0.9925] < widths[0.9025], "what lies beyond the axes counts at their edge"
    twice = density(np.repeat(values, 2), limits)
    np.testing.assert_array_equal(twice[0], outline, "the size does not depend on the number of trials")
    assert density(np.full(20, np.nan), limits) == [] and density(values[:1], limits) == []


def test_only_many_trials_have_a_density_and_a_sentence() -> None:
    assert spread_words(MOST_LINES) == "" and "the 1,000 trials" in spread_words(1000)
    values = np.random.default_rng(2).uniform(size=(3, MOST_LINES + 1))
    for count, shapes in ((MOST_LINES + 1, [1, 2]), (MOST_LINES, [])):
        ax = Figure().subplots()
        trials(ax, np.arange(3), values[:, :count], theme.MODEL, "a model")
        drawn = [len(one.get_paths()) for one in ax.collections if isinstance(one, PolyCollection)]
        assert sorted(drawn) == shapes, "a density, and two bands"
    ax = Figure().subplots()
    trials(ax, np.zeros(0), values[:0], theme.MODEL, "a model")
    assert not ax.collections
