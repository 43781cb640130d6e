"""CUDA graphs for small steps, whose kernels take longer to launch than to run."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch
from torch import Tensor

_WARM_UPS = 3  # a capture needs a few ordinary runs on a side stream before it


class Replay:
    """Calls `update(*inputs)`, which changes the tensors of `state` in place; on CUDA, as one captured graph.

    The update must read and write the same tensors every time and never synchronize with the device. On other devices
    it is called directly, so that the same code runs everywhere. Make a new Replay whenever a shape changes.

    Args:
      update: a function of the inputs and of tensors that it holds.
      state: every tensor that the update changes; restored after the warm-up runs of a capture.
      inputs: example inputs; each later call must give the same shapes.
    """

    def __init__(self, update: Callable[..., None], state: Sequence[Tensor], inputs: Sequence[Tensor]) -> None:
        self._update = update
        self._graph: torch.cuda.CUDAGraph | None = None
        if not inputs or inputs[0].device.type != "cuda":
            return
        self._inputs = [value.clone() for value in inputs]
        before = [value.clone() for value in state]
        side = torch.cuda.Stream(inputs[0].device)
        side.wait_stream(torch.cuda.current_stream())
        with torch.cuda.stream(side):
            for _ in range(_WARM_UPS):
                update(*self._inputs)
        torch.cuda.current_stream().wait_stream(side)
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            update(*self._inputs)
        for value, was in zip(state, before, strict=True):
            value.copy_(was)
        self._graph = graph

    def __call__(self, *inputs: Tensor) -> None:
        if self._graph is None:
            self._update(*inputs)
            return
        for static, value in zip(self._inputs, inputs, strict=True):
            static.copy_(value)
        self._graph.replay()
