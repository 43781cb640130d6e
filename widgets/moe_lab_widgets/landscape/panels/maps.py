"""The first panel of the landscape Lab's picture: both losses from above, with the paths of the descents."""

from __future__ import annotations

from typing import Any, ClassVar

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.landscape.planes import Plane
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import two_digits
from moe_lab_widgets.landscape.record import METHODS, Frame

NAMES = {"L4": "L₄", "l2": "ℓ₂, squared error"}
COLOURS = {"L4": theme.INK, "l2": theme.MUTED}
LEVELS = 16
DARKEST = 0.62
"""Of the ramp, so that a path in ink can be seen everywhere."""
EDGE = 290
"""Pixels of a map's side."""


def shades(values: NDArray[np.float64], pixels: int) -> NDArray[np.uint8]:
    """Returns a loss as (pixels, pixels, 4) bands of the ramp, darker where it is larger, the second direction upwards.

    Levels are even in the root of what the loss has beyond its least value, so that flat valleys show.
    """
    root = np.sqrt(np.clip(values - values.min(), 0, None))
    root = root / (root.max() or 1.0)
    at = np.linspace(0, len(root) - 1, pixels)
    low = np.minimum(at.astype(int), len(root) - 2)
    part = (at - low)[:, None]
    tall = root[low] * (1 - part) + root[low + 1] * part
    fine = (tall[:, low].T * (1 - part) + tall[:, low + 1].T * part).T
    band = np.minimum((fine * LEVELS).astype(int), LEVELS - 1)
    colours = theme.ramp(np.linspace(0, DARKEST, LEVELS))
    image = colours[band]
    edges = np.zeros(band.shape, dtype=bool)
    edges[1:] |= band[1:] != band[:-1]
    edges[:, 1:] |= band[:, 1:] != band[:, :-1]
    image[edges, :3] = (0.75 * image[edges, :3].astype(float) + 0.25 * theme.rgba(theme.MUTED)[:3]).astype(np.uint8)
    return np.ascontiguousarray(image[::-1])


class Maps(Panel):
    """Each loss on the plane of its minima (see `planes`), with the shown trial's path from start to now."""

    LEFTS: ClassVar[dict[str, int]] = {"L4": 36, "l2": 366}
    TOP = 98

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 684))
        theme.header(scene.figure, 14, 1, "Two losses, from the same start")
        self.axes, self.path, self.halo, self.head, self.start = {}, {}, {}, {}, {}
        self.true, self.false, self.state, self.maps = {}, {}, {}, {}
        self.planes: dict[str, Plane | None] = dict.fromkeys(METHODS)
        edge: dict[str, Any] = {"linestyle": "none", "markeredgecolor": theme.INK, "clip_on": False}
        for method, left in self.LEFTS.items():
            axes = theme.axes(scene.figure, left, self.TOP, EDGE, EDGE, xlim=(-1, 1), ylim=(-1, 1))
            axes.set_axis_off()
            self.axes[method] = axes
            common: dict[str, Any] = {"solid_capstyle": "round"}
            self.halo[method] = self._line(axes, color=theme.PAPER, linewidth=4.6, zorder=3, **common)
            self.path[method] = self._line(axes, color=theme.INK, linewidth=2.2, zorder=4, **common)
            self.true[method] = self._line(axes, marker="*", markersize=17, color="#E0B000", zorder=5, **edge)
            self.false[method] = self._line(axes, marker="X", markersize=11, color=theme.FAILURE, zorder=5,
                                            **{**edge, "markeredgecolor": theme.PAPER})  # fmt: skip
            self.start[method] = self._line(axes, marker="o", markersize=8, color=theme.PAPER, zorder=6, **edge)
            self.head[method] = self._line(axes, marker="o", markersize=9, color=theme.INK, zorder=7,
                                           **{**edge, "markeredgecolor": theme.PAPER})  # fmt: skip
            self.state[method] = scene.live(Sheet())
            self.maps[method] = scene.live(Sheet(zorder=1))  # under the paths
            self._name(method)

    def _name(self, method: str) -> None:
        words = {
            "path": "the path of the descent",
            "start": "the start",
            "head": "now; a triangle points to a place outside",
            "true": "a true solution",
            "false": "gate and a₁ − a₂ exchanged",
            "maps": "the loss on a plane through the minima; darker is larger",
        }
        for kind, what in words.items():
            self.scene.name(getattr(self, kind)[method], {"name": f"{NAMES[method]}: {what}"})

    def _line(self, axes: Any, **style: Any) -> Line2D:
        (line,) = axes.plot([], [], **style)
        return self.scene.live(line)

    def set(self, experts: int, trials: int, shown: int) -> None:
        """Writes the words beside the maps."""
        if not self.renew(experts, trials, shown):
            return
        which = f"trial {shown + 1} of {trials}; " if trials > 1 else ""
        self.write(26, 50, f"{which}darker: larger loss; a map is a plane, and a path may pass over or under it")
        self.write(26, 66, "★ true solution   ○ start   ● now")
        if experts == 2:
            self.write(self.LEFTS["l2"], 66, "✗ gate and a₁ − a₂ exchanged", color=theme.FAILURE)
        else:
            self.write(self.LEFTS["l2"], 66, "a path may end at a solution off the plane")
        for method, left in self.LEFTS.items():
            self.write(left, 86, NAMES[method], color=COLOURS[method], size=theme.TEXT_SIZE, weight="bold")
            one = "one true solution" if experts == 2 else "the nearest true solution"
            self.write(left + EDGE / 2, self.TOP + EDGE + 12, f"towards {one} →", ha="center")
            other = "the start" if experts > 2 else "another" if method == "L4" else "the exchange"
            self.write(left - 12, self.TOP + EDGE / 2, f"towards {other} →", rotation=90, ha="center")

    def update(self, record: Frame, shown: int) -> None:
        for method in METHODS:
            self._lay(method, record.plane(method, shown) if record.of(method) is not None else None)
            self._update(record, method, shown)

    def _lay(self, method: str, plane: Plane | None) -> None:
        """Draws a map under the path."""
        if plane is self.planes[method]:
            return
        self.planes[method] = plane
        left, top = self.LEFTS[method], self.TOP
        with self.maps[method].anew() as sheet:
            if plane is not None:
                sheet.image(left, top, left + EDGE, top + EDGE, lambda wide, *_: shades(plane.values, wide))

    def _update(self, record: Frame, method: str, shown: int) -> None:
        plane, shot = self.planes[method], record.of(method)
        parts = (self.path, self.halo, self.head, self.start, self.true, self.false)
        if plane is None or shot is None:
            for lines in parts:
                put(lines[method], [], [])
            self._write_state(method, "waits for its samples")
            return
        points = record.path(method, shown)
        seen = plane.coordinates(points)
        places = seen[:, :2] / plane.half
        inside = np.clip(places, -1, 1)
        for line in (self.path[method], self.halo[method]):
            put(line, inside[:, 0], inside[:, 1])
        put(self.start[method], inside[:1, 0], inside[:1, 1])
        put(self.head[method], inside[-1:, 0], inside[-1:, 1])
        marker = _marker(places[-1]) if len(places) else "o"
        if marker != self.head[method].get_marker():
            self.head[method].set_marker(marker)
        for lines, at in ((self.true, plane.true), (self.false, plane.false)):
            put(lines[method], at[:, 0] / plane.half, at[:, 1] / plane.half)
        error = float(shot["regressor_error"][shown])
        apart = f"{seen[-1, 2]:.2f}" if len(seen) else "–"
        self._write_state(method, f"error {two_digits(error)}; {apart} off the plane")

    def _write_state(self, method: str, words: str) -> None:
        middle = self.LEFTS[method] + EDGE / 2
        with self.state[method].anew() as sheet:
            sheet.write(middle, self.TOP + EDGE + 36, words, "center", colour=COLOURS[method], apart=True)


def _marker(place: NDArray[np.float64]) -> str:
    """Returns a disc, or a triangle that points to a place outside the map."""
    if np.abs(place).max() <= 1:
        return "o"
    axis = int(np.argmax(np.abs(place)))
    return ("<", ">")[int(place[0] > 0)] if axis == 0 else ("v", "^")[int(place[1] > 0)]
