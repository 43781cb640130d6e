"""The third panel of the landscape Lab's picture: a GRU cell as a mixture of experts of depth two."""

from __future__ import annotations

from functools import lru_cache
from typing import Any

import numpy as np
import torch
from matplotlib.collections import LineCollection
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.landscape.gru import CONVENTIONS, GRU, gap_by_sharpness
from moe_lab.trials import stream
from moe_lab_widgets.drawing.error_curves import log_places
from moe_lab_widgets.drawing.scene import Panel, Scene
from moe_lab_widgets.drawing.sheet import Sheet
from moe_lab_widgets.drawing.tables import Table
from moe_lab_widgets.landscape.panels.errors import TICKS
from moe_lab_widgets.landscape.settings import BETAS, CELLS, GRU_SAMPLES, INPUTS, UNITS

TOP, HEIGHT = 100, 150
LOWEST, HIGHEST = 1e-5, 1.0
EXPERTS = ("keep", "forget", "recall")
NAMES = {"torch": ("torch:", "r ∘ (Wh)"), "paper": ("paper:", "W(r ∘ h)")}
STYLES = {"torch": theme.MODEL, "paper": theme.OTHER}


@lru_cache(maxsize=8)
def gaps(seed: int) -> dict[str, NDArray[np.float64]]:
    """Returns for each convention (cell, sharpness) the median over samples of the largest gap among a cell's units."""
    return {
        name: np.stack([
            np.median(gap_by_sharpness(GRU.random(UNITS, INPUTS, seed=seed + cell, convention=name), BETAS, GRU_SAMPLES,
                                       seed), axis=1)
            for cell in range(CELLS)
        ])
        for name in CONVENTIONS
    }  # fmt: skip


@lru_cache(maxsize=32)
def weights(seed: int, sharpness: float) -> NDArray[np.float64]:
    """Returns (expert, unit) the weights of eq. 5's experts in the first cell, for one input and state."""
    cell = GRU.random(UNITS, INPUTS, seed=seed).replace(sharpness=sharpness)
    x = torch.as_tensor(stream(seed, 0, "gru/x").standard_normal((1, INPUTS)))
    h = torch.as_tensor(stream(seed, 0, "gru/h").uniform(-1, 1, (1, UNITS)))
    return cell.mixture(x, h).weights[0].numpy().T


def height_of(values: NDArray[Any]) -> NDArray[np.float64]:
    """Returns places on the gap's axis, from 0 to 1, clipped at its ends."""
    return log_places(values, LOWEST, HIGHEST)


class Gates(Panel):
    """The gap between a GRU cell and a mixture at each sharpness of its gates, and the mixture's weights."""

    LEFT, WIDTH = 892, 132
    CELL = 20

    def __init__(self, scene: Scene) -> None:
        super().__init__(scene, (836, 1100))
        theme.header(scene.figure, 842, 3, "A GRU cell is a mixture")
        self.axes = axes = theme.axes(scene.figure, self.LEFT, TOP, self.WIDTH, HEIGHT, xlim=(0, 1), ylim=(0, 1))
        axes.set_yticks(height_of(np.array(list(TICKS)[::2])).tolist(), list(TICKS.values())[::2])
        axes.set_xticks([])
        self.thick: dict[str, Any] = {}
        self.table: NDArray[np.float64] = np.zeros((3, UNITS))

    def set(self, seed: int, sharpness: float) -> None:
        """Draws everything; nothing here changes until a slider moves."""
        if not self.renew(seed, sharpness):
            return
        self.write(854, 50, f"|GRU − mixture|, {CELLS} random cells;")
        self.write(854, 66, "sharp gates choose one expert")
        found, x = gaps(seed), np.log(np.array(BETAS)) / np.log(BETAS[-1])
        at = BETAS.index(sharpness)
        ends = []
        for name in reversed(CONVENTIONS):
            style, values = STYLES[name], found[name]
            line: dict[str, Any] = {"color": style.colour, "linestyle": style.line}
            thin = LineCollection([np.stack((x, height_of(cell)), axis=1) for cell in values], colors=[style.colour],
                                  linestyles=style.line, linewidths=0.9, alpha=0.55)  # fmt: skip
            self.axes.add_collection(thin)
            (self.thick[name],) = self.axes.plot(x, height_of(np.median(values, axis=0)), linewidth=2.4, **line)
            (mark,) = self.axes.plot(
                x[[at]], height_of(np.median(values[:, [at]], axis=0)), "o", color=style.colour, markersize=8
            )
            (rule,) = self.axes.plot([x[at], x[at]], [0, 1], color=theme.RULE, linewidth=1, zorder=0)
            for artist in (thin, self.thick[name], mark, rule):
                self.fix(artist)
            ends.append(float(height_of(np.median(values[:, -1:], axis=0))[0]))
        places = theme.spread(ends, 0.3, 0.1, 0.9)
        for name, place in zip(reversed(CONVENTIONS), places, strict=True):
            top = TOP + HEIGHT * (1 - place)
            style_of: dict[str, Any] = {"color": STYLES[name].colour, "weight": "bold"}
            for row, words in enumerate(NAMES[name]):
                self.write(self.LEFT + self.WIDTH + 8, top + 15 * (row - 0.5), words, **style_of)
        for beta in (1, 10, 100, 1000):
            place = self.LEFT + self.WIDTH * np.log(beta) / np.log(BETAS[-1])
            self.write(place, TOP + HEIGHT + 12, f"{beta}", ha="center")
        below: dict[str, Any] = {"ha": "center", "size": theme.TEXT_SIZE, "color": theme.INK}
        self.write(self.LEFT + self.WIDTH / 2, TOP + HEIGHT + 29, "β, sharpness of the gates", **below)
        self._weights(seed, sharpness)

    def _weights(self, seed: int, sharpness: float) -> None:
        self.table = weights(seed, sharpness)
        top = 352
        self.write(854, top - 40, f"Weights at β = {sharpness:g}, {UNITS} units",
                   size=theme.TEXT_SIZE, color=theme.INK, weight="bold")  # fmt: skip
        self.write(854, top - 22, "of the first cell, one sample; each")
        self.write(854, top - 6, "column sums to 1; dark: 1")
        sheet = Sheet()
        with sheet.anew():
            Table(910, top + 8, 3, UNITS, self.CELL, self.CELL).fill(sheet, [""] * self.table.size, self.table)
        self.fix(sheet)
        for row, name in enumerate(EXPERTS):
            height = top + 8 + self.CELL * (row + 0.5)
            self.write(904, height, name, ha="right", color=theme.INK)
        self.write(854, top + 84, "keep 1 − z, forget z(1 − r), recall z r")
