"""The first panel of the routing-choices Lab's picture: which expert takes which patch of two examples."""

from __future__ import annotations

from functools import lru_cache

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.patch_routing.data import ROLES, SIGNAL
from moe_lab_widgets.drawing.lines import put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.routing_choices.record import Frame

LEVELS = 5
"""Shades of a box, where every patch goes everywhere with a weight."""
NOTES = {
    "expert-choice": "full box: the expert takes the patch",
    "token-choice": "full box: the patch has a place; ✗: it asked, but no place was left",
    "soft": "every patch goes to every expert; the darker, the larger its weight",
    "hash": "full box: the patch has a place; ✗: the hash sent it, but no place was left",
}


class Places(Panel):
    """A row of tiles, below it a row of boxes for each expert, and a row of what is lost."""

    LEFT, WIDTH = 74, 420
    TOP, CLASS_HEIGHT, HEIGHT = 104, 174, 142

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 516))
        theme.header(scene.figure, 14, 1, "Where the patches go")
        self.tiles, self.boxes = scene.live(Sheet(zorder=2.2)), scene.live(Sheet(zorder=2.4))
        self.frames = scene.live(Sheet(zorder=2.6))
        self.refused = self.live_marks("✗", 6, theme.MUTED)
        scene.name(self.tiles, {"name": "the patches of an example"})
        scene.name(self.boxes, self._named)
        scene.name(self.frames, {"name": "the patch that decides the class"})
        scene.name(self.refused, {"name": "a patch without a place at this expert"})
        self._shape = (0, 0)  # patches, experts
        self._faces: tuple[NDArray[np.int64], NDArray[np.int64]] | None = None

    def _named(self) -> Name:
        patches, experts = self._shape
        rows = [*(f"expert {s + 1}" for s in range(experts)), "lost"]
        signs = theme.CLASS_SIGNS
        return {
            "parts": [f"class {sign}, patch {j + 1}, {row}" for sign in signs for row in rows for j in range(patches)]
        }

    @property
    def across(self) -> float:
        """From one patch to the next, in pixels at 100 dpi."""
        return min(self.WIDTH / self._shape[0], 40.0)

    @property
    def down(self) -> float:
        """From one expert to the next."""
        return min((self.HEIGHT - self.tile) / (self._shape[1] + 1), 18.0)

    @property
    def tile(self) -> float:
        """The side of a tile with the space below it."""
        return min(self.across, 26.0)

    def cell(self, side: int, row: int, patch: int) -> tuple[float, float, float, float]:
        """(left, top, right, bottom) of a box; the row below the experts is of what is lost."""
        left = self.LEFT + self.across * patch
        top = self.TOP + self.CLASS_HEIGHT * side + self.tile + self.down * row + (4 if row == self._shape[1] else 0)
        return left + 1, top + 1, left + self.across - 1, top + self.down - 1

    def begin(self) -> None:
        """Discards the example of the last run."""
        self._faces = None

    def set(self, routing: str, patches: int, experts: int, shown: int) -> None:
        """Lays out the boxes, and writes what they show."""
        self._shape = patches, experts
        if not self.renew(routing, patches, experts, shown):
            return
        self.write(26, 50, f"one test sample of each class, trial {shown + 1}; framed: what decides the class")
        self.write(26, 66, NOTES[routing])
        for side, sign in enumerate(theme.CLASS_SIGNS):
            top = self.TOP + self.CLASS_HEIGHT * side
            title = f"class {sign}: one patch is {theme.CLASS_NAMES[side]}"
            self.write(26, top - 14, title, color=theme.CLASSES[side], size=theme.TEXT_SIZE, weight="bold")
            for s in range(experts):
                _, high, _, low = self.cell(side, s, 0)
                self.head_at(self.LEFT - 14, (high + low) / 2, s, 12 if self.down >= 15 else 8.5)
            _, high, _, low = self.cell(side, experts, 0)
            self.write(self.LEFT - 6, (high + low) / 2, "lost", ha="right")

    def update(self, record: Frame, shown: int) -> None:
        study = record.study
        kept, asked, gates = (np.nan_to_num(study[f"example_{name}"][shown]) for name in ("kept", "asked", "gates"))
        self._faces = study["example_roles"][shown], study["example_sides"][shown]
        self._draw_tiles(*self._faces)
        levels = kept.astype(bool) * (LEVELS - 1)
        if record.routing == "soft":
            levels = np.rint((LEVELS - 1) * gates / max(float(gates.max()), 1e-12)).astype(int)
        with self.boxes.anew() as boxes:
            for side, row, patch in np.ndindex(2, kept.shape[1] + 1, kept.shape[2]):
                box = self.cell(side, row, patch)
                if row < kept.shape[1]:
                    boxes.box(*box, shade(row, int(levels[side, row, patch])))
                else:
                    boxes.box(*box, theme.PAPER if kept[side, :, patch].any() else theme.INK)
        places = np.argwhere((asked > 0) & (kept == 0))
        spots = [self._middle(*place) for place in places.tolist()]
        put(self.refused, *np.array(spots).reshape(-1, 2).T)

    def _middle(self, side: int, row: int, patch: int) -> tuple[float, float]:
        left, top, right, bottom = self.cell(side, row, patch)
        return theme.spot(self.scene.figure, (left + right) / 2, (top + bottom) / 2)

    def _draw_tiles(self, roles: NDArray[np.int64], sides: NDArray[np.int64]) -> None:
        """Draws the patches, and a frame around the column of the one that decides."""
        with self.tiles.anew() as tiles, self.frames.anew() as frames:
            for side, patch in np.ndindex(*roles.shape):
                left, _, right, _ = self.cell(side, 0, patch)
                wide = min(self.tile - 3, right - left)
                x, y = (left + right - wide) / 2, self.TOP + self.CLASS_HEIGHT * side
                role, imitates = int(roles[side, patch]), max(int(sides[side, patch]), 0)
                tiles.image(x, y, x + wide, y + wide, face, role, imitates)
                if role == SIGNAL:
                    bottom = self.cell(side, self._shape[1], patch)[3]
                    frames.frame(left - 1, y - 2, right + 1, bottom + 2, theme.CLASSES[side])


@lru_cache(maxsize=64)
def face(role: int, side: int, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints a patch as it looks."""
    return theme.tile(ROLES[role], side, min(wide, high))


@lru_cache(maxsize=64)
def shade(expert: int, level: int) -> str:
    """Returns an expert's colour in steps from nearly paper to full."""
    share = max(level / (LEVELS - 1), 0.0)
    colour = theme.rgba(theme.BACKGROUND) if not level else theme.rgba(theme.expert(expert).colour)
    amount = 0.6 if not level else 1 - share
    mixed = theme.faded(colour, amount)[:3]
    return "#" + "".join(f"{part:02X}" for part in mixed.tolist())
