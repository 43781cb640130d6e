"""A step in pattern coordinates against autograd through the paper's equations on vectors (oracle.py)."""

from __future__ import annotations

from typing import Any

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from moe_lab.core.routing import Scratch
from moe_lab.pruning import TokenMoE, TokenTask, Weights
from moe_lab.pruning.model import apply_step, route, sgd_step
from moe_lab.pruning.select import pruned
from tests.pruning import oracle

TRIALS = (0, 1)
EACH_ROUTING = pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
EACH_LOSS = pytest.mark.parametrize("loss", ["linear", "hinge"])
SMALL = TokenTask(patterns=12, tokens=9)


def random_values(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


def make(routing: str, loss: str = "linear", **changes: Any) -> TokenMoE:
    given = {"experts": 6, "neurons": 4, "top": 3, "learning_rate": 0.4, "router_learning_rate": 0.7, **changes}
    return TokenMoE(routing=routing, loss=loss, **given)


class Case:
    """Two trials on the way: weights that say something, data, and the same in vectors for the oracle.

    Args:
      large: how much longer routers are than a unit vector, roughly.
      kept: how many experts of each sign stay; None: all.
    """

    def __init__(
        self,
        model: TokenMoE,
        task: TokenTask = SMALL,
        *,
        batch: int = 7,
        large: float = 1.0,
        kept: int | None = None,
        dtype: torch.dtype = torch.float64,
        seed: int = 0,
    ) -> None:
        self.model, self.task, self.batch = model, task, batch
        k, m, d = model.experts, model.neurons, task.patterns
        routers = large * random_values(10 + seed, 2, k, d)
        # Neurons tell the two classes apart, so that the margins of some samples are above 1 and of others below.
        neurons = 2 * random_values(20 + seed, 2, k, d, m) / m
        whole = Weights.unpruned(routers.to(dtype), neurons.to(dtype))
        self.weights = whole
        if kept is not None:
            scores = random_values(30 + seed, 2, 2, k // 2)
            stays = scores.argsort(-1) < kept
            self.weights = pruned(whole, stays.flatten(1), model.routing)
        self.samples = task.sample(5 * batch, trials=TRIALS, seed=seed, dtype=dtype)
        self.patterns = task.vectors(TRIALS, seed)

    def portion(self, number: int) -> tuple[Tensor, Tensor]:
        part = self.samples.only(number * self.batch, (number + 1) * self.batch)
        return part.counts(), part.labels

    def mixture(self, trial: int, weights: Weights | None = None) -> oracle.Mixture:
        """Weights of a trial as vectors: component times pattern, summed over the patterns."""
        one, patterns = weights or self.weights, self.patterns[trial]
        return oracle.Mixture(
            one.routers[trial].double() @ patterns,
            one.neurons[trial].double().mT @ patterns,
            one.signs.double(),
            one.experts[trial].tolist(),
        )

    def wanted(self, steps: int = 1) -> tuple[list[oracle.Mixture], Tensor, list[int]]:
        """Mixtures after some steps; mean hinge loss and number of right answers of the last batch, before its step."""
        after, loss, right = [], [], []
        for trial in range(2):
            mixture, outputs = self.mixture(trial), torch.empty(0)
            for number in range(steps):
                begin, end = number * self.batch, (number + 1) * self.batch
                labels = self.samples.labels[trial, begin:end].double()
                x = oracle.tokens_of(self.samples.tokens[trial, begin:end], self.patterns[trial])
                rates = {"eta_e": self.model.learning_rate, "eta_r": self.model.router_learning_rate}
                rules = {"routing": self.model.routing, "top": self.model.top, "loss": self.model.loss}
                mixture, outputs = oracle.step(x, labels, mixture, **rules, **rates)
            after.append(mixture)
            loss.append(oracle.losses(outputs, labels, "hinge").mean())
            right.append(int((labels * outputs > 0).sum()))
        return after, torch.stack(loss), right

    def found(self, steps: int = 1, width: int | None = None) -> tuple[Weights, Tensor, list[int], Tensor]:
        """Weights after some steps of the engine, the last step's loss and right answers, and the sums kept up."""
        weights, sums, scratch = self.weights.clone(), self.weights.sums, Scratch()
        for number in range(steps):
            step = sgd_step(weights, sums, *self.portion(number), self.model, width or self.width, scratch)
            apply_step(weights, sums, step, scratch)
        return weights, step.loss, step.right.tolist(), sums

    @property
    def width(self) -> int:
        return self.model.width(self.task.tokens, self.task.patterns)


def check(case: Case, steps: int = 1, *, tolerance: float = 1e-10, width: int | None = None) -> None:
    """Weights move alike, relative to the largest move; loss and right answers agree; the sums are the weights' own.

    A move is a difference of weights, which are rounded themselves.
    """
    (after, loss, right), (weights, its_loss, its_right, sums) = case.wanted(steps), case.found(steps, width)
    for trial in range(2):
        start, end, wanted = case.mixture(trial), case.mixture(trial, weights), after[trial]
        for name in ("routers", "neurons"):
            moved = getattr(end, name) - getattr(start, name)
            expected = getattr(wanted, name) - getattr(start, name)
            allowed = tolerance * float(expected.abs().max()) + 1e-14 * float(getattr(start, name).abs().max())
            assert float((moved - expected).abs().max()) <= allowed, (name, trial)
    torch.testing.assert_close(its_loss.double(), loss, rtol=tolerance, atol=0)
    assert its_right == right
    torch.testing.assert_close(sums, weights.sums, rtol=max(tolerance, 1e-12), atol=tolerance)


@EACH_LOSS
@EACH_ROUTING
@pytest.mark.parametrize("kept", [None, 1, 2])
def test_a_step_is_autograds(routing, loss, kept):
    check(Case(make(routing, loss), kept=kept))
    check(Case(make(routing, loss), kept=kept), steps=5)


@EACH_LOSS
@EACH_ROUTING
@pytest.mark.parametrize("kept", [None, 2])
def test_a_step_in_float32(routing, loss, kept):
    case = Case(make(routing, loss), kept=kept, dtype=torch.float32)
    check(case, tolerance=1e-5)
    weights, *_, sums = case.found(steps=5)
    assert weights.neurons.dtype == weights.routers.dtype == sums.dtype == torch.float32


EXTREMES = {
    "one token or expert chosen": ({"top": 1}, {}),
    "two experts": ({"experts": 2, "top": 2}, {}),
    "one neuron": ({"neurons": 1}, {}),
    "no learning": ({"learning_rate": 0, "router_learning_rate": 0}, {}),
    "two tokens": ({"top": 2}, {"tokens": 2}),
    "three patterns, much repeated": ({}, {"patterns": 3, "tokens": 30}),
    "skewed patterns": ({}, {"zipf": 3.0, "tokens": 25}),
    "many patterns, few tokens": ({}, {"patterns": 60, "tokens": 3}),
    "another pair": ({}, {"pair": 4}),
}


@EACH_LOSS
@EACH_ROUTING
@pytest.mark.parametrize("name", EXTREMES)
def test_extremes(name, routing, loss):
    changes, others = EXTREMES[name]
    check(Case(make(routing, loss, **changes), SMALL.replace(**others)), steps=3)


@EACH_LOSS
def test_every_token_or_expert_is_chosen(loss):
    check(Case(make("expert-choice", loss, top=9)), steps=3)
    check(Case(make("token-choice", loss, top=6)), steps=3)
    check(Case(make("token-choice", loss, top=6), kept=1), steps=3)


@EACH_LOSS
@pytest.mark.parametrize("width", [1, 2, 5, 12])
def test_a_width_that_is_too_small_grows(width, loss):
    for task in (SMALL, SMALL.replace(patterns=40, tokens=4), SMALL.replace(zipf=2.0)):
        check(Case(make("expert-choice", loss), task), steps=2, width=min(width, task.patterns))


@EACH_LOSS
@EACH_ROUTING
@pytest.mark.parametrize("large", [30.0, 1e3, 1e5])
def test_routers_so_long_that_exponentials_vanish(routing, loss, large):
    """exp(-104) is 0 in float32 and exp(-746) in float64; gates among patterns far from the favourite still count."""
    check(Case(make(routing, loss, top=4), SMALL.replace(patterns=30, tokens=5), large=large), tolerance=1e-9)
    weights, *_ = Case(make(routing, loss), large=large, dtype=torch.float32).found(steps=3)
    assert weights.routers.isfinite().all() and weights.neurons.isfinite().all()


@st.composite
def cases(draw: st.DrawFn) -> tuple[TokenMoE, TokenTask, dict[str, Any], int | None]:
    routing = draw(st.sampled_from(["expert-choice", "token-choice"]))
    experts, tokens = 2 * draw(st.integers(1, 4)), draw(st.integers(2, 15))
    patterns = draw(st.integers(4, 20))
    model = make(
        routing,
        draw(st.sampled_from(["linear", "hinge"])),
        experts=experts,
        neurons=draw(st.integers(1, 5)),
        top=draw(st.integers(1, tokens if routing == "expert-choice" else experts)),
    )
    pair, zipf = draw(st.integers(0, 1)), draw(st.sampled_from([0.0, 1.0, 3.0]))
    task = TokenTask(patterns=patterns, tokens=tokens, zipf=zipf, pair=pair)
    more = {
        "batch": draw(st.integers(1, 8)),
        "large": draw(st.sampled_from([0.1, 1.0, 50.0])),
        "kept": draw(st.one_of(st.none(), st.integers(1, experts // 2))),
        "seed": draw(st.integers(0, 1000)),
    }
    return model, task, more, draw(st.one_of(st.none(), st.integers(1, patterns)))


@given(cases())
@settings(max_examples=60, deadline=None, derandomize=True)
def test_any_step_is_autograds(drawn: tuple[TokenMoE, TokenTask, dict[str, Any], int | None]) -> None:
    model, task, more, width = drawn
    check(Case(model, task, **more), steps=2, width=width, tolerance=1e-9)


# --- what the cases above have in them ------------------------------------------------------------------------------


@EACH_ROUTING
def test_the_losses_and_the_pruned_experts_make_a_difference(routing):
    """Otherwise one could stand for the other, and no test above would notice."""
    margins = []
    for loss in ("linear", "hinge"):
        case = Case(make(routing, loss))
        mixture, samples = case.mixture(0), case.samples
        x = oracle.tokens_of(samples.tokens[0], case.patterns[0])
        margins = samples.labels[0] * oracle.votes(x, mixture, routing, 3).sum(1)
        assert 0 < int((margins[:7] > 1).sum()) < 7, "all samples are on one side of the hinge"
    linear, hinge = (Case(make(routing, loss)).found()[0] for loss in ("linear", "hinge"))
    assert float((linear.routers - hinge.routers).abs().max()) > 1e-3
    assert float((linear.neurons - hinge.neurons).abs().max()) > 1e-3
    case = Case(make(routing), kept=1)
    assert case.weights.neurons.shape == (2, 2, 12, 4)
    assert case.weights.routers.shape == (2, 2 if routing == "expert-choice" else 6, 12)
    assert not torch.equal(case.weights.numbers[0], case.weights.numbers[1])


def test_routers_of_pruned_experts_stay_as_they_are():
    case = Case(make("token-choice"), kept=1)
    after, *_ = case.found(steps=3)
    for trial in range(2):
        still = sorted(set(range(6)) - set(case.weights.experts[trial].tolist()))
        assert len(still) == 4
        assert torch.equal(after.routers[trial, still], case.weights.routers[trial, still])
        assert not torch.equal(after.own_routers[trial], case.weights.own_routers[trial])


@EACH_ROUTING
def test_routers_do_not_move_with_l_1(routing):
    """The only gate is 1, whatever the router says."""
    case = Case(make(routing, top=1))
    after, *_ = case.found(steps=3)
    assert torch.equal(after.routers, case.weights.routers)
    assert not torch.equal(after.neurons, case.weights.neurons)


@EACH_ROUTING
def test_memory_that_is_used_again_does_not_show(routing):
    """Whatever an earlier step, larger or smaller, has left in it: here what is no number."""

    class Spoilt(Scratch):
        def __call__(self, name: str, like: Tensor, *shape: int) -> Tensor:
            return super().__call__(name, like, *shape).fill_(torch.nan)

    scratch = Spoilt()
    for tokens, batch, top in ((20, 9, 5), (9, 7, 3), (4, 1, 2), (12, 30, 5)):
        case = Case(make(routing, top=top), SMALL.replace(tokens=tokens), batch=batch)
        weights, sums = case.weights.clone(), case.weights.sums
        step = sgd_step(weights, sums, *case.portion(0), case.model, case.width, scratch)
        apply_step(weights, sums, step, scratch)
        wanted, *_ = case.found()
        assert torch.equal(weights.routers, wanted.routers) and torch.equal(weights.neurons, wanted.neurons)


@EACH_ROUTING
def test_a_neuron_at_zero_moves(routing):
    """The paper's indicator is <w_r, q> >= 0, so that neurons that start at 0 can learn; autograd's ReLU would not."""
    weights = Weights.unpruned(torch.zeros(1, 2, 3), torch.zeros(1, 2, 3, 1))
    model, counts = make(routing, experts=2, top=1), torch.tensor([[[1.0], [0.0], [1.0]]])
    sums = weights.sums
    apply_step(weights, sums, sgd_step(weights, sums, counts, torch.ones(1, 1), model, 3))
    assert weights.neurons[0, 0].flatten().tolist() == pytest.approx([0.4, 0, 0 if routing == "expert-choice" else 0.4])


@EACH_ROUTING
def test_votes_are_the_oracles(routing):
    for kept in (None, 2):
        case = Case(make(routing), SMALL, kept=kept)
        routed = route(case.weights, case.samples.counts(), case.model)
        outputs = case.weights.signs[:, None] * routed.outputs(case.weights.sums)
        for trial in range(2):
            x = oracle.tokens_of(case.samples.tokens[trial], case.patterns[trial])
            wanted = oracle.votes(x, case.mixture(trial), routing, 3)
            torch.testing.assert_close(outputs[trial].T, wanted, rtol=1e-11, atol=1e-12)
            gates = oracle.gates(x, case.mixture(trial), routing, 3)
            for pattern in case.task.specific:
                here = case.samples.tokens[trial] == pattern  # at most one of a sample
                wanted = (gates * here[:, None]).sum(2)
                torch.testing.assert_close(routed.gate_of(pattern)[trial].T, wanted, rtol=1e-11, atol=1e-12)
