"""Training: what it computes, against the oracle; what it tells, and when; how it ends."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.snapshots import final
from moe_lab.core.trials import stream
from moe_lab.specialization import ClusterRun, ClusterTask, SingleExpert, SwitchMoE, train, train_run
from moe_lab.specialization.mixture import initial_experts
from moe_lab.specialization.model import stops_early
from tests.specialization import oracle

TASK = ClusterTask(clusters=3, dimension=16, noise=0.5)
SMALL = {"experts": 6, "filters": 6}
FAST: dict[str, Any] = {"samples": 80, "test_samples": 60, "trials": 3, "seed": 11, "steps": 8, "device": "cpu"}
MODELS = [
    SwitchMoE(**SMALL, learning_rate=0.02),
    SwitchMoE(**SMALL, learning_rate=0.02, activation="tanh"),
    SwitchMoE(**SMALL, learning_rate=0.02, activation="linear"),
    SwitchMoE.authors(**SMALL),
    SingleExpert(filters=6),
]
EACH = pytest.mark.parametrize("model", MODELS, ids=lambda model: f"{model.name} {model.activation} {model.steps}")


# --- against the paper's algorithm ----------------------------------------------------------------------------------


class Noise:
    """r of one trial, (N, M): drawn afresh at every step (algorithm 1, line 4), but always the same in measuring.

    Only the authors' code has noise where nothing is trained.
    """

    def __init__(self, model: SwitchMoE, seed: int, trial: int) -> None:
        self.model, self.seed, self.trial = model, seed, trial
        self.training = stream(seed, trial, "router noise")

    def sample(self, draws: np.random.Generator, samples: int) -> torch.Tensor:
        drawn = draws.random((self.model.experts, samples), dtype=np.float32)
        return torch.as_tensor(drawn).double().T * self.model.router_noise

    def measuring(self, split: str, samples: int) -> torch.Tensor:
        drawn = self.sample(stream(self.seed, self.trial, f"{split} noise"), samples)
        return drawn if self.model.objective == "authors" else torch.zeros_like(drawn)


@pytest.mark.parametrize("objective", ["paper", "authors"])
@pytest.mark.parametrize("activation", ["cubic", "linear", "gelu"])
def test_a_training_is_the_papers_algorithm(activation, objective):
    """Data, first weights, noise, steps and measures together, step by step in float64."""
    make = SwitchMoE if objective == "paper" else SwitchMoE.authors
    model = make(experts=4, filters=4, activation=activation, learning_rate=0.001, initial_scale=0.02, router_noise=0.7)
    rules = oracle.Rules(activation, objective, model.learning_rate, model.router_learning_rate)
    snapshots = list(train(model, TASK, **FAST, precision="float64", record_every=1))
    assert snapshots[-1].steps.tolist() == [8] * 3
    for trial in range(3):
        data = TASK.sample(80, trials=[trial], seed=11, dtype=torch.float64)
        patches, labels = data.patches()[0], data.labels[0].double()
        filters = initial_experts([trial], 11, model, 16)[0]
        biases = filters[..., -1] if objective == "authors" else None
        mixture = oracle.Mixture(filters[..., :16], biases, torch.zeros(4, 16, dtype=torch.float64))
        noise = Noise(model, 11, trial)
        for snapshot in snapshots:
            if snapshot.step in (0, 8):  # as it is now
                if snapshot.step:
                    mixture, *_ = oracle.step(patches, labels, noise.sample(noise.training, 80), mixture, rules)
                value, margins = oracle.loss(patches, labels, noise.measuring("train", 80), mixture, rules)
                loss = float(value)
            else:  # as it was when the step began
                mixture, loss, margins = oracle.step(patches, labels, noise.sample(noise.training, 80), mixture, rules)
            assert snapshot["train_loss"][trial] == pytest.approx(loss, rel=1e-9)
            assert snapshot["train_accuracy"][trial] == pytest.approx(float((margins > 0).double().mean()))
            products = mixture.router @ data.signals[0].T
            np.testing.assert_allclose(snapshot["router_feature"][trial], products[:, :3], rtol=1e-6, atol=1e-10)
            np.testing.assert_allclose(snapshot["router_center"][trial], products[:, 3:], rtol=1e-6, atol=1e-10)
            largest = (mixture.filters @ data.signals[0].T).abs().amax(1)
            np.testing.assert_allclose(snapshot["expert_feature"][trial], largest[:, :3], rtol=1e-6)
        test = TASK.sample(60, trials=[trial], seed=11, split="test", dtype=torch.float64)
        labels = test.labels[0].double()
        _, margins = oracle.loss(test.patches()[0], labels, noise.measuring("test", 60), mixture, rules)
        assert snapshots[-1]["test_accuracy"][trial] == pytest.approx(float((margins > 0).double().mean()))


@pytest.mark.parametrize("activation", ["cubic", "relu", "celu", "tanh", "linear"])
def test_data_times_ten_is_other_step_sizes(activation):
    """(eta, eta_r, sigma_0) on 10 x is (10 eta, 100 eta_r, 10 sigma_0) on x: what the authors' step sizes mean."""
    given = {**FAST, "steps": 30, "precision": "float64", "record_every": 5}
    ours = SwitchMoE(**SMALL, activation=activation, learning_rate=0.02, router_learning_rate=8.0, initial_scale=0.01)
    theirs = ours.replace(learning_rate=0.002, router_learning_rate=0.08, initial_scale=0.001)
    for a, b in zip(train(ours, TASK, **given), train(theirs, TASK.replace(scale=10), **given), strict=True):
        for name in a.values:
            times = 10 if name.startswith(("expert_f", "expert_c", "router")) else 1
            np.testing.assert_allclose(a[name], times * b[name], rtol=1e-8, atol=1e-10, err_msg=f"{a.step} {name}")
    assert np.ptp(a["router_center"]) > 0.1, "nothing moved: the test says nothing"


@pytest.mark.parametrize(
    "model",
    [
        MODELS[0],
        MODELS[0].replace(activation="relu"),
        MODELS[3],
        SingleExpert(filters=6, biases=False),
        SingleExpert(filters=6, biases=True),
    ],
)
def test_the_signal_basis_trains_the_same(model):
    basis, general = (
        list(train(model, TASK, **{**FAST, "steps": 40}, precision="float64", signal_basis=way))
        for way in (True, False)
    )
    for a, b in zip(basis, general, strict=True):
        for name in a.values:
            np.testing.assert_allclose(a[name], b[name], rtol=1e-7, atol=1e-9, err_msg=name)


def test_nonlinear_experts_specialise():
    """A small easy task: accuracy climbs, and the entropy falls from log 3."""
    first, *_, last = train(MODELS[0], TASK, samples=600, test_samples=400, trials=6, seed=0, steps=150, device="cpu")
    assert (first["test_accuracy"] < 0.7).all() and (first["dispatch_entropy"] > 0.95 * np.log(3)).all()
    assert np.median(last["test_accuracy"]) > 0.99 and (last["test_accuracy"] > 0.85).all()
    assert np.median(last["dispatch_entropy"]) < 0.15
    assert (last["train_loss"] < first["train_loss"]).all()
    mine = last["expert_accuracy"].max(1)  # for each cluster there is an expert that answers it
    assert np.median(mine) > 0.99


def test_the_authors_objective_learns_too():
    model = MODELS[3]
    last = final(train(model, TASK.replace(scale=10), **{**FAST, "samples": 600, "steps": 300}))
    assert (last["test_accuracy"] > 0.9).all()


def test_a_single_expert_does_not_learn_it():
    """Theorem 4.1: 87.5 % at most where alpha and gamma are drawn alike."""
    last = final(
        train(
            SingleExpert(filters=16),
            TASK.replace(scale=10),
            **{**FAST, "samples": 600, "test_samples": 600, "steps": 150},
        )
    )
    assert (last["test_accuracy"] < 0.875).all() and (last["test_accuracy"] > 0.55).all()


def test_authors_runs_share_one_data_set_and_differ_in_their_start():
    task = TASK.replace(one_data_set=True, scale=10)
    first, *_, last = train(MODELS[3], task, **FAST)
    assert (first["dispatch"].sum(2) == first["dispatch"].sum(2)[0]).all()  # the same test samples
    assert len({row.tobytes() for row in last["expert_feature"]}) == 3


# --- when the authors' trials end -------------------------------------------------------------------------------------


def test_the_authors_rule_for_stopping():
    """A new best loss never stops a trial; one worse by more than .02 does, and any that is no best from .314 down."""
    best = torch.tensor([0.5, 0.5, 0.5, 0.5, 0.313, 0.314, torch.inf, 0.3134])
    loss = torch.tensor([0.4, 0.51, 0.5201, 0.5, 0.3139, 0.3141, 9.0, 0.3133])
    assert stops_early(loss, best).tolist() == [False, False, True, False, True, False, False, False]


def test_an_authors_trial_stops_and_stands_still():
    """No weights move after a trial's end, whatever the others do; the paper's objective has no such end."""
    given = {**FAST, "samples": 150, "trials": 4, "steps": 150, "record_every": 1, "precision": "float64"}
    model = SwitchMoE.authors(**SMALL, learning_rate=0.006)
    snapshots = list(train(model, TASK.replace(scale=10), **given))
    last = snapshots[-1]
    assert last.finished.all() and not last.diverged.any()
    assert len(set(last.steps.tolist())) > 1 and last.steps.min() < 150, "all ended together: the test says nothing"
    assert last.step == last.steps.max() + (last.steps.max() < 150)  # the step that stops a trial is not taken
    for trial, end in enumerate(last.steps.tolist()):
        at = snapshots[end]
        for snapshot in snapshots[end:]:
            for name in ("expert_feature", "router_center", "test_accuracy", "dispatch"):
                np.testing.assert_array_equal(snapshot[name][trial], at[name][trial], err_msg=name)
        stopped = snapshots[end + 1 : -1]  # from the step that was not taken on; the end is measured afresh
        assert len({float(snapshot["train_loss"][trial]) for snapshot in stopped}) <= 1
        running = [snapshot for snapshot in snapshots if snapshot.step <= end and snapshot.step < 150]
        assert not any(snapshot.finished[trial] for snapshot in running)
        losses = [float(snapshot["train_loss"][trial]) for snapshot in snapshots[1 : end + 1]]
        for i, loss in enumerate(losses[:-1]):
            best = min(losses[:i], default=np.inf)
            assert not (loss > best and (loss > best + 0.02 or loss <= 0.314))
    paper = SwitchMoE(**SMALL, learning_rate=0.03)
    assert final(train(paper, TASK, **{**given, "record_every": 150})).steps.tolist() == [150] * 4


# --- Snapshots ------------------------------------------------------------------------------------------------------


@EACH
def test_step_zero_is_before_training(model):
    first, *_, last = train(model, TASK, **FAST)
    near = 0.5 if model.name == "single" else 1e-2  # the authors' loss is log 2 at margin 0, too
    assert abs(first["train_loss"] - np.log(2)).max() < near and (last["train_loss"] < first["train_loss"]).all()
    if model.name == "moe":
        assert not first["router_feature"].any() and not first["router_center"].any()
        if model.objective == "paper":  # no noise in tests, so that all samples tie, and go to the first expert
            assert (first["expert_load"] == [1, 0, 0, 0, 0, 0]).all()


# --- where a result comes from ----------------------------------------------------------------------------------------


def test_a_result_says_why_it_stopped():
    asked = next(train(MODELS[0], TASK, **FAST)).origin["stops"]
    assert asked == "after the 8 steps asked for"
    default = {name: value for name, value in FAST.items() if name != "steps"}
    for model, steps in ((MODELS[0], 300), (MODELS[3], 500), (MODELS[4], 500)):
        run = ClusterRun(model=model, task=TASK, **default)
        assert run.last_step == steps and run.why_it_stops == f"after {steps} steps, the default: {model.why_it_stops}"
        assert next(train_run(run)).origin["stops"] == run.why_it_stops


class _Renamed(SwitchMoE):
    """The same mixture under another name."""


class _Rerouted(SwitchMoE):
    def route(self, scores):
        return scores


def test_a_subclass_trains_as_its_base_and_one_with_a_router_of_its_own_is_refused():
    short = {"samples": 60, "test_samples": 30, "trials": 1, "steps": 2}
    mine, theirs = (final(train(model, ClusterTask(), **short)) for model in (_Renamed(), SwitchMoE()))
    assert (mine["dispatch"] == theirs["dispatch"]).all()
    with pytest.raises(ValueError, match=r"must not define anew: got model='_Rerouted', defines=\['route'\]"):
        train(_Rerouted(), ClusterTask(), **short)
