"""Which rows of a batch have ended, decided on an accelerator, without the host waiting for it.

A row ends at zero training error, which is computed exactly at the end of an epoch with few errors on the way. Which
rows those are, only the device knows; so every row whose epoch ends is evaluated, a third more work than its epoch was,
and masks say for which of them it counts. A row that has ended keeps its weights, because its step size becomes 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from functools import partial
from typing import Any, Protocol, Self, runtime_checkable

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.graphs import CapturedStep, to_device

WORTH_CHECKING = 0.05
"""An epoch with more errors than this on the way is not checked for zero training error."""

_FEW_NUMBERS = 2**22
"""An evaluation of more is not captured: its kernels outlast their start, and a graph would keep its memory."""


@runtime_checkable
class Learner(Protocol):
    """What is read of the rows in training: see `moe_lab.patch_routing.learners.Learner`."""

    wrong: Tensor
    loss: Tensor
    counts: Tensor
    samples: np.ndarray
    rules: Any

    @property
    def captured(self) -> bool: ...

    @property
    def sizes(self) -> tuple[int, int]: ...

    def only(self, rows: np.ndarray) -> Self: ...

    def training_error(self) -> tuple[Tensor, Tensor]: ...


@dataclass
class Endings:
    """The rows of a learner that have ended, and what they ended with.

    Attributes:
      running: False once a row has ended.
      lost: whether its loss became infinite or NaN.
      step: the step after which it ended.
      wrong: online errors up to the row's last epoch.
      error, loss: of its last exact evaluation.
    """

    running: Bool[Tensor, " T"]
    lost: Bool[Tensor, " T"]
    step: Int[Tensor, " T"]
    wrong: Int[Tensor, " T"]
    error: Float[Tensor, " T"]
    loss: Float[Tensor, " T"]

    @classmethod
    def none_of(cls, wrong: Int[Tensor, " T"], loss: Float[Tensor, " T"]) -> Endings:
        """No row has ended yet."""
        none, nothing = torch.zeros_like(wrong), torch.zeros_like(loss)
        return cls(none == 0, none != 0, none, none.clone(), nothing, nothing.clone())

    def __post_init__(self) -> None:
        self._captured_step: CapturedStep | None = None

    def settle(self, learner: Learner, step: int, due: np.ndarray, last: np.ndarray, early: bool = True) -> None:
        """Ends the rows that have reached zero training error, their last epoch, or a loss that is not finite.

        Args:
          due: positions of the rows whose epoch ends with this step.
          last: whether it is the last epoch of each of them.
          early: whether zero training error ends a row before.
        """
        device = learner.wrong.device
        inputs = to_device(last, device), torch.full((), step, device=device)
        if len(due) < len(learner.samples) or not self.worth_a_graph(learner):
            at = to_device(due, device)
            self._settle(learner, learner.only(due) if len(due) else None, at, early, *inputs)
            return
        if self._captured_step is None:
            changed = (*(getattr(self, field.name) for field in fields(self)), learner.rules.learning_rate)
            settle = partial(self._settle, learner, learner, slice(None), early)
            self._captured_step = CapturedStep(settle, changed, inputs)
        self._captured_step(*inputs)

    def worth_a_graph(self, learner: Learner) -> bool:
        """Whether starting the kernels of an evaluation of all rows takes longer than they do."""
        numbers = len(learner.samples) * int(learner.samples.max()) * learner.sizes[1]
        return learner.captured and numbers <= _FEW_NUMBERS

    def _settle(
        self, learner: Learner, those: Learner | None, at: Tensor | slice, early: bool, last: Tensor, step: Tensor
    ) -> None:
        """Settles the rows at these positions.

        Args:
          those: a learner of these rows, None for no rows.
        """
        self.lost |= self.running & ~torch.isfinite(learner.loss)
        ended = self.lost.clone()
        if those is not None:
            wrong = learner.wrong[at]
            few = (wrong - self.wrong[at]) / learner.counts[at] <= WORTH_CHECKING
            counted = self.running[at] & ~self.lost[at] & (few & early | last)
            self.wrong[at] = wrong
            error, loss = those.training_error()
            self.error[at], self.loss[at] = (
                torch.where(counted, now, before[at]) for now, before in ((error, self.error), (loss, self.loss))
            )
            self.lost[at] |= counted & ~torch.isfinite(loss)  # the last step may have broken them
            ended[at] |= self.lost[at] | (counted & ((error == 0) | last))
        self.step.copy_(torch.where(self.running & ended, step, self.step))
        self.running &= ~ended
        learner.rules.learning_rate.mul_(self.running[:, None, None])

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Keeps only these rows."""
        self._captured_step = None
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])

    def read(self) -> dict[str, np.ndarray]:
        """All attributes on the host, which waits for the device once."""
        every = torch.stack([getattr(self, field.name).to(self.loss.dtype) for field in fields(self)]).cpu().numpy()
        return dict(zip((field.name for field in fields(self)), every, strict=True))
