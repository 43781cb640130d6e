"""The first panel of the gridlock Lab's picture: the estimates of each method against the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from typing import ClassVar

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab_widgets.drawing.error_curves import FOUND_COLOUR
from moe_lab_widgets.drawing.picture import Strip
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.tables import Grid, key, stamp, write
from moe_lab_widgets.gridlock.record import METHODS, Frame

NAMES = {"spectral": "spectral + EM", "joint": "joint EM"}
COLOURS = {"spectral": theme.INK, "joint": theme.REFERENCE}
SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉"
LEAST_WORDS = 34
"""Pixels of a cell from which its number is written into it."""


@dataclass
class Side:
    """The artists of one method.

    Attributes:
      table, gates, numbers: the matrix, the row of gates, and the numbers at the ends of rows.
      ticks, crosses: marks at the ends of rows.
      state: the line under the method's name.
      ends: the words at the ends of rows, the gates' last.
    """

    table: Strip
    gates: Strip
    numbers: Strip
    ticks: Line2D
    crosses: Line2D
    state: Line2D
    ends: list[str] = field(default_factory=list)


class Matrices(Panel):
    """|cos| of estimates (rows, matched) and true regressors (columns) of one trial, side by side for both methods.

    At the end of a row stands its own |cos|, with a tick from `FOUND` on. Below is a row of gates.
    """

    LEFTS: ClassVar[dict[str, int]] = {"spectral": 46, "joint": 300}
    TOP, WIDTH, GATE_HEIGHT = 122, 184, 22
    WIDEST = 62

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 545))
        theme.header(scene.figure, 14, 1, "What is found")
        self.sides: dict[str, Side] = {}
        for method, left in self.LEFTS.items():
            strips = [scene.live(Strip(x, self.TOP)) for x in (left, left, left)]
            marks = [self.live_marks(sign, 11, colour) for sign, colour in (("✓", FOUND_COLOUR), ("✗", theme.FAILURE))]
            state = self.live_marks("·", 1, COLOURS[method])
            self.sides[method] = Side(strips[0], strips[1], strips[2], marks[0], marks[1], state)
        self._grid, self._row, self._k = Grid(1, 1, 1, 1), Grid(1, 1, 1, 1), 1

    def set(self, experts: int, trials: int, shown: int) -> None:
        """Draws rows, columns, names and the key."""
        if not self.renew(experts, trials, shown):
            return
        self._k, scale = experts, self.scene.scale
        cell = min(self.WIDTH // experts, self.WIDEST)
        self._grid = Grid(experts, experts, cell, cell, scale)
        self._row = Grid(1, experts - 1, min(cell, self.GATE_HEIGHT), cell, scale)
        edge, row = cell * experts, min(cell, self.GATE_HEIGHT)
        gates = self.TOP + edge + 10
        self.write(26, 50, f"trial {shown + 1} of {trials}" if trials > 1 else "the one trial")
        for method, left in self.LEFTS.items():
            side = self.sides[method]
            side.gates.top, side.numbers.left = gates, left + edge + 20
            self.write(left, 74, NAMES[method], color=COLOURS[method], size=theme.TEXT_SIZE, weight="bold")
            self.write(
                left, self.TOP - 10, f"true regressors a₁{', ' if experts == 2 else ' … '}a{SUBSCRIPTS[experts - 1]}"
            )
            last = "" if experts == 2 else f" … w{SUBSCRIPTS[experts - 2]}"
            self.write(left, gates + row + 10, f"gates w₁{last} and the true ones")
        left = self.LEFTS["spectral"]
        self.write(left - 14, self.TOP + edge / 2, "estimates", rotation=90, ha="center")
        swatch = Strip(left, 392)
        swatch.set_pixels(key(Grid(1, 6, 18, 34, scale), 1.0, theme.SMALL_SIZE))
        self.scene.figure.add_artist(swatch)
        self.fix(swatch)
        self.write(left + 212, 401, "|cos|; dark diagonal: recovered")
        self.write(left, 427, f"estimates are matched to the true ones; ✓ from |cos| = {FOUND:g} on, ✗ below")

    def update(self, record: Frame, shown: int) -> None:
        for method in METHODS:
            self._update(self.sides[method], record, method, shown)

    def _update(self, side: Side, record: Frame, method: str, shown: int) -> None:
        cosines, gates = record.cosines(method)[shown], record.gate_cosines(method)[shown]
        grid, left, k = self._grid, self.LEFTS[method], self._k
        wide = grid.wide >= LEAST_WORDS
        side.table.set_pixels(framed(grid, grid.table(cosines, _words(cosines, wide), theme.SMALL_SIZE)))
        side.gates.set_pixels(self._row.table(gates[None], _words(gates[None], wide), theme.SMALL_SIZE))
        worst = float(gates.min())
        sought = np.append(cosines.any(1), gates.any())  # estimates not sought yet are 0
        ends = zip((*np.diagonal(cosines), worst), sought, strict=True)
        side.ends = [_number(cosine) if known else "–" for cosine, known in ends]
        heights = [*((row + 0.5) * grid.high for row in range(k)), side.gates.top - self.TOP + self._row.high / 2]
        side.numbers.set_pixels(self._ends(side.ends, heights))
        good = np.append(record.found(method)[shown], worst >= FOUND)
        places = [theme.spot(self.scene.figure, left + grid.wide * k + 11, self.TOP + high) for high in heights]
        for marks, which in ((side.ticks, good), (side.crosses, sought & ~good)):
            chosen = [place for place, marked in zip(places, which, strict=True) if marked]
            marks.set_data([x for x, _ in chosen], [y for _, y in chosen])
        self.say(side.state, 0, progress_of(record, method, shown), size=theme.SMALL_SIZE)
        x, y = theme.spot(self.scene.figure, left, 92)
        side.state.set_data([x], [y])

    def _ends(self, words: list[str], heights: list[float]) -> NDArray[np.uint8]:
        scale = self.scene.scale
        pixels = np.zeros((round((heights[-1] + 14) * scale), round(32 * scale), 4), dtype=np.uint8)
        pixels[:] = theme.rgba(theme.PAPER)
        for word, high in zip(words, heights, strict=True):
            ink = stamp(word, theme.SMALL_SIZE, theme.BASE_DPI * scale)
            write(pixels, ink, theme.MUTED, (high * scale, 15 * scale))
        return pixels


def progress_of(record: Frame, method: str, shown: int) -> str:
    """Returns how far a method is, in a few words."""
    shot, count = record.of(method), int(record.found(method)[shown].sum())
    k = record.spectral["cosines"].shape[1]
    if shot is None:
        return "waits for its samples"
    if method == "spectral" and record.seeking:
        return f"power iteration {shot.step} of {record.power}: {count} of {k}"
    step = shot.step - (record.power if method == "spectral" else 0)
    return f"EM iteration {step}: {count} of {k} found"


def framed(grid: Grid, pixels: NDArray[np.uint8]) -> NDArray[np.uint8]:
    """Frames the cells of the diagonal, so that a match can be seen where it is pale."""
    for row in range(grid.rows):
        top, bottom, left, right = grid.edges(row, row)
        edge, thick = theme.rgba(theme.INK), max(round(grid.scale), 1)
        pixels[top : top + thick, left:right] = pixels[bottom - thick : bottom, left:right] = edge
        pixels[top:bottom, left : left + thick] = pixels[top:bottom, right - thick : right] = edge
    return pixels


def _number(cosine: float) -> str:
    """Returns two digits, never rounded up across `FOUND`."""
    rounded = round(float(cosine), 2)
    return f"{rounded - 0.01 if cosine < FOUND <= rounded else rounded:.2f}"


def _words(values: NDArray[np.float64], shown: bool) -> list[list[str]]:
    return [[_number(cosine) if shown else "" for cosine in row] for row in values]
