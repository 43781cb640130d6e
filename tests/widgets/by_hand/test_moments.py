"""The bars of the bench are what a simulation measures, and vanish at the equations' solutions."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest

from moe_lab.core.trials import stream
from moe_lab.recovery.transforms import transforms
from moe_lab_widgets import MomentBench
from moe_lab_widgets.by_hand.moments import BARS, GATE, GONE, LEAD, STORIES, moments, with_w
from moe_lab_widgets.drawing.mark_record import MarkRecord

DEFAULTS = {knob.name: knob.default for knob in MomentBench.knobs}


@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_the_bars_are_what_samples_measure(activation: str) -> None:
    samples, (alpha, beta, sigma) = 400_000, (-1.0, -2.0, 0.5)
    draw = stream(0, 0, "bench")
    a, b, w = draw.standard_normal((3, samples))
    first = draw.random(samples) < 1 / (1 + np.exp(-GATE * w - LEAD))
    z = np.where(first, a, b)
    y = (np.maximum(z, 0) if activation == "relu" else z) + sigma * draw.standard_normal(samples)
    p = y**3 + alpha * y**2 + beta * y
    products = {"aaa": a**3 - 3 * a, "aaw": (a**2 - 1) * w, "aww": a * (w**2 - 1), "www": w**3 - 3 * w}
    found = moments(alpha, beta, sigma, activation, samples)["bars"]
    for bar, entry in zip(BARS, found[:4], strict=False):
        measured = p * products[bar]
        assert measured.mean() == pytest.approx(entry, abs=4 * measured.std() / samples**0.5), bar
    assert (p * products["aaa"]).std() / samples**0.5 == pytest.approx(found[4], rel=0.15)  # of twelfth powers


@pytest.mark.parametrize("sigma", [0.0, 0.3, 1.0])
@pytest.mark.parametrize("activation", ["identity", "relu"])
def test_the_solution_of_the_equations_leaves_the_regressors_alone(activation: str, sigma: float) -> None:
    beta, alpha, _ = transforms(activation, sigma).p3.coefficients
    *entries, _ = moments(alpha, beta, sigma, activation, 1000)["bars"]
    assert abs(entries[0]) > 0.05 and max(map(abs, entries[1:])) < 1e-9


def test_the_printed_polynomial_leaves_a_bar_standing_and_the_caption_says_so() -> None:
    (story,) = STORIES
    values: dict[str, Any] = {**DEFAULTS, **story.values}
    lab = MomentBench(story=story.name)
    lab.wait()
    assert float(with_w(MarkRecord(lab.record))) > 5 * GONE
    assert "a a w is not gone" in lab.caption(lab.record)
    np.testing.assert_allclose(lab.record["bars"], moments(**values)["bars"])
    lab.close()
