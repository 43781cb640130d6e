"""The operators of two experts by other means, and claims on them that turn."""

from __future__ import annotations

import numpy as np
import pytest
import torch
import xarray as xr

from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import Moments, State, gate_gradient, gate_newton, posterior, projected
from moe_lab_papers import recovery_operators
from moe_lab_papers.recovery_operators import constants, operators
from tests.papers.small import turned, verdict

STEP = 2 / (0.1442 + 0.25)


def test_the_operators_by_em_of_the_library() -> None:
    """With the gates -w*, 0 and .99 w* alone; the library's EM has the same means, but for the centred posterior."""
    task = MixtureTask(experts=2, dimension=10, noise=0.1, gating="orthogonal")
    data = operators((0.1,), trials=1, seed=4, samples=500, points=0)
    drawn = task.sample(500, trials=[0], seed=4)
    truth, moments = drawn.truth, Moments.of(drawn.x, drawn.y)
    target = truth.gates[0, 0]

    def given(gates: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
        return posterior(State(truth.regressors, gates), drawn.x, drawn.y, task.g, 0.1)[:2]

    at_truth, prior = given(truth.gates)
    ratios = []
    for part in (-1.0, 0.0, 0.99):
        gates = part * truth.gates
        shift = given(gates)[0] - at_truth
        distance = (gates[0, 0] - target).norm()
        ends = [
            gate_newton(truth.gates, shift + prior, moments, steps=12),
            *(projected(gate_gradient(gates, shift + prior, moments, size), 1.0) for size in (STEP, STEP / 2)),
        ]
        moved = [float((end[0, 0] - target).norm() / distance) for end in ends]
        ratios.append([float((shift[0, 0] @ drawn.x[0] / 500).norm() / distance), *moved])
    wanted = np.max(ratios, axis=0)
    assert data["stability"].item() == pytest.approx(wanted[0], rel=1e-9)
    assert data["em"].item() == pytest.approx(wanted[1], rel=1e-6)
    np.testing.assert_allclose(data["gradient"].values.ravel(), wanted[2:], rtol=1e-3)  # lambda to four digits


def test_without_noise_a_step_leaves_the_flattest_direction() -> None:
    """(mu - lambda) / (mu + lambda) of the distance, and EM nothing: all posteriors are 0 or 1."""
    data = operators((0.0005, 0.001), trials=1, samples=60_000, points=2)
    least, largest = constants()
    assert data["gradient"].sel(step="whole").values.max() == pytest.approx(
        (largest - least) / (largest + least), abs=0.02
    )
    assert data["em"].values.max() < 0.01


def test_claims_on_the_operators_turn() -> None:
    data = operators((0.05, 0.1), trials=2, samples=5000, points=4)
    expected = {
        "theorem4/stability": "agrees",
        "theorem4/contraction": "agrees",
        "lemma5/minimisers": "agrees",
        "eq51/contraction": "agrees",
        "theorem5/gradient-em": "agrees",
        "theorem5/rate": "differs",
        "theorem5/rate-corrected": "in kind",
    }
    assert {name: verdict(f"gridlock2019/{name}", data) for name in expected} == expected
    for name, variable, factor in (
        ("theorem4/stability", "stability", 6),
        ("theorem4/contraction", "em", 0.5),
        ("theorem4/contraction", "em", 2),
        ("lemma5/minimisers", "moved", 0.5),
        ("lemma5/minimisers", "moved", 2),
        ("theorem5/gradient-em", "gradient", 2),
        ("theorem5/rate-corrected", "gradient", 0.5),
        ("theorem5/rate-corrected", "gradient", 2),
    ):
        changed = data.assign({variable: data[variable] * factor})
        assert verdict(f"gridlock2019/{name}", changed) == "differs", (name, factor)
    flat = data.assign(stability=xr.ones_like(data["stability"]))
    assert verdict("gridlock2019/eq51/contraction", flat) == "differs"


def test_a_rate_without_the_misprint_would_agree() -> None:
    """As if gradient EM had the printed factor, which falls with gamma; and a factor that vanishes with sigma."""
    least, largest = constants()

    def as_printed(data: xr.Dataset) -> xr.Dataset:
        stated = 1 - (2 * least + 2 * data["stability"]) / (largest + least)
        return data.assign(gradient=0.9 * stated + 0 * data["gradient"])

    assert turned("gridlock2019/theorem5/rate", as_printed) == "agrees"
    vanishing = operators((0.025, 0.05), trials=1, samples=200, points=1)
    vanishing["gradient"] = 3 * vanishing["noise"] + 0 * vanishing["gradient"]
    assert recovery_operators.without_noise()(vanishing) == pytest.approx([0])
    assert verdict("gated2019/theorem3/vanishing-factor", vanishing) == "agrees"
    assert verdict("gated2019/theorem3/vanishing-factor") == "differs"
