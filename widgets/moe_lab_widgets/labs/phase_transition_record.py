"""What the phase-transition Lab reads off a record: the samples that each l needs, coverage, and sentences on both."""

from __future__ import annotations

from collections.abc import Mapping, Sequence

import numpy as np
from numpy.typing import NDArray

from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.maps import enough_from
from moe_lab_widgets.labs.phase_transition_words import WORDS

COVERED = 0.8
"""Coverage of the worse class up to which a caption mentions that one right expert is enough."""


def samples_needed(record: PhaseRecord) -> tuple[NDArray[np.float64], NDArray[np.bool_]]:
    """Returns the fewest samples from which on at least 90 % of the trainings succeed, for every l.

    Returns:
      (l,) N, infinite where the largest N is not enough, NaN where too little has run; and (l,) whether all
      of that row's grid points are complete.
    """
    column = enough_from(record.share)
    counts = np.array([*record.samples, np.inf])
    needed = np.where(np.isnan(column), np.nan, counts[np.nan_to_num(column).astype(int)])
    return needed, np.asarray(record.complete.all(axis=1))


def coverage_at(record: PhaseRecord) -> tuple[int | None, NDArray[np.float64]]:
    """Returns the largest N that has run at every l, and (l, 3) the 10 %, 50 % and 90 % points of coverage there."""
    levels = np.full((len(record.patches_per_expert), 3), np.nan)
    known = np.flatnonzero(np.isfinite(record.coverage).any(-1).all(0))
    if not len(known):
        return None, levels
    levels[:] = np.nanquantile(record.coverage[:, known[-1]], (0.1, 0.5, 0.9), axis=-1).T
    return record.samples[known[-1]], levels


# ---- sentences ----


def best(record: PhaseRecord) -> tuple[int, str] | None:
    """Returns the fewest samples that any l (from l* on) needs, and those l in words; None where no l succeeds."""
    needed, _ = samples_needed(record)
    above = np.where(np.array(record.patches_per_expert) >= record.origin.get("l_star", 1), needed, np.nan)
    needed = above if np.isfinite(above).any() else needed  # theory promises nothing below l*
    if not np.isfinite(needed).any():
        return None
    fewest = np.nanmin(needed[np.isfinite(needed)])
    found = [str(kept) for kept, own in zip(record.patches_per_expert, needed, strict=True) if own == fewest]
    return int(fewest), WORDS["AT"].format(kept=_joined(found))


def _joined(parts: Sequence[str]) -> str:
    return " and ".join(filter(None, (", ".join(parts[:-1]), parts[-1])))


def needs(record: PhaseRecord) -> str:
    """Returns a sentence on the samples that suffice on the full map, and those that the largest l needs."""
    cheapest, (needed, _) = best(record), samples_needed(record)
    most, largest = record.samples[-1], record.patches_per_expert[-1]
    star = WORDS["STAR"].format(l_star=record.origin["l_star"]) if "l_star" in record.origin else ""
    if cheapest is None:
        return WORDS["NEEDS_NONE"].format(most=most, star=star)
    besides = ""
    if needed[-1] != cheapest[0]:
        own = WORDS["MORE_THAN"].format(most=most) if np.isinf(needed[-1]) else int(needed[-1])
        besides = WORDS["LARGEST"].format(kept=largest, samples=own)
    return WORDS["NEEDS"].format(samples=cheapest[0], kept=cheapest[1], star=star, largest=besides)


def below(record: PhaseRecord) -> str:
    """Returns a sentence on coverage below l*, or at the smallest and the largest l where l* is not known."""
    levels, star = coverage_at(record)[1][:, 1], record.origin.get("l_star")
    known = {kept: share for kept, share in zip(record.patches_per_expert, levels, strict=True) if np.isfinite(share)}
    if star is not None:
        known = {kept: share for kept, share in known.items() if kept < star}
    if not known:
        return ""
    first, last, most = min(known), max(known), max(known, key=lambda kept: known[kept])
    said = {kept: WORDS["LEVEL"].format(share=f"{100 * share:.0f}", kept=kept) for kept, share in known.items()}
    if star is None:
        return WORDS["BOTH"].format(first=said[first], last=said[last])
    lucky = _lucky(record, known) if record.finished else ""
    if known[most] > COVERED and most != first:
        return WORDS["BELOW_RISE"].format(l_star=star, first=said[first], most=said[most], lucky=lucky)
    return WORDS["BELOW_MOST"].format(l_star=star, share=f"{100 * known[most]:.0f}", lucky=lucky)


def _lucky(record: PhaseRecord, known: Mapping[int, float]) -> str:
    """Returns which l succeed although their coverage is low, and why."""
    needed = dict(zip(record.patches_per_expert, samples_needed(record)[0], strict=True))
    lucky = [kept for kept, share in known.items() if share <= COVERED and np.isfinite(needed[kept])]
    if not lucky:
        return ""
    found = [WORDS["LUCKY_ONE"].format(kept=one, samples=f"{needed[one]:.0f}") for one in lucky]
    return WORDS["LUCKY"].format(found=_joined(found))
