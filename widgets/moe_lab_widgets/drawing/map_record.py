"""What maps of several Labs read off a record: how many runs of each cell have ended, and how many of them succeed."""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab_widgets.drawing.mark_record import MarkRecord


def ended(now: MarkRecord) -> Float[Tensor, "*cells"]:
    """Returns how many runs of each cell have ended."""
    return (now.last("done") > 0).sum(-1).to(torch.float64)


def share(now: MarkRecord, those: Tensor) -> Float[Tensor, "*cells"]:
    """Returns the share of the ended runs that are among those (*cells, run); NaN where none has ended."""
    count = ended(now)
    return torch.where(count > 0, ((now.last("done") > 0) & those).sum(-1) / count.clamp(min=1), torch.nan)
