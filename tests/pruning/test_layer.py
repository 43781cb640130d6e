"""The layer on vectors: the same function as in pattern coordinates, counted operations, memory that shrinks."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from moe_lab.pruning import PlantedStart, TokenMoE, TokenRun, TokenTask, Weights, fine_tune
from moe_lab.pruning.layer import Layer, counted_operations, inference_seconds, operations
from moe_lab.pruning.measures import evaluate
from moe_lab.pruning.select import pruned
from tests.pruning import oracle

EACH_ROUTING = pytest.mark.parametrize("routing", ["expert-choice", "token-choice"])
TASK = TokenTask(patterns=18, tokens=9)


def make(routing: str, **changes: int) -> TokenMoE:
    return TokenMoE(**{"experts": 8, "neurons": 5, "top": 3, **changes}, routing=routing)


def whole(seed: int = 0, dtype: torch.dtype = torch.float64) -> Weights:
    draw = torch.Generator().manual_seed(seed)
    routers, neurons = torch.randn(2, 8, 18, generator=draw), torch.randn(2, 8, 18, 5, generator=draw)
    return Weights.unpruned(routers.to(dtype), neurons.to(dtype))


def some(plus: int, minus: int, seed: int = 1) -> Tensor:
    """(2, 8) bool: other experts in every trial, so many of each sign."""
    draw = torch.Generator().manual_seed(seed)
    return torch.cat([torch.rand(2, 4, generator=draw).argsort(1) < count for count in (plus, minus)], dim=1)


# --- the same function ------------------------------------------------------------------------------------------------


@EACH_ROUTING
@pytest.mark.parametrize("counts", [(4, 4), (2, 3), (1, 1)])
def test_the_layer_is_the_pattern_form_and_the_oracle(routing, counts):
    model, samples = make(routing), TASK.sample(40, trials=[0, 1], seed=0, dtype=torch.float64)
    weights = pruned(whole(), some(*counts), routing)
    vectors = TASK.vectors([0, 1], seed=0)
    wanted = evaluate(weights, samples, model, TASK).output
    for trial in range(2):
        layer = Layer(weights, trial, vectors[trial], model)
        tokens = vectors[trial][samples.tokens[trial]]
        torch.testing.assert_close(layer(tokens), wanted[trial], rtol=1e-11, atol=1e-11)
        mixture = oracle.Mixture(
            layer.routers.detach(), layer.hidden.detach().mT, weights.signs, weights.experts[trial].tolist()
        )
        votes = oracle.votes(tokens, mixture, routing, model.top)
        torch.testing.assert_close(layer(tokens), votes.sum(1), rtol=1e-11, atol=1e-11)


@EACH_ROUTING
def test_tokens_need_not_be_patterns(routing):
    """Any vectors will do, alone or in a batch of any size."""
    model, weights, vectors = make(routing), whole(), TASK.vectors([0, 1], seed=0)
    layer = Layer(weights, 1, vectors[1], model)
    tokens = torch.randn(7, 12, 18, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
    mixture = oracle.Mixture(layer.routers.detach(), layer.hidden.detach().mT, weights.signs, list(range(8)))
    torch.testing.assert_close(layer(tokens), oracle.votes(tokens, mixture, routing, 3).sum(1), rtol=1e-11, atol=1e-11)
    torch.testing.assert_close(layer(tokens[4:5]), layer(tokens)[4:5], rtol=1e-12, atol=1e-12)


@pytest.mark.parametrize("routing, top", [("expert-choice", 5), ("token-choice", 2)])
def test_a_fine_tuned_and_pruned_layer_has_its_accuracy(routing, top):
    task = TokenTask(patterns=30, tokens=12)
    model = TokenMoE(experts=8, neurons=4, routing=routing, top=top, learning_rate=0.3, router_learning_rate=0.2)
    start = PlantedStart(important=1, others_norm=4, others_neurons=0.05)
    one = fine_tune(TokenRun(model=model, task=task, start=start, trials=2, test_samples=100, device="cpu"))
    kept = one.kept("router-norm-change", 0.5)
    smaller, vectors = one.pruned(kept), task.vectors([0, 1], seed=0)
    for trial in range(2):
        layer = Layer(smaller, trial, vectors[trial], model)
        outputs = layer(vectors[trial].float()[one.test.tokens[trial]])
        found = float((outputs * one.test.labels[trial] > 0).float().mean())
        assert found == pytest.approx(float(one.accuracy(kept)[trial])) and found > 0.9


@EACH_ROUTING
def test_gradients_flow_as_in_the_pattern_form(routing):
    """Routers and neurons learn; the head is fixed."""
    model, weights, vectors = make(routing), whole(), TASK.vectors([0, 1], seed=0)
    layer = Layer(weights, 0, vectors[0], model)
    layer(vectors[0][TASK.sample(9, trials=[0], seed=0).tokens[0]]).sum().backward()
    for name, parameter in layer.named_parameters():
        assert parameter.grad is not None and parameter.grad.abs().max() > 0, name
    assert {name for name, _ in layer.named_parameters()} == {"routers", "hidden"}


# --- operations -------------------------------------------------------------------------------------------------------


@st.composite
def sizes(draw: st.DrawFn) -> tuple[TokenMoE, int, int, int, int]:
    routing = draw(st.sampled_from(["expert-choice", "token-choice"]))
    experts, tokens = 2 * draw(st.integers(1, 6)), draw(st.integers(2, 12))
    top = draw(st.integers(1, tokens if routing == "expert-choice" else experts))
    model = TokenMoE(experts=experts, neurons=draw(st.integers(1, 9)), routing=routing, top=top)
    return model, 2 * draw(st.integers(1, experts // 2)), draw(st.integers(1, 16)), tokens, draw(st.integers(1, 5))


@given(sizes())
@settings(max_examples=60, deadline=None)
def test_the_formula_is_torchs_count(drawn: tuple[TokenMoE, int, int, int, int]) -> None:
    """Exactly, for any size, pruned or not, in both routings."""
    model, kept, dimension, tokens, samples = drawn
    layer = Layer.random(model, dimension, kept=kept)
    batch = torch.randn(samples, tokens, dimension, generator=torch.Generator().manual_seed(0))
    received = float(layer.received(batch).sum()) / samples
    wanted = operations(model, tokens=tokens, dimension=dimension, experts=kept, received=received)
    assert counted_operations(layer, batch) == pytest.approx(wanted, rel=1e-12)


def test_operations_by_hand():
    """n=100 tokens of d=200, m=20: a router takes 2 n d = 40,000; a token at an expert 2 d m + 2 m = 8,040."""
    model = TokenMoE()  # k=20 l=5
    given = {"tokens": 100, "dimension": 200}
    assert operations(model, experts=20, **given) == 20 * 40_000 + 100 * 8_040
    assert operations(model, experts=10, **given) == 10 * 40_000 + 50 * 8_040  # expert-choice: in proportion
    chosen = TokenMoE(routing="token-choice", top=2)
    assert operations(chosen, experts=20, received=200, **given) == 20 * 40_000 + 200 * 8_040
    assert operations(chosen, experts=10, received=90, **given) == 20 * 40_000 + 90 * 8_040  # all routers stay
    assert operations(chosen, experts=10, routers=10, received=90, **given) == 10 * 40_000 + 90 * 8_040


@EACH_ROUTING
def test_who_receives_how_many_tokens(routing):
    """Token by token; an unpruned layer of token-choice hands out n l of a sample, a pruned one loses some."""
    model, samples = make(routing), TASK.sample(20, trials=[0, 1], seed=0, dtype=torch.float64)
    vectors = TASK.vectors([0, 1], seed=0)
    tokens = vectors[0][samples.tokens[0]]
    for counts in ((4, 4), (1, 2)):
        weights = pruned(whole(), some(*counts), routing)
        layer = Layer(weights, 0, vectors[0], model)
        mixture = oracle.Mixture(
            layer.routers.detach(), layer.hidden.detach().mT, weights.signs, weights.experts[0].tolist()
        )
        wanted = (oracle.gates(tokens, mixture, routing, 3) > 0).sum((0, 2))
        assert layer.received(tokens).tolist() == wanted.tolist()
        if routing == "token-choice":
            assert (int(wanted.sum()) == 20 * 9 * 3) == (counts == (4, 4))
        else:
            assert wanted.tolist() == [60] * sum(counts)


# --- memory -----------------------------------------------------------------------------------------------------------


@EACH_ROUTING
def test_parameters_and_bytes_really_shrink(routing):
    """Counted in the storages that the layer keeps alive, not in what its tensors say."""
    model, vectors = make(routing), TASK.vectors([0, 1], seed=0)
    for counts in ((4, 4), (2, 2), (1, 2)):
        kept = sum(counts)
        layer = Layer(pruned(whole(), some(*counts), routing), 0, vectors[0], model)
        routers = kept if routing == "expert-choice" else 8
        assert layer.parameter_count == kept * 18 * 5 + routers * 18
        assert (
            layer.bytes == 8 * (layer.parameter_count + kept * 5) + 8 * kept
        )  # and the head, and who has which router
        held = {
            one.untyped_storage().data_ptr(): one.untyped_storage().nbytes()
            for one in (*layer.parameters(), *layer.buffers())
        }
        assert sum(held.values()) == layer.bytes
        assert layer.parameter_count == pruned(whole(), some(*counts), routing).parameters


@EACH_ROUTING
def test_random_layers_have_the_sizes_of_pruned_ones(routing):
    model = make(routing, experts=12)
    bytes_before = np.inf
    for kept in (12, 8, 2):
        layer = Layer.random(model, 24, kept=kept, seed=5)
        assert layer.hidden.shape == (kept, 24, 5)
        assert layer.routers.shape == (kept if routing == "expert-choice" else 12, 24)
        assert layer.head[:, 0, 0].tolist() == [1.0] * (kept // 2) + [-1.0] * (kept // 2)
        serving = layer.serving.tolist()
        if routing == "token-choice":  # the first + experts and the last - experts: each serves its own half
            assert all(s < 6 for s in serving[: kept // 2]) and all(s >= 6 for s in serving[kept // 2 :])
        assert len(set(serving)) == kept
        assert layer.bytes < bytes_before
        bytes_before = layer.bytes
        again = Layer.random(model, 24, kept=kept, seed=5)
        assert torch.equal(again.hidden, layer.hidden) and torch.equal(again.routers, layer.routers)
    assert torch.equal(Layer.random(model, 24).hidden, Layer.random(model, 24, kept=12).hidden)


# --- time -------------------------------------------------------------------------------------------------------------


def test_times_are_measured_for_each_layer_and_repeat():
    layers = [Layer.random(make("expert-choice"), 16, kept=kept) for kept in (8, 2)]
    seconds = inference_seconds(layers, torch.randn(3, 9, 16), repeats=4)
    assert seconds.shape == (2, 4) and (seconds > 0).all()


# --- wrong input ------------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("kept", [0, 1, 3, 10])
def test_kept_is_even_and_fits(kept):
    with pytest.raises(ValueError, match=rf"^kept must be even and between 2 and experts \(k\): got kept={kept}, k=8$"):
        Layer.random(make("expert-choice"), 16, kept=kept)


def test_vectors_are_as_many_as_patterns():
    with pytest.raises(ValueError, match=r"^vectors must be one row for each .* \(d\): got vectors=\(17, 17\), d=18$"):
        Layer(whole(), 0, torch.eye(17), make("expert-choice"))


def test_a_sample_shorter_than_l_is_refused():
    layer = Layer.random(make("expert-choice"), 16)
    with pytest.raises(ValueError, match=r"^top \(l\) must be at most tokens \(n\): got l=3, n=2$"):
        layer(torch.randn(1, 2, 16))
    assert Layer.random(make("token-choice"), 16)(torch.randn(1, 2, 16)).shape == (1,)


@pytest.mark.parametrize("repeats", [0, -1])
def test_a_time_needs_a_repeat(repeats):
    with pytest.raises(ValueError, match=rf"^repeats must be at least 1: got repeats={repeats}$"):
        inference_seconds([Layer.random(make("expert-choice"), 16)], torch.randn(1, 9, 16), repeats=repeats)
