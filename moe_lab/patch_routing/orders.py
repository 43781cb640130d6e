"""The order in which trainings see their samples."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from moe_lab.patch_routing.learners import Rows
from moe_lab.trials import stream

_STEPS_PLANNED = 32  # steps whose samples are drawn at once


class Orders:
    """The order in which each row sees its samples: one permutation after another, cut into batches of B.

    Rows of the same trial and N see the same order, whatever their model or l, and whoever trains beside them.
    """

    def __init__(self, rows: Rows, seed: int, batch_size: int) -> None:
        pairs, self._pair = np.unique(np.stack((rows.trial, rows.samples), axis=1), axis=0, return_inverse=True)
        self._pair = self._pair.reshape(-1)
        self._streams = [(stream(seed, int(trial), f"order/{count}"), int(count)) for trial, count in pairs]
        self._drawn = [np.empty(0, dtype=np.int64) for _ in pairs]
        self._begin = 0  # position in the order where the drawn parts begin
        self._batch = batch_size

    def plan(self, step: int, rows: np.ndarray, device: torch.device) -> Tensor:
        """(steps, rows, B) the samples of the next steps after `step`."""
        used, pairs = np.unique(self._pair[rows], return_inverse=True)
        position, wanted = step * self._batch, _STEPS_PLANNED * self._batch
        blocks = np.stack([self._take(int(pair), position - self._begin, wanted) for pair in used])
        self._begin = position
        chosen = blocks.reshape(len(used), _STEPS_PLANNED, self._batch)[pairs.reshape(-1)].swapaxes(0, 1)
        return torch.as_tensor(np.ascontiguousarray(chosen), device=device)

    def _take(self, pair: int, skip: int, wanted: int) -> np.ndarray:
        generator, count = self._streams[pair]
        parts, have = [self._drawn[pair][skip:]], len(self._drawn[pair]) - skip
        while have < wanted:
            parts.append(generator.permutation(count))
            have += count
        self._drawn[pair] = np.concatenate(parts)
        return self._drawn[pair][:wanted]
