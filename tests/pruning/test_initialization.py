"""Checkpoints to start from: what is promised of each, measured on drawn weights."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import scipy.stats
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from moe_lab.pruning import (
    BranchStart,
    PlantedStart,
    RandomStart,
    TokenMoE,
    TokenRun,
    TokenTask,
    Weights,
    initialization,
)
from moe_lab.pruning.learner import start_weights
from moe_lab.pruning.measures import evaluate
from moe_lab.pruning.model import route
from tests.pruning import oracle

TASK = TokenTask(patterns=60, tokens=20)
MODEL = TokenMoE(experts=10, neurons=6, top=4)
PLANTED = PlantedStart()
TRIALS = range(4)


def begun(start: initialization.Start, model: TokenMoE = MODEL, task: TokenTask = TASK, **more: Any) -> Weights:
    run = TokenRun(
        model=model, task=task, start=start, trials=len(TRIALS), seed=3, device="cpu", precision="float64", **more
    )
    return start_weights(run, run.trial_numbers, torch.device("cpu"), torch.float64)


# --- planted ----------------------------------------------------------------------------------------------------------


def check_important(router: torch.Tensor, neurons: torch.Tensor, own: int, margin: float) -> None:
    """The own pattern is C_p above every other one, and half of the neurons are active on it."""
    others = np.delete(router.numpy(), own)
    assert float(router[own]) - others.max() == pytest.approx(margin, rel=1e-9)
    active = int((neurons[own] > 0).sum())
    assert active == (neurons.shape[1] + 1) // 2


def check_other(router: torch.Tensor, task: TokenTask, start: PlantedStart) -> set[int]:
    """Both task patterns come last, and together; the norm is one up to twice the knob; returns the favourites.

    A router that came out shorter than what ranks the task last takes has no favourites to speak of.
    """
    specific, rest = router[list(task.specific)], router[task.irrelevant]
    assert specific[0] == specific[1] < rest.min()
    norm = float(router.norm())
    assert 0 <= norm <= 2 * start.others_norm * (1 + 1e-9)
    if norm < 4 * (start.margin + 0.01):
        return set()
    high = set(torch.nonzero(router > router.max() / 3)[:, 0].tolist())
    assert 1 <= len(high) <= start.favourites
    assert float(router[list(high)].norm()) > 0.9 * norm
    return high


@st.composite
def planted(draw: st.DrawFn) -> tuple[PlantedStart, TokenMoE, TokenTask, int]:
    half = draw(st.integers(2, 5))
    start = PlantedStart(
        important=draw(st.integers(0, half - 1)),
        margin=draw(st.sampled_from([1e-6, 0.05, 2.0])),
        others_norm=draw(st.sampled_from([3.0, 12.0, 500.0])),
        favourites=draw(st.sampled_from([1, 3, 8, 1000])),
        router_scale=1e-4,
    )
    task = TokenTask(patterns=draw(st.integers(12, 60)), pair=draw(st.integers(0, 3)), tokens=12)
    model = TokenMoE(experts=2 * half, neurons=draw(st.integers(1, 6)), top=2)
    return start, model, task, draw(st.integers(0, 10**6))


@given(planted())
@settings(max_examples=30, deadline=None, derandomize=True)
def test_a_planted_checkpoint_is_as_it_says(drawn: tuple[PlantedStart, TokenMoE, TokenTask, int]) -> None:
    start, model, task, seed = drawn
    routers, neurons = map(torch.as_tensor, initialization.planted_weights(start, model, task, range(2), seed))
    important = initialization.important_experts(start, model.experts, range(2), seed)
    half = model.experts // 2
    assert important[:, :half].sum(1).tolist() == important[:, half:].sum(1).tolist() == [start.important] * 2
    for trial in range(2):
        taken: set[int] = set()
        for expert in range(model.experts):
            router = routers[trial, expert]
            if important[trial, expert]:
                own = task.specific[int(expert >= half)]
                check_important(router, neurons[trial, expert], own, start.margin)
            else:
                favourites = check_other(router, task, start)
                assert not favourites & taken, "two experts share a favourite"
                taken |= favourites


def test_sizes_follow_the_knobs():
    """Norms and spreads of the others are uniform between 0 and twice the knob; the important ones are small."""
    start = PlantedStart(important=1, others_norm=6, others_neurons=0.3, neuron_scale=0.01)
    model, task = TokenMoE(experts=20, neurons=4), TokenTask(patterns=60)
    routers, neurons = initialization.planted_weights(start, model, task, range(60), seed=1)
    important = initialization.important_experts(start, 20, range(60), seed=1)
    norms = np.linalg.norm(routers, axis=2)
    assert scipy.stats.kstest(norms[~important] / 12, "uniform").pvalue > 1e-4
    spread = neurons[~important].std(axis=(1, 2))
    assert scipy.stats.kstest(spread / 0.6, "uniform").pvalue > 1e-4
    assert norms[important].max() < 0.3 and neurons[important].std() == pytest.approx(0.01, rel=0.02)


def test_the_planted_places_are_random_and_fair():
    start = PlantedStart(important=2)
    places = initialization.important_experts(start, 10, range(2000), seed=0)
    for half in (places[:, :5], places[:, 5:]):
        assert scipy.stats.chisquare(half.sum(0)).pvalue > 1e-4
    assert len({row.tobytes() for row in places}) > 90  # of (5 choose 2)^2 = 100


def test_others_never_see_the_task_and_important_ones_always_do():
    """p = 1 for the important ones, and 0 for the others, before training: what the assumptions of lemma 4.1 ask for.

    An other expert of large norm has gate 0 for the task's patterns wherever better tokens are at hand.
    """
    weights = begun(PLANTED)
    important = torch.as_tensor(initialization.important_experts(PLANTED, 10, TRIALS, seed=3))
    samples = TASK.sample(300, trials=TRIALS, seed=3, split="test", dtype=torch.float64)
    seen = evaluate(weights, samples, MODEL, TASK)
    half = torch.arange(10) < 5
    for sign, gates in ((1, seen.plus), (-1, seen.minus)):
        mine = (samples.labels == sign)[:, None].expand_as(gates)
        own = important & (half if sign == 1 else ~half)
        assert gates[own[..., None] & mine].min() > 0.25  # 1/l, as the own pattern leads
        assert gates[~important[..., None] & mine].max() == 0


def test_no_expert_is_important_when_none_is_asked_for():
    assert not initialization.important_experts(PlantedStart(important=0), 10, TRIALS, seed=0).any()
    weights = begun(PlantedStart(important=0))
    assert weights.routers.isfinite().all() and weights.neurons.isfinite().all()


# --- random -----------------------------------------------------------------------------------------------------------


def test_a_random_start_has_its_scales():
    """Section 5.1: variances 1e-8 and 1e-4."""
    weights = begun(RandomStart())
    for part, scale in ((weights.routers, 1e-4), (weights.neurons, 1e-2)):
        assert scipy.stats.kstest(part.flatten().numpy() / scale, "norm").pvalue > 1e-4
    wide = begun(RandomStart(router_scale=1e-2, neuron_scale=1e-1))
    torch.testing.assert_close(wide.routers, 100 * weights.routers)
    torch.testing.assert_close(wide.neurons, 10 * weights.neurons)


def test_an_expert_draws_the_same_in_every_larger_layer():
    small, large = begun(RandomStart()), begun(RandomStart(), MODEL.replace(experts=14, neurons=9))
    assert torch.equal(small.routers, large.routers[:, :10])
    assert torch.equal(small.neurons, large.neurons[:, :10, :, :6])
    assert len({row.numpy().tobytes() for row in large.routers.flatten(0, 1)}) == 4 * 14


# --- branches ---------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "experts, tasks, wanted",
    [
        (8, 2, [0, 1, 0, 1, 0, 1, 0, 1]),
        (10, 3, [0, 1, 2, 0, 1, 0, 1, 2, 0, 1]),
        (6, 1, [0] * 6),
        (4, 2, [0, 1, 0, 1]),
    ],
)
def test_branches_are_dealt_out_in_each_half(experts, tasks, wanted):
    assert initialization.branch_of(experts, tasks).tolist() == wanted


SPECIALISTS = BranchStart(tasks=2, steps=150, batch=50)


@pytest.fixture(scope="module")
def pretrained() -> Weights:
    return begun(SPECIALISTS, MODEL.replace(experts=12, learning_rate=0.2))


def own_gate(weights: Weights, model: TokenMoE, pair: int) -> torch.Tensor:
    """(T, k) share of samples in which an expert gets its own pattern of a task with a gate of at least 1/l."""
    task = TASK.replace(pair=pair)
    samples = task.sample(200, trials=TRIALS, seed=9, dtype=torch.float64)
    routed = route(weights, samples.counts(), model)
    half = model.experts // 2
    shares = []
    for sign, pattern, part in ((1, task.specific[0], slice(0, half)), (-1, task.specific[1], slice(half, None))):
        mine = (samples.labels == sign)[:, None]
        received = (routed.gate_of(pattern)[:, part] >= 1 / model.top) & mine
        shares.append(received.sum(2) / mine.sum(2))
    return torch.cat(shares, dim=1)


def test_each_branch_specialises_in_its_own_task(pretrained):
    """p > .5 for most experts' own task, and for hardly any other's: routing on samples of the downstream length."""
    model = MODEL.replace(experts=12)
    branches = torch.as_tensor(initialization.branch_of(12, 2))
    for pair in range(2):
        shares = own_gate(pretrained, model, pair)
        mine, others = shares[:, branches == pair], shares[:, branches != pair]
        assert float((mine > 0.5).double().mean()) > 0.75, pair
        assert float((others > 0.5).double().mean()) < 0.25, pair
        assert (mine > 0.5).sum(1).min() >= 3  # of six


def test_pre_training_short_of_tokens_is_what_makes_specialists():
    model = MODEL.replace(experts=12)
    assert SPECIALISTS.tokens_for(model) == model.top + 1
    assert BranchStart(tokens=9).tokens_for(model) == 9


@pytest.mark.parametrize("routing, top", [("expert-choice", 3), ("token-choice", 2)])
def test_each_branch_is_trained_by_the_papers_algorithm(routing, top):
    """From the random start, on samples of its own task, by autograd on vectors that know of no other branch."""
    start, task = (
        BranchStart(tasks=2, steps=4, batch=5, router_learning_rate=0.3, router_scale=0.5),
        TASK.replace(zipf=0.5),
    )
    model = MODEL.replace(experts=10, routing=routing, top=top, router_learning_rate=0.9)
    found, first = begun(start, model, task), begun(RandomStart(router_scale=0.5), model, task)
    patterns, branches = task.vectors([2], 3)[0], initialization.branch_of(10, 2)
    for number in range(2):
        members = np.flatnonzero(branches == number)
        routers, neurons = first.routers[2, members] @ patterns, first.neurons[2, members].mT @ patterns
        mixture = oracle.Mixture(routers, neurons, first.signs[members], list(range(len(members))))
        own = task.replace(pair=number, tokens=start.tokens_for(model))
        samples = own.sample(20, trials=[2], seed=3, split=f"pretrain {number}", dtype=torch.float64)
        for step in range(4):
            now = slice(5 * step, 5 * step + 5)
            x, labels = oracle.tokens_of(samples.tokens[0, now], patterns), samples.labels[0, now]
            rates: dict[str, Any] = {"loss": "linear", "eta_e": model.learning_rate, "eta_r": 0.3}
            mixture, _ = oracle.step(x, labels, mixture, routing=routing, top=top, **rates)
        torch.testing.assert_close(found.routers[2, members] @ patterns, mixture.routers, rtol=1e-9, atol=1e-11)
        torch.testing.assert_close(found.neurons[2, members].mT @ patterns, mixture.neurons, rtol=1e-9, atol=1e-11)
        assert float((mixture.routers - routers).abs().max()) > 1e-4, "nothing moved: the test says nothing"


def test_branches_know_nothing_of_each_other():
    """The experts of a branch are what they would be if the others' task had not been trained."""
    both = begun(BranchStart(tasks=2, steps=6, batch=5))
    for changes in ({"pair": 1}, {"zipf": 0.0}):  # the downstream task is not known in pre-training, but for its kind
        again = begun(BranchStart(tasks=2, steps=6, batch=5), task=TASK.replace(**changes))
        assert torch.equal(both.routers, again.routers) and torch.equal(both.neurons, again.neurons)
    first = begun(RandomStart())
    alone = begun(BranchStart(tasks=1, steps=6, batch=5))
    assert not torch.equal(both.routers, first.routers)
    even = initialization.branch_of(10, 2) == 0
    assert torch.equal(both.routers[:, even], alone.routers[:, even])  # expert-choice: nobody knows of the others
    assert not torch.equal(both.routers[:, ~even], alone.routers[:, ~even])
