"""Every analytic step against autograd through the paper's equations (oracle.py), ties and padding included."""

from __future__ import annotations

import math

import pytest
import torch
from torch import Tensor

from moe_lab.patch_routing.fixed import FixedRules, fixed_step, router_direction, train_routers
from moe_lab.patch_routing.joint import JointRules, by_expert, joint_forward, joint_step
from moe_lab.patch_routing.loss import loss_of
from tests.patch_routing import oracle
from tests.patch_routing.oracle import Expert

TOLERANCE = {torch.float64: 1e-9, torch.float32: 1e-5}
BOTH = pytest.mark.parametrize("dtype", [torch.float64, torch.float32], ids=["float64", "float32"])
CLASSES = pytest.mark.parametrize("classes", [2, 3, 4])


def apart(found: Tensor, wanted: Tensor, before: Tensor) -> float:
    """How far two steps are apart, relative to the largest move."""
    largest = (wanted - before).abs().max()
    return float((found - wanted).abs().max() / largest)


def numbers(seed: int, *shape: int, dtype: torch.dtype) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64).to(dtype)


def small_integers(seed: int, *shape: int, dtype: torch.dtype) -> Tensor:
    """-1, 0 and 1: products are exact in every precision, so that equal routing values are equal everywhere."""
    return torch.randint(-1, 2, shape, generator=torch.Generator().manual_seed(seed)).to(dtype)


class Joint:
    """A batch of rows that differ in l, k and the step size, with what the oracle needs beside it."""

    n, d, neurons, batch = 6, 5, 12, 4

    def __init__(self, dtype: torch.dtype, classes: int, *, ties: bool, kept=(1, 2, 4, 6), experts=(3, 1, 4, 2)):
        self.kept, self.experts, rows = kept, experts, len(kept)
        self.outputs = 1 if classes == 2 else classes
        most = max(experts)
        values = small_integers if ties else numbers
        self.patches = values(1, rows, self.batch, self.n, self.d, dtype=dtype)
        self.hidden = numbers(2, rows, self.neurons, self.d, dtype=dtype)
        self.routers = values(3, rows, most, self.d, dtype=dtype)
        for row, count in enumerate(experts):
            self.routers[row, count:] = 0
        self.a = numbers(4, rows, self.neurons, self.outputs, dtype=dtype)
        self.rates = torch.linspace(0.3, 2, rows, dtype=dtype)
        self.labels = torch.arange(rows * self.batch).view(rows, self.batch) % classes
        self.rules = JointRules(
            outputs=by_expert(self.a / torch.tensor(kept, dtype=dtype)[:, None, None], experts),
            patches_per_expert=torch.tensor(kept),
            learning_rate=self.rates[:, None, None],
        )
        self.weights = torch.cat((self.hidden, self.routers), dim=1)

    def oracle_experts(self, row: int) -> list[Expert]:
        count = self.experts[row]
        hidden, outputs = (part[row].chunk(count) for part in (self.hidden, self.a))
        return [
            Expert(self.routers[row, s].clone(), hidden[s].clone(), outputs[s], self.kept[row]) for s in range(count)
        ]

    def wanted(self, row: int) -> tuple[Tensor, list[float], list[bool]]:
        after, losses, right = oracle.step(
            self.patches[row],
            self.labels[row].tolist(),
            self.oracle_experts(row),
            learning_rate=float(self.rates[row]),
            gated=True,
        )
        routers = torch.zeros_like(self.routers[row])
        routers[: len(after)] = torch.stack([expert.router for expert in after])
        return torch.cat([expert.hidden for expert in after] + [routers]), losses, right


@BOTH
@CLASSES
@pytest.mark.parametrize("ties", [False, True], ids=["values", "ties"])
def test_joint_step_is_autograds(dtype, classes, ties):
    case = Joint(dtype, classes, ties=ties)
    after, loss = joint_step(case.weights, case.patches, case.labels, case.rules)
    for row in range(len(case.kept)):
        wanted, losses, right = case.wanted(row)
        m = case.neurons
        assert apart(after[row, :m], wanted[:m], case.weights[row, :m]) < TOLERANCE[dtype]
        if case.kept[row] > 1:
            assert apart(after[row, m:], wanted[m:], case.weights[row, m:]) < TOLERANCE[dtype]
        assert loss.value[row].tolist() == pytest.approx(losses, rel=TOLERANCE[dtype], abs=TOLERANCE[dtype])
        assert loss.right[row].tolist() == right


def test_the_ties_are_real():
    """Without ties at the threshold, the test with ties would say nothing about them."""
    case = Joint(torch.float64, 2, ties=True)
    broken = 0
    for row, (kept, experts) in enumerate(zip(case.kept, case.experts, strict=True)):
        scores = case.patches[row] @ case.routers[row, :experts].T
        ranked = scores.sort(dim=1, descending=True).values
        if kept < case.n:
            broken += int((ranked[:, kept - 1] == ranked[:, kept]).sum())
    assert broken >= 5


def test_joint_ties_go_to_the_lowest_place():
    """Two patches with the same routing value and l = 1: only the first moves the neurons."""
    patches = torch.tensor([[1.0, 2.0], [1.0, -3.0], [0.0, 5.0]], dtype=torch.float64)[None, None]
    weights = torch.tensor([[0.5, 0.5], [1.0, 0.0]], dtype=torch.float64)[None]  # one neuron, one router
    rules = JointRules(
        outputs=torch.ones(1, 1, 1, 1).double(),
        patches_per_expert=torch.tensor([1]),
        learning_rate=torch.ones(1, 1, 1).double(),
    )
    after, _ = joint_step(weights, patches, torch.tensor([[0]]), rules)
    share = 1 / (1 + math.exp(1.5))  # f = ReLU(.5 + 1) = 1.5, y = +1
    assert after[0, 0].tolist() == pytest.approx([0.5 + share * 1.0, 0.5 + share * 2.0])


@BOTH
def test_one_kept_patch_gives_the_router_no_gradient(dtype):
    """The softmax of one value is 1 whatever the router: its gradient is zero to the last bit."""
    case = Joint(dtype, 2, ties=False, kept=(1, 1, 3), experts=(3, 4, 2))
    after, _ = joint_step(case.weights, case.patches, case.labels, case.rules)
    assert torch.equal(after[:2, case.neurons :], case.weights[:2, case.neurons :])
    assert not torch.equal(after[2, case.neurons :], case.weights[2, case.neurons :])
    assert not torch.equal(after[:2, : case.neurons], case.weights[:2, : case.neurons])


@BOTH
def test_experts_that_a_row_does_not_have_stay_zero(dtype):
    case = Joint(dtype, 4, ties=False)
    weights = case.weights
    for _ in range(5):
        weights, _ = joint_step(weights, case.patches, case.labels, case.rules)
    for row, count in enumerate(case.experts):
        assert not weights[row, case.neurons + count :].any()


def test_all_patches_kept():
    """l = n: nothing is dropped, and the gates are the softmax over all patches."""
    case = Joint(torch.float64, 2, ties=False, kept=(6, 6), experts=(2, 3))
    now = joint_forward(case.weights, case.patches, case.rules)
    assert now.mask.all()
    torch.testing.assert_close(now.gates.sum(-1), torch.ones(2, 3, 4, dtype=torch.float64))
    for row in range(2):
        for sample in range(case.batch):
            wanted = oracle.output(case.patches[row, sample], case.oracle_experts(row), gated=True)
            torch.testing.assert_close(now.outputs[row, :, sample], wanted, rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("steps", [25])
def test_many_joint_steps_stay_on_autograds_path(steps):
    case = Joint(torch.float64, 2, ties=False)
    weights = case.weights
    for _ in range(steps):
        weights, _ = joint_step(weights, case.patches, case.labels, case.rules)
    for row in range(len(case.kept)):
        experts = case.oracle_experts(row)
        for _ in range(steps):
            experts, *_ = oracle.step(
                case.patches[row],
                case.labels[row].tolist(),
                experts,
                learning_rate=float(case.rates[row]),
                gated=True,
            )
        wanted = torch.cat([expert.hidden for expert in experts])
        assert apart(weights[row, : case.neurons], wanted, case.hidden[row]) < 1e-9


# --- separate training and the CNN -----------------------------------------------------------------------------------


def fixed_case(dtype: torch.dtype, classes: int, *, experts: int, kept: tuple[int, ...]):
    """Rows of a fixed-gate model: patches (T, k, l, B, d) as they are fetched, padding filled with real numbers."""
    rows, most, batch, d, each = len(kept), max(kept), 5, 4, 3
    patches = numbers(5, rows, experts, most, batch, d, dtype=dtype)
    weights = numbers(6, rows, experts, each, d, dtype=dtype)
    outputs = 1 if classes == 2 else classes
    a = numbers(7, rows, experts * each, outputs, dtype=dtype)
    rates = torch.linspace(0.5, 1.5, rows, dtype=dtype)
    counted = (torch.arange(most) < torch.tensor(kept)[:, None]).to(dtype)
    rules = FixedRules(
        outputs=a / torch.tensor(kept, dtype=dtype)[:, None, None],
        valid=None if len(set(kept)) == 1 else counted,
        learning_rate=rates[:, None, None],
    )
    labels = torch.arange(rows * batch).view(rows, batch) % classes
    return patches, weights, a, rates, rules, labels


@BOTH
@pytest.mark.parametrize("classes, experts", [(2, 2), (4, 4), (2, 1), (4, 1)])
@pytest.mark.parametrize("kept", [(1, 3, 5), (4, 4)], ids=["different l", "one l"])
def test_fixed_step_is_autograds(dtype, classes, experts, kept):
    """Each expert is trained on patches of its own; the oracle is given just those, as its only patches."""
    patches, weights, a, rates, rules, labels = fixed_case(dtype, classes, experts=experts, kept=kept)
    after, loss = fixed_step(weights, patches, labels, rules)
    for row, count in enumerate(kept):
        hidden = [part.clone().requires_grad_(True) for part in weights[row]]
        outputs = a[row].chunk(experts)
        losses, right = [], []
        for sample, label in enumerate(labels[row].tolist()):
            answer = sum(
                oracle.output(
                    patches[row, s, :count, sample], [Expert(None, hidden[s], outputs[s], count)], gated=False
                )
                for s in range(experts)
            )
            losses.append(oracle.loss(answer, label))
            right.append(oracle.is_right(answer, label))
        gradients = torch.autograd.grad(torch.stack(losses).mean(), hidden)
        wanted = torch.stack([w.detach() - rates[row] * g for w, g in zip(hidden, gradients, strict=True)])
        assert apart(after[row], wanted, weights[row]) < TOLERANCE[dtype]
        assert loss.value[row].tolist() == pytest.approx(
            [one.item() for one in losses], rel=TOLERANCE[dtype], abs=TOLERANCE[dtype]
        )
        assert loss.right[row].tolist() == right


# --- losses ----------------------------------------------------------------------------------------------------------


@CLASSES
def test_loss_and_slope_are_autograds(classes):
    outputs = numbers(8, 3, 1 if classes == 2 else classes, 7, dtype=torch.float64) * 20
    outputs.requires_grad_(True)
    labels = torch.arange(21).view(3, 7) % classes
    loss = loss_of(outputs, labels)
    wanted = torch.stack([oracle.loss(outputs[t, :, b], int(labels[t, b])) for t in range(3) for b in range(7)])
    torch.testing.assert_close(loss.value.flatten(), wanted, rtol=1e-7, atol=1e-9)
    (slope,) = torch.autograd.grad(wanted.sum(), outputs)
    torch.testing.assert_close(loss.slope.detach(), slope, rtol=1e-7, atol=1e-9)


def test_extreme_outputs_give_finite_losses():
    loss = loss_of(torch.tensor([[[1e4, -1e4]]]), torch.tensor([[0, 0]]))
    assert loss.value.tolist() == [[0.0, 1e4]] and loss.slope.tolist() == [[[0.0, -1.0]]]
    many = loss_of(torch.tensor([[[1e4], [-1e4], [0.0]]]), torch.tensor([[1]]))
    assert many.value.tolist() == [[2e4]] and torch.isfinite(many.slope).all()


def test_an_answer_of_zero_is_wrong():
    """The paper's accuracy is P[y f > 0]: no answer is no right answer."""
    assert not loss_of(torch.zeros(1, 1, 2), torch.tensor([[0, 1]])).right.any()


# --- router training -------------------------------------------------------------------------------------------------


def test_closed_form_router_training_is_step_by_step_sgd():
    generator = torch.Generator().manual_seed(9)
    sums, routers = numbers(10, 3, 40, 6, dtype=torch.float64), numbers(11, 3, 2, 6, dtype=torch.float64)
    labels = torch.arange(40).expand(3, -1) % 2
    order = torch.stack([torch.randperm(40, generator=generator) for _ in range(7)])
    direction = router_direction(sums, labels, 2)
    settings = {"epochs": 7, "batch_size": 8, "learning_rate": 0.3}
    closed = train_routers(routers, direction, samples=40, **settings)
    by_sgd = oracle.train_routers(routers, sums, labels, order=order, **settings)
    unshuffled = oracle.train_routers(routers, sums, labels, **settings)
    assert apart(closed, by_sgd, routers) < 1e-9
    assert apart(closed, unshuffled, routers) < 1e-9


@pytest.mark.parametrize("classes", [2, 4])
def test_router_direction_is_minus_the_gradient_of_eq_6(classes):
    """Pair by pair (appendix M.1): classes i and i+1 train routers i and i+1, on their own samples only."""
    samples, routers = numbers(12, 24, 5, 3, dtype=torch.float64), numbers(13, classes, 3, dtype=torch.float64)
    labels = torch.arange(24) % classes
    found = router_direction(samples.sum(1)[None], labels[None], classes)[0]
    for first in range(0, classes, 2):
        pair = [part.clone().requires_grad_(True) for part in routers[first : first + 2]]
        mine = (labels == first) | (labels == first + 1)
        signs = [1 if label == first else -1 for label in labels[mine].tolist()]
        gradients = torch.autograd.grad(oracle.router_loss(*pair, samples[mine], signs), pair)
        torch.testing.assert_close(found[first : first + 2], -torch.stack(gradients), rtol=1e-12, atol=1e-12)
