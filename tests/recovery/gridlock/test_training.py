"""Recovery as a stream: what is recovered, what Snapshots tell and when, how a run ends, how to make it again."""

from __future__ import annotations

from typing import Any

import numpy as np
import pytest
import torch

from moe_lab.core.snapshots import final
from moe_lab.recovery import MixtureTask, measures
from moe_lab.recovery.em import EM, State, posterior
from moe_lab.recovery.gridlock import JointEM, MixtureRun, Spectral, train, train_run, training
from moe_lab.recovery.gridlock.stages import Recovering

TASK = MixtureTask(dimension=5, noise=0.2)
FAST: dict[str, Any] = {"samples": 300, "trials": 3, "seed": 11, "device": "cpu"}
SHORT = {"power_iterations": 4, "gate_iterations": 3, "joint_iterations": 2}
MODELS = {
    "spectral": Spectral(**SHORT),
    "gradient": Spectral(**{**SHORT, "gate_step": "gradient"}),
    "orth-als": Spectral(**SHORT, decomposition="orth-als", robust=False, restarts=3),
    "joint": JointEM(iterations=9),
    "joint, gradient": JointEM(iterations=9, gate_step="gradient", radius=1.0),
}
EACH = pytest.mark.parametrize("model", MODELS.values(), ids=MODELS.keys())


# --- what is recovered ------------------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    "activation, noise, samples", [("sigmoid", 0.05, 8000), ("tanh", 0.1, 4000), ("relu", 0.1, 8000)]
)
def test_other_activations(activation, noise, samples):
    """Moments bring EM near enough for all of it."""
    task = MixtureTask(activation=activation, noise=noise, gating="orthogonal", dimension=6)
    last = final(train(Spectral(joint_iterations=30), task, samples=samples, trials=2, seed=0))
    assert last["regressor_fit"].min() > 0.99 and last["gating_fit"].min() > 0.93


def test_joint_em_finds_a_small_mixture():
    last = final(train(JointEM(iterations=100), MixtureTask(dimension=5), samples=2000, trials=5, seed=0))
    assert np.median(last["regressor_fit"]) > 0.999 and np.median(last["error"]) < 0.3


# --- Snapshots --------------------------------------------------------------------------------------------------------


@EACH
def test_snapshots_tell_what_the_estimates_are(model):
    """Every measure of the last Snapshot, from the parameters that the run ends with."""
    run = MixtureRun(model=model, task=TASK, **FAST)
    *_, last = train_run(run)
    samples, state = training.recover(run)
    truth = samples.truth
    assert last["regressor_fit"] == pytest.approx(measures.regressor_fit(state.regressors, truth.regressors))
    assert last["gating_fit"] == pytest.approx(measures.gating_fit(state.gates, state.regressors, truth))
    assert last["error"] == pytest.approx(measures.parameter_error(state.regressors, state.gates, truth))
    _, _, likelihood = posterior(state, samples.x, samples.y, TASK.g, TASK.noise)
    assert last["likelihood"] == pytest.approx(likelihood.numpy())
    diagonal = np.diagonal(last["cosines"], axis1=1, axis2=2)
    assert (diagonal.min(1) <= last["regressor_fit"] + 1e-9).all() and last["cosines"].shape == (3, 2, 2)
    assert last["gate_cosines"].shape == (3, 1)


@pytest.mark.parametrize("name", ["spectral", "orth-als", "joint"])
def test_phases_come_one_after_the_other(name):
    phases = [int(snapshot["phase"][0]) for snapshot in train(MODELS[name], TASK, **FAST)]
    components = {"spectral": 8, "orth-als": 1}
    assert phases == ([2] * 10 if name == "joint" else [0] * (1 + components[name]) + [1] * 3 + [2] * 2)


def test_a_phase_moves_its_part_alone():
    run = MixtureRun(model=MODELS["spectral"], task=TASK, **FAST)
    recovering = Recovering(run, training.samples_of(run))
    states = [recovering.state]
    for _ in range(recovering.last_step):
        recovering.advance(1)
        states.append(State(*(part.clone() for part in recovering.state)))
    begin, found = states[0], states[8]
    assert not begin.regressors.any() and found.regressors.norm(dim=2).allclose(torch.ones(()).double())
    assert all((state.gates == begin.gates).all() for state in states[:9])
    assert all((state.regressors == found.regressors).all() for state in states[9:12])
    assert (states[-1].regressors != found.regressors).all() and not states[-1].gates[:, -1].any()


def test_the_last_power_iteration_refines_in_all_dimensions():
    """Power iterations have converged before it, in the subspace of T2, whose error is the larger one."""
    run = MixtureRun(model=Spectral(), task=MixtureTask(), samples=2000, trials=20, seed=0)
    recovering, fits = Recovering(run, samples := training.samples_of(run)), []
    for steps in (58, 1, 1):
        recovering.advance(steps)
        fits.append(measures.regressor_fit(recovering.state.regressors, samples.truth.regressors))
    torch.testing.assert_close(fits[1], fits[0], atol=1e-6, rtol=0)
    assert (fits[2] > fits[1]).double().mean() > 0.8 and fits[2].mean() > fits[1].mean() + 0.005


def test_gradient_steps_are_those_of_the_gates_alone():
    """After the gates' stage everything moves by Newton steps, whatever the gates' step was."""
    run = MixtureRun(model=MODELS["gradient"], task=TASK, **FAST)
    samples = training.samples_of(run)
    recovering = Recovering(run, samples)
    recovering.advance(11)
    by_hand = EM(recovering.state, samples.x, samples.y, TASK.g, TASK.noise, move_regressors=True)
    recovering.advance(2)
    by_hand.advance(2)
    for one, two in zip(recovering.state, by_hand.state, strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-12)


def test_em_begins_with_what_is_known():
    run = MixtureRun(model=MODELS["spectral"], task=TASK, **FAST)
    samples = training.samples_of(run)
    truth = State(samples.truth.regressors, samples.truth.gates)
    recovering = Recovering(run, samples, known=truth)
    assert recovering.last_step == 5 and recovering.state.regressors is not samples.truth.regressors
    recovering.advance(3)
    assert (recovering.state.regressors == samples.truth.regressors).all()
    recovering.advance(2)
    assert (recovering.state.regressors != samples.truth.regressors).all()


def test_without_em_the_run_ends_with_the_moments():
    model = Spectral(gate_iterations=0, joint_iterations=0, power_iterations=5)
    snapshots = list(train(model, TASK, **FAST))
    assert [snapshot.step for snapshot in snapshots] == list(range(11)) and snapshots[-1].finished.all()


@EACH
def test_recover_is_the_end_of_the_run(model):
    run = MixtureRun(model=model, task=TASK, **FAST)
    samples = training.samples_of(run)
    recovering = Recovering(run, samples)
    for _ in range(recovering.last_step):
        recovering.advance(1)
    for one, two in zip(recovering.state, training.recover(run)[1], strict=True):
        torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


def test_single_precision_stays_close():
    given = {**FAST, "samples": 2000, "record_every": 1000}
    double, single = (final(train(Spectral(), TASK, **given, precision=name)) for name in ("float64", "float32"))
    np.testing.assert_allclose(single["regressor_fit"], double["regressor_fit"], atol=1e-3)
    np.testing.assert_allclose(single["error"], double["error"], atol=0.02)
