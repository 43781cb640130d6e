"""What the phase-transition Lab reads off a record: the samples that each l needs, and coverage. R = l, C = N."""

from __future__ import annotations

from collections.abc import Mapping

import torch
from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.map_marks import enough_from, numbers_of, quantile
from moe_lab_widgets.drawing.map_record import share as share_of
from moe_lab_widgets.drawing.mark_record import MarkRecord, MarkValues
from moe_lab_widgets.engine.mnist import MNIST
from moe_lab_widgets.labs.phase_transition_stories import DIGITS, JOINT, SEPARATE, SYNTHETIC

PER_EXPERT = (1, 2, 3, 4, 5, 6, 7, 8)
"""The values of l; those above n are left out."""
SAMPLES: Mapping[tuple[str, str], tuple[int, ...]] = {
    (SYNTHETIC, SEPARATE): (40, 60, 100, 140, 200, 300, 400, 560),
    (SYNTHETIC, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (DIGITS, SEPARATE): (60, 100, 140, 200, 300, 400, 560, 800),
    (DIGITS, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
    (MNIST, SEPARATE): (60, 100, 140, 200, 300, 400, 500, 600, 700, 800),
    (MNIST, JOINT): (20, 40, 60, 80, 100, 140, 200, 300),
}
"""The values of N, by data and training: where the transition is."""

# ---- of the values alone ----


def samples_of(values: MarkValues) -> tuple[int, ...]:
    """Returns the values of N."""
    return SAMPLES[values["source"], values["training"]]


def rows_of(values: MarkValues) -> Tensor:
    """Returns how many values of l there are: they cannot exceed n."""
    return values.number("patches").clamp(max=float(PER_EXPERT[-1]))


def l_star(values: MarkValues) -> Tensor | None:
    """Returns l*; None where the data do not determine it."""
    return values.number("distractors") + 1 if values["source"] == SYNTHETIC else None


# ---- of a record ----


def complete(now: MarkRecord) -> Bool[Tensor, "R C"]:
    return (now.last("done") > 0).all(-1)


def share(now: MarkRecord) -> Float[Tensor, "R C"]:
    """Returns the share of the ended trainings that succeed; one whose loss became infinite does not."""
    return share_of(now, now.last("success") > 0)


def samples_needed(now: MarkRecord) -> Float[Tensor, " R"]:
    """Returns the fewest samples from which on at least 90 % of the trainings succeed, for every l.

    Returns:
      (R,) N, infinite where the largest N is not enough, NaN where too little has run.
    """
    column = enough_from(share(now))
    counts = torch.cat((now.last("samples"), torch.full((1,), torch.inf, dtype=torch.float64)))
    return torch.where(column.isfinite(), counts.gather(0, column.nan_to_num().to(torch.int64)), torch.nan)


def coverage_at(now: MarkRecord) -> tuple[Float[Tensor, ""], tuple[Tensor, Tensor, Tensor]]:
    """Returns the largest N that has run at every l, and (R,) the 10 %, 50 % and 90 % points of coverage there.

    All are NaN where there is none.
    """
    coverage = now.last("coverage")
    known = coverage.isfinite().any(-1).all(0)
    place = (known * torch.arange(1, known.shape[0] + 1)).amax()
    column = (place - 1).clamp(min=0).expand(coverage.shape[0], 1, coverage.shape[2])
    of_column = torch.where(place > 0, coverage.gather(1, column)[:, 0], torch.nan)
    counts = torch.cat((torch.full((1,), torch.nan, dtype=torch.float64), now.last("samples")))
    low, middle, high = (quantile(of_column, share) for share in (0.1, 0.5, 0.9))
    return counts.gather(0, place[None])[0], (low, middle, high)


def best(now: MarkRecord) -> tuple[Float[Tensor, ""], Bool[Tensor, " R"]]:
    """Returns the fewest samples that any l (from l* on) needs, infinite where no l succeeds, and which l these are."""
    needed = samples_needed(now)
    needed = torch.where(needed.isfinite(), needed, torch.inf)
    star = l_star(now.values)
    if star is not None:  # theory promises nothing below it
        above = torch.where(numbers_of(needed) >= star, needed, torch.inf)
        needed = torch.where(above.amin() < torch.inf, above, needed)
    fewest = needed.amin()
    return fewest, (needed == fewest) & (fewest < torch.inf)
