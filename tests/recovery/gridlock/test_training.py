"""Recovery as a stream: what is recovered, what Snapshots tell and when, how a run ends, how to make it again."""

from __future__ import annotations

import json
from typing import Any

import numpy as np
import pytest
import torch

from moe_lab import recovery
from moe_lab.core.training import collect, final
from moe_lab.recovery import MixtureTask, gridlock, measures
from moe_lab.recovery.em import posterior
from moe_lab.recovery.gridlock import JointEM, Run, Spectral, train, train_run, training

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
LENGTHS = {"spectral": 2 * 4 + 5, "gradient": 2 * 4 + 5, "orth-als": 1 + 5, "joint": 9, "joint, gradient": 9}


def length(model) -> int:
    return next(LENGTHS[name] for name, one in MODELS.items() if one == model)


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
    run = Run(model=model, task=TASK, **FAST)
    first, *_, last = train_run(run)
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
    assert set(first.values) == set(last.values) == set(first.measures)
    assert all(value.shape[0] == 3 for value in last.values.values())


@pytest.mark.parametrize("every", [1, 3, 4, 100])
@EACH
def test_snapshots_come_at_the_start_every_so_often_and_at_the_end(model, every):
    end = length(model)
    snapshots = list(train(model, TASK, **FAST, record_every=every))
    assert [snapshot.step for snapshot in snapshots] == sorted({*range(0, end, every), end})
    for snapshot in snapshots:
        assert snapshot.trials == 3 and (snapshot.steps == snapshot.step).all() and not snapshot.diverged.any()
        assert snapshot.finished.all() == snapshot.finished.any() == (snapshot.step == end)


@pytest.mark.parametrize("name", ["spectral", "orth-als", "joint"])
def test_phases_come_one_after_the_other(name):
    phases = [int(snapshot["phase"][0]) for snapshot in train(MODELS[name], TASK, **FAST)]
    components = {"spectral": 8, "orth-als": 1}
    assert phases == ([2] * 10 if name == "joint" else [0] * (1 + components[name]) + [1] * 3 + [2] * 2)


def test_a_phase_moves_its_part_alone():
    run = Run(model=MODELS["spectral"], task=TASK, **FAST)
    states = list(training.states(run, training.samples_of(run)))
    begin, found = states[0][2], states[8][2]
    assert not begin.regressors.any() and found.regressors.norm(dim=2).allclose(torch.ones(()).double())
    for _, phase, state in states:
        assert phase > 0 or (state.gates == begin.gates).all()
        assert phase != 1 or (state.regressors == found.regressors).all()
    assert (states[-1][2].regressors != found.regressors).all() and not states[-1][2].gates[:, -1].any()


def test_without_em_the_run_ends_with_the_moments():
    model = Spectral(gate_iterations=0, joint_iterations=0, power_iterations=5)
    snapshots = list(train(model, TASK, **FAST))
    assert [snapshot.step for snapshot in snapshots] == list(range(11)) and snapshots[-1].finished.all()


def test_recover_is_the_end_of_the_run():
    for model in MODELS.values():
        run = Run(model=model, task=TASK, **FAST)
        samples = training.samples_of(run)
        *_, (_, _, watched) = training.states(run, samples)
        for one, two in zip(watched, training.recover(run)[1], strict=True):
            torch.testing.assert_close(one, two, rtol=1e-9, atol=1e-9)


@EACH
def test_the_schedule_does_not_change_the_result(model):
    often, seldom = (final(train(model, TASK, **FAST, record_every=every)) for every in (1, 1000))
    for name in often.values:
        np.testing.assert_allclose(often[name], seldom[name], rtol=1e-9, atol=1e-12, err_msg=name)


@EACH
def test_two_runs_are_the_same_run(model):
    a, b = (list(train(model, TASK, **FAST)) for _ in range(2))
    for x, y in zip(a, b, strict=True):
        for name in x.values:
            np.testing.assert_allclose(x[name], y[name], rtol=1e-9, atol=1e-12, err_msg=name)


def test_snapshots_are_records_of_their_own():
    first, second, *_ = train(MODELS["joint"], TASK, **FAST)
    before = first["cosines"].copy()
    second["cosines"][:] = 7
    second.steps[:] = 7
    assert np.array_equal(first["cosines"], before) and (first.steps == 0).all()


def test_a_run_that_nobody_reads_any_more_stops():
    run = train(JointEM(iterations=10**6), TASK, **FAST)
    for snapshot in run:
        if snapshot.step == 3:
            break
    run.close()
    assert snapshot.step == 3 and list(run) == []


@pytest.mark.parametrize("threads", [1, 2])
def test_the_consumer_keeps_its_own_threads(threads):
    before = torch.get_num_threads()
    torch.set_num_threads(threads)
    try:
        for _ in train(MODELS["spectral"], TASK, **FAST, record_every=5):
            assert torch.get_num_threads() == threads
        assert torch.get_num_threads() == threads
    finally:
        torch.set_num_threads(before)


def test_a_trial_that_breaks_says_so_and_leaves_the_others_alone(monkeypatch):
    """Gradient EM with a wild step does not break; so one trial's labels are made infinite."""
    run = Run(model=JointEM(iterations=4), task=TASK, **FAST)
    whole = final(train_run(run))
    draw = training.samples_of

    def broken(run):
        samples = draw(run)
        samples.y[1, 0] = torch.inf
        return samples

    monkeypatch.setattr(training, "samples_of", broken)
    last = final(train_run(run))
    assert last.diverged.tolist() == [False, True, False] and last.finished.all()
    for name, value in last.values.items():
        assert np.isnan(value[1]).all(), name
        np.testing.assert_allclose(value[[0, 2]], whole[name][[0, 2]], rtol=1e-9, err_msg=name)


def test_single_precision_stays_close():
    given = {**FAST, "samples": 2000, "record_every": 1000}
    double, single = (final(train(Spectral(), TASK, **given, precision=name)) for name in ("float64", "float32"))
    np.testing.assert_allclose(single["regressor_fit"], double["regressor_fit"], atol=1e-3)
    np.testing.assert_allclose(single["error"], double["error"], atol=0.02)


# --- where a result comes from ----------------------------------------------------------------------------------------


@EACH
def test_a_result_says_how_to_make_it_again(model):
    given = {**FAST, "first_trial": 2, "record_every": 3, "precision": "float64"}
    found = collect(train(model, TASK, **given))
    names = {name: getattr(room, name) for room in (recovery, gridlock) for name in room.__all__}
    again = collect(eval(found.attrs["call"], names))
    for name in found:
        np.testing.assert_allclose(again[name], found[name], rtol=1e-9, atol=1e-12)
    assert again.attrs == found.attrs and found.attrs["seed"] == 11
    assert found.attrs["paper"] == "gridlock2019, eq. 1"
    [config] = json.loads(found.attrs["config"])
    kinds = {"Spectral": Spectral, "JointEM": JointEM, "MixtureTask": MixtureTask}
    parts = {part: kinds[config[part].pop("kind")](**config[part]) for part in ("model", "task")}
    assert next(train_run(Run(**{**config, **parts}))).origin == dict(found.attrs)
    assert found["cosines"].dims == ("step", "trial", "true_expert", "expert")
    assert found["likelihood"].attrs["units"] == "nats" and found["gate_cosines"].dims[-1] == "true_gate"
