"""Random parameters with which EM and the descents begin."""

from __future__ import annotations

from collections.abc import Sequence

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.trials import stream
from moe_lab.recovery.data import MixtureTask
from moe_lab.recovery.em import State


def random_state(task: MixtureTask, trials: Sequence[int], seed: int, like: Tensor) -> State:
    """Samples regressors on the unit sphere and gates in the unit ball, with w_k = 0 (algorithm 2, line 3).

    Args:
      like: a tensor of the device and precision to use.
    """
    k, d = task.experts, task.dimension
    regressors, gates = np.empty((len(trials), k, d)), np.empty((len(trials), k, d))
    for place, trial in enumerate(trials):
        regressors[place] = stream(seed, trial, "start/regressors").standard_normal((k, d))
        random = stream(seed, trial, "start/gates")
        gates[place] = random.standard_normal((k, d))
        radius = random.random((k, 1)) ** (1 / d)
        gates[place] *= radius / np.linalg.norm(gates[place], axis=1, keepdims=True)
    regressors /= np.linalg.norm(regressors, axis=2, keepdims=True)
    gates[:, -1] = 0
    return State(*(torch.as_tensor(part, device=like.device, dtype=like.dtype) for part in (regressors, gates)))
