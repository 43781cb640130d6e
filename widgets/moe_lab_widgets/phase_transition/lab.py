"""PhaseTransitionLab: how many samples training needs for every l, as a map that fills while it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from pathlib import Path
from typing import TYPE_CHECKING, Any

import numpy as np

from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.engine.controls import SPEEDS
from moe_lab_widgets.engine.knobs import LabKnob
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.engine.mnist import with_mnist
from moe_lab_widgets.phase_transition import settings as of
from moe_lab_widgets.phase_transition.picture import PhasePicture
from moe_lab_widgets.phase_transition.record import coverage_at, samples_needed
from moe_lab_widgets.phase_transition.stories import STORIES

if TYPE_CHECKING:
    import xarray

COVERED = 0.8
"""Coverage of the worse class up to which a caption mentions that one right expert is enough."""


class PhaseTransitionLab(Lab):
    """The l x N map of successful trainings (pmoe2023, figure 5), beside n, k, delta and noise.

    On digits, n and noise apply; on synthetic patches the whole data model of the paper does. k applies to joint
    training; separate training has one expert a class.

    Args:
      mnist: a folder of MNIST's IDX files, or "download" (fetched once and checked): begins with the map at the paper's
        size, on MNIST's 28x28 images, for which a run on a CPU says how long it would take and waits for Play.
    """

    title = "Phase transition"
    knobs: Sequence[LabKnob] = of.KNOBS
    stories = STORIES
    budget = 90.0
    """Enough for a headless run to fill its map on a busy machine."""
    speed = list(SPEEDS)[-1]

    def __init__(self, /, *, mnist: Path | str | None = None, **values: Any) -> None:
        if mnist is not None:
            self.knobs, values = with_mnist(self.knobs, mnist, values)
        super().__init__(**values)

    def check(self, values: Mapping[str, Any]) -> None:
        of.task_of(values)

    def start(self, values: dict[str, Any]) -> Iterator[PhaseRecord]:
        return of.records_of(values)

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> PhasePicture:
        return PhasePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def data(self, records: Sequence[PhaseRecord]) -> xarray.Dataset:
        return records[-1].dataset()

    # ---- words ----

    def progress(self, record: PhaseRecord) -> str:
        return f"{record.done.sum()} of {record.done.size} trainings"

    def trouble(self, record: PhaseRecord) -> str:
        lost = int((record.done & np.isnan(record.test_accuracy)).sum())
        if not lost:
            return ""
        return f"In {lost} training{'s' * (lost > 1)} the loss became infinite; they count as failures."

    def caption(self, record: PhaseRecord) -> str:
        total, running = record.complete.size, record.running
        if not record.done.any():
            return f"Nothing has run yet: {total} cells, {record.trials} trainings each."
        if record.complete.all():
            return f"{_needs(record)}{_why(record)}"
        where = "" if not running else f", now l = {running[0][0]}, N = {running[0][1]}"
        first = min(of.FIRST_TRAININGS, record.trials)
        if (record.counts < first).any():
            where = "" if not running else f", now N = {running[0][1]}"
            return f"A first look, {first} trainings a cell{where}. {_cheapest(record)}"
        return f"{record.complete.sum()} of {total} cells done{where}. {_cheapest(record)}"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def _best(record: PhaseRecord) -> tuple[int, list[int]] | None:
    """Returns the fewest samples that any l (from l* on) needs, and those l; None where no l succeeds."""
    needed, _ = samples_needed(record)
    above = np.where(np.array(record.patches_per_expert) >= record.origin.get("l_star", 1), needed, np.nan)
    needed = above if np.isfinite(above).any() else needed  # theory promises nothing below l*
    if not np.isfinite(needed).any():
        return None
    fewest = np.nanmin(needed[np.isfinite(needed)])
    return int(fewest), [kept for kept, own in zip(record.patches_per_expert, needed, strict=True) if own == fewest]


def _cheapest(record: PhaseRecord) -> str:
    """Returns the cheapest l so far, while the map fills."""
    best = _best(record)
    text = "No l succeeds in 90 % yet" if best is None else f"Cheapest: l = {_list(best[1])} at N = {best[0]}"
    return f"{text}{_below(record)}."


def _needs(record: PhaseRecord) -> str:
    """Returns what suffices on the full map, and what the largest l needs."""
    best, (needed, _) = _best(record), samples_needed(record)
    star = f"l* = {record.origin['l_star']}: " if "l_star" in record.origin else ""
    most = record.samples[-1]
    if best is None:
        return f"{star}no l succeeds in 90 % with up to N = {most} samples"
    largest, last = record.patches_per_expert[-1], needed[-1]
    text = f"{star}{best[0]} samples suffice at l = {_list(best[1])}"
    if largest not in best[1]:
        text += f"; l = {largest} needs {'more than ' + str(most) if np.isinf(last) else int(last)}"
    return text


def _below(record: PhaseRecord) -> str:
    """Returns coverage below l*, or at the smallest and largest l where l* is not known."""
    _, levels = coverage_at(record)
    star = record.origin.get("l_star")
    shares = {kept: middle for kept, middle in zip(record.patches_per_expert, levels[:, 1], strict=True)
              if np.isfinite(middle) and (star is None or kept < star)}  # fmt: skip
    if not shares:
        return ""
    first, last = min(shares), max(shares)
    if star is None:
        return f"; coverage is {100 * shares[first]:.0f} % at l = {first} and {100 * shares[last]:.0f} % at l = {last}"
    best = max(shares, key=lambda kept: shares[kept])
    text = f"; below l* = {star} coverage is "
    if shares[best] > COVERED and best != first:
        return f"{text}{100 * shares[first]:.0f} % at l = {first}, but {100 * shares[best]:.0f} % at l = {best}"
    return f"{text}at most {100 * shares[best]:.0f} %"


def _why(record: PhaseRecord) -> str:
    """Returns coverage below l*, and why some l can succeed all the same."""
    star, (needed, _), (_, levels) = record.origin.get("l_star", 1), samples_needed(record), coverage_at(record)
    text = f"{_below(record)}"
    below = zip(record.patches_per_expert, needed, levels[:, 1], strict=True)
    lucky = [
        f"{kept} (N = {own:.0f})" for kept, own, cover in below if kept < star and np.isfinite(own) and cover <= COVERED
    ]
    if lucky:
        text += f", but one right expert is enough for l = {', '.join(lucky)}"
    return f"{text}."
