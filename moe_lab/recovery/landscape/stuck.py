"""Which descents are stuck, by a stated test of convergence, and where those of l2 ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch

from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import LossRun

if TYPE_CHECKING:
    import xarray

STUCK_ERROR, STUCK_GAIN = 0.05, 0.01
"""A descent is stuck whose regressor error is over .05 at its end, and whose mean over the last tenth of the steps is
less than 1 % below that over the tenth before; if it is more, it is still falling."""
_FOR_EXCESS = 50_000


def stuck_at(errors: np.ndarray) -> tuple[np.ndarray, np.ndarray]:
    """Judges by `STUCK_ERROR` and `STUCK_GAIN` which trials are stuck, from errors (step, trial).

    Returns:
      (trial,) whether each is stuck, and whether its large error still falls; a diverged trial is neither.
    """
    tenth = max(1, len(errors) // 10)
    last, before = errors[-tenth:].mean(0), errors[-2 * tenth : -tenth].mean(0)
    bad = last > STUCK_ERROR
    falls = before - last >= STUCK_GAIN * before
    return bad & ~falls, bad & falls


def where_l2_ended(run: LossRun, end: xarray.Dataset) -> xarray.Dataset:
    """Computes the excess of l2 over its value at the truth, and the direction of the gate."""
    import xarray  # here: a live descent need not wait for it

    truth = run.task.parameters(run.trial_numbers, run.seed)
    excess = []
    for place, trial in enumerate(run.trial_numbers):  # one by one: memory
        samples = run.task.sample(_FOR_EXCESS, trials=[trial], seed=run.seed, split="excess")
        found = State(*(torch.as_tensor(end[name].values[[place]]) for name in ("rows", "gates")))
        true = State(truth.regressors[[place]], truth.gates[[place]])
        there, here = (losses.l2(state, samples.x, samples.y, run.task.g).value for state in (true, found))
        excess.append(float(here - there))
    data = xarray.Dataset({"excess": ("trial", excess, {"long_name": "l2 beyond that of the true parameters"})})
    if run.task.experts == 2:
        gate = end["gates"].values[:, 0] - end["gates"].values[:, 1]
        apart = (truth.regressors[:, 0] - truth.regressors[:, 1]).numpy()
        for name, to, words in (
            ("gate_to_gate", truth.gates[:, 0].numpy(), "|cos| of l2's gate and the true gate"),
            ("gate_to_regressors", apart, "|cos| of l2's gate and a_1* - a_2*"),
        ):
            length = np.linalg.norm(gate, axis=1) * np.linalg.norm(to, axis=1)
            data[name] = "trial", np.abs((gate * to).sum(1)) / length, {"long_name": words}
    return data
