"""StuckRateLab: how often EM gets stuck, over experts and samples, as two maps that fill while they are computed."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import TYPE_CHECKING, Any

from moe_lab.recovery.gridlock.stuck_live import StuckRecord
from moe_lab_widgets.engine.controls import SPEEDS
from moe_lab_widgets.engine.lab import Lab
from moe_lab_widgets.stuck_rate import settings as of
from moe_lab_widgets.stuck_rate.picture import StuckPicture
from moe_lab_widgets.stuck_rate.record import most_experts, share_of
from moe_lab_widgets.stuck_rate.stories import STORIES

if TYPE_CHECKING:
    import xarray


class StuckRateLab(Lab):
    """The k x n maps of starts that find all regressors: with EM from random starts, and from the spectral one.

    A start is stuck where it has not found them and its error has stopped to fall (`stuck_rate`). All starts of a cell
    move as one batch.
    """

    title = "Stuck starts"
    knobs = of.KNOBS
    stories = STORIES
    budget = 90.0
    """Enough for a headless run to fill its maps on a busy machine."""
    speed = list(SPEEDS)[-1]

    def check(self, values: Mapping[str, Any]) -> None:
        of.check(values)

    def start(self, values: dict[str, Any]) -> Iterator[StuckRecord]:
        return of.records_of(values)

    def work(self, values: Mapping[str, Any]) -> float:
        return of.work(values)

    def make_picture(self, values: dict[str, Any]) -> StuckPicture:
        return StuckPicture(scale=self.scale)

    def code(self, values: dict[str, Any]) -> str:
        return of.code(values)

    def data(self, records: Sequence[StuckRecord]) -> xarray.Dataset:
        return records[-1].dataset()

    # ---- words ----

    def progress(self, record: StuckRecord) -> str:
        return f"{record.done.sum()} of {record.done.size} cells"

    def trouble(self, record: StuckRecord) -> str:
        lost = round(float(sum((record.share("diverged")[record.done] * record.trials).tolist())))
        if not lost:
            return ""
        count = "They count" if lost > 1 else "It counts"
        return (
            f"{lost} start{'s' * (lost > 1)} ended without a result: T2 lacks directions, or numbers became infinite. "
            f"{count} as not found."
        )

    def caption(self, record: StuckRecord) -> str:
        if not record.done.any():
            return f"Nothing has run yet: {record.done.size} cells, {record.trials} starts each."
        stuck = _against(
            f"{100 * share:.0f} %" if share == share else "none yet" for share in share_of(record, "stuck")
        )
        if not record.done.all():
            where = ""
            if record.running is not None:
                method, k, n = record.running
                where = (
                    f", now {'the spectral start' if method == of.SPECTRAL else 'random starts'} at k = {k}, n = {n}"
                )
            return f"{record.done.sum()} of {record.done.size} cells done{where}. Stuck so far: {stuck}."
        most = _against(f"up to k = {k}" if k is not None else "at no k" for k in most_experts(record))
        return f"With n = {record.samples[-1]}, 90 % find all regressors {most}. Stuck on the whole map: {stuck}."


def _against(both: Iterator[str]) -> str:
    """Returns what holds of random starts, and of the spectral start."""
    random, spectral = both
    return f"{random} from random starts, {spectral} from the spectral start"
