"""Random parameters with which EM and the descents begin."""

from __future__ import annotations

from collections.abc import Sequence

import torch
from torch import Tensor

from moe_lab.core.trials import Draw, drawn
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import State


def random_state(task: MixtureTask, trials: Sequence[int], seed: int, like: Tensor) -> State:
    """Samples regressors on the unit sphere and gates in the unit ball, with w_k = 0 (algorithm 2, line 3).

    Args:
      like: a tensor of the device and precision to use.
    """
    shape = task.experts, task.dimension
    wanted = {
        "regressors": Draw("start/regressors", shape, "normal"),
        "gates": Draw("start/gates", shape, "normal"),
        "radius": Draw("start/gates", (task.experts, 1)),
    }
    raw = drawn(wanted, trials, seed)
    regressors, gates = (raw[name] / raw[name].norm(dim=2, keepdim=True) for name in ("regressors", "gates"))
    gates = gates * raw["radius"] ** (1 / task.dimension)
    last = torch.arange(task.experts)[:, None] == task.experts - 1
    return State(regressors.to(like), (gates * ~last).to(like))
