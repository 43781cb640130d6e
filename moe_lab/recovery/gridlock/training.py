"""Recovery as a stream of Snapshots: power iterations, then EM of the gates, then EM of everything; or joint EM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch

from moe_lab.core.memory import check
from moe_lab.core.origins import origin_of
from moe_lab.core.signatures import with_notebook, with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import device_and_dtype, on_one_thread, threads_for
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import State, em, posterior
from moe_lab.recovery.gridlock.run import BY_MOMENTS, JointEM, Method, MixtureRun, Spectral
from moe_lab.recovery.gridlock.spectral import find_regressors, power_starts
from moe_lab.recovery.initialization import random_state
from moe_lab.recovery.moments import gate_by_moments
from moe_lab.recovery.printed import as_printed
from moe_lab.recovery.transforms import transforms

MEASURES = {
    "regressor_fit": Measure((), "", "smallest |cos| of a regressor to its true one, experts matched (eq. 11)"),
    "gating_fit": Measure((), "", "smallest |cos| of a gate to its true one, in the gauge w_k = 0 (eq. 12)"),
    "error": Measure((), "", "E(A, W), distance of all parameters to the true ones (section 4.3)"),
    "likelihood": Measure((), "nats", "mean log-likelihood of a sample"),
    "cosines": Measure(("true_expert", "expert"), "", "|cos| of each true regressor and each estimate, matched"),
    "gate_cosines": Measure(("true_gate",), "", "|cos| of each true gate (i < k) and its estimate"),
    "phase": Measure((), "", "0 while regressors are sought, 1 while gates are, 2 while everything moves"),
}


@with_settings_of(MixtureRun)
def train(model: Method, task: MixtureTask, **settings: Any) -> Iterator[Snapshot]:
    """Recovers a mixture and yields Snapshots: before the first iteration, every `record_every`, and the end.

    >>> from moe_lab.recovery import MixtureTask
    >>> from moe_lab.recovery.gridlock import Spectral, train
    >>> for snapshot in train(Spectral(), MixtureTask(), samples=2000, trials=5, seed=0):
    ...     fit = snapshot["regressor_fit"]  # (trial,)

    Args:
      model: Spectral or JointEM.
      settings: the other parameters of `MixtureRun`.

    Raises:
      ConfigError: a wrong value or combination, before the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(MixtureRun(model=model, task=task, **settings))


def train_run(run: MixtureRun) -> Iterator[Snapshot]:
    """Runs `train` for a given MixtureRun."""
    device, _ = device_and_dtype(run)
    return on_one_thread(_snapshots(run, device), device)


def _snapshots(run: MixtureRun, device: torch.device) -> Iterator[Snapshot]:
    samples = samples_of(run)
    steps = states(run, samples)
    following = next(steps, None)
    while following is not None:
        now, following = following, next(steps, None)
        if following is None or now[0] % run.record_every == 0:
            yield _snapshot(run, samples, *now, ended=following is None, device=device)


def samples_of(run: MixtureRun) -> MixtureSamples:
    """Returns the samples of a run."""
    device, dtype = device_and_dtype(run)
    check(run.memory, run.trials, device)
    return run.task.sample(run.samples, trials=run.trial_numbers, seed=run.seed, device=device, dtype=dtype)


@with_notebook
def recover(run: MixtureRun) -> tuple[MixtureSamples, State]:
    """Recovers the mixtures of a run's trials without Snapshots.

    Returns:
      The samples, with the true parameters, and the estimates.
    """
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        *_, (_, _, state) = states(run, samples, watch=False)
    return samples, state


def states(run: MixtureRun, samples: MixtureSamples, watch: bool = True) -> Iterator[tuple[int, int, State]]:
    """Yields (iteration, phase, parameters) of a method on samples; algorithms use x and y, never the truth.

    Args:
      watch: whether to yield every power iteration or only the last.
    """
    task, x, y = run.task, samples.x, samples.y
    start = random_state(task, run.trial_numbers, run.seed, x)
    if isinstance(run.model, JointEM):
        how: dict[str, Any] = {"iterations": run.model.iterations, **m_step(run.model)}
        for progress in em(start, x, y, task.g, task.noise, move_regressors=True, **how):
            yield progress.iteration, 2, progress.state
        return
    spectral: Spectral = run.model
    polynomials = transforms(task.g, task.noise)
    if spectral.printed:
        polynomials = as_printed(polynomials)
    begin = torch.zeros_like(start.regressors)
    yield 0, 0, State(begin, start.gates)
    count, found = 0, begin
    starts = power_starts(spectral, task, run.trial_numbers, run.seed, x)
    for step in find_regressors(samples.inputs, y, task.experts, polynomials, spectral, starts, watch):
        count, found = step.iteration, step.regressors
        yield count, 0, State(found, start.gates)
    yield from after_regressors(run, samples, State(found, start.gates), count)


def m_step(model: JointEM) -> dict[str, Any]:
    """Returns the arguments of `em` that say how joint EM moves the gates."""
    rate = model.gate_rate if model.gate_step == "gradient" else None
    return {"gradient_rate": rate, "radius": model.radius}


def after_regressors(
    run: MixtureRun, samples: MixtureSamples, state: State, count: int = 0
) -> Iterator[tuple[int, int, State]]:
    """Yields (iteration, phase, parameters) of Spectral once it has regressors: the gates, then everything.

    Args:
      state: the regressors, and the initial gates.
      count: iterations before.
    """
    assert isinstance(run.model, Spectral)
    task, spectral, x, y = run.task, run.model, samples.x, samples.y
    rate = spectral.gate_rate if spectral.gate_step == "gradient" else None
    for phase, iterations in ((1, spectral.gate_iterations), (2, spectral.joint_iterations)):
        if not iterations:
            continue
        if phase == 1 and spectral.gate_step in BY_MOMENTS:
            centred = spectral.gate_step == "centred-moments"
            gate = gate_by_moments(state.regressors, samples.inputs, y, task.g, centred=centred)
            state, count = State(state.regressors, torch.stack((gate, torch.zeros_like(gate)), dim=1)), count + 1
            yield count, phase, state
            continue
        how: dict[str, Any] = {"iterations": iterations, "gradient_rate": rate if phase == 1 else None}
        for progress in em(state, x, y, task.g, task.noise, move_regressors=phase == 2, **how):
            state = progress.state
            if progress.iteration:
                yield count + progress.iteration, phase, state
        count += iterations


def _snapshot(
    run: MixtureRun, samples: MixtureSamples, step: int, phase: int, state: State, *, ended: bool, device: torch.device
) -> Snapshot:
    truth, k = samples.truth, run.task.experts
    order = measures.matched(state.regressors, truth.regressors)[..., None]
    regressors, gates = (part.gather(1, order.expand_as(part)) for part in state)
    gates = measures.in_gauge(gates)
    _, _, likelihood = posterior(State(regressors, gates), samples.x, samples.y, run.task.g, run.task.noise)
    found = {
        "regressor_fit": measures.regressor_fit(state.regressors, truth.regressors),
        "gating_fit": measures.gating_fit(state.gates, state.regressors, truth),
        "error": measures.parameter_error(state.regressors, state.gates, truth),
        "likelihood": likelihood,
        "cosines": measures.cosines(truth.regressors, regressors),
        "gate_cosines": measures.cosines(truth.gates, gates).diagonal(dim1=1, dim2=2)[:, : k - 1],
        "phase": torch.full((run.trials,), phase),
    }
    diverged = ~torch.isfinite(state.regressors).flatten(1).all(1) | ~torch.isfinite(state.gates).flatten(1).all(1)
    broken = diverged.cpu().numpy()
    values = {name: value.cpu().numpy().astype(float) for name, value in found.items()}
    for value in values.values():
        value[broken] = np.nan
    return Snapshot(
        step=step,
        values=values,
        measures=MEASURES,
        steps=np.full(run.trials, step),
        finished=broken | ended,
        diverged=broken,
        origin=origin_of(run, device),
    )
