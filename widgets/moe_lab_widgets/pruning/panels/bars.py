"""The first panel of the pruning Lab's picture: which routers grew, which experts stay, and their scores."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.lines import Line2D
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.pruning.record import Frame, View
from moe_lab_widgets.pruning.settings import SCORES, undefined

GREY = theme.REFERENCE
NOTABLE = 0.3
"""A change from which its number is written."""


class Bars(Panel):
    """Delta of each expert of one trial, those that vote + on the left; below, the score that prunes them.

    A router that did not grow still shows: each bar ends in a thick cap, which then lies on the zero line.

    Attributes:
      heights: (expert,) pixels of the bars, as they are drawn.
      kept: (expert,) which experts stay, or None.
      scored: (expert,) the score's bars from 0 to 1, or None.
    """

    LEFT, RIGHT, GAP = 56, 546, 16
    TOP, ZERO = 86, 262
    CHIPS, CHIP = 280, 17
    SCORE_TOP, SCORE_ZERO = 354, 420

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (0, 556))
        theme.header(scene.figure, 14, 1, "Which routers moved")
        self.sheet = scene.live(Sheet())
        self.heights = np.zeros(0)
        self.kept: NDArray[np.bool_] | None = None
        self.scored: NDArray[np.float64] | None = None
        self._experts, self._most, self._threshold = 2, 1.0, 0.0
        self._columns: list[tuple[float, ...]] = []
        scene.name(self.sheet, self._names)

    def set(self, experts: int, most: float, threshold: float, trials: int) -> None:
        """Draws the axis of Delta, from 0 to `most`, and the theory's line."""
        self._experts, self._most, self._threshold = experts, most, threshold
        half = self._slot / 2
        self._columns = [
            (self._x(expert) - half, self.TOP, self._x(expert) + half, self.SCORE_ZERO, 0, 0, 0, 0)
            for expert in range(experts)
        ]
        if not self.renew(experts, most, threshold, trials):
            return
        for value in np.arange(0, most, 1):
            self.write(self.LEFT - 12, self._y(float(value)), f"{value:g}", ha="right")
            self._rule(self.LEFT - 8, self.LEFT - 5, self._y(float(value)), theme.REFERENCE, 0.8)
        self.write(16, self._y(most / 2), "Δ", size=theme.TEXT_SIZE, color=theme.INK)
        self._rule(self.LEFT - 5, self.RIGHT, self.ZERO, theme.REFERENCE, 0.8)
        self._rule(self.LEFT - 5, self.RIGHT, self.SCORE_ZERO, theme.REFERENCE, 0.8)
        height = self._y(threshold)
        self._rule(self.LEFT - 5, self.RIGHT, height, theme.INK, 1.4, dashes=(5, 2))
        middle = (self._x(experts // 2 - 1) + self._x(experts // 2)) / 2
        for left, right, words, side in (
            (self.LEFT, middle, "experts that vote +", 0),
            (middle, self.RIGHT, "experts that vote −", 1),
        ):
            style = {"ha": "center", "size": theme.TEXT_SIZE, "weight": "bold", "color": theme.CLASSES[side]}
            self.write((left + right) / 2, self.TOP - 16, words, **style)
        for upper, lower in ((self.TOP - 22, self.CHIPS + 36), (self.SCORE_TOP - 4, self.SCORE_ZERO)):
            self._line((middle, upper), (middle, lower), color=theme.RULE, linewidth=1)

    def update(self, record: Frame, view: View) -> None:
        trial = record.trial(view.shown)
        changes = record.changes(trial)
        self.kept, carriers = record.kept(view, trial), record.carriers(trial)
        lost = [int(expert) for _, experts in record.lost(view, trial) for expert in experts]
        with self.sheet.anew() as sheet:
            sheet.add(self._columns)
            self._describe(record, trial, changes)
            self._bars(changes, carriers, lost)
            self._score(record, view, trial)

    def _bars(self, changes: NDArray[np.float64], carriers: NDArray[np.bool_], lost: list[int]) -> None:
        """Draws each expert's change, its number, and the tile of its class where it carries its pattern."""
        sheet, half, wide = self.sheet, self._experts // 2, self._slot - max(4, 0.25 * self._slot)
        shown = np.clip(np.nan_to_num(changes), -0.4, self._most)
        self.heights = shown / self._most * (self.ZERO - self.TOP)
        for expert, height in enumerate(self.heights):
            x, side = self._x(expert), int(expert >= half)
            stays = self.kept is None or bool(self.kept[expert])
            colour = theme.CLASSES[side] if stays else GREY
            left, right, end = x - wide / 2, x + wide / 2, self.ZERO - height
            if stays:
                sheet.box(left, min(end, self.ZERO), right, max(end, self.ZERO), colour)
            else:
                sheet.stripes(left, min(end, self.ZERO), right, max(end, self.ZERO), colour)
            sheet.box(left, end - 2, right, end + 1.5, colour)
            if changes[expert] >= NOTABLE and self._slot >= 20:
                above = "▲" if changes[expert] > self._most else ""
                sheet.write(x, end - 10, f"{above}{changes[expert]:.1f}", "center", colour=colour, bold=True)
            self._chip(expert, stays, side)
            if carriers[expert]:
                self._carries(expert, side, expert in lost)

    def _describe(self, record: Frame, trial: int, changes: NDArray[np.float64]) -> None:
        """Writes what is drawn, and the name of the theory's line: at the line, or above where bars are in its way."""
        of = f"trial {trial + 1} of {record.run.trials}" if record.run.trials > 1 else "the one trial"
        tail = "" if self.kept is None else "; grey: pruned"
        line, place = f"1.5 log l = {self._threshold:.2f}", self._free(changes)
        if place is None:
            words = f"Δ: change of router norm, {of}{tail}; dashed: {line}"
        else:
            words = f"Δ = ‖router after‖ − ‖router before‖, {of}{tail}"
            self.sheet.write(place, self._y(self._threshold) - 9, f"theory: {line}", "center")
        self.sheet.write(26, 47, words, colour=theme.MUTED)

    def _free(self, changes: NDArray[np.float64]) -> float | None:
        """Returns the middle of a row of bars that leaves room for words at the theory's line; None without one."""
        tall = np.nan_to_num(changes) >= self._threshold - 0.1 * self._most
        half, length, last = self._experts // 2, 0, 0
        for begin in (0, half):
            run = 0
            for expert in range(begin, begin + half):
                run = 0 if tall[expert] else run + 1
                if run > length:
                    length, last = run, expert
        if length * self._slot < 150:
            return None
        return (self._x(last - length + 1) + self._x(last)) / 2

    def _chip(self, expert: int, stays: bool, side: int) -> None:
        """Writes the expert's number: on its colour while it stays, grey and hollow when it is pruned."""
        x, wide = self._x(expert), min(self._slot - 2, 21)
        box = (x - wide / 2, self.CHIPS, x + wide / 2, self.CHIPS + self.CHIP)
        middle = self.CHIPS + self.CHIP / 2
        if self.kept is not None and stays:
            self.sheet.box(*box, theme.CLASSES[side])
            self.sheet.write(x, middle, str(expert + 1), "center", colour="white", bold=True)
        else:
            colour = GREY if self.kept is not None else theme.CLASSES[side]
            self.sheet.frame(*box, colour)
            self.sheet.write(x, middle, str(expert + 1), "center", colour=colour)

    def _carries(self, expert: int, side: int, lost: bool) -> None:
        """Draws the tile of a class's pattern under an expert that carries it, crossed out where no carrier is left."""
        x, top, both = self._x(expert), self.CHIPS + self.CHIP + 4, self._slot >= 23
        if lost:
            self.sheet.write(x + (7 if both else 0), top + 7, "✖", "center", colour=theme.FAILURE, size=12)
        if both or not lost:
            left = x - 6.5 - (6 if lost else 0)
            self.sheet.image(left, top, left + 13, top + 13, _signal, side)

    def _score(self, record: Frame, view: View, trial: int) -> None:
        """Draws the criterion's score, from the smallest of all or 0 to the largest."""
        pruned, self.scored = record.pruned, None
        y, name = self.SCORE_TOP - 14, SCORES[view.criterion]
        if pruned is None:
            self.sheet.write(
                self.LEFT, y, "scores, by which experts are pruned: when training ends", colour=theme.MUTED
            )
            return
        if view.criterion not in pruned.scores:
            self.sheet.write(self.LEFT, y, f"pruned by: {name}", colour=theme.INK)
            self.sheet.write(
                self.LEFT, y + 26, f"undefined: {undefined(view.criterion)}", colour=theme.FAILURE, bold=True
            )
            return
        scores = pruned.scores[view.criterion][trial]
        if not np.isfinite(scores).all():
            return
        low, high = min(float(scores.min()), 0.0), float(scores.max())
        self.scored = (scores - low) / max(high - low, 1e-12)
        self.sheet.write(self.LEFT, y, f"pruned by: {name} (the largest stay)", colour=theme.INK)
        assert self.kept is not None
        wide = self._slot - max(4, 0.25 * self._slot)
        for expert, part in enumerate(self.scored):
            x, end = self._x(expert), self.SCORE_ZERO - part * (self.SCORE_ZERO - self.SCORE_TOP)
            if self.kept[expert]:
                self.sheet.box(x - wide / 2, end - 2, x + wide / 2, self.SCORE_ZERO, theme.INK)
            else:
                self.sheet.stripes(x - wide / 2, end, x + wide / 2, self.SCORE_ZERO, GREY)
                self.sheet.box(x - wide / 2, end - 2, x + wide / 2, end + 1, GREY)

    def _names(self) -> dict[str, list[str]]:
        """Returns what a pointer over each expert's column shows."""
        votes = ["+"] * (self._experts // 2) + ["−"] * (self._experts - self._experts // 2)
        return {"parts": [f"expert {number}, votes {sign}" for number, sign in enumerate(votes, 1)]}

    # ---- places ----

    @property
    def _slot(self) -> float:
        return (self.RIGHT - self.LEFT - self.GAP) / self._experts

    def _x(self, expert: int) -> float:
        """Returns the middle of an expert's column."""
        return self.LEFT + (expert + 0.5) * self._slot + (self.GAP if expert >= self._experts // 2 else 0)

    def _y(self, change: float) -> float:
        return self.ZERO - change / self._most * (self.ZERO - self.TOP)

    def _rule(self, left: float, right: float, y: float, colour: str, width: float, **style: Any) -> None:
        self._line((left, y), (right, y), color=colour, linewidth=width, **style)

    def _line(self, *ends: tuple[float, float], **style: Any) -> None:
        """Draws a fixed line between places of the figure."""
        figure = self.scene.figure
        x, y = zip(*(theme.spot(figure, *end) for end in ends), strict=True)
        line = Line2D(x, y, transform=figure.transFigure, **style)
        figure.add_artist(line)
        self.fix(line)


def _signal(side: int, wide: int, high: int, scale: float) -> NDArray[np.uint8]:
    """Paints the tile of a class's pattern."""
    return theme.tile("signal", side, round(13 * scale))
