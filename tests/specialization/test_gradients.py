"""Every form of a step against autograd through the paper's equations (oracle.py), cuts and ties included."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from contextlib import contextmanager, nullcontext
from dataclasses import dataclass

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch import Tensor

from moe_lab.core.graphs import as_on_accelerator
from moe_lab.specialization import (
    ClusterRun,
    ClusterSamples,
    ClusterTask,
    SingleExpert,
    SwitchMoE,
    TopKMoE,
    layer,
    learners,
    mixture,
)
from moe_lab.specialization import model as models
from moe_lab.specialization.activations import ACTIVATIONS
from moe_lab.specialization.layer import Layer, rows_of
from tests.specialization import oracle

EACH_ACTIVATION = pytest.mark.parametrize("activation", sorted(ACTIVATIONS))
EACH_OBJECTIVE = pytest.mark.parametrize("objective", ["paper", "authors"])
EACH_P = pytest.mark.parametrize("patches", [3, 6])
EACH_OBJECTIVE_AND_P = pytest.mark.parametrize("objective, patches", [("paper", 3), ("paper", 6), ("authors", 4)])
CUTS = (1000, 31, 7)
"""Pairs of a sample and an expert that go through the rows at once: all, and parts that cut experts' samples."""


@dataclass(frozen=True)
class Form:
    """How a layer is computed: with or without a signal basis, and every expert for every sample (there) or its own."""

    signal_basis: bool | None
    there: bool = False

    def bind(self, samples: ClusterSamples, model: SwitchMoE | SingleExpert) -> Layer:
        signs = torch.as_tensor(models.signs(model), dtype=samples.strengths.dtype)
        return Layer(samples, model.activation, signs, model.biases, self.signal_basis)

    @contextmanager
    def cut(self, bound: Layer, filters: int, pairs: int) -> Iterator[None]:
        """In parts of so many pairs."""
        with pytest.MonkeyPatch.context() as patch, as_on_accelerator() if self.there else nullcontext():
            if bound.rows is not None:
                patches, d = bound.rows.rows.shape[2:]
                patch.setattr(layer, "NUMBERS_IN_CACHE", pairs * patches * (d + filters))
            yield


GENERAL = {"sorted": Form(False), "masked": Form(False, there=True)}
IN_SIGNAL_BASIS = {"sorted, signal basis": Form(True), "masked, signal basis": Form(True, there=True)}


def forms_of(model: SwitchMoE) -> dict[str, Form]:
    if model.activation == "linear":
        return {"linear": Form(None)}
    possible = rows_of(model.activation, model.biases, None) == "noise"
    return {**GENERAL, **(IN_SIGNAL_BASIS if possible else {})}


def random_values(seed: int, *shape: int) -> Tensor:
    return torch.randn(*shape, generator=torch.Generator().manual_seed(seed), dtype=torch.float64)


class Case:
    """Two trials on the way: routers and filters that have moved, data, noise, and what the oracle makes of them."""

    def __init__(
        self, model: SwitchMoE, task: ClusterTask, samples: int = 48, *, noise: str = "values", dtype=torch.float64
    ) -> None:
        self.model, self.samples = model, task.sample(samples, trials=(0, 1), seed=5, dtype=dtype)
        biases, experts, d = model.biases, model.experts, task.dimension
        filters = 0.2 * random_values(1, 2, experts, model.filters, d + biases)
        routers = 0.3 * random_values(2, 2, experts, d + biases)
        self.noise = torch.rand(2, experts, samples, generator=torch.Generator().manual_seed(3), dtype=torch.float64)
        if noise == "ties":  # equal scores that every precision and every product calls equal
            routers.zero_()
            self.noise = (3 * self.noise).floor() / 2
        elif noise == "idle" and experts > 1:  # no sample goes to the first expert, nor to the last but one
            self.noise[:, [0, max(experts - 2, 0)]] -= 1e3
        if biases:
            routers[..., -1] = 0  # routers have none
        self.state = mixture.State(filters.to(dtype), routers.to(dtype), routers.new_zeros(2, experts).to(dtype))
        self.noise = self.noise.to(dtype)
        self.rules = oracle.Rules(
            model.activation, model.objective, model.learning_rate, model.router_learning_rate, model.load_balancing
        )
        self.exact = task.sample(samples, trials=(0, 1), seed=5, dtype=torch.float64)

    def oracle_of(self, trial: int) -> oracle.Mixture:
        filters, router = self.state.experts[trial].double(), self.state.routers[trial].double()
        if self.model.biases:
            return oracle.Mixture(filters[..., :-1].clone(), filters[..., -1].clone(), router[:, :-1].clone())
        return oracle.Mixture(filters.clone(), None, router.clone())

    def joined(self, mixtures: list[oracle.Mixture]) -> mixture.State:
        filters, routers = torch.stack([one.filters for one in mixtures]), torch.stack([one.router for one in mixtures])
        if self.model.biases:
            filters = torch.cat((filters, torch.stack([one.biases for one in mixtures])[..., None]), dim=-1)
            routers = torch.nn.functional.pad(routers, (0, 1))
        return mixture.State(filters, routers, self.state.bias)

    def asked(self, ask: Callable[..., tuple], now: oracle.Mixture, trial: int) -> tuple:
        labels, noise = self.exact.labels[trial].double(), self.noise[trial].double().T
        return ask(self.exact.patches()[trial], labels, noise, now, self.rules)

    def wanted(self, steps: int = 1) -> tuple[mixture.State, list[float], list[int]]:
        """State, losses of the last step, and how many samples it answered rightly."""
        after, losses, right = [], [], []
        for trial in range(2):
            now = self.oracle_of(trial)
            for _ in range(steps):
                now, loss, margins = self.asked(oracle.step, now, trial)
            after.append(now)
            losses.append(loss)
            right.append(int((margins > 0).sum()))
        return self.joined(after), losses, right

    def found(self, form: Form, pairs: int, steps: int = 1) -> tuple[mixture.State, list[float], list[int]]:
        state, bound = self.state, form.bind(self.samples, self.model)
        with form.cut(bound, self.model.filters, pairs):
            for _ in range(steps):
                state, sums = mixture.step(state, bound, self.noise, self.model)
        return state, (sums.loss / len(self.samples)).tolist(), sums.right.tolist()


def check(case: Case, found: tuple, wanted: tuple, about: str, tolerance: float) -> None:
    """Steps are the same relative to the largest move in them, or both are nothing."""
    for name in ("experts", "routers"):
        before = getattr(case.state, name).double()
        moved, expected = (getattr(side[0], name).double() - before for side in (found, wanted))
        largest = float(expected.abs().max())
        assert float((moved - expected).abs().max()) <= tolerance * max(largest, 1e-6), (about, name)
    assert found[1] == pytest.approx(wanted[1], rel=tolerance), about
    assert found[2] == wanted[2], about


def make(activation: str, objective: str, **changes: float) -> SwitchMoE:
    given = {"experts": 5, "filters": 6, "learning_rate": 1.0, "router_learning_rate": 3.0, **changes}
    return SwitchMoE(activation=activation, objective=objective, **given)


def small(patches: int = 4, **changes: int) -> ClusterTask:
    return ClusterTask(**{"clusters": 3, "dimension": 10, "patches": patches, **changes})


@EACH_OBJECTIVE_AND_P
@EACH_ACTIVATION
def test_a_step_is_autograds(activation, objective, patches):
    """In every form, in one part and in several, with and without load balancing, ties and experts without samples."""
    for balancing in (0.0, 0.7):
        model = make(activation, objective, load_balancing=balancing)
        for noise in ("values", "ties", "idle"):
            case = Case(model, small(patches), noise=noise)
            wanted = case.wanted()
            for name, form in forms_of(model).items():
                for pairs in CUTS if noise == "values" else CUTS[2:]:
                    found = case.found(form, pairs)
                    check(case, found, wanted, f"{name}, {noise}, {balancing}, {pairs}", 1e-9)


@EACH_OBJECTIVE_AND_P
@EACH_ACTIVATION
def test_gradients_in_float32(activation, objective, patches, monkeypatch):
    """Before they are normalised: afterwards, rounding counts for more wherever an expert's samples cancel out."""
    monkeypatch.setattr(mixture, "normalised", lambda gradient, biases: gradient)
    model = make(activation, objective, load_balancing=0.3)
    for noise in ("values", "ties", "idle"):
        case = Case(model, small(patches), noise=noise, dtype=torch.float32)
        slopes, losses, _ = zip(*(case.asked(oracle.gradients, case.oracle_of(i), i) for i in range(2)), strict=True)
        wanted = case.joined(list(slopes))
        for name, form in forms_of(model).items():
            after, loss, _ = case.found(form, 31)
            for part, rate in (("experts", model.learning_rate), ("routers", model.router_learning_rate)):
                found = (getattr(case.state, part) - getattr(after, part)).double() / rate
                expected = getattr(wanted, part)
                assert (found - expected).abs().max() <= 1e-5 * expected.abs().max(), (name, noise, part)
            assert loss == pytest.approx(losses, rel=1e-5)


def test_each_experts_gradient_is_normalised_for_itself():
    gradient = random_values(4, 2, 3, 4, 5) * 10.0 ** torch.tensor([-9, 0, 9])[:, None, None]
    gradient[1, 2] = 0
    lengths = mixture.normalised(gradient, False).norm(dim=(2, 3))
    assert lengths.flatten().tolist() == pytest.approx([1, 1, 1, 1, 1, 0])
    apart = mixture.normalised(gradient, True)
    for part in (apart[..., :-1], apart[..., -1:]):
        assert part.norm(dim=(2, 3)).flatten().tolist() == pytest.approx([1, 1, 1, 1, 1, 0])
    torch.testing.assert_close(
        mixture.normalised(gradient.float(), False).double(), mixture.normalised(gradient, False)
    )


@EACH_OBJECTIVE
@EACH_ACTIVATION
def test_many_steps_stay_on_autograds_path(activation, objective):
    model = make(activation, objective, learning_rate=0.01, router_learning_rate=0.5, load_balancing=0.02)
    case = Case(model, small())
    wanted = case.wanted(steps=10)
    for name, form in forms_of(model).items():
        check(case, case.found(form, 31, steps=10), wanted, name, 1e-9)


def test_the_ties_and_the_idle_experts_are_real():
    """Without them, the tests above would say nothing about them."""
    for objective in ("paper", "authors"):
        case = Case(make("cubic", objective), small(), noise="ties")
        scores = case.noise.sort(dim=1, descending=True).values
        assert (scores[:, 0] == scores[:, 1]).sum() > 30 and not case.state.routers.any()
        case = Case(make("cubic", objective), small(), noise="idle")
        after, *_ = case.found(GENERAL["sorted"], 1000)
        assert torch.equal(after.experts[:, [0, 3]], case.state.experts[:, [0, 3]])
        moves = torch.linalg.vector_norm((after.experts - case.state.experts)[..., :10], dim=(2, 3))
        torch.testing.assert_close(moves[:, [1, 2, 4]], torch.ones(2, 3, dtype=torch.float64))  # of length eta


def test_the_objectives_and_the_balancing_differ():
    """Otherwise one of them could be the other, and no test above would notice."""
    task = small()
    paper, balanced = (Case(make("relu", "paper", load_balancing=w), task).wanted()[0] for w in (0.0, 0.7))
    assert float((paper.routers - balanced.routers).abs().max()) > 0.01
    assert torch.equal(paper.experts, balanced.experts)  # the balance does not ask the experts
    assert Case(make("relu", "authors"), task).wanted()[1] != pytest.approx(
        Case(make("relu", "paper"), task).wanted()[1]
    )


@st.composite
def cases(draw: st.DrawFn) -> tuple[SwitchMoE, ClusterTask, int, int, str]:
    clusters, samples = draw(st.integers(2, 5)), draw(st.integers(1, 40))
    task = ClusterTask(
        clusters=clusters,
        patches=draw(st.integers(3, 7)),
        dimension=draw(st.integers(max(4, 2 * clusters), 16)),
        noise=draw(st.sampled_from([0.0, 0.5, 1.0])),
        feature=draw(st.sampled_from([(0.5, 2.0), (1.0, 1.0)])),
        scale=draw(st.sampled_from([1.0, 0.3])),
    )
    model = make(
        draw(st.sampled_from(sorted(ACTIVATIONS))),
        draw(st.sampled_from(["paper", "authors"])),
        experts=draw(st.integers(1, 6)),
        filters=2 * draw(st.integers(1, 4)),
        load_balancing=draw(st.sampled_from([0.0, 0.1])),
    )
    return model, task, samples, draw(st.integers(1, 60)), draw(st.sampled_from(["values", "ties", "idle"]))


@given(cases())
@settings(max_examples=40, deadline=None, derandomize=True)
def test_any_step_is_autograds(drawn: tuple[SwitchMoE, ClusterTask, int, int, str]) -> None:
    model, task, samples, pairs, noise = drawn
    # Where a lone sample is answered for certain, the authors' two softmaxes cancel, in autograd as here.
    tolerance = 1e-9 if model.objective == "paper" else 1e-6
    case = Case(model, task, samples, noise=noise)
    wanted = case.wanted()
    for name, form in forms_of(case.model).items():
        check(case, case.found(form, pairs), wanted, name, tolerance)


# --- the parts --------------------------------------------------------------------------------------------------------


@EACH_OBJECTIVE_AND_P
@EACH_ACTIVATION
def test_every_expert_on_every_sample(activation, objective, patches, monkeypatch):
    monkeypatch.setattr(layer, "SAMPLES_AT_ONCE", 17)
    model = make(activation, objective)
    case = Case(model, small(patches))
    everything = case.exact.patches()
    for name, form in forms_of(model).items():
        bound = form.bind(case.samples, model)
        with form.cut(bound, model.filters, 1000):
            found = bound.every(case.state.experts)
        for trial in range(2):
            wanted = oracle.outputs(everything[trial], case.oracle_of(trial), case.rules)
            torch.testing.assert_close(found[trial].T, wanted, rtol=1e-11, atol=1e-11, msg=name)


@EACH_OBJECTIVE_AND_P
@pytest.mark.parametrize("several", [1, 3])
@pytest.mark.parametrize("activation", sorted(set(ACTIVATIONS) - {"linear"}))
def test_masked_and_sorted_forms_give_the_same_parts(activation, several, objective, patches):
    """The form for GPUs against the one for CPUs: outputs, slopes and gradients, before anything is normalised."""
    model = make(activation, objective)
    for noise in ("values", "ties", "idle"):
        case = Case(model, small(patches), noise=noise)
        slots = case.noise.argsort(dim=1, descending=True, stable=True)[:, :several]
        factors = torch.linspace(0.2, 1, 2 * several * 48, dtype=torch.float64).view(2, several, 48)
        parts = []
        for form in forms_of(model).values():
            bound = form.bind(case.samples, model)
            with form.cut(bound, model.filters, 29):
                parts.append(bound.gradient(case.state.experts, slots, factors, models.paper_link))
        assert len(parts) == (4 if rows_of(activation, model.biases, None) == "noise" else 2)
        for other in parts[1:]:
            for a, b in zip(parts[0], other, strict=True):
                torch.testing.assert_close(b, a, rtol=1e-11, atol=1e-11)


def routed(scores: Tensor, chosen: int = 1) -> mixture.Routing:
    """Samples sent to experts by given scores: routers of 0 have none of their own."""
    trials, experts, samples = scores.shape
    model = TopKMoE(experts=experts, experts_per_sample=chosen)
    bound = Form(None).bind(small().sample(samples, trials=range(trials), seed=0, dtype=scores.dtype), model)
    state = mixture.State(
        scores.new_zeros(trials, experts, 8, 10), scores.new_zeros(trials, experts, 10), scores[..., 0]
    )
    return mixture.route(state, bound, scores, model)


@given(st.integers(1, 6), st.integers(1, 3), st.integers(1, 30), st.integers(1, 3), st.integers(0, 10**6))
@settings(max_examples=80, deadline=None)
def test_samples_go_to_the_largest_scores_and_the_lowest_numbers(experts, chosen, samples, levels, seed):
    chosen = min(chosen, experts)
    scores = torch.randint(levels, (2, experts, samples), generator=torch.Generator().manual_seed(seed)).double()
    routing = routed(scores, chosen)
    assert torch.equal(routing.slots, routing.picked)
    for trial in range(2):
        assert routing.picked[trial, 0].tolist() == oracle.winners(scores[trial].T)
        for n in range(samples):
            wanted = sorted(range(experts), key=lambda m: (-scores[trial, m, n].item(), m))[:chosen]
            assert routing.picked[trial, :, n].tolist() == wanted
            assert routing.chosen[trial, :, n].nonzero()[:, 0].tolist() == sorted(wanted)
    values = random_values(seed, 2, experts, samples)
    torch.testing.assert_close(routing.spread(values.gather(1, routing.picked)), values * routing.chosen)


def test_scores_that_are_no_numbers_still_send_a_sample_somewhere():
    """A trial that has diverged must not stop the others."""
    scores = torch.tensor([[[float("nan"), 1.0], [0.0, 2.0]], [[5.0, 1.0], [4.0, 3.0]]])
    routing = routed(scores)
    assert (routing.chosen.sum(1) == 1).all()
    assert routing.picked[1, 0].tolist() == [0, 1] and int(routing.picked[0, 0, 1]) == 1


def test_linear_experts_see_only_the_sum_of_their_filters():
    """All filters of a linear expert take the same step, so their sum is all there is to learn."""
    case = Case(make("linear", "paper"), small())
    after, *_ = case.found(Form(None), 1000)
    moves = after.experts - case.state.experts
    torch.testing.assert_close(moves, moves[:, :, :1].expand_as(moves))


# --- the single expert ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize("biases", [False, True], ids=["no biases", "biases"])
@EACH_P
@EACH_ACTIVATION
def test_the_single_expert_is_adams(activation, patches, biases, monkeypatch):
    model = SingleExpert(filters=6, activation=activation, learning_rate=0.02, weight_decay=0.01, biases=biases)
    task = small(patches, scale=2)
    run = ClusterRun(model=model, task=task, samples=260, test_samples=10, trials=2, precision="float64", device="cpu")
    samples = task.sample(260, trials=(0, 1), seed=0, dtype=torch.float64)
    monkeypatch.setattr(layer, "NUMBERS_IN_CACHE", 2**12)  # several parts of samples
    learner = learners.SingleLearner(run, (0, 1))
    before = learner.weights.detach().clone()
    learner.advance(1)
    first = learner.loss.tolist()
    learner.advance(11)
    for trial in range(2):
        start = before[trial, 0]
        filters, bias, losses = oracle.single_steps(
            samples.patches()[trial],
            samples.labels[trial].double(),
            start[:, : task.dimension],
            start[:, -1] if biases else None,
            activation=activation,
            rate=0.02,
            decay=0.01,
            steps=12,
        )
        found = learner.weights.detach()[trial, 0]
        torch.testing.assert_close(found[:, : task.dimension], filters, rtol=1e-8, atol=1e-9)
        if biases:
            torch.testing.assert_close(found[:, -1], bias, rtol=1e-8, atol=1e-9)
        assert (first[trial], float(learner.loss[trial])) == pytest.approx((losses[0], losses[-1]), rel=1e-9)


@EACH_ACTIVATION
def test_the_single_expert_has_both_signs(activation):
    """Half of its filters count for each label, so that it can answer both whatever sigma is."""
    counted = models.signs(SingleExpert(filters=6, activation=activation))
    assert counted.tolist() == [1, 1, 1, -1, -1, -1]
