"""T2, the whitened T3 and its decompositions against brute force, planted tensors and tensorly."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import replace

import numpy as np
import pytest
import tensorly
import torch
from tensorly.decomposition import parafac, symmetric_parafac_power_iteration
from torch import Tensor
from torch.utils._python_dispatch import TorchDispatchMode

from moe_lab.recovery import Activation, MixtureTask, transforms
from moe_lab.recovery import tensor as tensors
from moe_lab.recovery.gridlock import Spectral
from moe_lab.recovery.gridlock.spectral import DECOMPOSITIONS, find_regressors
from moe_lab.recovery.measures import unit
from tests.recovery import oracle

EACH_LAW = pytest.mark.parametrize("share", [None, 0.3], ids=["one Gaussian", "two"])


def random_values(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def orthonormal(seed: int, trials: int, d: int, k: int) -> Tensor:
    """(T, k, d) orthonormal rows."""
    return torch.linalg.qr(random_values(seed, trials, d, k)).Q.mT.contiguous()


def planted(weights: Tensor, vectors: Tensor) -> Tensor:
    """sum_i weights_i v_i (x) v_i (x) v_i."""
    return torch.einsum("ti,tia,tib,tic->tabc", weights, vectors, vectors, vectors)


def worst_cosine(found: Tensor, truth: Tensor) -> float:
    """Of the true vectors, and of the found ones, to the nearest of the others."""
    near = (torch.nn.functional.normalize(found, dim=2) @ torch.nn.functional.normalize(truth, dim=2).mT).abs()
    return min(near.amax(1).min().item(), near.amax(2).min().item())


# --- moments ----------------------------------------------------------------------------------------------------------


@EACH_LAW
def test_moments_are_the_brute_force_ones(share):
    """Entry by entry, sample by sample; T3 contracted with any directions, on three sides and on two."""
    inputs = MixtureTask(experts=2, dimension=4, first_share=share).sample(9, trials=range(2), seed=0).inputs
    weights, whiten, along = random_values(1, 2, 9), random_values(2, 2, 4, 3), random_values(3, 2, 2, 4)
    second, third = tensors.second_moment(inputs, weights), tensors.third_moment(inputs, weights, whiten)
    two_sides = tensors.third_moment_along(inputs, weights, along)
    for t in range(2):
        law = inputs.means[t].numpy(), inputs.shares[t].numpy()
        two, three = oracle.moments_2_and_3(inputs.x[t].numpy(), weights[t].numpy(), *law)
        np.testing.assert_allclose(second[t], two, rtol=1e-12, atol=1e-12)
        v, a = whiten[t].numpy(), along[t].numpy()
        np.testing.assert_allclose(third[t], np.einsum("abc,ai,bj,cl->ijl", three, v, v, v), rtol=1e-11, atol=1e-11)
        np.testing.assert_allclose(two_sides[t], np.einsum("abc,ib,ic->ia", three, a, a), rtol=1e-11, atol=1e-11)


@pytest.mark.parametrize(
    "activation, gating",
    [("identity", "random"), ("relu", "orthogonal"), ("tanh", "random")],
)
def test_moments_are_the_regressors_alone(activation, gating):
    """Theorem 1: T2 = c2 sum p_i a_i a_i^T and T3 = c3 sum p_i a_i^(x)3, up to sampling noise, for x ~ N(0, I)."""
    k = 2 if gating == "random" else 3  # beyond k = 2, gates must be orthogonal to the regressors
    task = MixtureTask(experts=k, dimension=4, activation=activation, gating=gating, gate_norm=2)
    blocks = [task.sample(25_000, trials=[0], seed=0, split=f"block {i}") for i in range(16)]
    found = transforms(activation, task.noise)
    identity = torch.eye(4, dtype=torch.float64)[None]
    two = torch.cat([tensors.second_moment(one.inputs, found.p2(one.y)) for one in blocks])
    three = torch.cat([tensors.third_moment(one.inputs, found.p3(one.y), identity) for one in blocks])
    a, gates = blocks[0].truth.regressors, blocks[0].truth.gates
    prior = torch.cat([(one.x @ gates.mT).softmax(2).mean(1) for one in blocks]).mean(0, keepdim=True)
    wanted_two = found.p2.strength * torch.einsum("ti,tia,tib->tab", prior, a, a)[0]
    wanted_three = found.p3.strength * planted(prior, a)[0]
    for estimate, wanted in ((two, wanted_two), (three, wanted_three)):
        error = (estimate.mean(0) - wanted).norm()
        assert error < 2 * estimate.std(0).norm() / 4 and error < 0.3 * wanted.norm()


class Largest(TorchDispatchMode):
    """Notes the largest tensor that any operation makes."""

    numbers = 0

    def __torch_dispatch__(self, func, types, args=(), kwargs=None):
        made = func(*args, **(kwargs or {}))
        for one in made if isinstance(made, (tuple, list)) else (made,):
            if isinstance(one, Tensor):
                self.numbers = max(self.numbers, one.untyped_storage().nbytes() // 8)
        return made


def test_no_whole_third_moment():
    """d=200: T3 would have 8,000,000 numbers. The largest here are n x k^2 and d x d."""
    inputs = MixtureTask(experts=5, dimension=200).sample(1000, trials=[0], seed=0).inputs
    y, starts = random_values(0, 1, 1000), random_values(1, 1, 20, 200)
    with Largest() as largest:
        last = find_regressors(inputs, y, 5, transforms("identity", 0.1), Spectral(), starts)
    assert last.shape == (1, 5, 200)
    assert 200 * 200 <= largest.numbers <= 1000 * 200, largest.numbers


# --- whitening --------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("sign", [1.0, -1.0])
def test_whitening(sign):
    vectors, weights = random_values(0, 3, 4, 9), torch.rand(3, 4, generator=torch.Generator().manual_seed(1)).double()
    second = sign * torch.einsum("ti,tia,tib->tab", weights + 0.2, vectors, vectors)
    whitener = tensors.Whitener.of(second, 4, sign)
    whiten, undo = whitener.whiten, whitener.undo
    identity = torch.eye(4, dtype=torch.float64).expand(3, 4, 4)
    torch.testing.assert_close(whiten.mT @ second @ whiten, sign * identity)
    torch.testing.assert_close(undo.mT @ whiten, identity)
    torch.testing.assert_close(undo @ undo.mT, sign * second)
    inside = whiten.mT @ vectors.mT * (weights + 0.2).sqrt()[:, None]  # whitened components are orthonormal
    torch.testing.assert_close(inside.mT @ inside, identity)


def test_a_second_moment_of_too_low_rank_is_refused():
    vectors = random_values(0, 2, 3, 6)
    vectors[1, 2] = vectors[1, 0] + vectors[1, 1]
    lacking = tensors.Whitener.of(vectors.mT @ vectors, 3, 1.0)
    with pytest.raises(
        tensors.RankError, match=r"^T2 must have k=3 positive eigenvalues: got .* of trial 1; take more"
    ):
        lacking.check()
    assert lacking.whiten[0].isfinite().all() and lacking.whiten[1].isnan().all()
    with pytest.raises(tensors.RankError, match=r"^T2 must have k=2 positive eigenvalues: got .* of trial 0;"):
        tensors.Whitener.of(-vectors.mT @ vectors, 2, 1.0).check()
    with pytest.raises(tensors.RankError, match=r"got 0 as the smallest of trial 0"):
        tensors.Whitener.of(torch.zeros(1, 6, 6, dtype=torch.float64), 2, 1.0).check()


# --- decomposition ----------------------------------------------------------------------------------------------------


def power_iterations(tensor: Tensor, initial_vectors: Tensor, each: int = 30) -> Iterator[tensors.Components]:
    """Yields the components after each of so many iterations a component."""
    initial_vectors = unit(initial_vectors)
    now = tensors.Components.before(tensor, initial_vectors)
    for done in range(each * tensor.shape[1]):
        now = tensors.power_step(now, initial_vectors, torch.full((len(tensor),), done), each)
        yield now


@pytest.mark.parametrize("k", [1, 2, 5, 8])
def test_power_iterations_find_a_planted_tensor(k):
    truth, weights = (
        orthonormal(0, 3, k, k),
        0.5 + torch.rand(3, k, generator=torch.Generator().manual_seed(1)).double(),
    )
    steps = list(power_iterations(planted(weights, truth), random_values(2, 3, 20 if k < 6 else 60, k)))
    assert [int(step.vectors.any(2).sum(1)[0]) for step in steps] == [c for c in range(1, k + 1) for _ in range(30)]
    last = steps[-1]
    assert worst_cosine(last.vectors, truth) > 1 - 1e-9
    torch.testing.assert_close(last.values.sort().values, weights.sort().values)
    products = (last.vectors @ truth.mT).amax(2)  # a third power knows the sign
    assert products.min() > 1 - 1e-9
    rest = planted(weights, truth) - planted(last.values, last.vectors)
    assert rest.abs().max() < 1e-9
    assert not steps[0].vectors[:, 1:].any() and not steps[0].values[:, 1:].any()


def test_power_iterations_are_those_of_a_loop():
    """Component after component: restarts from the same vectors, v <- T(I, v, v), the best one, deflation."""
    tensor = planted(torch.tensor([[1.0, 0.9, 0.8]]).double(), orthonormal(0, 1, 3, 3)) + 0.05 * planted(
        torch.ones(1, 1).double(), random_values(5, 1, 1, 3)
    )
    starts, each = unit(random_values(2, 1, 4, 3)), 3
    steps = power_iterations(tensor, starts, each)
    residual, found, values = tensor[0].numpy(), np.zeros((3, 3)), np.zeros(3)
    for component in range(3):
        now = starts[0].numpy()
        for _ in range(each):
            now = np.einsum("abc,lb,lc->la", residual, now, now)
            now /= np.linalg.norm(now, axis=1, keepdims=True)
            gained = np.einsum("abc,la,lb,lc->l", residual, now, now, now)
            found[component], values[component] = now[gained.argmax()], gained.max()
            step = next(steps)
            np.testing.assert_allclose(step.vectors[0], found, atol=1e-12)
            np.testing.assert_allclose(step.values[0], values, atol=1e-12)
        residual = residual - values[component] * np.einsum("a,b,c->abc", *[found[component]] * 3)


def test_power_iterations_bear_noise():
    truth = orthonormal(0, 4, 5, 5)
    noise = random_values(1, 4, 5, 5, 5)
    noise = sum(
        noise.permute(0, *order) for order in ((1, 2, 3), (2, 3, 1), (3, 1, 2), (1, 3, 2), (3, 2, 1), (2, 1, 3))
    )
    tensor = planted(torch.ones(4, 5, dtype=torch.float64), truth) + 0.02 * noise
    *_, last = power_iterations(tensor, random_values(2, 4, 20, 5))
    assert 0.97 < worst_cosine(last.vectors, truth) < 1 - 1e-6


def test_power_iterations_against_tensorly():
    """The first component, where the largest weight stands out."""
    truth, weights = orthonormal(3, 2, 4, 4), torch.tensor([[3.0, 1, 0.8, 0.5], [1, 0.8, 0.7, 2.5]]).double()
    tensor = planted(weights, truth)
    *_, last = power_iterations(tensor, random_values(4, 2, 20, 4))
    np.random.seed(0)  # tensorly draws its starts from numpy's own state
    for t in range(2):
        values, vectors = symmetric_parafac_power_iteration(tensor[t].numpy(), rank=4, n_repeat=20, n_iteration=40)
        assert sorted(values) == pytest.approx(sorted(last.values[t].tolist()), rel=1e-6)
        assert oracle.best_fit(vectors.T, last.vectors[t].numpy()) > 1 - 1e-9


@pytest.mark.parametrize("k, d", [(2, 6), (3, 8), (4, 10)])
def test_orth_als_against_tensorly(k, d):
    """Components at any angle, more dimensions than components: both find what was planted, up to scale."""
    truth = torch.nn.functional.normalize(random_values(8, 2, k, d), dim=2)
    weights = torch.linspace(0.8, 1.2, k).double().expand(2, k)
    tensor = planted(weights, truth)
    starts = random_values(6, 2, 2 * k, d)
    left, best = np.full(2, np.inf), torch.zeros(2, k, d, dtype=torch.float64)
    for start in starts.split(k, dim=1):
        found = tensors.orth_als(tensor, k, start, iterations=300)
        for t in range(2):
            rest = residual(tensor[t], found[t])
            if rest < left[t]:
                left[t], best[t] = rest, found[t]
    torch.testing.assert_close(best.norm(dim=2), torch.ones(2, k, dtype=torch.float64))
    assert left.max() < 1e-4 and worst_cosine(best, truth) > 1 - 1e-6
    for t in range(2):
        theirs = parafac(tensor[t].numpy(), rank=k, n_iter_max=2000, tol=1e-14, init="svd")
        rebuilt = tensorly.cp_to_tensor(theirs)
        assert np.abs(rebuilt - tensor[t].numpy()).max() < 1e-3
        assert oracle.best_fit(theirs.factors[2].T, best[t].numpy()) > 1 - 1e-4


def residual(tensor: Tensor, factors: Tensor) -> float:
    """What no combination of the factors' cubes explains, as a share."""
    cubes = torch.einsum("ia,ib,ic->iabc", factors, factors, factors).flatten(1)
    weights = torch.linalg.lstsq(cubes.T, tensor.flatten()[:, None]).solution
    return ((tensor.flatten() - (cubes.T @ weights)[:, 0]).norm() / tensor.norm()).item()


# --- regressors -------------------------------------------------------------------------------------------------------


def test_tails_are_cut_softly():
    values = torch.tensor([-1e9, -0.1, 0.0, 0.1, 2.0, 1e9], dtype=torch.float64)
    np.testing.assert_allclose(tensors.robust(values), 4 * np.tanh(values.numpy() / 4))
    assert tensors.robust(values).abs().max() <= 4


@pytest.mark.parametrize("activation", ["identity", "relu", "tanh"])
def test_signs_come_from_the_third_moment(activation):
    task = MixtureTask(activation=activation, gating="orthogonal")
    drawn = task.sample(30_000, trials=range(4), seed=0)
    flips = torch.tensor([[1.0, -1], [-1, 1], [-1, -1], [1, 1]], dtype=torch.float64)[..., None]
    found = tensors.oriented(drawn.truth.regressors * flips, drawn.inputs, drawn.y, transforms(task.g, task.noise))
    torch.testing.assert_close(found, drawn.truth.regressors)


def test_a_negative_strength_turns_nothing():
    """-g has the opposite c3 for even powers of its own; regressors of y = -relu(<a, x>) come with their own sign."""
    drawn = MixtureTask(activation="relu", gating="orthogonal").sample(20_000, trials=range(2), seed=0)
    falling = transforms(Activation("falling", lambda z: -torch.relu(z), (0.0,)), 0.1)
    assert falling.p3.strength == pytest.approx(-transforms("relu", 0.1).p3.strength, abs=1e-9)
    starts = random_values(0, 2, 20, 10)
    method = Spectral()
    mine = find_regressors(drawn.inputs, drawn.y, 2, transforms("relu", 0.1), method, starts)
    theirs = find_regressors(drawn.inputs, -drawn.y, 2, falling, method, starts)
    cosines = mine @ theirs.mT
    assert cosines.amax(2).min() > 1 - 1e-6


@pytest.mark.parametrize(
    "method, share",
    [
        (Spectral(), None),
        (Spectral(), 0.3),
        (Spectral(robust=False), None),
        (Spectral(decomposition="orth-als", robust=False), 0.3),
    ],
    ids=["robust", "robust, two Gaussians", "power", "orth-als, two Gaussians"],
)
def test_regressors_are_found(method, share):
    task = MixtureTask(experts=3, dimension=6, gating="orthogonal", first_share=share)
    drawn = task.sample(30_000, trials=range(2), seed=0)
    power = method.decomposition == "power"
    starts = random_values(1, 2, 10 if power else 10 * 3, 6)
    finding = DECOMPOSITIONS[method.decomposition](
        drawn.inputs, drawn.y, 3, transforms("identity", 0.1), method, starts
    )
    assert finding.iterations == (90 if power else 1) and not finding.regressors.any()
    for _ in range(finding.iterations):
        finding.advance(1)
    assert (finding.regressors @ drawn.truth.regressors.mT).amax(2).min() > 0.93
    at_once = find_regressors(drawn.inputs, drawn.y, 3, transforms("identity", 0.1), method, starts)
    torch.testing.assert_close(at_once, finding.regressors)


def test_signs_of_eigenvectors_do_not_matter(monkeypatch):
    """They are any: another library, or another device, has others."""
    drawn = MixtureTask(experts=3, dimension=6).sample(2000, trials=range(2), seed=0)
    given = (
        drawn.inputs,
        drawn.y,
        3,
        transforms("identity", 0.1),
        Spectral(power_iterations=5),
        random_values(1, 2, 20, 6),
    )
    found, eigh = find_regressors(*given), torch.linalg.eigh

    def turned(matrices):
        values, vectors = eigh(matrices)
        return values, vectors * torch.tensor([1.0, -1, 1, -1, -1, 1], dtype=torch.float64)

    monkeypatch.setattr(torch.linalg, "eigh", turned)
    torch.testing.assert_close(find_regressors(*given), found)


def test_plain_y_has_the_gate_in_its_third_moment():
    """Without P3, what is found is not the regressors (eq. 3)."""
    drawn = MixtureTask(gate_norm=3).sample(40_000, trials=range(4), seed=0)
    starts = random_values(1, 4, 20, 10)
    given = drawn.inputs, drawn.y, 2, transforms("identity", 0.1)
    right = find_regressors(*given, Spectral(robust=False), starts)
    wrong = find_regressors(*given, Spectral(robust=False, third="y"), starts)
    truth = drawn.truth.regressors
    assert worst_cosine(right, truth) > 0.97 and worst_cosine(wrong, truth) < 0.9


@pytest.mark.parametrize("broken", [float("nan"), float("inf")])
def test_data_must_be_finite(broken):
    drawn = MixtureTask().sample(50, trials=range(2), seed=0)
    y, x = drawn.y.clone(), drawn.x.clone()
    y[1, 3], x[0, 2, 1] = broken, broken
    for inputs, values in ((drawn.inputs, y), (replace(drawn.inputs, x=x), drawn.y)):
        with pytest.raises(ValueError, match=r"^x and y must be finite numbers: got finite=False$"):
            find_regressors(inputs, values, 2, transforms("identity", 0.1), Spectral(), random_values(0, 2, 20, 10))


@pytest.mark.parametrize("k", [0, 11])
def test_k_is_at_most_d(k):
    drawn = MixtureTask().sample(50, trials=range(2), seed=0)
    with pytest.raises(ValueError, match=rf"^experts \(k\) must be between 1 and dimension \(d\): got k={k}, d=10$"):
        tensors.check_samples(drawn.inputs, drawn.y, k)
