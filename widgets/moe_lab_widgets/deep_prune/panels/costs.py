"""The third panel of the deep pruning Lab's picture: accuracy, and the memory, operations and time of a block."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab.vision.deep import TINY
from moe_lab_widgets.deep_prune.record import Frame, View
from moe_lab_widgets.deep_prune.settings import EXPERTS, LAYER
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.words import percent

TITLES = ("accuracy", "memory", "FLOPs", "time, measured here")


class Left(Panel):
    """Four bars; each full bar is the unpruned model or block.

    Attributes:
      shares: of the four, NaN where unknown.
    """

    LEFT, WIDE, TOPS = 926, 158, (62, 126, 190, 254)
    NOTES = 336

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (906, 1100))
        theme.header(scene.figure, 914, 3, "What is left")
        self.sheet = scene.live(Sheet())
        scene.name(self.sheet, {"parts": [*TITLES]})
        self.shares = (np.nan,) * 4
        notes = (
            "Memory, FLOPs and time",
            "are those of one block,",
            f"D = {LAYER.hidden_size}, F = {LAYER.mlp_dim}: the",
            "model of the digits has",
            f"D = {TINY.hidden_size}, F = {TINY.mlp_dim}, too",
            "small to save time.",
        )
        for row, words in enumerate(notes):
            place = theme.spot(scene.figure, self.LEFT, self.NOTES + 17 * row)
            scene.figure.text(*place, words, size=theme.SMALL_SIZE, color=theme.MUTED, va="center")

    def update(self, record: Frame, view: View) -> None:
        accuracy, costs, gone = record.left(view), record.costs, 0 if record.table is None else view.pruned
        memory = work = time = share = np.nan
        if costs is not None:
            place = view.way, gone
            memory, work, time = costs.memory[place], costs.operations[place], costs.milliseconds[place]
            share = time / costs.milliseconds[0, 0]
        self.shares = (accuracy, memory, work, share)
        values = (
            percent(accuracy, 1),
            percent(memory),
            percent(work),
            f"{time:.1f} ms, {percent(share)}" if np.isfinite(share) else "–",
        )
        with self.sheet.anew() as sheet:
            right = self.LEFT + self.WIDE
            sheet.add([(self.LEFT, top - 8, right, top + 48, 0, 0, 0, 0) for top in self.TOPS])
            for top, title, share, words in zip(self.TOPS, TITLES, self.shares, values, strict=True):
                sheet.write(self.LEFT, top, title, colour=theme.MUTED, size=theme.TEXT_SIZE)
                sheet.write(self.LEFT, top + 20, words, bold=True, size=13)
                sheet.box(self.LEFT, top + 33, right, top + 45, theme.BACKGROUND)
                if np.isfinite(share):
                    wide = self.WIDE * float(np.clip(share, 0, 1))
                    sheet.box(self.LEFT, top + 33, self.LEFT + wide, top + 45, theme.INK)
            if record.table is not None:
                left = f"{EXPERTS - gone} of {EXPERTS} experts, {view.mode}"
                sheet.write(self.LEFT, self.TOPS[-1] + 60, left)
