"""What a run needs of an accelerator's memory, stated before it begins: trials come in groups that fit, or are refused.

A room states the bytes of one trial of a run. On a CPU nothing is asked: there, groups are as small as its cache.
"""

from __future__ import annotations

from dataclasses import dataclass

import torch

from moe_lab.core.errors import OperationError

SHARE = 0.4
"""Share of the free memory that the estimate of a run may take: a captured graph keeps what its step allocates, the
allocator as much again, and an estimate may be wrong by half."""

_TOGETHER = 0.8
"""The same for a run in groups that stay on the device together, of which one works at a time."""


@dataclass(frozen=True)
class Need:
    """Bytes of memory that a run needs on its device.

    Attributes:
      per_trial: for each trial that trains at the same time.
      shared: for any number of them.
    """

    per_trial: float
    shared: float = 0.0

    def of(self, trials: int) -> float:
        """Returns the bytes of some trials at once."""
        return self.shared + trials * self.per_trial


def free_bytes(device: torch.device) -> float:
    """Returns the free memory of a device, with what torch has reserved and does not use; infinite on a CPU."""
    if device.type == "cuda":
        unused = torch.cuda.memory_reserved(device) - torch.cuda.memory_allocated(device)
        return float(torch.cuda.mem_get_info(device)[0] + unused)
    if device.type == "mps":
        return float(torch.mps.recommended_max_memory() - torch.mps.current_allocated_memory())
    return float("inf")


def trials_at_once(need: Need, trials: int, device: torch.device) -> int:
    """Returns how many trials fit on a device together, at most `trials`.

    Raises:
      RuntimeError: not one does.
    """
    room = SHARE * free_bytes(device)
    if need.of(trials) <= room:
        return trials
    if need.of(1) > room:
        raise OperationError(_refusal(need.of(1), 1, device))
    return int((room - need.shared) // need.per_trial)


def trials_in_groups(need: Need, trials: int, device: torch.device) -> int:
    """Returns the trials per group where all groups of a run stay on the device and advance in turn.

    Raises:
      RuntimeError: the groups do not fit.
    """
    size = trials_at_once(need, trials, device)
    if size < trials and need.of(trials) > _TOGETHER * free_bytes(device):
        raise OperationError(_refusal(need.of(trials), trials, device, _TOGETHER))
    return size


def check(need: Need, trials: int, device: torch.device) -> None:
    """Checks that all trials of a run fit on a device together, where they cannot be cut into groups.

    Raises:
      RuntimeError: they do not.
    """
    if trials and need.of(trials) > SHARE * free_bytes(device):
        raise OperationError(_refusal(need.of(trials), trials, device))


def _refusal(size: float, trials: int, device: torch.device, share: float = SHARE) -> str:
    what = "a trial" if trials == 1 else f"{trials} trials at once"
    room = share * free_bytes(device) / 2**30
    return (
        f"{what} of this run must fit into {share:.0%} of the device's free memory, {room:.3g} GB; take fewer trials "
        f"or samples, or device='cpu': got about {size / 2**30:.3g} GB"
    )
