"""Recovery as a stream of Snapshots: power iterations, then EM of the gates, then EM of everything; or joint EM."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from moe_lab.core import training
from moe_lab.core.memory import check
from moe_lab.core.signatures import with_notebook, with_settings_of
from moe_lab.core.snapshots import Measure, Snapshot
from moe_lab.core.trials import device_and_dtype, on_one_thread, threads_for
from moe_lab.recovery.data import MixtureSamples, MixtureTask
from moe_lab.recovery.em import State
from moe_lab.recovery.gridlock.run import Method, MixtureRun
from moe_lab.recovery.gridlock.stages import Recovering, recovered

MEASURES = {
    "regressor_fit": Measure((), "", "smallest |cos| of a regressor to its true one, experts matched (eq. 11)"),
    "gating_fit": Measure((), "", "smallest |cos| of a gate to its true one, in the gauge w_k = 0 (eq. 12)"),
    "error": Measure((), "", "E(A, W), distance of all parameters to the true ones (section 4.3)"),
    "likelihood": Measure((), "nats", "mean log-likelihood of a sample"),
    "cosines": Measure(("true_expert", "expert"), "", "|cos| of each true regressor and each estimate, matched"),
    "gate_cosines": Measure(("true_gate",), "", "|cos| of each true gate (i < k) and its estimate"),
    "component": Measure((), "", "largest |cos| of the component moved last to a true regressor; NaN after the search"),
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
    return on_one_thread(_snapshots(run), device)


def _snapshots(run: MixtureRun) -> Iterator[Snapshot]:
    yield from begun(run).snapshots()


class Recovery(training.Training[Recovering]):
    """The trials of a run in recovery."""

    must_be_finite = ("likelihood", "error")


def begun(run: MixtureRun) -> Recovery:
    """Begins a run."""
    return Recovery(run, MEASURES, [Recovering(run, samples_of(run))])


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
        return samples, recovered(run, samples)
