"""The second panel of the phase-transition Lab's picture: the samples that each l needs, and those of a pinned map."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from matplotlib.artist import Artist
from matplotlib.ticker import NullLocator
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.patch_routing.phase_live import PhaseRecord
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Name, Picture
from moe_lab_widgets.phase_transition.panels.success import MAP
from moe_lab_widgets.phase_transition.record import samples_needed
from moe_lab_widgets.phase_transition.settings import KNOBS, Setting

LEFT, WIDTH = 716, 140
FEWEST, MOST = 17, 1000
"""Limits of the axis, the same for every setting, so that pinned curves compare."""
EDGE = 930
"""Where the triangles stand that mean "more than the largest N"."""
NOTE = 55
"""Baseline of the notes below the headers, in pixels from the top."""
SMALL: dict[str, Any] = {"color": theme.MUTED, "size": theme.SMALL_SIZE}


class Needed:
    """The fewest samples from which on 90 % of the trainings succeed, for each l."""

    def __init__(self, picture: Picture) -> None:
        self.picture = picture
        theme.header(picture.figure, LEFT - 42, 2, "Samples needed")
        picture.figure.text(*theme.spot(picture.figure, LEFT - 30, NOTE), "N from which on ≥ 90 %", **SMALL)
        self.axes = theme.axes(picture.figure, LEFT, MAP[1], WIDTH, MAP[3], xscale="log", xlim=(FEWEST, MOST))
        self._values: dict[str, Any] = {}
        self._pinned: tuple[dict[str, Any], tuple[int, ...], NDArray[np.float64]] | None = None
        self._pinned_artists: list[Artist] = []
        self.axes.xaxis.set_minor_locator(NullLocator())
        self.axes.set_xticks([20, 60, 200, 600], ["20", "60", "200", "600"])
        self.axes.tick_params(axis="y", length=0)
        self.axes.grid(axis="x", color=theme.RULE, linewidth=0.5)
        self.axes.set_axisbelow(True)
        style: dict[str, Any] = {"color": theme.FAILURE, "markersize": 7, "zorder": 4, "clip_on": False}
        edge: dict[str, Any] = {"markeredgecolor": theme.FAILURE, "markeredgewidth": 1.6, "linestyle": "none"}
        (line,) = self.axes.plot([], [], linewidth=2.4, **style)
        (sure,) = self.axes.plot([], [], "o", **edge, **style)
        (maybe,) = self.axes.plot([], [], "o", **edge, **{**style, "color": theme.PAPER})
        (beyond,) = self.axes.plot([], [], ">", **edge, **{**style, "color": theme.PAPER, "markersize": 9})
        self.line, self.sure, self.maybe, self.beyond = map(picture.live, (line, sure, maybe, beyond))
        words = "samples needed", "samples needed", "samples needed, as far as it has run", "more than the largest N"
        for artist, name in zip((line, sure, maybe, beyond), words, strict=True):
            picture.name(artist, partial(self._named, name))

    def set(self, setting: Setting) -> None:
        """Names rows and the axis."""
        rows = len(setting.kept)
        self.axes.set_ylim(-0.5, rows - 0.5)
        self.axes.set_yticks(range(rows), [str(kept) for kept in setting.kept])
        beyond = f"N needed\n▷ more than {setting.samples[-1]}"
        self.axes.set_xlabel(beyond, size=theme.TEXT_SIZE, color=theme.INK, linespacing=1.1, labelpad=2)

    def _named(self, words: str) -> Name:
        return {"name": words, "x": self.picture.along("N about", self.axes, "x", log=True)}

    def update(self, needed: NDArray[np.float64], sure: NDArray[np.bool_]) -> None:
        rows = np.arange(len(needed))
        found, over = np.isfinite(needed), np.isinf(needed)
        edge = np.where(over, EDGE, needed)
        put(self.line, np.where(over, np.nan, needed), rows)
        for line, chosen in ((self.sure, found & sure), (self.maybe, found & ~sure), (self.beyond, over)):
            put(line, edge[chosen], rows[chosen])

    # ---- pinned ----

    def begin(self, values: dict[str, Any]) -> None:
        """Names the pinned map anew, by what now differs."""
        self._values = values
        self._draw_pinned()

    def pin(self, record: PhaseRecord) -> None:
        self._pinned = (self._values, record.patches_per_expert, samples_needed(record)[0])
        self._draw_pinned()

    def unpin(self) -> None:
        self._pinned = None
        self._draw_pinned()

    def _draw_pinned(self) -> None:
        if not self._pinned_artists and self._pinned is None:
            return
        for artist in self._pinned_artists:
            artist.remove()
        self._pinned_artists = []
        if self._pinned is not None:
            before, kept, needed = self._pinned
            rows, beyond = np.array(kept) - 1, np.isinf(needed)
            style: dict[str, Any] = {"color": theme.REFERENCE, "linewidth": 1.8, "zorder": 2}
            known = np.where(beyond, np.nan, needed)
            edge = np.full(beyond.sum(), EDGE)
            place = theme.spot(self.picture.figure, LEFT - 30, NOTE + 17)
            name = self.picture.figure.text(*place, f"grey: {pinned_name(before, self._values)}", **SMALL)
            self._pinned_artists = [
                *self.axes.plot(known, rows, "s--", markersize=5, **style),
                *self.axes.plot(edge, rows[beyond], ">", markersize=9, **style),
                name,
            ]
        self.picture.invalidate()


def pinned_name(before: dict[str, Any], now: dict[str, Any]) -> str:
    """Returns what distinguishes a pinned map from the present one: the knob that differs, where it is only one."""
    different = [name for name in before if before[name] != now.get(name)]
    if len(different) != 1:
        return "pinned"
    symbols = {knob.name: knob.symbol or knob.name for knob in KNOBS}
    value = before[different[0]]
    if isinstance(value, str):
        return value
    if different == ["distractors"]:
        return f"l* = {value + 1}"
    return f"{symbols.get(different[0], different[0])} = {value:g}"
