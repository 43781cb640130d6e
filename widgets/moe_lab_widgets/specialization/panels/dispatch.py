"""The first panel of the specialisation Lab's picture: dispatch of clusters to experts, and what experts learned."""

from __future__ import annotations

import numpy as np

from moe_lab import theme
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table, key
from moe_lab_widgets.specialization.record import Frame

SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉"
SMALLEST_PRODUCT = 0.05
"""The share of the longest possible product from which its number is written."""


class Tables(Panel):
    """Two tables with the same columns, the experts: what the router sends them, and what their filters hold.

    Columns keep their order for the whole run. The expert's number is grey while it is idle.
    """

    LEFT, WIDTH = 84, 448
    TOPS, HEIGHT = (64, 243), 146
    NUMBERS = 402
    WIDEST, HIGHEST = 90, 60

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 545))
        theme.header(scene.figure, 14, 1, "Who serves which cluster")
        self.sheets = [scene.live(Sheet()) for _ in self.TOPS]
        self.numbers = scene.live(Sheet())
        self.idle = np.zeros(0, dtype=bool)
        self._tables = [Table(0, 0, 1, 1, 1, 1)] * 2
        self._heads, self._longest = Table(0, 0, 1, 1, 1, 1), 1.0

    def set(self, experts: int, clusters: int, trials: int, shown: int, longest: float, activation: str) -> None:
        """Draws rows, columns and keys.

        Args:
          longest: the length of all steps of an expert together, which no product can exceed by more than its start.
        """
        if not self.renew(experts, clusters, trials, shown, longest, activation):
            return
        wide = min(self.WIDTH // experts, self.WIDEST)
        high = min(self.HEIGHT / clusters, self.HIGHEST)
        self._tables = [Table(self.LEFT, top, clusters, experts, high, wide) for top in self.TOPS]
        self._heads, self._longest = Table(self.LEFT, self.NUMBERS - 8, 1, experts, 16, wide), longest
        self._name_cells(experts, clusters)
        notes = (
            "share of a cluster sent to an expert (test samples)",
            "largest |⟨filter, signal⟩| of an expert (at most η S)",
        )
        for top, note, most, unit in zip(self.TOPS, notes, (100.0, longest), ("%", ""), strict=True):
            self.write(26, top - 14, note)
            self.fix(key(self.LEFT + self.WIDTH - 150 - (14 if unit else 0), top - 23, 5, 17, 30, most))
            if unit:
                self.write(self.LEFT + self.WIDTH, top - 14, unit, ha="right")
        for top, word, letter in zip(self.TOPS, ("cluster", "signal"), ("", "v"), strict=True):
            for row in range(clusters):
                name = f"{word} {letter}{SUBSCRIPTS[row]}" if letter else f"{word} {row + 1}"
                self.write(self.LEFT - 6, top + (row + 0.5) * high - 0.5, name, ha="right")
        of = f"trial {shown + 1} of {trials}" if trials > 1 else "the one trial"
        words = f"expert (grey: idle, under 1 % of the samples)   {activation} experts, {of}"
        self.write(26, self.NUMBERS + 22, words)

    def _name_cells(self, experts: int, clusters: int) -> None:
        columns = [f"expert {expert + 1}" for expert in range(experts)]
        rows = (
            [f"cluster {row + 1}" for row in range(clusters)],
            [f"signal v{SUBSCRIPTS[row]}" for row in range(clusters)],
        )
        for sheet, table, names in zip(self.sheets, self._tables, rows, strict=True):
            self.scene.name(sheet, {"parts": table.names(names, columns)})
        self.scene.name(self.numbers, {"parts": columns})

    def update(self, record: Frame, shown: int) -> None:
        study = record.study
        sent = np.nan_to_num(study["dispatch"][shown])  # (cluster, expert)
        share = sent / np.maximum(sent.sum(1, keepdims=True), 1)
        learned = np.nan_to_num(study["expert_feature"][shown]).T / self._longest  # (cluster, expert)
        shares = [f"{100 * part:.0f}" if part >= 0.005 else "" for part in share.flat]
        products = [_short(part * self._longest) if part >= SMALLEST_PRODUCT else "" for part in learned.flat]
        for sheet, table, shades, words in zip(
            self.sheets, self._tables, (share, learned), (shares, products), strict=True
        ):
            roomy = min(table.wide, 1.6 * table.high) >= 34
            with sheet.anew():
                table.fill(sheet, words, shades, size=theme.TEXT_SIZE if roomy else theme.SMALL_SIZE)
        self.idle = ~record.carriers(shown)
        with self.numbers.anew() as numbers:
            numbers.add(self._heads.edges)
            for expert, idles in enumerate(self.idle):
                colour = theme.REFERENCE if idles else theme.INK
                numbers.label(expert, str(expert + 1), size=11, colour=colour, bold=not idles)


def _short(number: float) -> str:
    """Returns a number with two digits, which fits the narrowest cell."""
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"
