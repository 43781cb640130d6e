"""Which descents are stuck, by a stated test of convergence, and where those of l2 ended."""

from __future__ import annotations

from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.recovery.em import State
from moe_lab.recovery.landscape import losses
from moe_lab.recovery.landscape.run import LossRun

if TYPE_CHECKING:
    import xarray

STUCK_ERROR, STUCK_GAIN = 0.05, 0.01
"""A descent is stuck whose regressor error is over .05 at its end, and whose mean over the last tenth of the steps is
less than 1 % below that over the tenth before; if it is more, it is still falling."""
_FOR_EXCESS = 50_000


def stuck_at(errors: Float[Tensor, "R T"], records: Tensor | None = None) -> tuple[Tensor, Tensor]:
    """Judges by `STUCK_ERROR` and `STUCK_GAIN` which trials are stuck, from errors of every record.

    Args:
      records: how many records there are, if not all rows are records.

    Returns:
      (T,) whether each is stuck, and whether its large error still falls; a diverged trial is neither.
    """
    count = torch.tensor(len(errors)) if records is None else records
    tenth = (count // 10).clamp(min=1)
    since_end = count - torch.arange(len(errors))[:, None]  # 1 for the last record

    def mean(skipped: Tensor) -> Tensor:
        some = (since_end > skipped) & (since_end <= skipped + tenth)
        return torch.where(some, errors, 0.0).sum(0) / tenth

    last, before = mean(torch.zeros_like(tenth)), mean(tenth)
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
