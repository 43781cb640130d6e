"""What no figure of a room measures: the least value of the Switch loss."""

from __future__ import annotations

import numpy as np
import torch
import xarray as xr

from moe_lab.core.routing import one_hot
from moe_lab.core.trials import stream
from moe_lab.routers.balance import load_of, switch_loss


def least_switch_loss(trials: int, tries: int, samples: int = 6, experts: int = 2, seed: int = 0) -> xr.Dataset:
    """Draws gates at random, routes each sample to its largest gate, and keeps the least loss M sum_m f_m P_m.

    Args:
      trials: independent repetitions.
      tries: random draws in each.
      samples, experts: sizes of a draw; scores are standard normal.
      seed: of the random streams.

    Returns:
      least(trial), and load(trial, expert), that of the draw with the least loss. Equal loads give 1.
    """
    least, loads = [], []
    for trial in range(trials):
        scores = stream(seed, trial, "switch loss").standard_normal((tries, experts, samples))
        gates = torch.from_numpy(scores).softmax(1)
        chosen = one_hot(gates.argmax(1), experts).mT.to(gates)
        load = load_of(chosen)
        loss = switch_loss(load, gates.mean(2)).value
        best = int(loss.argmin())
        least.append(float(loss[best]))
        loads.append(load[best].numpy())
    about = {"long_name": "least value of the loss", "units": ""}
    return xr.Dataset({"least": ("trial", np.array(least), about), "load": (("trial", "expert"), np.stack(loads))})
