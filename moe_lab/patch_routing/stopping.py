"""When a row ends: at zero training error, at the epoch limit, or when its loss is no longer finite.

Zero training error is that of the weights at the end of an epoch, over all training samples. On a CPU the host checks
it, and gives a row up at the first block of samples with an error. On an accelerator the host would have to wait for
that, so the device decides, and the host reads its decisions every `_LOOK_EVERY` steps.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from dataclasses import dataclass, fields
from functools import partial

import numpy as np
import torch
from jaxtyping import Bool, Float, Int
from torch import Tensor

from moe_lab.core.graphs import CapturedStep, on_accelerator, to_device
from moe_lab.patch_routing.learner import Learner
from moe_lab.patch_routing.run import Run

_LOOK_EVERY = 32
"""Steps between two readings of which rows have ended on an accelerator; in between the host never waits."""

FEW_NUMBERS = 2**22
"""An evaluation of more is not captured: its kernels outlast their start, and a graph would keep its memory."""


@dataclass(frozen=True)
class Ended:
    """Rows that have ended, an entry for each.

    Attributes:
      rows: their positions in the learner.
      steps: after which they ended.
      diverged: whether the loss is no longer finite; error and loss mean nothing then.
      error, loss: over all training samples.
    """

    rows: np.ndarray
    steps: np.ndarray
    diverged: np.ndarray
    error: np.ndarray
    loss: np.ndarray


class Stopping(ABC):
    """The rule for the rows that a learner holds."""

    def __init__(self, learner: Learner, run: Run) -> None:
        self.learner, self.record_every = learner, run.record_every
        self.early = run.until == "no error"
        self.epoch = -(-learner.samples // run.model.batch_size)  # steps of an epoch, rounded up
        self.limit = run.epochs * self.epoch

    @abstractmethod
    def after(self, step: int) -> Ended | None:
        """Returns the rows that the host learns to have ended, after this step; None if there are none.

        The loss is also checked whenever a Snapshot is due, so that no Snapshot shows values of a diverged row.
        """

    def keep(self, rows: np.ndarray) -> None:
        """Keeps only the rows at these positions, as the learner does."""
        self.epoch, self.limit = self.epoch[rows], self.limit[rows]


def stopping_of(learner: Learner, run: Run) -> Stopping:
    """Returns the stopping rule for the learner's device."""
    return StoppingOnDevice(learner, run) if on_accelerator(learner.setting.device) else StoppingOnHost(learner, run)


class StoppingOnHost(Stopping):
    """Decided by the host."""

    def after(self, step: int) -> Ended | None:
        due = step % self.epoch == 0
        if not due.any() and step % self.record_every:
            return None
        diverged, last = ~np.isfinite(self.learner.loss.numpy()), due & (step >= self.limit)
        ended = diverged | last
        candidates = np.flatnonzero(due & ~diverged & (last | self.early))
        if len(candidates):
            right, finite = self.learner.without_error(candidates)
            ended[candidates] |= right | ~finite  # the last step may have broken the loss
        rows = np.flatnonzero(ended)
        if not len(rows):
            return None
        error, exact = (part.numpy() for part in self.learner.only(rows).training_error())
        return Ended(rows, np.full(len(rows), step), diverged[rows] | ~np.isfinite(exact), error, exact)


@dataclass
class Decisions:
    """What an accelerator has decided about each row.

    Attributes:
      running: False once a row has ended.
      lost: whether its loss became infinite or NaN.
      step: the step after which it ended.
      error, loss: of its last exact evaluation.
    """

    running: Bool[Tensor, " T"]
    lost: Bool[Tensor, " T"]
    step: Int[Tensor, " T"]
    error: Float[Tensor, " T"]
    loss: Float[Tensor, " T"]

    @property
    def all(self) -> list[Tensor]:
        return [getattr(self, field.name) for field in fields(self)]

    def read(self) -> dict[str, np.ndarray]:
        """Copies all of them to the host, which waits for the device once."""
        every = torch.stack([part.to(self.loss.dtype) for part in self.all]).cpu().numpy()
        return dict(zip((field.name for field in fields(self)), every, strict=True))


class StoppingOnDevice(Stopping):
    """Decided by the accelerator.

    Every row whose epoch ends is evaluated whole, a third more work than its epoch was, and masks say for which of them
    it counts. A row that has ended keeps its weights, because its step
    size becomes 0.
    """

    def __init__(self, learner: Learner, run: Run) -> None:
        super().__init__(learner, run)
        none, nothing = torch.zeros_like(learner.wrong), torch.zeros_like(learner.loss)
        self.decided = Decisions(none == 0, none != 0, none, nothing, nothing.clone())
        self.known = np.zeros(len(self.epoch), dtype=bool)  # rows of which the host knows that they have ended
        self._captured_step: CapturedStep | None = None

    def after(self, step: int) -> Ended | None:
        ends = step % self.epoch == 0
        whole = bool(ends.all()) and self._worth_a_graph()  # with rows that have ended, masked there
        due = np.flatnonzero(ends if whole else ends & ~self.known)
        last, shown = step >= self.limit, step % self.record_every == 0
        if len(due) or shown:
            self.settle(step, due, last[due])
        if not shown and step % _LOOK_EVERY and not last[~self.known].all():
            return None
        found = self.decided.read()
        rows = np.flatnonzero(~self.known & (found["running"] == 0))
        self.known[rows] = True
        if not len(rows):
            return None
        steps, lost = found["step"][rows].astype(np.int64), found["lost"][rows] != 0
        return Ended(rows, steps, lost, found["error"][rows], found["loss"][rows])

    def settle(self, step: int, due: np.ndarray, last: np.ndarray) -> None:
        """Notes which rows end after this step, and stops their weights.

        Args:
          due: rows whose epoch ends.
          last: (due,) True at the epoch limit.
        """
        learner, device = self.learner, self.learner.setting.device
        inputs = (to_device(last, device), torch.full((), step, device=device))
        if len(due) < len(self.epoch) or not self._worth_a_graph():
            at = to_device(due, device)
            self._settle(learner.only(due) if len(due) else None, at, *inputs)
            return
        if self._captured_step is None:
            state = (*self.decided.all, learner.rules.learning_rate)
            self._captured_step = CapturedStep(partial(self._settle, learner, slice(None)), state, inputs)
        self._captured_step(*inputs)

    def keep(self, rows: np.ndarray) -> None:
        super().keep(rows)
        at = self.learner.setting.tensor(rows)
        self.decided = Decisions(*(part[at] for part in self.decided.all))
        self.known, self._captured_step = self.known[rows], None

    def _worth_a_graph(self) -> bool:
        """Whether starting the kernels of an evaluation of all rows takes longer than they do."""
        learner = self.learner
        numbers = len(learner.samples) * int(learner.samples.max()) * learner.numbers_per_sample
        return learner.captured and numbers <= FEW_NUMBERS

    def _settle(self, those: Learner | None, at: Tensor | slice, last: Tensor, step: Tensor) -> None:
        """Settles the rows at these positions.

        Args:
          those: a learner of these rows, None for no rows.
        """
        learner, now = self.learner, self.decided
        now.lost |= now.running & ~torch.isfinite(learner.loss)
        ended = now.lost.clone()
        if those is not None:
            counted = now.running[at] & ~now.lost[at] & (last | self.early)
            error, loss = those.training_error()
            now.error[at], now.loss[at] = (
                torch.where(counted, value, before[at]) for value, before in ((error, now.error), (loss, now.loss))
            )
            now.lost[at] |= counted & ~torch.isfinite(loss)  # the last step may have broken them
            ended[at] |= now.lost[at] | (counted & ((error == 0) | last))
        now.step.copy_(torch.where(now.running & ended, step, now.step))
        now.running &= ~ended
        learner.rules.learning_rate.mul_(now.running[:, None, None])
