"""The second panel of the balance Lab's picture: who gets which cluster, without and with balancing."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.balance.record import Frame
from moe_lab_widgets.balance.settings import NAMES, NONE
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table


class Tables(Panel):
    """Two tables, above none and below the balancing beside it: rows are clusters, columns experts."""

    LEFT, WIDTH = 408, 290
    TOPS, HEIGHT = (86, 274), 126
    WIDEST, HIGHEST = 72, 44

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (330, 706))
        theme.header(scene.figure, 336, 2, "Who gets which cluster")
        self.sheets = [scene.live(Sheet()) for _ in self.TOPS]
        self._tables = [Table(0, 0, 1, 1, 1, 1)] * 2

    def set(self, experts: int, clusters: int, beside: str) -> None:
        """Draws rows and columns."""
        if not self.renew(experts, clusters, beside):
            return
        wide, high = min(self.WIDTH // experts, self.WIDEST), min(self.HEIGHT / clusters, self.HIGHEST)
        self._tables = [Table(self.LEFT, top, clusters, experts, high, wide) for top in self.TOPS]
        self.write(348, 48, "percent of a cluster's assignments that an expert gets")
        rows = [f"cluster {row + 1}" for row in range(clusters)]
        columns = [f"expert {column + 1}" for column in range(experts)]
        for sheet, table, top, name in zip(self.sheets, self._tables, self.TOPS, (NONE, beside), strict=True):
            self.scene.name(sheet, {"parts": table.names(rows, columns)})
            words = NAMES[name] if name != NONE else "no balancing"
            self.write(348, top - 19, words, weight="bold", color=theme.INK)
            for row, word in enumerate(rows):
                self.write(self.LEFT - 6, top + (row + 0.5) * high, word, ha="right")
            for column in range(experts):
                place = self.LEFT + (column + 0.5) * wide
                self.write(place, top + clusters * high + 11, str(column + 1), ha="center")
        self.write(self.LEFT, self.TOPS[1] + clusters * high + 29, "expert", color=theme.INK, size=theme.TEXT_SIZE)

    def update(self, record: Frame, beside: str, shown: int) -> None:
        for sheet, table, name in zip(self.sheets, self._tables, (NONE, beside), strict=True):
            part = record.of(name)
            with sheet.anew():
                if part is None:
                    continue
                sent = np.nan_to_num(part["dispatch"][shown])  # (cluster, expert)
                shares = sent / np.maximum(sent.sum(1, keepdims=True), 1)
                roomy = table.wide >= 22 and table.high >= 14
                words = [f"{100 * share:.0f}" if roomy and share >= 0.005 else "" for share in shares.flat]
                table.fill(sheet, words, shares)
