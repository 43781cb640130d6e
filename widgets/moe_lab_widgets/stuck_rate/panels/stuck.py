"""The third panel of the stuck-rate Lab's picture: the share of starts that are stuck, for each k."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.collections import LineCollection

from moe_lab import theme
from moe_lab.recovery.gridlock.stuck_live import StuckRecord
from moe_lab_widgets.drawing.lines import put_segments
from moe_lab_widgets.drawing.picture import Name, Picture
from moe_lab_widgets.stuck_rate.record import stuck_by_experts
from moe_lab_widgets.stuck_rate.settings import Setting

LEFT, TOP, WIDTH, HEIGHT = 936, 84, 140, 296
NOTE = 55
"""Baseline of the note below the header, in pixels from the top."""
WORDS = ("stuck from random starts", "stuck from the spectral start")

AWAY = (0.17, -0.17)
"""How far each bar is from the middle of its row."""


class Stuck:
    """Two bars for each k: above from random starts, below from the spectral start, all n of the map together."""

    def __init__(self, picture: Picture) -> None:
        theme.header(picture.figure, LEFT - 46, 3, "Stuck, all n")
        note = "upper bar: random start\nlower bar: spectral start"
        picture.figure.text(
            *theme.spot(picture.figure, LEFT - 34, NOTE + 12), note, color=theme.MUTED, size=theme.SMALL_SIZE
        )
        self.axes = theme.axes(picture.figure, LEFT, TOP, WIDTH, HEIGHT, xlim=(0, 1))
        self.axes.set_xlabel("share of the starts", size=theme.TEXT_SIZE, color=theme.INK)
        self.axes.set_xticks([0, 0.5, 1], ["0", "50 %", "100 %"])
        self.axes.tick_params(axis="y", length=0)
        self.picture = picture
        self.bars = [LineCollection([], colors=[colour], capstyle="butt") for colour in (theme.FAILURE, theme.INK)]
        for bars, words in zip(self.bars, WORDS, strict=True):
            self.axes.add_collection(bars)
            picture.name(picture.live(bars), partial(self._named, words))

        self._pinned: list[Artist] = []

    def _named(self, words: str) -> Name:
        return {"name": words, "x": self.picture.along("share", self.axes, "x", percent=True)}

    def set(self, setting: Setting) -> None:
        """Names rows."""
        rows = len(setting.experts)
        self.axes.set_ylim(-0.5, rows - 0.5)
        self.axes.set_yticks(range(rows), [str(k) for k in setting.experts])
        for bars in self.bars:
            bars.set_linewidth(0.28 * HEIGHT / rows * 72 / theme.BASE_DPI)

    def update(self, record: StuckRecord) -> None:
        for bars, shares, away in zip(self.bars, stuck_by_experts(record), AWAY, strict=True):
            known = [(row + away, share) for row, share in enumerate(shares) if np.isfinite(share)]
            put_segments(bars, [[(0, row), (share, row)] for row, share in known])

    # ---- pinned ----

    def pin(self, record: StuckRecord) -> None:
        """Marks the shares of a record in grey."""
        self.unpin()
        style: dict[str, Any] = {"color": theme.REFERENCE, "linestyle": "none", "markersize": 5, "clip_on": False}
        for shares, away in zip(stuck_by_experts(record), AWAY, strict=True):
            (marks,) = self.axes.plot(shares, np.arange(len(shares)) + away, "s", **style, zorder=4)
            self._pinned.append(self.picture.name(self.picture.live(marks), partial(self._named, "pinned: stuck")))
        place = theme.spot(self.picture.figure, LEFT - 34, NOTE + 26)
        words = "grey squares: pinned"
        self._pinned.append(self.picture.figure.text(*place, words, color=theme.MUTED, size=theme.SMALL_SIZE))
        self.picture.invalidate()

    def unpin(self) -> None:
        for artist in self._pinned:
            self.picture.remove(artist)
        self._pinned = []
        self.picture.invalidate()
