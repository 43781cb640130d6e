"""Many trials as bands, and the trials that stand for all."""

from __future__ import annotations

import numpy as np

from moe_lab_widgets.drawing.trials import MOST_LINES, bands, few


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
