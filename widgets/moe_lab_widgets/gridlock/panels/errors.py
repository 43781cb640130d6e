"""The second panel of the gridlock Lab's picture: the error over EM's iterations."""

from __future__ import annotations

from functools import partial
from typing import Any

import numpy as np
from numpy.typing import NDArray

from moe_lab import theme
from moe_lab.recovery.gridlock.grid_points import GAIN, WINDOW
from moe_lab_widgets.drawing.error_curves import FOUND_COLOUR, ErrorCurves, ErrorHistory, log_places
from moe_lab_widgets.drawing.lines import inside, put
from moe_lab_widgets.drawing.picture import Name
from moe_lab_widgets.drawing.scene import Scene
from moe_lab_widgets.drawing.words import two_digits
from moe_lab_widgets.gridlock.panels.regressors import COLOURS, NAMES
from moe_lab_widgets.gridlock.record import METHODS, Frame


class Errors(ErrorCurves):
    """E(A, W) over the iterations of EM, both logarithmic, with the error of EM from the true parameters."""

    LEFT, TOP, WIDTH, HEIGHT = 594, 84, 168, 262

    def __init__(self, scene: Scene) -> None:
        box = (self.LEFT, self.TOP, self.WIDTH, self.HEIGHT)
        super().__init__(scene, (545, 845), names=NAMES, colours=COLOURS, box=box, columns=(656, 62))
        theme.header(scene.figure, 550, 2, "Error over EM's iterations")
        (best,) = self.axes.plot([], [], color=FOUND_COLOUR, linewidth=1.2, linestyle=":", zorder=1.5)
        self.best = scene.live(best)
        scene.name(best, partial(self.named, "median of EM from the true parameters"))
        self.limits, self._longest = (0.1, 10.0), 10

    def set(self, trials: int, longest: int, limits: tuple[float, float]) -> None:
        """Writes ticks and names.

        Args:
          longest: iterations of EM of the method that has more.
          limits: of the error.
        """
        if not self.renew(trials, longest, limits):
            return
        self.limits, self._longest = limits, longest
        self.write(562, 50, self.head("E(A, W)", trials))
        self.write(562, 66, f"✗ stuck: < {100 * GAIN:.0f} % less in {WINDOW} iterations")
        for tick in ticks(*limits):
            height = self.TOP + self.HEIGHT * (1 - float(self.y_of(np.array(tick))))
            self.write(self.LEFT - 7, height, f"{tick:g}", ha="right")
            self.write(self.LEFT - 2, height, "–", ha="center", color=theme.REFERENCE)
        self.write_axis("EM iteration", (0, *(10**power for power in range(6) if 10**power <= longest)))
        self.show_pins()

    def x_of(self, steps: NDArray[Any]) -> NDArray[np.float64]:
        return np.asarray(np.log10(1 + steps) / np.log10(1 + self._longest))

    def y_of(self, errors: NDArray[Any]) -> NDArray[np.float64]:
        return log_places(errors, *self.limits)

    def read(self) -> Name:
        return {
            "x": self.scene.along("1 + iteration", self.axes, "x", (1, 1 + self._longest), log=True),
            "y": self.scene.along("error", self.axes, "y", self.limits, log=True),
        }

    def update(self, record: Frame) -> None:
        errors = {method: ErrorHistory(*record.errors(method), *record.verdicts(method)) for method in METHODS}
        ends = self.show_errors(errors)
        floor = float(np.median(record.best)) if record.best is not None else np.nan
        put(self.best, [0, 1], self.y_of(np.array([floor, floor])))
        self._name([*ends.values(), floor])
        marks = [(record.whole(method), errors[method].stuck, errors[method].falling) for method in METHODS]
        self.show_counts([[str(int(which.sum())) for which in row] for row in marks])

    def _name(self, ends: list[float]) -> None:
        """Writes the three lines' names and numbers, pushed apart."""
        colours = (*(COLOURS[method] for method in METHODS), FOUND_COLOUR)
        known = [i for i, end in enumerate(ends) if np.isfinite(end)]
        places = theme.spread([float(self.y_of(np.array(ends[i]))) for i in known], 0.15, 0.03, 0.97)
        with self.names.anew() as names:
            for i, place in zip(known, places, strict=True):
                words = ("spectral", "joint EM", "EM from")[i], ("+ EM ", "", "truth ")[i] + two_digits(ends[i])
                size = theme.SMALL_SIZE if i == 2 else theme.TEXT_SIZE
                names.lines(*inside(self.box, 1.08, place), *words, size=size, colour=colours[i])


def ticks(low: float, high: float) -> list[float]:
    """Returns the numbers 1, 2 and 5 times a power of ten between limits."""
    powers = range(int(np.floor(np.log10(low))), int(np.ceil(np.log10(high))) + 1)
    return [digit * 10.0**power for power in powers for digit in (1, 2, 5) if low <= digit * 10.0**power <= high]
