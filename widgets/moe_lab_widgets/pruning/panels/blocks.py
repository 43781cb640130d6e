"""The third panel of the pruning Lab's picture: accuracy, memory and operations at the present rho, as blocks."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import middle
from moe_lab_widgets.pruning.record import Frame, View, outcome

BLOCKS = 20
"""Each stands for 5 %."""
TITLES = ("accuracy", "memory", "FLOPs per input")


def short(share: float) -> str:
    """Returns a share in whole percents, but never a rounded 100 % or 0 %."""
    if not np.isfinite(share):
        return "–"
    percent = 100 * share
    return f"{percent:.0f} %" if percent in (0, 100) or 0.5 <= percent < 99.5 else f"{percent:.1f} %"


class Blocks(Panel):
    """Accuracy, memory and operations.

    Attributes:
      shares: of the three, NaN where unknown.
    """

    LEFT, TOPS = 958, (66, 186, 306)
    SIZE, GAP = 11, 2

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (938, 1100))
        theme.header(scene.figure, 944, 3, "What is left")
        self.sheet = scene.live(Sheet())
        scene.name(self.sheet, {"parts": [f"{title}: a block is 5 %" for title in TITLES]})
        self.shares = (np.nan, np.nan, np.nan)

    def update(self, record: Frame, view: View) -> None:
        found = outcome(record, view)
        experts = record.run.model.experts
        if found is None:
            accuracy = np.full(1, np.nan) if record.accuracy is None else record.accuracy
            undefined = record.pruned is not None
            self.shares = (np.nan if undefined else middle(accuracy), 1.0, 1.0)
            if undefined:
                self.shares = (np.nan, np.nan, np.nan)
            notes: tuple[str, ...] = ("not pruned", f"all {experts} experts", "in training")
            if undefined:
                notes = ("no order of experts", "nothing is pruned", "")
        else:
            worst = float(np.nanmin(found.tuned)) if np.isfinite(found.tuned).any() else np.nan
            self.shares = (middle(found.tuned), found.memory, found.operations)
            notes = (
                f"worst trial {short(worst)}",
                f"{found.left} of {experts} experts",
                "routers stay" if record.run.model.routing == "token-choice" else "routers go too",
            )
        step = self.SIZE + self.GAP
        right = self.LEFT + BLOCKS // 2 * step
        with self.sheet.anew() as sheet:
            sheet.add([(self.LEFT, top + 46, right, top + 46 + 2 * step, 0, 0, 0, 0) for top in self.TOPS])
            for top, title, share, note in zip(self.TOPS, TITLES, self.shares, notes, strict=True):
                self._group(top, title, share, note)

    def _group(self, top: float, title: str, share: float, note: str) -> None:
        """Draws a title, a number, two rows of blocks, and a note."""
        sheet, step = self.sheet, self.SIZE + self.GAP
        sheet.write(self.LEFT, top, title, colour=theme.MUTED, size=theme.TEXT_SIZE)
        sheet.write(self.LEFT, top + 26, short(share), bold=True, size=19)
        for block in range(BLOCKS):
            row, column = divmod(block, BLOCKS // 2)
            left, upper = self.LEFT + column * step, top + 46 + row * step
            sheet.box(left, upper, left + self.SIZE, upper + self.SIZE, theme.BACKGROUND)
            filled = float(np.clip(np.nan_to_num(share) * BLOCKS - block, 0, 1))
            if filled > 0.1:
                sheet.box(left, upper, left + self.SIZE * filled, upper + self.SIZE, theme.INK)
        sheet.write(self.LEFT, top + 46 + 2 * step + 10, note, colour=theme.MUTED)
