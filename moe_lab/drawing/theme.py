"""The common style of all pictures: colours with fixed meanings, numbered panels, labels that do not collide.

A colour means the same thing in every Lab and every plot, and always comes with a second cue (marker, number, stripes,
dashes), so that nothing rests on colour vision. Positions are in pixels from the top left of a figure at 100 dots per
inch; at another dpi everything scales, and the same numbers still hold.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from functools import lru_cache
from io import BytesIO
from typing import Any

import numpy as np
from matplotlib.axes import Axes
from matplotlib.colors import Colormap, LinearSegmentedColormap, to_rgb
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.markers import MarkerStyle
from matplotlib.text import Text
from numpy.typing import NDArray

from moe_lab.core.errors import InputError
from moe_lab.drawing.label_layout import push_apart as push_apart
from moe_lab.drawing.label_layout import spread as spread
from moe_lab.drawing.style import in_fixed_style

PAPER = "#FBFAF7"
"""Every picture's ground, never transparent: ink vanishes on a dark page."""
INK = "#1B1B25"
"""The model under study, solid; text."""
REFERENCE = "#7A808C"
"""What the model is compared with (CNN, linear experts, joint EM), dashed."""
FAILURE = "#AA3377"
FOUND = "#0B5F5A"  # the dark end of the ramp
GOLD = "#E0B000"  # of a true solution's star, which its shape tells, too
"""Thresholds and failures, with a label or an x. It resembles expert 2: never both in one picture."""
MUTED = "#595D68"
"""Notes, ticks and axis numbers."""
RULE = "#C9CACE"
"""Thin lines that separate or guide."""
BACKGROUND = "#DCDEE2"
"""Background patches: flat, no glyph."""
HATCHED = ("#F1F0EC", "#DCDBD6")
"""Where nothing has run yet, and the lines across it."""

CLASSES = ("#0072B2", "#D55E00")
"""o1 and class +, o2 and class -."""
CLASSES_PALE = ("#9CC7E3", "#F2B48C")
"""The same for bars and stripes."""
CLASSES_TINT = ("#E3EDF6", "#FCE8DC")
"""The same for areas behind other things."""
CLASS_NAMES = ("o₁", "o₂")
CLASS_SIGNS = ("+", "−")

TITLE_SIZE, TEXT_SIZE, SMALL_SIZE = 12.5, 10.5, 9.5
"""Points. Nothing is smaller than SMALL_SIZE."""
BASE_DPI = 100


@dataclass(frozen=True)
class Style:
    """How one thing is drawn wherever it appears.

    Attributes:
      colour: its colour.
      marker: its matplotlib marker.
      line: its line style, or its dashes as (offset, lengths in points).
      on: the colour of text written on it.
    """

    colour: str
    marker: str
    line: str | tuple[float, tuple[float, ...]] = "-"
    on: str = "white"


EXPERTS = (
    Style("#3DB7A0", "o", on=INK),
    Style("#882255", "s"),
    Style("#E0B000", "^", on=INK),
    Style("#5A3E00", "D"),
    Style("#3DB7A0", "v", on=INK),
    Style("#882255", "p"),
    Style("#E0B000", "h", on=INK),
    Style("#5A3E00", "8"),
)
"""Experts 1 to 8. Colours repeat after four; 5 to 8 differ from 1 to 4 in marker and number."""
MODEL = Style(INK, "o", "-")
OTHER = Style(REFERENCE, "s", "--")
OWN = (
    Style("#5B3FC4", "P", "-."),
    Style("#1B7837", "X", (0, (7, 2))),
    Style("#B0357F", "h", (0, (3, 1.5))),
    Style("#8C510A", "*", (0, (5, 1.5, 1, 1.5, 1, 1.5))),
)
"""Models, routers and criteria that the library does not know, in the order in which they come; signals of clusters."""


def styles(names: Iterable[str], known: Mapping[str, Style]) -> dict[str, Style]:
    """The style of each name: that of a known one, else the next of `OWN`."""
    named = list(names)
    own = [name for name in named if name not in known]
    return {name: known[name] if name in known else OWN[own.index(name) % len(OWN)] for name in named}


def expert(number: int) -> Style:
    """Returns the style of expert `number`, counted from 0; after eight, styles repeat."""
    return EXPERTS[number % len(EXPERTS)]


RAMP: Colormap = LinearSegmentedColormap.from_list(
    "paper_to_teal", [(0, PAPER), (0.06, "#F0F1EF"), (0.5, "#56A293"), (0.8, "#0B5F5A"), (1, "#062B2E")]
)
"""The one ramp for a quantity from 0 to 1. Its number goes into the cell."""


def ramp(values: Any) -> NDArray[np.uint8]:
    """Colours of quantities from 0 to 1: an array of any shape becomes (..., 4) uint8 RGBA; NaN becomes paper."""
    numbers = np.nan_to_num(np.asarray(values, dtype=float), nan=0.0)
    return np.asarray(RAMP(np.clip(numbers, 0, 1), bytes=True))


def ink_on(value: float) -> str:
    """The text colour that can be read on `ramp(value)`."""
    return "white" if value >= 0.5 else INK


def rgba(colour: str) -> NDArray[np.uint8]:
    """A colour as (4,) uint8 RGBA."""
    return np.array([*(round(255 * part) for part in to_rgb(colour)), 255], dtype=np.uint8)


def faded(pixels: NDArray[np.uint8], amount: float, towards: str = PAPER) -> NDArray[np.uint8]:
    """Pixels mixed with another colour: amount 0 leaves them, 1 replaces them."""
    mixed = (1 - amount) * pixels[..., :3] + amount * rgba(towards)[:3]
    return np.concatenate([mixed.round().astype(np.uint8), pixels[..., 3:]], axis=-1)


def tile(role: str, side: int, size: int = 24) -> NDArray[np.uint8]:
    """The picture of a synthetic patch.

    Args:
      role: "signal" (o1 with one bar, o2 with two), "distractor" (stripes that lean to the side they imitate) or
        "background" (flat).
      side: 0 for o1, 1 for o2.
      size: pixels.

    Returns:
      (size, size, 4) uint8 RGBA.

    Raises:
      ValueError: the role is unknown.
    """
    pixels = np.empty((size, size, 4), dtype=np.uint8)
    if role == "signal":
        pixels[:] = rgba(CLASSES[side])
        wide, top, bottom = max(size // 9, 1), size // 4, size - size // 4
        for centre in ((size / 2,), (size * 0.36, size * 0.64))[side]:
            left = round(centre - wide / 2)
            pixels[top:bottom, left : left + wide] = rgba("white")
    elif role == "distractor":
        pixels[:] = faded(rgba(PAPER), 0.15, CLASSES_PALE[side])
        row, column = np.indices((size, size))
        lean = row + column if side == 0 else row - column
        pixels[lean % max(size // 4, 3) < max(size // 8, 1)] = rgba(CLASSES_PALE[side])
    elif role == "background":
        pixels[:] = rgba(BACKGROUND)
    else:
        raise InputError(f"role must be 'signal', 'distractor' or 'background': got role={role!r}")
    return pixels


class Page(Figure):
    """A figure that shows itself at the end of a notebook's cell, without pyplot, and is drawn in the one style.

    Attributes:
      finding: what it shows, in a sentence, for who cannot see it; "" for who has not said.
    """

    finding = ""
    __init__ = in_fixed_style(Figure.__init__)
    draw = in_fixed_style(Figure.draw)
    savefig = in_fixed_style(Figure.savefig)

    def __repr__(self) -> str:
        return self.finding or super().__repr__()

    def _repr_png_(self) -> bytes:
        made = BytesIO()
        self.savefig(made, format="png")
        return made.getvalue()


def figure(width: int = 1100, height: int = 480, scale: float = 1.0) -> Page:
    """An empty figure on paper, without pyplot: `width` x `height` pixels times `scale` (1.5 for a projector)."""
    made = Page(figsize=(width / BASE_DPI, height / BASE_DPI), dpi=BASE_DPI * scale)
    frame(made)
    return made


def frame(figure: Figure) -> Figure:
    """Applies the common style to an existing figure and its axes; returns the figure."""
    figure.set_facecolor(PAPER)
    for axes in figure.axes:
        plain(axes)
    return figure


def plain(axes: Axes) -> Axes:
    """Paper ground, two thin spines, small muted numbers."""
    axes.set_facecolor(PAPER)
    for side, spine in axes.spines.items():
        spine.set_visible(side in ("left", "bottom"))
        spine.set_color(REFERENCE)
        spine.set_linewidth(0.8)
    axes.tick_params(colors=MUTED, labelsize=SMALL_SIZE, width=0.8, length=3)
    for text in (axes.xaxis.label, axes.yaxis.label):
        text.set_fontsize(TEXT_SIZE)
        text.set_color(INK)
    axes.title.set_fontsize(TITLE_SIZE)
    axes.title.set_color(INK)
    return axes


def spot(figure: Figure, x: float, y: float) -> tuple[float, float]:
    """Pixels from the top left as figure fractions."""
    wide, high = figure.get_size_inches() * BASE_DPI
    return float(x / wide), float(1 - y / high)


@in_fixed_style
def axes(figure: Figure, left: float, top: float, width: float, height: float, **options: Any) -> Axes:
    """Adds Axes in the common style at a place given in pixels from the top left."""
    wide, high = figure.get_size_inches() * BASE_DPI
    x, y = spot(figure, left, top + height)
    return plain(figure.add_axes((x, y, float(width / wide), float(height / high)), **options))


@in_fixed_style
def header(figure: Figure, left: float, number: int, title: str, note: str = "") -> None:
    """A panel's head: its number in a disc, a bold title, and one or two lines in small print.

    The disc is `left` pixels from the left; the note describes exactly what is shown.
    """
    x, y = spot(figure, left + 12, 24)
    disc = Line2D([x], [y], marker="o", markersize=17, color=INK, linestyle="none", transform=figure.transFigure)
    figure.add_artist(disc)
    centred: dict[str, Any] = {"ha": "center", "va": "center_baseline", "weight": "bold"}
    figure.text(x, y, str(number), color="white", size=TEXT_SIZE, **centred)
    figure.text(*spot(figure, left + 29, 24), title, color=INK, size=TITLE_SIZE, weight="bold", va="center_baseline")
    if note:
        place = spot(figure, left + 12, 44)
        figure.text(*place, note, color=MUTED, size=SMALL_SIZE, va="top", linespacing=1.35)


@in_fixed_style
def caption(figure: Figure, sentence: str, height: float = 32) -> list[Any]:
    """Draws the caption under a rule at the foot of a figure; returns the artists, so that they can be removed."""
    wide, high = figure.get_size_inches() * BASE_DPI
    y = 1 - float((high - height) / high)
    rule = Line2D([0, 1], [y, y], color=RULE, linewidth=0.8, transform=figure.transFigure)
    figure.add_artist(rule)
    text = figure.text(*spot(figure, 16, high - height / 2), sentence, color=INK, size=TEXT_SIZE, va="center")
    width = text.get_window_extent().width * BASE_DPI / figure.dpi
    if width > wide - 32:  # the picture is wider than any sentence should be: smaller first, then two lines
        text.set_fontsize(SMALL_SIZE)
        if width * SMALL_SIZE / TEXT_SIZE > wide - 32:
            middle = min((i for i, c in enumerate(sentence) if c == " "), key=lambda i: abs(i - len(sentence) // 2))
            text.set_text(f"{sentence[:middle]}\n{sentence[middle + 1 :]}")
            text.set_linespacing(0.95)
    return [rule, text]


@lru_cache(maxsize=32)
def _digit(number: int) -> MarkerStyle:
    """Returns a number as a marker, which takes matplotlib 3 ms to make."""
    return MarkerStyle(f"${number}$")


@in_fixed_style
def expert_head(axes: Axes, number: int, size: float = 15) -> tuple[Line2D, Line2D]:
    """A numbered expert mark: its shape and its number, two artists to move together with `set_data`.

    The number is a marker, not a Text: that costs a tenth to draw.
    """
    style = expert(number)
    line: dict[str, Any] = {"linestyle": "none", "markeredgecolor": "white", "markeredgewidth": 1.2, "zorder": 6}
    (shape,) = axes.plot([], [], marker=style.marker, markersize=size, color=style.colour, **line)
    digit = {**line, "markeredgewidth": 0.4, "markeredgecolor": style.on, "zorder": 7}
    (figure_,) = axes.plot([], [], marker=_digit(number + 1), markersize=0.48 * size, color=style.on, **digit)
    return shape, figure_


@in_fixed_style
def end_labels(
    axes: Axes, labels: Iterable[tuple[float, str, str]], pixels: float = 15, x: float | None = None
) -> list[Text]:
    """Names at the ends of lines, in place of a legend, pushed apart on whatever scale the vertical axis has.

    Args:
      labels: (y of the line's end, name, colour) each; those whose y is NaN or infinite get no name.
      pixels: the least distance between two names at 100 dpi.
      x: where the lines end, in data units (default: at the right edge); the names stand a little to the right.
    """
    known = [label for label in labels if np.isfinite(label[0])]
    scale = axes.yaxis.get_transform()
    low, high = scale.transform(np.array(axes.get_ylim()))
    per_pixel = (high - low) * axes.figure.dpi / (axes.get_window_extent().height * BASE_DPI)
    wanted = scale.transform(np.array([y for y, _, _ in known], dtype=float))
    places = scale.inverted().transform(spread(wanted.tolist(), pixels * per_pixel, float(low), float(high)))
    right = axes.get_xlim()[1] if x is None else x
    style: dict[str, Any] = {"size": SMALL_SIZE, "weight": "bold", "va": "center", "clip_on": False}
    return [
        axes.text(right, place, f" {name}", color=colour, **style)
        for place, (_, name, colour) in zip(places, known, strict=True)
    ]
