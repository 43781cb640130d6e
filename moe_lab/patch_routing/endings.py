"""Which rows of a batch have ended, decided on an accelerator, without the host waiting for it.

A row ends at zero training error, which is computed exactly at the end of an epoch with few errors on the way. Which
rows those are, only the device knows; so every row whose epoch ends is evaluated, a third more work than its epoch was,
and masks say for which of them it counts. A row that has ended keeps its weights, because its step size becomes 0.
"""

from __future__ import annotations

from dataclasses import dataclass, fields
from typing import TYPE_CHECKING

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.graphs import to_device

if TYPE_CHECKING:
    from moe_lab.patch_routing.learners import Learner

WORTH_CHECKING = 0.05
"""An epoch with more errors than this on the way is not checked for zero training error."""


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
    def none_of(cls, learner: Learner) -> Endings:
        """No row has ended yet."""
        none, nothing = torch.zeros_like(learner.wrong), torch.zeros_like(learner.loss)
        return cls(none == 0, none != 0, none, none.clone(), nothing, nothing.clone())

    def settle(self, learner: Learner, step: int, due: np.ndarray, last: np.ndarray, early: bool = True) -> None:
        """Ends the rows that have reached zero training error, their last epoch, or a loss that is not finite.

        Args:
          due: positions of the rows whose epoch ends with this step.
          last: whether it is the last epoch of each of them.
          early: whether zero training error ends a row before.
        """
        self.lost |= self.running & ~torch.isfinite(learner.loss)
        ended = self.lost.clone()
        if len(due):
            at = to_device(due, learner.wrong.device)
            wrong, at_the_end = learner.wrong[at], to_device(last, at.device)
            few = (wrong - self.wrong[at]) / learner.counts[at] <= WORTH_CHECKING
            counted = self.running[at] & ~self.lost[at] & (few & early | at_the_end)
            self.wrong[at] = wrong
            error, loss = learner.only(due).training_error()
            self.error[at], self.loss[at] = (
                torch.where(counted, now, before[at]) for now, before in ((error, self.error), (loss, self.loss))
            )
            self.lost[at] |= counted & ~torch.isfinite(loss)  # the last step may have broken them
            ended[at] |= self.lost[at] | (counted & ((error == 0) | at_the_end))
        self.step.masked_fill_(self.running & ended, step)
        self.running &= ~ended
        learner.rules.learning_rate.mul_(self.running[:, None, None])

    def keep(self, rows: Int[Tensor, " kept"]) -> None:
        """Keeps only these rows."""
        for field in fields(self):
            setattr(self, field.name, getattr(self, field.name)[rows])

    def read(self) -> dict[str, np.ndarray]:
        """All attributes on the host, which waits for the device once."""
        every = torch.stack([getattr(self, field.name).to(self.loss.dtype) for field in fields(self)]).cpu().numpy()
        return dict(zip((field.name for field in fields(self)), every, strict=True))
