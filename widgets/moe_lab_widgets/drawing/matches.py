"""Draws tables of estimates that are matched with true parameters (`moe_lab.drawing.match_marks`) on Axes."""

from __future__ import annotations

from typing import Any

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import box_of, cells, name_cells, note, write
from moe_lab_widgets.drawing.tables import key

LEAST_WORDS = 34
"""Pixels of a cell from which its number is written into it."""
LARGEST, TALLEST = 184, 220
"""Pixels of the widest table, and of the highest with its row of gates."""
SUBSCRIPTS = "₁₂₃₄₅₆₇₈₉"
GAP = 0.4
"""Of a cell, between the table and the gates."""
SMALL: dict[str, Any] = {"size": theme.SMALL_SIZE}


def furnish(ax: Axes, k: int, beside: str, under: str) -> None:
    """Furnishes Axes for a table of k estimates; `beside` stands beside a key to the shades, `under` below it."""
    left, top, width, height = box_of(ax)
    cell = min(LARGEST / k, TALLEST / (k + 1 + GAP))
    ax.set(xlim=(-0.5, width / cell - 0.5), ylim=(height / cell - 0.5, -0.5), xticks=[], yticks=[])
    ax.spines[:].set_visible(False)
    true = [f"true regressor a{number}" for number in SUBSCRIPTS[:k]]
    name_cells(ax, [f"estimate {row + 1}, {column}" for row in range(k) for column in true])
    note(ax, 0, -10, f"true regressors a₁{', ' if k == 2 else ' … '}a{SUBSCRIPTS[k - 1]}")
    last = "" if k == 2 else f" … w{SUBSCRIPTS[k - 2]}"
    write(ax, -0.5, k + 0.5 + GAP, [f"gates w₁{last} and the true ones"], theme.MUTED, ha="left", down=10, **SMALL)
    if beside:
        ax.set_ylabel("estimates", color=theme.MUTED, **SMALL)
        ax.yaxis.set_label_coords(-14 / width, 1 - k * cell / height / 2)
        ax.add_artist(key(left, top + height + 16, 6, 18, 34, 1.0))
        note(ax, 212, 25, beside, under=True)
        note(ax, 0, 51, under, under=True)


def draw(
    ax: Axes,
    cosines: NDArray[np.float64],
    gates: NDArray[np.float64],
    good: NDArray[np.bool_],
    least: float,
    words: list[str],
    colour: str,
) -> None:
    """Draws a table; `least` is the |cos| from which on an estimate is found, `words` are two lines above the table.

    At the end of a row stands its own |cos|, with a tick where it is found. At the end of the gates' row stands the
    worst, without a tick, which only regressors have.
    """
    k = len(cosines)
    cell = box_of(ax)[2] / (ax.get_xlim()[1] - ax.get_xlim()[0])

    def numbers(some: NDArray[np.float64]) -> list[str]:
        return [number(one, least) if cell >= LEAST_WORDS else "" for one in some.flat]

    write(ax, -0.5, -0.5, words, colour, ha="left", bold=True, down=[-46, -29], **SMALL)
    matched = range(0, k * k, k + 1)  # outlined, so that a match can be seen where it is pale
    cells(ax, numbers(cosines), cosines, framed=matched, **SMALL)
    names = [f"gate w{number} and the true one" for number in SUBSCRIPTS[: k - 1]]
    cells(ax, numbers(gates), gates[None], names=names, at=(0, k + GAP), **SMALL)
    sought = [bool(row.any()) for row in cosines]
    signs = [("✓" if right else "✗") if known else "" for right, known in zip(good, sought, strict=True)]
    colours = np.where(good, theme.FOUND, theme.FAILURE)
    write(ax, k - 0.5, np.arange(k), signs, colours, bold=True, size=14, right=11)
    own = [number(one, least) if known else "–" for one, known in zip(np.diagonal(cosines), sought, strict=True)]
    own.append(f"worst {number(gates.min(), least)}" if gates.any() else "–")
    rows, aside = np.append(np.arange(k), k + GAP), np.append(np.full(k, 35), 18)
    write(ax, k - 0.5, rows, own, theme.MUTED, right=aside, **SMALL)


def number(cosine: float, least: float) -> str:
    """Returns two digits, never rounded up across `least`."""
    rounded = round(float(cosine), 2)
    return f"{rounded - 0.01 if cosine < least <= rounded else rounded:.2f}"
