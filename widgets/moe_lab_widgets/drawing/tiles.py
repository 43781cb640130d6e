"""The patches of a sample as small pictures, in a row for each expert, framed where the expert keeps them."""

from __future__ import annotations

import math
from dataclasses import dataclass
from functools import lru_cache
from typing import Any, NamedTuple

import numpy as np
from matplotlib.axes import Axes
from numpy.typing import NDArray

from moe_lab.drawing import theme
from moe_lab_widgets.drawing.on_axes import box_of, heads, image, signs

ROLES = ("signal", "distractor", "background")
"""What a patch is, by the numbers of a mark's roles."""
_FADED = 0.8  # how far a patch that an expert does not keep goes towards paper
_LARGEST = 34  # screen pixels of a tile at 100 dpi


@dataclass(frozen=True)
class Layout:
    """Where the tiles of one class stand, in device pixels.

    Attributes:
      patches, experts: how many.
      lines: rows of tiles that an expert takes.
      across: tiles in a line.
      pitch: from one tile to the next, to the right (may be a fraction).
      line: from one line to the next.
      band: from one expert to the next.
      cell: side of a tile with its frame.
    """

    patches: int
    experts: int
    lines: int
    across: int
    pitch: float
    line: int
    band: float
    cell: int

    @property
    def width(self) -> int:
        return math.ceil(self.pitch * (self.across - 1)) + self.cell

    @property
    def height(self) -> int:
        return math.ceil(self.band * (self.experts - 1)) + self.lines * self.line

    def corner(self, expert: int, patch: int) -> tuple[int, int]:
        """Returns (left, top) of a tile."""
        return (
            round(self.pitch * (patch % self.across)),
            round(self.band * expert) + self.line * (patch // self.across) + (self.line - self.cell) // 2,
        )

    def middle(self, expert: int) -> float:
        """Returns the height at which an expert's head stands."""
        return round(self.band * expert) + (self.lines * self.line - 1) / 2


def arrange(patches: int, experts: int, width: float, height: float, scale: float = 1.0) -> Layout:
    """Computes the largest tiles that fit: n patches for each of k experts in width x height pixels at 100 dpi.

    A second line for each expert is taken only where it makes tiles clearly larger, at any scale alike.
    """
    best = _arranged(1, patches, experts, width, height)
    for lines in range(2, 5):
        other = _arranged(lines, patches, experts, width, height)
        if other.cell > 1.25 * best.cell:
            best = other
    return _arranged(best.lines, patches, experts, width * scale, height * scale, scale)


def _arranged(lines: int, patches: int, experts: int, width: float, height: float, scale: float = 1.0) -> Layout:
    """Lays out tiles in some lines for each expert; width and height are device pixels."""
    across = math.ceil(patches / lines)
    band = min(height / experts, (lines * _LARGEST + 6) * scale)
    gap = 1 if width / across < 12 else 2
    line = int((band - 2 * scale) // lines)
    cell = int(min(width / across - gap, line - 1, (_LARGEST - 2) * scale))
    pitch = min(width / across, 1.6 * cell + 4 * scale)
    return Layout(patches, experts, lines, across, pitch, line, band, max(cell, 3))


def enlarge(images: NDArray[np.float64], size: int) -> NDArray[np.float64]:
    """Scales images (..., h, w) to (..., size, size): by a whole number where one nearly fits, else smoothly."""
    h, w = images.shape[-2:]
    times = size // max(h, w)
    if times >= 1 and times * h >= 0.75 * size:
        wide = images.repeat(times, axis=-2).repeat(times, axis=-1)
        before = (size - times * h) // 2
        after = size - times * h - before
        return np.pad(wide, [(0, 0)] * (images.ndim - 2) + [(before, after)] * 2)

    def weights(count: int) -> NDArray[np.float64]:
        """Linear interpolation from `count` pixels to `size`; the mean of those that meet where it shrinks."""
        centres = (np.arange(size) + 0.5) * count / size - 0.5
        reach = max(1.0, count / size)
        share = np.maximum(0, 1 - np.abs(centres[:, None] - np.arange(count)) / reach)
        return share / share.sum(1, keepdims=True)

    return weights(h) @ images @ weights(w).T


class Faces(NamedTuple):
    """How the patches of a sample look.

    Attributes:
      roles, sides: of each patch, as a mark has them.
      ink: (n, h, w) images from 0 (paper) to 1; None where the role shows what a patch is.
      grain: of patches without ink.
    """

    roles: tuple[int, ...]
    sides: tuple[int, ...]
    ink: NDArray[np.float64] | None
    grain: float

    @property
    def signal(self) -> int:
        """The place of the patch that decides the class."""
        return self.roles.index(0)


def furnish(ax: Axes, patches: int, experts: int, title: str, colour: str) -> None:
    """Furnishes Axes for the tiles of a class; their data are pixels from the upper left corner."""
    _, _, wide, high = box_of(ax)
    ax.set(xlim=(0, wide), ylim=(high, 0), xticks=(), yticks=())
    ax.spines[:].set_visible(False)
    ax.text(-22, -14, title, color=colour, size=theme.TEXT_SIZE, weight="bold", va="center")
    layout = arrange(patches, experts, wide, high)
    heads(ax, -16, [layout.middle(s) for s in range(experts)], 14 if layout.band > 24 else 11)


def draw(ax: Axes, kept: NDArray[np.bool_], side: int, faces: Faces) -> None:
    """Draws which patches (expert, patch) each expert keeps of a sample of a class, and whether o is among them."""
    (experts, patches), (_, _, wide, high) = kept.shape, box_of(ax)
    layout = arrange(patches, experts, wide, high)
    of_screen = arrange(patches, experts, wide, high, ax.figure.dpi / theme.BASE_DPI)
    name = theme.CLASS_NAMES[side]
    columns = [f"patch {patch + 1}{f', {name}' * (patch == faces.signal)}" for patch in range(patches)]
    image(
        ax,
        0,
        0,
        _tiles_of(faces, side, of_screen).pixels(kept),
        name=f"class {theme.CLASS_SIGNS[side]}",
        rows=[f"expert {s + 1}" for s in range(experts)],
        columns=columns if layout.lines == 1 else ["its patches"],
    )
    _draw_signs(ax, layout, side, faces.signal, kept[:, faces.signal])


def _draw_signs(ax: Axes, layout: Layout, side: int, signal: int, received: NDArray[np.bool_]) -> None:
    """Says which experts receive o, and below the tiles which patch it is."""
    name, colour, wide = theme.CLASS_NAMES[side], theme.CLASSES[side], box_of(ax)[2]
    reaches = [f"{name} {'reaches' if one else 'does not reach'} this expert" for one in received]
    signs(
        ax,
        [*[wide + 16] * layout.experts, layout.corner(0, signal)[0] + layout.cell / 2 + 7],
        [*map(layout.middle, range(layout.experts)), layout.height + 12],
        [*np.where(received, "✔", "✗"), f"▲ {name}"],
        [*np.where(received, 18, 12), theme.TEXT_SIZE],
        [*np.where(received, colour, theme.REFERENCE), colour],
        [*reaches, f"{name}, the patch that decides the class"],
    )


def _tiles_of(faces: Faces, side: int, layout: Layout) -> Tiles:
    """Returns the tiles of a sample, which are made once: a run keeps its examples."""
    ink = None if faces.ink is None else (faces.ink.shape, faces.ink.tobytes())
    return _made(faces._replace(ink=None), ink, side, layout)


@lru_cache(maxsize=16)
def _made(faces: Faces, ink: Any, side: int, layout: Layout) -> Tiles:
    if ink is None:
        roles, sides = np.array(faces.roles), np.array(faces.sides)
        return Tiles(layout, pattern_faces(roles, sides, layout.cell, faces.grain), faces.signal, side)
    shape, looks = ink
    return Tiles(layout, ink_faces(np.frombuffer(looks).reshape(shape), layout.cell), faces.signal, side)


class Tiles:
    """The patches of one class's example, ready to be shown for any choice of the experts.

    Args:
      layout: where they go.
      faces: (n, cell, cell, 4) uint8, every patch as it looks.
      signal: the place of the class's own pattern.
      side: the class.
    """

    def __init__(self, layout: Layout, faces: NDArray[np.uint8], signal: int, side: int) -> None:
        self.layout, self.signal, self.side = layout, signal, side
        self.kept = np.stack([_framed(faces, theme.expert(s).colour) for s in range(layout.experts)])
        self.left = theme.faded(faces, _FADED)
        tint = theme.rgba(theme.CLASSES_TINT[side])[:3].astype(float) / theme.rgba(theme.PAPER)[:3]
        own = theme.faded(faces[signal], 0.6)
        strong = theme.faded(theme.rgba(theme.CLASSES_TINT[side]), 0.45, theme.CLASSES_PALE[side])
        shade = np.minimum(own[..., :3] * tint, strong[:3])
        own[..., :3] = shade.round().astype(np.uint8)
        self.left[signal] = own
        self._corners = np.array([[layout.corner(s, j) for j in range(layout.patches)] for s in range(layout.experts)])
        self._ground = self._column(strong)
        self._shown: tuple[bytes, NDArray[np.uint8]] = b"", self._ground

    def _column(self, colour: NDArray[np.uint8]) -> NDArray[np.uint8]:
        """Paper with the tinted column of o."""
        layout = self.layout
        ground = np.broadcast_to(theme.rgba(theme.PAPER), (layout.height, layout.width, 4)).copy()
        if layout.lines == 1:
            left, top = layout.corner(0, self.signal)
            ground[top:, left : left + layout.cell] = colour
        else:
            for s in range(layout.experts):
                left, top = layout.corner(s, self.signal)
                ground[max(top - 1, 0) : top + layout.cell + 1, max(left - 1, 0) : left + layout.cell + 1] = colour
        return ground

    def pixels(self, kept: NDArray[np.bool_]) -> NDArray[np.uint8]:
        """Returns (height, width, 4) uint8 for a choice (experts, n); the latest one is remembered."""
        if self._shown[0] != kept.tobytes():
            image, cell = self._ground.copy(), self.layout.cell
            for (s, j), keeps in np.ndenumerate(kept):
                left, top = self._corners[s, j]
                image[top : top + cell, left : left + cell] = self.kept[s, j] if keeps else self.left[j]
            self._shown = kept.tobytes(), image
        return self._shown[1]


def _framed(faces: NDArray[np.uint8], colour: str) -> NDArray[np.uint8]:
    framed, cell = faces.copy(), faces.shape[1]
    wide = 1 if cell < 12 else 2 if cell < 36 else 3
    for edge in (np.s_[:, :wide], np.s_[:, -wide:], np.s_[:, :, :wide], np.s_[:, :, -wide:]):
        framed[edge] = theme.rgba(colour)
    return framed


def ink_faces(ink: NDArray[np.float64], cell: int) -> NDArray[np.uint8]:
    """Returns images of ink (n, h, w), of 0 for paper to 1 for ink."""
    return inked(np.clip(enlarge(ink, cell), 0, 1)[..., None])


def inked(ink: NDArray[np.float64]) -> NDArray[np.uint8]:
    """Paints ink (..., 1), of 0 for paper to 1 for ink, as opaque pixels (..., 4)."""
    colours = theme.rgba(theme.PAPER)[:3] * (1 - ink) + theme.rgba(theme.INK)[:3] * ink
    return np.concatenate([colours, np.full_like(ink, 255)], axis=-1).round().astype(np.uint8)


def pattern_faces(
    roles: NDArray[np.int64], sides: NDArray[np.int64], cell: int, noise: float = 0.0
) -> NDArray[np.uint8]:
    """Returns tiles from the patches' role and side (n,); grain stands for the noise."""
    faces = np.stack(
        [theme.tile(ROLES[role], max(int(side), 0), cell) for role, side in zip(roles, sides, strict=True)]
    )
    if noise:
        grain = _grain(len(faces), cell)[..., None] * (255 * 0.16 * min(noise, 2.0))
        faces = np.concatenate([np.clip(faces[..., :3] + grain, 0, 255), faces[..., 3:]], axis=-1).astype(np.uint8)
    return faces


def _grain(count: int, cell: int) -> NDArray[np.float64]:
    """Gaussian noise (count, cell, cell), rounded and in small squares: a page is sent each new tile."""
    side = max(2, round(cell / 12))
    grain = np.random.default_rng(0).standard_normal((count, math.ceil(cell / side), math.ceil(cell / side))).round()
    return grain.repeat(side, axis=1).repeat(side, axis=2)[:, :cell, :cell]
