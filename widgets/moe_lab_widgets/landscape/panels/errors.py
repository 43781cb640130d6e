"""The second panel of the landscape Lab's picture: the regressors' error over the steps, for both losses."""

from __future__ import annotations

from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.landscape.stuck import STUCK_ERROR, STUCK_GAIN
from moe_lab_widgets.drawing.error_curves import ErrorCurves, ErrorHistory, log_places
from moe_lab_widgets.drawing.lines import inside
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.words import two_digits
from moe_lab_widgets.landscape.record import METHODS, Frame

LOWEST, HIGHEST = 1e-5, 1.0
"""Of the error, 1 - |cos|, which cannot exceed 1; smaller errors are drawn at the edge."""
NAMES = {"L4": "L₄", "l2": "ℓ₂"}
COLOURS = {"L4": theme.INK, "l2": theme.REFERENCE}
TICKS = {1e-5: "10⁻⁵", 1e-4: "10⁻⁴", 1e-3: "10⁻³", 1e-2: "10⁻²", 1e-1: "10⁻¹", 1.0: "1"}


def height_of(errors: NDArray[Any]) -> NDArray[np.float64]:
    """Returns places on the error's axis, from 0 to 1, clipped at its ends."""
    return log_places(errors, LOWEST, HIGHEST)


class Errors(ErrorCurves):
    """1 - smallest |cos| of a regressor over the steps, logarithmic.

    Marks appear where a descent has ended; see `stuck.stuck_at`.
    """

    LEFT, TOP, WIDTH, HEIGHT = 744, 100, 266, 246

    def __init__(self, scene: Scene) -> None:
        box = (self.LEFT, self.TOP, self.WIDTH, self.HEIGHT)
        super().__init__(scene, (684, 1100), names=NAMES, colours=COLOURS, box=box, columns=(770, 90))
        theme.header(scene.figure, 692, 2, "Error through time")
        self.axes.set_yticks(height_of(np.array(list(TICKS))).tolist(), list(TICKS.values()))
        self.axes.axhline(float(height_of(np.array(STUCK_ERROR))), color=theme.FAILURE, linewidth=1, zorder=1)
        self._steps = 1

    def set(self, trials: int, steps: int) -> None:
        """Writes ticks and names."""
        if not self.renew(trials, steps):
            return
        self._steps = steps
        self.write(704, 50, self.head("1 − |cos|", trials))
        self.write(704, 66, f"✗ stuck at the end: over {STUCK_ERROR:g}, and less than")
        self.write(704, 82, f"{100 * STUCK_GAIN:.0f} % better in the last tenth of steps")
        line = self.TOP + self.HEIGHT * (1 - float(height_of(np.array(STUCK_ERROR))))
        self.write(self.LEFT - 7, line, f"{STUCK_ERROR:g}", ha="right", color=theme.FAILURE)
        self.write_axis("step", (0, steps / 2, steps))
        self.show_pins()

    def x_of(self, steps: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(steps / self._steps)

    def y_of(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        return height_of(errors)

    def read(self) -> Name:
        return {
            "x": self.scene.along("step", self.axes, "x", (0, self._steps)),
            "y": self.scene.along("1 − |cos|", self.axes, "y", (LOWEST, HIGHEST), log=True),
        }

    def update(self, record: Frame) -> None:
        errors = {method: ErrorHistory(*record.errors(method), *record.verdicts(method)) for method in METHODS}
        self._name(self.show_errors(errors))
        self.show_counts([self._row(record, method) for method in METHODS])

    @staticmethod
    def _row(record: Frame, method: str) -> list[str]:
        counts = [str(int(which.sum())) for which in (record.found(method), *record.verdicts(method))]
        return counts if record.finished(method) else [counts[0], "–", "–"]

    def _name(self, ends: dict[str, float]) -> None:
        """Writes the lines' names and numbers, pushed apart."""
        known = [method for method, end in ends.items() if np.isfinite(end)]
        places = theme.spread([float(height_of(np.array(ends[method]))) for method in known], 0.16, 0.05, 0.95)
        with self.names.anew() as names:
            for method, place in zip(known, places, strict=True):
                words, style = (NAMES[method], two_digits(ends[method])), {"size": theme.SMALL_SIZE}
                names.lines(*inside(self.box, 1.06, place), *words, colour=COLOURS[method], **style)
