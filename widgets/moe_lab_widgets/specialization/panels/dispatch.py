"""The first panel of the specialisation Lab's picture: dispatch of clusters to experts, and what experts learned."""

from __future__ import annotations

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.tables import Grid, key, stamp, write
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
        self.strips = [scene.live(Strip(self.LEFT, top)) for top in self.TOPS]
        self.numbers = scene.live(Strip(self.LEFT, self.NUMBERS - 8))
        self.words: list[list[list[str]]] = [[], []]
        """The words in the cells of both tables."""
        self.idle = np.zeros(0, dtype=bool)
        self._grid, self._longest = Grid(1, 1, 1, 1), 1.0

    def set(self, experts: int, clusters: int, trials: int, shown: int, longest: float, activation: str) -> None:
        """Draws rows, columns and keys.

        Args:
          longest: the length of all steps of an expert together, which no product can exceed by more than its start.
        """
        if not self.renew(experts, clusters, trials, shown, longest, activation):
            return
        scale = self.scene.scale
        wide = min(self.WIDTH // experts, self.WIDEST)
        high = min(self.HEIGHT / clusters, self.HIGHEST)
        self._grid, self._longest = Grid(clusters, experts, high, wide, scale), longest
        notes = (
            "share of a cluster sent to an expert (test samples)",
            "largest |⟨filter, signal⟩| of an expert (at most η S)",
        )
        for top, note, most, unit in zip(self.TOPS, notes, (100.0, longest), ("%", ""), strict=True):
            self.write(26, top - 14, note)
            swatch = Strip(self.LEFT + self.WIDTH - 150 - (14 if unit else 0), top - 23)
            swatch.set_pixels(key(Grid(1, 5, 17, 30, scale), most, theme.SMALL_SIZE))
            self.scene.figure.add_artist(swatch)
            self.fix(swatch)
            if unit:
                self.write(self.LEFT + self.WIDTH, top - 14, unit, ha="right")
        for top, word, letter in zip(self.TOPS, ("cluster", "signal"), ("", "v"), strict=True):
            for row in range(clusters):
                name = f"{word} {letter}{SUBSCRIPTS[row]}" if letter else f"{word} {row + 1}"
                self.write(self.LEFT - 6, top + (row + 0.5) * high - 0.5, name, ha="right")
        of = f"trial {shown + 1} of {trials}" if trials > 1 else "the one trial"
        words = f"expert (grey: idle, under 1 % of the samples)   {activation} experts, {of}"
        self.write(26, self.NUMBERS + 22, words)

    def update(self, record: Frame, shown: int) -> None:
        study = record.study
        sent = np.nan_to_num(study["dispatch"][shown])  # (cluster, expert)
        share = sent / np.maximum(sent.sum(1, keepdims=True), 1)
        learned = np.nan_to_num(study["expert_feature"][shown]).T / self._longest  # (cluster, expert)
        size = theme.TEXT_SIZE if min(self._grid.wide, 1.6 * self._grid.high) >= 34 else theme.SMALL_SIZE
        self.words[0] = [[f"{100 * part:.0f}" if part >= 0.005 else "" for part in row] for row in share]
        self.words[1] = [
            [_short(part * self._longest) if part >= SMALLEST_PRODUCT else "" for part in row] for row in learned
        ]
        for strip, shades, words in zip(self.strips, (share, learned), self.words, strict=True):
            strip.set_pixels(self._grid.table(shades, words, size))
        self.idle = ~record.carriers(shown)
        self.numbers.set_pixels(self._heads(self.idle))

    def _heads(self, idle: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Returns the experts' numbers under their columns."""
        row = Grid(1, len(idle), 16, self._grid.wide, self._grid.scale)
        pixels, dpi = row.blank(), theme.BASE_DPI * row.scale
        for expert, idles in enumerate(idle):
            colour = theme.REFERENCE if idles else theme.INK
            write(pixels, stamp(str(expert + 1), 11, dpi, bold=not idles), colour, row.middle(0, expert))
        return pixels


def _short(number: float) -> str:
    """Returns a number with two digits, which fits the narrowest cell."""
    return f"{number:.1f}" if number < 9.95 else f"{number:.0f}"
