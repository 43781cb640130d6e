"""What the stuck-rate Lab reads off a record: the shares of starts that find all regressors, or are stuck.

Shapes: methods (random starts, spectral starts), k, n, trials.
"""

from __future__ import annotations

import torch
from jaxtyping import Float
from torch import Tensor

from moe_lab.drawing.map_marks import ENOUGH, numbers_of
from moe_lab.recovery.gridlock.verdicts import FOUND
from moe_lab_widgets.drawing.map_record import ended, share
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues, once

EXPERTS = (2, 3, 4, 5, 6)
"""The rows of the maps, of which those above d are left out."""
SAMPLES = (250, 500, 1000, 2000)
"""The columns of the maps."""


def rows_of(values: MarkValues) -> Tensor:
    """Returns how many values of k there are: they cannot exceed d."""
    return (values.number("dimension") - 1).clamp(max=float(len(EXPERTS)))


@once
def found(now: MarkRecord) -> Float[Tensor, "method k n"]:
    """Returns the share of the ended starts that find all regressors."""
    return share(now, now.last("regressor_fit") >= FOUND)


@once
def stuck(now: MarkRecord) -> Float[Tensor, "method k n"]:
    """Returns the share of the ended starts that are stuck."""
    return share(now, now.last("stuck") > 0)


def stuck_by_experts(now: MarkRecord) -> Float[Tensor, "method k"]:
    """Returns the share of the starts that are stuck, all n together that have run; NaN where none has."""
    count = (ended(now) > 0).sum(2)
    return torch.where(count > 0, stuck(now).nan_to_num().sum(2) / count.clamp(min=1), torch.nan)


def stuck_in_all(now: MarkRecord) -> Float[Tensor, " method"]:
    """Returns the share of the starts that are stuck on the whole map; cells that have not run count as 0."""
    return stuck(now).nan_to_num().mean((1, 2))


def found_at(now: MarkRecord, experts: int, samples: int) -> Float[Tensor, " method"]:
    """Returns how often all of some experts are found with some samples; NaN where the map has no such cell."""
    shares = found(now)
    row, column = numbers_of(shares[0]) == experts - EXPERTS[0] + 1, now.last("samples") == samples
    own = row[:, None] & column
    return torch.where(own.any(), torch.where(own, shares, 0.0).sum((1, 2)), torch.nan)


def most_experts(now: MarkRecord) -> Float[Tensor, " method"]:
    """Returns the most experts up to which 90 % find all regressors with the largest n; NaN where there are none."""
    enough = found(now)[:, :, -1].nan_to_num() >= ENOUGH - 1e-9
    many = ((~enough).to(torch.float64).cumsum(1) == 0).sum(1)
    return torch.where(many > 0, many + EXPERTS[0] - 1, torch.nan)
