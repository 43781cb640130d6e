"""The first panel of the gridlock Lab's picture: the estimates of each method against the truth."""

from __future__ import annotations

from dataclasses import dataclass, field
from functools import partial
from typing import ClassVar

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import FOUND
from moe_lab_widgets.drawing.error_curves import FOUND_COLOUR
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table, key
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
      table: the matrix and the row of gates.
      notes: at the ends of rows their own |cos| and a tick or a cross, and above how far the method is.
      matrix, gates, ends: the places of their cells.
      words: at the ends of rows, the gates' last.
    """

    table: Sheet
    notes: Sheet
    matrix: Table
    gates: Table
    ends: list[tuple[float, ...]] = field(default_factory=list)
    words: list[str] = field(default_factory=list)


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
        nothing = Table(0, 0, 1, 1, 1, 1)
        self.sides = {method: Side(scene.live(Sheet()), scene.live(Sheet()), nothing, nothing) for method in self.LEFTS}
        for side in self.sides.values():
            scene.name(side.table, partial(_cells, side))
            scene.name(side.notes, partial(_rows, side))

    def set(self, experts: int, trials: int, shown: int) -> None:
        """Draws rows, columns, names and the key."""
        if not self.renew(experts, trials, shown):
            return
        cell = min(self.WIDTH // experts, self.WIDEST)
        edge, row = cell * experts, min(cell, self.GATE_HEIGHT)
        gates = self.TOP + edge + 10
        self.write(26, 50, f"trial {shown + 1} of {trials}" if trials > 1 else "the one trial")
        for method, left in self.LEFTS.items():
            side = self.sides[method]
            side.matrix = Table(left, self.TOP, experts, experts, cell, cell)
            side.gates = Table(left, gates, 1, experts - 1, row, cell)
            heights = [*(self.TOP + (expert + 0.5) * cell for expert in range(experts)), gates + row / 2]
            side.ends = [(left + edge + 19, high - 9, left + edge + 51, high + 9, 0, 0, 0, 0) for high in heights]
            self.write(left, 74, NAMES[method], color=COLOURS[method], size=theme.TEXT_SIZE, weight="bold")
            self.write(
                left, self.TOP - 10, f"true regressors a₁{', ' if experts == 2 else ' … '}a{SUBSCRIPTS[experts - 1]}"
            )
            last = "" if experts == 2 else f" … w{SUBSCRIPTS[experts - 2]}"
            self.write(left, gates + row + 10, f"gates w₁{last} and the true ones")
        left = self.LEFTS["spectral"]
        self.write(left - 14, self.TOP + edge / 2, "estimates", rotation=90, ha="center")
        self.fix(key(left, 392, 6, 18, 34, 1.0))
        self.write(left + 212, 401, "|cos|; dark diagonal: recovered")
        self.write(left, 427, f"estimates are matched to the true ones; ✓ from |cos| = {FOUND:g} on, ✗ below")

    def update(self, record: Frame, shown: int) -> None:
        for method in METHODS:
            self._update(self.sides[method], record, method, shown)

    def _update(self, side: Side, record: Frame, method: str, shown: int) -> None:
        cosines, gates = record.cosines(method)[shown], record.gate_cosines(method)[shown]
        wide, k = side.matrix.wide >= LEAST_WORDS, len(cosines)
        with side.table.anew() as table:
            side.matrix.fill(table, _words(cosines, wide), cosines)
            side.gates.fill(table, _words(gates, wide), gates[None])
            for left, top, right, bottom, *_ in side.matrix.edges[:: k + 1]:  # a match can be seen where it is pale
                table.frame(left, top, right, bottom, theme.INK, gap=1)
        worst = float(gates.min())
        sought = np.append(cosines.any(1), gates.any())  # estimates not sought yet are 0
        values = zip((*np.diagonal(cosines), worst), sought, strict=True)
        side.words = [_number(cosine) if known else "–" for cosine, known in values]
        good = np.append(record.found(method)[shown], worst >= FOUND)
        with side.notes.anew() as notes:
            notes.add(side.ends)
            for row, words in enumerate(side.words):
                notes.label(row, words, size=theme.SMALL_SIZE, colour=theme.MUTED)
            for row, (left, *edges) in enumerate(side.ends):
                mark = notes.add([(left - 16, edges[0], left, *edges[2:])])
                if sought[row]:
                    sign, colour = ("✓", FOUND_COLOUR) if good[row] else ("✗", theme.FAILURE)
                    notes.label(mark, sign, size=14, colour=colour, bold=True)
            progress = progress_of(record, method, shown)
            notes.write(self.LEFTS[method] + 1, 93, progress, colour=COLOURS[method], bold=True, apart=True)


def _rows(side: Side) -> dict[str, list[str]]:
    """Returns what a pointer over the ends of rows shows."""
    rows = [f"estimate {row + 1} with its true regressor" for row in range(side.matrix.rows)]
    return {"parts": [*rows, "the worst gate"]}


def _cells(side: Side) -> dict[str, list[str]]:
    """Returns what a pointer over the matrix and the gates shows."""
    experts = side.matrix.rows
    true = [f"true regressor a{number}" for number in SUBSCRIPTS[:experts]]
    estimates = [f"estimate {row + 1}" for row in range(experts)]
    gates = [f"gate w{number} and the true one" for number in SUBSCRIPTS[: experts - 1]]
    return {"parts": [*side.matrix.names(estimates, true), *gates]}


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


def _number(cosine: float) -> str:
    """Returns two digits, never rounded up across `FOUND`."""
    rounded = round(float(cosine), 2)
    return f"{rounded - 0.01 if cosine < FOUND <= rounded else rounded:.2f}"


def _words(values: NDArray[np.float64], shown: bool) -> list[str]:
    return [_number(cosine) if shown else "" for cosine in values.flat]
