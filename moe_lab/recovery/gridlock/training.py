"""Recovery as a stream of Snapshots: power iterations, then EM of the gates, then EM of everything; or joint EM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.origins import origin_of
from moe_lab.recovery import measures
from moe_lab.recovery.data import MixtureTask, Samples
from moe_lab.recovery.em import State, em, posterior
from moe_lab.recovery.gridlock.run import BY_MOMENTS, JointEM, Method, Run, Spectral
from moe_lab.recovery.gridlock.spectral import find_regressors
from moe_lab.recovery.moments import gate_by_moments
from moe_lab.recovery.printed import as_printed
from moe_lab.recovery.transforms import transforms
from moe_lab.training import Measure, Snapshot
from moe_lab.trials import choose_device, choose_dtype, stream, threads_for

PHASES = ("regressors", "gates", "everything")
MEASURES = {
    "regressor_fit": Measure((), "", "smallest |cos| of a regressor to its true one, experts matched (eq. 11)"),
    "gating_fit": Measure((), "", "smallest |cos| of a gate to its true one, in the gauge w_k = 0 (eq. 12)"),
    "error": Measure((), "", "E(A, W), distance of all parameters to the true ones (section 4.3)"),
    "likelihood": Measure((), "nats", "mean log-likelihood of a sample"),
    "cosines": Measure(("true_expert", "expert"), "", "|cos| of each true regressor and each estimate, matched"),
    "gate_cosines": Measure(("true_gate",), "", "|cos| of each true gate (i < k) and its estimate"),
    "phase": Measure((), "", "0 while regressors are sought, 1 while gates are, 2 while everything moves"),
}


def train(model: Method, task: MixtureTask, **settings: Any) -> Iterator[Snapshot]:
    """Recovers a mixture and yields Snapshots: before the first iteration, every `record_every`, and the end.

    >>> from moe_lab.recovery import MixtureTask
    >>> from moe_lab.recovery.gridlock import Spectral, train
    >>> for snapshot in train(Spectral(), MixtureTask(), samples=2000, trials=5, seed=0):
    ...     fit = snapshot["regressor_fit"]  # (trial,)

    Args:
      model: Spectral or JointEM.
      settings: the other parameters of `Run`.

    Raises:
      ConfigError: a wrong value or combination, at once and not at the first Snapshot.
      ValueError, RuntimeError: an unknown or absent device.
    """
    return train_run(Run(model=model, task=task, **settings))


def train_run(run: Run) -> Iterator[Snapshot]:
    """`train` for a Run that is made already."""
    device = choose_device(run.device)
    choose_dtype(run.precision, device)
    return _snapshots(run, device)


def _snapshots(run: Run, device: torch.device) -> Iterator[Snapshot]:
    samples = samples_of(run)
    steps = states(run, samples)
    with threads_for(0, device):  # not across a yield: the consumer keeps its own threads
        following = next(steps, None)
    while following is not None:
        now = following
        with threads_for(0, device):
            following = next(steps, None)
            shown = following is None or now[0] % run.record_every == 0
            snapshot = _snapshot(run, samples, *now, ended=following is None, device=device) if shown else None
        if snapshot is not None:
            yield snapshot


def samples_of(run: Run) -> Samples:
    """The samples of a run."""
    device = choose_device(run.device)
    dtype = choose_dtype(run.precision, device)
    return run.task.sample(run.samples, trials=run.trial_numbers, seed=run.seed, device=device, dtype=dtype)


def recover(run: Run) -> tuple[Samples, State]:
    """Recovers to the end, without looks on the way: the samples, with the truth that they hold, and the estimates."""
    samples = samples_of(run)
    with threads_for(0, samples.x.device):
        *_, (_, _, state) = states(run, samples, watch=False)
    return samples, state


def states(run: Run, samples: Samples, watch: bool = True) -> Iterator[tuple[int, int, State]]:
    """(iteration, phase, parameters) of a method on samples; algorithms see x and y, never the truth.

    Args:
      watch: tell every power iteration, and not the last alone.
    """
    task, x, y = run.task, samples.x, samples.y
    start = random_start(run, x)
    if isinstance(run.model, JointEM):
        model = run.model
        moves = em(
            start, x, y, task.g, task.noise,
            iterations=model.iterations, move_regressors=True, radius=model.radius,
            gradient_rate=model.gate_rate if model.gate_step == "gradient" else None,
        )  # fmt: skip
        for progress in moves:
            yield progress.iteration, 2, progress.state
        return
    spectral: Spectral = run.model
    polynomials = transforms(task.g, task.noise)
    if spectral.printed:
        polynomials = as_printed(polynomials)
    begin = torch.zeros_like(start.regressors)
    yield 0, 0, State(begin, start.gates)
    count, found = 0, begin
    for step in find_regressors(samples.inputs, y, task.experts, polynomials, spectral, power_starts(run, x), watch):
        count, found = step.iteration, step.regressors
        yield count, 0, State(found, start.gates)
    yield from after_regressors(run, samples, State(found, start.gates), count)


def after_regressors(run: Run, samples: Samples, state: State, count: int = 0) -> Iterator[tuple[int, int, State]]:
    """(iteration, phase, parameters) of Spectral once it has regressors: the gates, then everything.

    Args:
      state: the regressors, and the gates to begin with.
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
        moves = em(
            state, x, y, task.g, task.noise,
            iterations=iterations, move_regressors=phase == 2, gradient_rate=rate if phase == 1 else None,
        )  # fmt: skip
        for progress in moves:
            state = progress.state
            if progress.iteration:
                yield count + progress.iteration, phase, state
        count += iterations


def random_start(run: Run, like: Tensor) -> State:
    """Regressors uniform on the sphere, gates uniform in the unit ball (algorithm 2, line 3), w_k = 0."""
    k, d = run.task.experts, run.task.dimension
    regressors, gates = np.empty((run.trials, k, d)), np.empty((run.trials, k, d))
    for place, trial in enumerate(run.trial_numbers):
        regressors[place] = stream(run.seed, trial, "start/regressors").standard_normal((k, d))
        one = stream(run.seed, trial, "start/gates")
        gates[place] = one.standard_normal((k, d))
        radius = one.random((k, 1)) ** (1 / d)
        gates[place] *= radius / np.linalg.norm(gates[place], axis=1, keepdims=True)
    regressors /= np.linalg.norm(regressors, axis=2, keepdims=True)
    gates[:, -1] = 0
    return State(*(torch.as_tensor(part, device=like.device, dtype=like.dtype) for part in (regressors, gates)))


def power_starts(run: Run, like: Tensor) -> Float[Tensor, "T L m"]:
    """The vectors that a decomposition starts with."""
    assert isinstance(run.model, Spectral)
    k = run.task.experts
    whitened = run.model.decomposition == "power"
    shape = (run.model.starts(k) * (1 if whitened else k), k if whitened else run.task.dimension)
    drawn = [stream(run.seed, trial, "start/decomposition").standard_normal(shape) for trial in run.trial_numbers]
    return torch.as_tensor(np.stack(drawn), device=like.device, dtype=like.dtype)


def _snapshot(
    run: Run, samples: Samples, step: int, phase: int, state: State, *, ended: bool, device: torch.device
) -> Snapshot:
    truth, k = samples.truth, run.task.experts
    order = measures.matched(state.regressors, truth.regressors)[..., None]
    regressors, gates = (part.gather(1, order.expand_as(part)) for part in state)
    gates = measures.in_gauge(gates)
    _, _, likelihood = posterior(State(regressors, gates), samples.x, samples.y, run.task.g, run.task.noise)
    values = {
        "regressor_fit": measures.regressor_fit(state.regressors, truth.regressors),
        "gating_fit": measures.gating_fit(state.gates, state.regressors, truth),
        "error": measures.parameter_error(state.regressors, state.gates, truth),
        "likelihood": likelihood.cpu().numpy(),
        "cosines": measures.cosines(truth.regressors, regressors),
        "gate_cosines": np.diagonal(measures.cosines(truth.gates, gates), axis1=1, axis2=2)[:, : k - 1].copy(),
        "phase": np.full(run.trials, phase),
    }
    diverged = ~torch.isfinite(state.regressors).flatten(1).all(1) | ~torch.isfinite(state.gates).flatten(1).all(1)
    broken = diverged.cpu().numpy()
    values = {name: value.astype(float) for name, value in values.items()}
    for value in values.values():
        value[broken] = np.nan
    return Snapshot(
        step=step,
        values=values,
        measures=MEASURES,
        steps=np.full(run.trials, step),
        finished=broken | ended,
        diverged=broken,
        coords={},
        origin=origin_of(run, device),
    )
