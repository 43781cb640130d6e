"""How a mixture of experts works, as a picture: patches, routers that score them, experts that see a few, and a sum."""

from __future__ import annotations

from typing import Any

import numpy as np
import torch
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.patches import FancyBboxPatch, Rectangle

from moe_lab.core.config import require
from moe_lab.core.routing import expert_choice
from moe_lab.core.trials import stream
from moe_lab.datasets import digits
from moe_lab.drawing import theme
from moe_lab.drawing.style import in_fixed_style

_SIZE, _GAP = 34, 10
_LEFT, _TOP = 196, 52
_LANES = (122, 222)
_BARS = 46


@in_fixed_style
def mixture_diagram(
    shown: tuple[int, ...] = (4, 0, 6, 1, 8, 1, 3, 0), patches_per_expert: int = 2, seed: int = 0
) -> Figure:
    """Draws a sample of handwritten digits and two experts whose routers are random, as before any training.

    Args:
      shown: the digits of the sample, a patch each.
      patches_per_expert: l, patches that each expert gets.
      seed: of the routers and of the digits chosen.

    Raises:
      ValueError: patches_per_expert is not between 1 and the number of patches.
    """
    require(
        1 <= patches_per_expert <= len(shown),
        f"patches_per_expert (l) must be from 1 to the {len(shown)} patches shown",
        patches_per_expert=patches_per_expert,
    )
    random, data = stream(seed, 0, "diagram"), digits.load()
    images = np.stack([random.choice(data.images[data.labels == digit]) for digit in shown]).reshape(len(shown), 8, 8)
    images = images / images.max()
    routers = random.standard_normal((len(_LANES), 64))
    scores = routers @ (images - images.mean(0)).reshape(len(shown), 64).T
    mask, gates = (
        part[0, :, 0].numpy() for part in expert_choice(torch.as_tensor(scores)[None, :, None], patches_per_expert)
    )
    figure = theme.figure(1100, 330)
    page = figure.add_axes((0, 0, 1, 1))
    page.set(xlim=(0, 1100), ylim=(330, 0))
    page.axis("off")
    _say(page, 14, _TOP + 2, "a sample,", f"cut into n = {len(shown)} patches")
    for number, image in enumerate(images):
        _patch(page, _left(number), _TOP - _SIZE / 2, image)
    for expert, top in enumerate(_LANES):
        _lane(page, expert, top, images, scores[expert], mask[expert], gates[expert])
    middle = sum(_LANES) / 2 + _BARS / 2
    page.text(958, middle, "+", size=20, ha="center", va="center", color=theme.INK)
    page.plot(958, middle, "o", markersize=26, markerfacecolor="none", markeredgecolor=theme.INK)
    for top in _LANES:
        _arrow(page, (908, top + _BARS / 2), (944, middle + (8 if top > middle - _BARS / 2 else -8)))
    _arrow(page, (974, middle), (1000, middle))
    _say(page, 1006, middle, "prediction", "6 or 7?")
    for x, words in (
        (_left(0), "1  score every patch"),
        (590, "2  send the best"),
        (776, "3  compute"),
        (940, "4  add"),
    ):
        page.text(x, 304, words, size=theme.SMALL_SIZE, color=theme.MUTED)
    return figure


def _left(number: int) -> float:
    return _LEFT + number * (_SIZE + _GAP)


def _lane(page: Axes, expert: int, top: float, images: Any, scores: Any, mask: Any, gates: Any) -> None:
    """One expert: its router's scores, the patches it gets with their gates, and its network."""
    style, base = theme.expert(expert), top + _BARS
    shape, digit = theme.expert_head(page, expert)
    for part in (shape, digit):
        part.set_data([26], [top + _BARS / 2])
    _say(page, 46, top + _BARS / 2, f"router {expert + 1}", "gives each a score")
    heights = 6 + (_BARS - 6) * (scores - scores.min()) / np.ptp(scores)
    for number, (high, chosen) in enumerate(zip(heights, mask, strict=True)):
        colour = style.colour if chosen else theme.RULE
        page.add_patch(Rectangle((_left(number), base - high), _SIZE, high, facecolor=colour))
    page.plot([_left(0) - 4, _left(len(mask) - 1) + _SIZE + 4], [base, base], color=theme.REFERENCE, lw=0.8)
    _arrow(page, (_left(len(mask) - 1) + _SIZE + 12, top + _BARS / 2), (584, top + _BARS / 2))
    for place, number in enumerate(np.flatnonzero(mask).tolist()):
        left = 592 + place * (_SIZE + 2 * _GAP)
        _patch(page, left, top, images[number], style.colour)
        page.text(
            left + _SIZE / 2, top + _SIZE + 11, f"× {gates[number]:.2f}", size=theme.SMALL_SIZE, ha="center",
            va="center", color=theme.INK,
        )  # fmt: skip
    right = 592 + mask.sum() * (_SIZE + 2 * _GAP) - 2 * _GAP
    _arrow(page, (right + 10, top + _BARS / 2), (768, top + _BARS / 2))
    box = FancyBboxPatch((776, top), 126, _BARS, boxstyle="round,pad=0,rounding_size=8")
    box.set(facecolor="white", edgecolor=style.colour, linewidth=2)
    page.add_patch(box)
    _say(page, 839, top + _BARS / 2, f"expert {expert + 1}", "a small network", ha="center")


def _patch(page: Axes, left: float, top: float, image: Any, colour: str = theme.REFERENCE) -> None:
    page.imshow(1 - image, cmap="gray", vmin=0, vmax=1, extent=(left, left + _SIZE, top + _SIZE, top), zorder=2)
    page.add_patch(Rectangle((left, top), _SIZE, _SIZE, facecolor="none", edgecolor=colour, linewidth=2, zorder=3))


def _say(page: Axes, x: float, y: float, first: str, second: str, **how: Any) -> None:
    page.text(x, y - 8, first, size=theme.TEXT_SIZE, color=theme.INK, weight="bold", va="center", **how)
    page.text(x, y + 9, second, size=theme.SMALL_SIZE, color=theme.MUTED, va="center", **how)


def _arrow(page: Axes, start: tuple[float, float], end: tuple[float, float]) -> None:
    page.annotate("", end, start, arrowprops={"arrowstyle": "-|>", "color": theme.INK, "linewidth": 1.2})
