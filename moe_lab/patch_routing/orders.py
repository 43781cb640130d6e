"""The order in which training samples are used."""

from __future__ import annotations

import numpy as np
import torch
from torch import Tensor

from moe_lab.core.graphs import to_device
from moe_lab.core.trials import stream
from moe_lab.patch_routing.learners import Rows

_STEPS_PLANNED = 32  # steps whose batches are prepared together


class Orders:
    """The order in which each row uses its samples: successive random permutations, cut into batches of B.

    Rows of the same trial and N have the same order, independent of their model, of l and of the other rows.
    """

    def __init__(self, rows: Rows, seed: int, batch_size: int) -> None:
        pairs, self._pair = np.unique(np.stack((rows.trial, rows.samples), axis=1), axis=0, return_inverse=True)
        self._pair = self._pair.reshape(-1)
        self._streams = [(stream(seed, int(trial), f"order/{count}"), int(count)) for trial, count in pairs]
        self._upcoming = [np.empty(0, dtype=np.int64) for _ in pairs]
        self._begin = 0  # position in the order at which `_upcoming` begins
        self._batch_size = batch_size

    def plan(self, step: int, rows: np.ndarray, device: torch.device) -> Tensor:
        """(steps, rows, B) the samples of the steps that follow `step`."""
        used, pairs = np.unique(self._pair[rows], return_inverse=True)
        position, length = step * self._batch_size, _STEPS_PLANNED * self._batch_size
        blocks = np.stack([self._take(int(pair), position - self._begin, length) for pair in used])
        self._begin = position
        batches = blocks.reshape(len(used), _STEPS_PLANNED, self._batch_size)[pairs.reshape(-1)].swapaxes(0, 1)
        return to_device(batches, device)

    def _take(self, pair: int, skip: int, length: int) -> np.ndarray:
        """Drops `skip` samples of a pair's order and returns the `length` samples that follow."""
        generator, samples = self._streams[pair]
        parts, available = [self._upcoming[pair][skip:]], len(self._upcoming[pair]) - skip
        while available < length:
            parts.append(generator.permutation(samples))
            available += samples
        self._upcoming[pair] = np.concatenate(parts)
        return self._upcoming[pair][:length]
