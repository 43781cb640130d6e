"""PhaseTransitionLab: how many samples training needs for every l, as a map that fills while it is computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

import numpy as np
import xarray as xr

from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.engine.controls import SPEEDS
from moe_lab_widgets.engine.lab import Lab, Story
from moe_lab_widgets.phase_transition import settings as of
from moe_lab_widgets.phase_transition.picture import PhasePicture, coverage_at, samples_needed

COVERED = 0.8
"""Coverage of the worst class up to which a caption speaks of one right expert."""

STORIES = (
    Story(
        "l* = 3: the cliff",
        {},
        "Two distractors score higher than o, so an expert must keep three patches. From l = 2 to l = 3 coverage jumps "
        "from half to all, and 200 samples suffice. Each further patch costs samples again.",
    ),
    Story(
        "l* = 5: the cliff moves",
        {"distractors": 4},
        "With four distractors l must be 5. At l = 2, 3 and 4 not even 560 samples suffice. l = 1 gets by: one right "
        "expert is enough, since what it does not see is the other class.",
    ),
    Story(
        "no distractors",
        {"distractors": 0},
        "Nothing imitates a class, so l* = 1 and coverage is full everywhere. One patch is enough and cheapest: 40 "
        "samples at l = 1, but 140 at l = 8.",
    ),
    Story(
        "twice the patches (n = 32)",
        {"patches": 32},
        "l* counts distractors, not patches: it stays 3. l = 3 needs 300 samples instead of 200, although every sample "
        "is twice as large.",
    ),
    Story(
        "noise",
        {"noise": 0.5},
        "l = 3 needs 300 samples instead of 200, and from l = 6 on 560 are too few, although coverage still jumps at "
        "l* = 3. From about 1.2 on noise moves l* as well: coverage then rises slowly.",
    ),
    Story(
        "look-alike classes",
        {"delta_d": 0.6, "gap": 0.4},
        "o₁ and o₂ overlap by 0.6. l* is 3 as before, and coverage still jumps there, but l = 3 needs 560 samples "
        "instead of 200.",
    ),
    Story(
        "joint training",
        {"training": of.JOINT},
        "Routers and experts learn together: far fewer samples, and l hardly matters from 2 on. l = 1 never works: the "
        "softmax over one patch is always 1, so its router cannot learn.",
    ),
    Story(
        "handwritten digits",
        {"source": of.DIGITS, "noise": of.NOISE[of.DIGITS]},
        "Sixteen digits in a sample; a 6 or a 7 decides. Real digits blur l*: coverage rises slowly with l. Up to "
        "l = 3, 300 samples suffice; l = 8 needs 800.",
    ),
)


class PhaseTransitionLab(Lab):
    """The l x N map of successful trainings (pmoe2023, figure 5), beside n, k, delta and noise.

    On digits, n and noise apply; on synthetic patches the whole data model of the paper does. k applies to joint
    training; separate training has one expert a class.
    """

    title = "Phase transition"
    knobs = of.KNOBS
    stories = STORIES
    budget = 90.0
    """A headless run fills its map, even on a busy machine."""

    def __init__(self, **values: Any) -> None:
        if values.get("source") == of.DIGITS:
            values = {"noise": of.NOISE[of.DIGITS], **values}
        super().__init__(**values)
        self._offer()
        self.controls.speed.value = list(SPEEDS)[-1]  # the map takes long enough

    def start(self, values: dict[str, Any]) -> Iterator[PhaseRecord]:
        return of.records_of(values)

    def make_picture(self, values: dict[str, Any]) -> PhasePicture:
        return PhasePicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def data(self, records: Sequence[PhaseRecord]) -> xr.Dataset:
        return records[-1].dataset()

    # ---- knobs that move together ----

    def _knob_moved(self, name: str) -> None:
        if name == "source" and not self._own.active:
            source = self.controls.knobs["source"].value
            there = of.SYNTHETIC if source == of.DIGITS else of.DIGITS
            if source != self.values["source"] and self.values["noise"] == of.NOISE[there]:
                self._touched = True
                self.set(source=source, noise=of.NOISE[source])
                return
        super()._knob_moved(name)
        self._offer()

    def _move(self, values: Mapping[str, Any]) -> None:
        super()._move(values)
        self._offer()

    def _offer(self) -> None:
        """Greys out the sliders that do not apply, so that none looks alive and does nothing."""
        knobs = self.controls.knobs
        for name in of.ONLY_SYNTHETIC:
            knobs[name].disabled = knobs["source"].value == of.DIGITS
        knobs["experts"].disabled = knobs["training"].value == of.SEPARATE

    # ---- words ----

    def progress(self, record: PhaseRecord) -> str:
        return f"{record.done.sum()} of {record.done.size} trainings"

    def device(self, record: PhaseRecord) -> str:
        return str(record.origin["device"])

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
        look = min(of.QUICK_LOOK, record.trials)
        if (record.counts < look).any():
            where = "" if not running else f", now N = {running[0][1]}"
            return f"A first look, {look} trainings a cell{where}. {_cheapest(record)}"
        return f"{record.complete.sum()} of {total} cells done{where}. {_cheapest(record)}"


def _list(numbers: Sequence[int]) -> str:
    return ", ".join(str(number) for number in numbers)


def _best(record: PhaseRecord) -> tuple[int, list[int]] | None:
    """The fewest samples that any l (from l* on) needs, and those l; None where no l gets there."""
    needed, _ = samples_needed(record)
    above = np.where(np.array(record.patches_per_expert) >= record.origin.get("l_star", 1), needed, np.nan)
    needed = above if np.isfinite(above).any() else needed  # theory promises nothing below l*
    if not np.isfinite(needed).any():
        return None
    fewest = np.nanmin(needed[np.isfinite(needed)])
    return int(fewest), [kept for kept, own in zip(record.patches_per_expert, needed, strict=True) if own == fewest]


def _cheapest(record: PhaseRecord) -> str:
    """While the map fills: where it is cheapest so far."""
    best = _best(record)
    said = "No l succeeds in 90 % yet" if best is None else f"Cheapest: l = {_list(best[1])} at N = {best[0]}"
    return f"{said}{_below(record)}."


def _needs(record: PhaseRecord) -> str:
    """The full map: what suffices, and what the largest l needs."""
    best, (needed, _) = _best(record), samples_needed(record)
    star = f"l* = {record.origin['l_star']}: " if "l_star" in record.origin else ""
    most = record.samples[-1]
    if best is None:
        return f"{star}no l succeeds in 90 % with up to N = {most} samples"
    largest, last = record.patches_per_expert[-1], needed[-1]
    said = f"{star}{best[0]} samples suffice at l = {_list(best[1])}"
    if largest not in best[1]:
        said += f"; l = {largest} needs {'more than ' + str(most) if np.isinf(last) else int(last)}"
    return said


def _below(record: PhaseRecord) -> str:
    """Coverage below l*, or at the smallest and largest l where l* is not known."""
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
    said = f"; below l* = {star} coverage is "
    if shares[best] > COVERED and best != first:
        return f"{said}{100 * shares[first]:.0f} % at l = {first}, but {100 * shares[best]:.0f} % at l = {best}"
    return f"{said}at most {100 * shares[best]:.0f} %"


def _why(record: PhaseRecord) -> str:
    """Coverage below l*, and why some l can succeed all the same."""
    star, (needed, _), (_, levels) = record.origin.get("l_star", 1), samples_needed(record), coverage_at(record)
    said = f"{_below(record)}"
    below = zip(record.patches_per_expert, needed, levels[:, 1], strict=True)
    lucky = [
        f"{kept} (N = {own:.0f})" for kept, own, cover in below if kept < star and np.isfinite(own) and cover <= COVERED
    ]
    if lucky:
        said += f", but one right expert is enough for l = {', '.join(lucky)}"
    return f"{said}."
