"""Fits and errors against all permutations, and what must not change them: order, sign, length, gauge."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from torch import Tensor

from moe_lab.recovery import MixtureTask, Parameters, measures
from tests.recovery import oracle


def random_values(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def planted(k: int = 4, d: int = 6, trials: int = 3) -> Parameters:
    return MixtureTask(experts=k, dimension=d).parameters(range(trials), seed=0)


def disguised(truth: Parameters, seed: int = 0) -> tuple[Tensor, Tensor]:
    """The same mixture: experts in another order, one vector added to every gate."""
    k = truth.gates.shape[1]
    order = torch.randperm(k, generator=torch.Generator().manual_seed(seed))
    return truth.regressors[:, order], truth.gates[:, order] + random_values(
        seed, len(truth.gates), 1, truth.gates.shape[2]
    )


@pytest.mark.parametrize("k", [2, 3, 5, 7])
def test_the_fit_is_the_best_over_all_permutations(k):
    """k = 7 takes the other way, by thresholds and assignments."""
    found, truth = random_values(1, 6, k, 4), random_values(2, 6, k, 4)
    fits = measures.regressor_fit(found, truth).numpy()
    assert fits == pytest.approx([oracle.best_fit(a, b) for a, b in zip(found.numpy(), truth.numpy(), strict=True)])
    assert np.ptp(fits) > 0.05


def test_bottleneck_and_sum_are_different_assignments():
    """The best worst cosine is not that of the assignment with the best sum."""
    assert fit_of(np.array([[0.8, 0.4], [0.3, 0.05]])) == pytest.approx(0.3)
    cosines = np.eye(7) * 0.1 + 0.2
    assert fit_of(cosines) == pytest.approx(0.3)
    cosines[0, 0] = 0
    assert fit_of(cosines) == pytest.approx(0.2)
    assert fit_of(np.full((8, 8), 0.3)) == pytest.approx(0.3)


def fit_of(cosines: np.ndarray) -> float:
    """The fit of k regressors with these cosines to the k true ones; each has the rest of its length to itself."""
    k = len(cosines)
    rest = np.diag(np.sqrt(1 - np.square(cosines).sum(0)))
    found, truth = np.hstack([cosines.T, rest]), np.eye(k, 2 * k)
    return float(measures.regressor_fit(torch.as_tensor(found)[None], torch.as_tensor(truth)[None])[0])


@pytest.mark.parametrize("k", [2, 4, 6])
def test_experts_are_matched_by_least_squares(k):
    found, truth = random_values(3, 5, k, 4), random_values(4, 5, k, 4)
    for order, a, b in zip(measures.matched(found, truth), found.numpy(), truth.numpy(), strict=True):
        assert tuple(order.tolist()) == oracle.best_order(a, b)


def test_a_disguise_is_seen_through():
    truth = planted()
    for seed in range(4):
        a, w = disguised(truth, seed)
        assert measures.regressor_fit(a, truth.regressors) == pytest.approx(1)
        assert measures.gating_fit(w, a, truth) == pytest.approx(1)
        assert measures.parameter_error(a, w, truth) == pytest.approx(0, abs=1e-12)


def test_fits_do_not_see_sign_or_length():
    truth = planted()
    a, w = disguised(truth)
    scale = torch.tensor([3.0, -0.2, 1.0, -5.0], dtype=torch.float64)[:, None]
    assert measures.regressor_fit(scale * a, truth.regressors) == pytest.approx(1)
    assert measures.gating_fit(w, scale * a, truth) == pytest.approx(1)
    assert measures.parameter_error(scale * a, w, truth).min() > 0.5  # errors do


def test_the_gauge():
    gates = random_values(0, 2, 3, 5)
    fixed = measures.in_gauge(gates)
    assert not fixed[:, -1].any()
    torch.testing.assert_close(measures.in_gauge(gates + random_values(1, 2, 1, 5)), fixed)
    x = random_values(2, 2, 9, 5)
    torch.testing.assert_close((x @ fixed.mT).softmax(2), (x @ gates.mT).softmax(2))


def test_the_error_is_section_43s():
    truth = planted()
    a, w = disguised(truth)
    noise_a, noise_w = 0.05 * random_values(5, *a.shape), 0.05 * random_values(6, *w.shape)
    found = measures.parameter_error(a + noise_a, w + noise_w, truth)
    for t in range(3):
        order = list(oracle.best_order((a + noise_a)[t].numpy(), truth.regressors[t].numpy()))
        gates = (w + noise_w)[t][order]
        wanted = ((a + noise_a)[t][order] - truth.regressors[t]).norm() + (gates - gates[-1] - truth.gates[t]).norm()
        assert found[t] == pytest.approx(wanted.item()) and 0.1 < found[t] < 3


def test_the_gating_fit_is_the_worst_gates():
    truth = planted(k=3)
    gates = truth.gates.clone()
    gates[:, 1] += torch.linalg.qr(torch.stack((gates[:, 1], random_values(1, 3, 6)), dim=2)).Q[..., 1]  # at 45 degrees
    assert measures.gating_fit(gates, truth.regressors, truth) == pytest.approx(np.sqrt(0.5))
    assert measures.gating_fit(-gates, truth.regressors, truth) == pytest.approx(np.sqrt(0.5))


def test_cosines():
    truth, found = random_values(0, 2, 3, 4), random_values(1, 2, 5, 4)
    found[0, 2] = 0
    table = measures.cosines(truth, found)
    assert table.shape == (2, 3, 5) and not table[0, :, 2].any()
    a, b = truth[1, 2].numpy(), found[1, 4].numpy()
    assert table[1, 2, 4] == pytest.approx(abs(a @ b) / np.linalg.norm(a) / np.linalg.norm(b))
