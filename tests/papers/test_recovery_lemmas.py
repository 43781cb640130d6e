"""Constants by integration, steps with wrong regressors by other means, and samples that no step uses twice."""

from __future__ import annotations

import math

import numpy as np
import pytest
import torch
import xarray as xr
from scipy.integrate import quad

from moe_lab.recovery.data import MixtureTask
from moe_lab_papers import recovery_lemmas
from tests.papers.small import verdict


def test_the_constants_by_adaptive_integration() -> None:
    def f(u: float) -> float:
        return 1 / (1 + math.exp(-u))

    def mean(function, alpha: float) -> float:
        def weighed(z: float) -> float:
            return function(alpha * z) * math.exp(-z * z / 2) / math.sqrt(2 * math.pi)

        return float(quad(weighed, -12, 12)[0])

    def first(u: float) -> float:
        return f(u) * (1 - f(u))

    def third(u: float) -> float:  # by central differences of f'
        return (first(u + 1e-3) - 2 * first(u) + first(u - 1e-3)) / 1e-6

    found = recovery_lemmas.concavity()
    at_one = mean(first, 1.0), mean(first, 1.0) + mean(third, 1.0)
    assert float(found["least"]) == pytest.approx(min(at_one), abs=1e-6)
    assert float(found["largest"]) == pytest.approx(0.25)


def test_gates_that_are_found_with_wrong_regressors_are_off_in_proportion() -> None:
    data = recovery_lemmas.wrong_regressors((0.25, 0.5), trials=1, seed=3, samples=2000)
    assert float(data["end"][1, 0] / data["end"][0, 0]) == pytest.approx(2, rel=0.1)


@pytest.mark.parametrize(
    ("power", "expected"), [(-0.5, ("agrees", "in kind")), (0.0, ("differs",)), (-1.0, ("differs",))]
)
@pytest.mark.parametrize(
    ("claim", "name"),
    [("theorem2/deviation", "deviation"), ("theorem4/fresh-samples", "error"), ("lemma4/deviation", "deviation")],
)
def test_powers_are_read_off_lines(claim: str, name: str, power: float, expected: tuple[str, ...]) -> None:
    counts = np.array([100, 400, 1600])
    lines = 3.0 * counts[:, None] ** power * np.ones(2)
    data = xr.Dataset({name: (("samples", "trial"), lines)}, {"samples": counts})
    np.testing.assert_allclose(recovery_lemmas.slope_in(name, "samples")(data), [power, power], atol=1e-12)
    assert verdict(f"gated2019/{claim}", data) in expected


def test_fresh_samples_are_used_once() -> None:
    """One step on half of the samples, and one on the other half, from gates of 0."""
    data = recovery_lemmas.fresh_samples((400,), trials=1, seed=5, steps=2)
    task = MixtureTask(experts=3, dimension=10, noise=0.1, gating="orthogonal")
    sampled = task.sample(400, trials=[0], seed=5)
    gates = torch.zeros(3, 10, dtype=torch.float64)
    for part in (slice(0, 200), slice(200, 400)):
        x, y, w = sampled.x[0, part], sampled.y[0, part], gates.clone().requires_grad_(True)
        density = torch.exp(-((y[:, None] - x @ sampled.truth.regressors[0].T) ** 2) / (2 * 0.01))
        (-((x @ w.T).softmax(1) * density).sum(1).log().mean()).backward()
        assert w.grad is not None
        gates[:2] -= 4 * w.grad[:2]
    error = (gates - sampled.truth.gates[0]).norm(dim=1).max()
    assert data["error"].item() == pytest.approx(float(error), rel=1e-9)


def test_more_samples_come_nearer_to_eq_8() -> None:
    deviation = recovery_lemmas.landscape_by_samples((1000, 64_000), trials=1, points=5)["deviation"]
    assert deviation[1].item() < 0.5 * deviation[0].item()
