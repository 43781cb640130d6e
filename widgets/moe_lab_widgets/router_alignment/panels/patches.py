"""The second panel of the router-alignment Lab's picture: the patches that each expert receives."""

from __future__ import annotations

from collections.abc import Sequence
from functools import lru_cache
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.datasets import digits
from moe_lab.patch_routing import DigitTask, PatternTask
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.router_alignment.panels.tiles import Layout, Tiles, arrange, digit_faces, pattern_faces
from moe_lab_widgets.router_alignment.record import Frame


class Patches(Panel):
    """For one example of each class: the patches that each expert keeps, and whether o is among them."""

    LEFT, WIDTH = 346, 416  # so that 16 digits of 8 x 8 pixels are drawn three times as large
    TOP, HEIGHT, CLASS_HEIGHT = 90, 148, 189

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (312, 796))
        theme.header(scene.figure, 312, 2, "What each expert receives")
        self.strips = [scene.live(Strip(self.LEFT, self._top(side))) for side in range(2)]
        self.ticks = [self.live_marks("✔", 15, colour) for colour in theme.CLASSES]
        self.crosses = [self.live_marks("✗", 9, theme.REFERENCE, alpha=0.8) for _ in range(2)]
        self.pointers = [
            self.live_marks(f"▲ {name}", 27, colour)
            for name, colour in zip(theme.CLASS_NAMES, theme.CLASSES, strict=True)
        ]
        self._task: PatternTask | DigitTask | None = None
        self._layout: Layout | None = None
        self._tiles: list[Tiles] = []
        self._kept: list[NDArray[np.bool_] | None] = [None, None]
        """What is drawn of each class."""
        self._given: tuple[Sequence[str], int, int, int] = ((), 1, 1, 1)

    def _top(self, side: int) -> int:
        return self.TOP + side * self.CLASS_HEIGHT

    def begin(self, task: PatternTask | DigitTask) -> None:
        """Discards the example of the last run."""
        self._task, self._tiles = task, []

    def set(self, names: Sequence[str], patches: int, experts: int, kept: int) -> None:
        """Lays out the tiles, the classes' titles and the experts' heads."""
        scale, self._given = self.scene.scale, (names, patches, experts, kept)
        if not self.renew(tuple(names), patches, experts, kept, scale):
            return
        self._tiles = []
        self._layout = layout = arrange(patches, experts, self.WIDTH, self.HEIGHT, scale)
        plural = "" if kept == 1 else "es"
        self.write(324, 50, f"framed: the l = {kept} patch{plural} that each expert scores highest")
        size = 14 if layout.band / scale > 24 else 11
        for side, name in enumerate(names):
            top = self._top(side)
            title = f"class {theme.CLASS_SIGNS[side]}:  one patch is {theme.CLASS_NAMES[side]} ({name})"
            self.write(324, top - 14, title, color=theme.CLASSES[side], size=theme.TEXT_SIZE, weight="bold")
            for s in range(experts):
                self.head_at(330, top + layout.middle(s) / scale, s, size)

    def _make_tiles(self, record: Frame, shown: int) -> None:
        """Makes the tiles of the example patches, which stay the same for a whole run."""
        self._kept = [None, None]
        assert self._layout is not None and self._task is not None
        patches, roles, sides = (record.joint[f"example_{name}"][shown] for name in ("patches", "roles", "sides"))
        for side in range(2):
            if isinstance(self._task, PatternTask):
                faces = pattern_faces(roles[side], sides[side], self._layout.cell, self._task.noise)
            else:
                images = patches[side].astype(float)
                faces = digit_faces(images, self._layout.cell, *_taken_away(self._task, images))
            signal = int(np.flatnonzero(roles[side] == 0)[0])
            self._tiles.append(Tiles(self._layout, faces, signal, side))
            self._name(side, signal, self._layout)

    def _name(self, side: int, signal: int, layout: Layout) -> None:
        name, scene = theme.CLASS_NAMES[side], self.scene
        patches = [f"patch {patch + 1}{f', {name}' * (patch == signal)}" for patch in range(layout.patches)]
        columns = patches if layout.lines == 1 else ["its patches"]
        rows = [f"expert {expert + 1}" for expert in range(layout.experts)]
        scene.name(self.strips[side], {"name": f"class {theme.CLASS_SIGNS[side]}", "rows": rows, "columns": columns})
        scene.name(self.ticks[side], {"name": f"{name} reaches this expert"})
        scene.name(self.crosses[side], {"name": f"{name} does not reach this expert"})
        scene.name(self.pointers[side], {"name": f"{name}, the patch that decides the class"})

    def update(self, record: Frame, shown: int) -> None:
        self.set(*self._given)  # tiles are whole device pixels: another scale lays them out anew
        if not self._tiles:
            self._make_tiles(record, shown)
        kept = np.nan_to_num(record.joint["example_kept"][shown]).astype(bool)  # (class, expert, patch)
        for side, tiles in enumerate(self._tiles):
            before = self._kept[side]
            if before is None or not np.array_equal(before, kept[side]):
                self._show(side, tiles, kept[side])

    def _show(self, side: int, tiles: Tiles, kept: NDArray[np.bool_]) -> None:
        """Draws what the experts keep (expert, patch) of one class's example."""
        self._kept[side] = kept
        figure, scale, layout, top = self.scene.figure, self.scene.scale, tiles.layout, self._top(side)
        self.strips[side].set_pixels(tiles.pixels(kept))
        received = kept[:, tiles.signal]
        right = self.LEFT + self.WIDTH + 16
        places = np.array([theme.spot(figure, right, top + layout.middle(s) / scale) for s in range(len(received))])
        put(self.ticks[side], *places[received].T)
        put(self.crosses[side], *places[~received].T)
        left, _ = layout.corner(0, tiles.signal)
        x, y = self.LEFT + (left + layout.cell / 2) / scale + 7, top + layout.height / scale + 12
        put(self.pointers[side], *np.reshape(theme.spot(figure, x, y), (2, 1)))


def _taken_away(task: DigitTask, images: NDArray[np.float64]) -> tuple[NDArray[np.float64], Any]:
    """Returns what preparation has taken from images (n, pixels): the mean, and the norm of what was left."""
    if task.source == "digits":
        return _mean_digit()
    return np.zeros(images.shape[1]), 1 / images.max(axis=1, keepdims=True)  # the darkest pixel of MNIST's is black


@lru_cache(maxsize=1)
def _mean_digit() -> tuple[NDArray[np.float64], float]:
    """Returns the mean of the 8x8 digits, which preparation subtracts, and the mean norm of the rest."""
    images = digits.load().images
    images = images.reshape(len(images), -1)
    mean = images.mean(axis=0)
    return mean, float(np.linalg.norm(images - mean, axis=1).mean())
