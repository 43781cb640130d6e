"""Marks of the patches of one sample: `Tiles` and `Places`, in a row for each expert, and their furniture.

Shapes: k experts, n patches.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import Number, Words


@dataclass(frozen=True)
class _PatchTable(Mark):
    """Furniture: a head for each expert's row, and a title in the style of a class.

    Attributes:
      shape: the numbers of experts and of patches.
    """

    shape: tuple[Number, Number]
    title: Words
    style: str


class TileTable(_PatchTable):
    """Furniture for `Tiles`."""


class PlaceTable(_PatchTable):
    """Furniture for `Places`, with "lost" below the rows of boxes."""


@dataclass(frozen=True)
class Tiles(Mark):
    """The patches of one sample as small pictures, in a row for each expert, on axes with a `TileTable`.

    Those that an expert keeps are framed in its colour, the others fade; whether the deciding one is among them is
    said beside the row.

    Attributes:
      kept: (k, n).
      side: the sample's class, from 0.
      roles, sides: (n,) of each patch, as `moe_lab.patch_routing.data` has them.
      ink: (n, side, side) images, 0 for paper and 1 for ink; without them the role shows what a patch is.
      grain: how much noise grains show that stand for it, where there is no ink.
    """

    kept: Bool[Tensor, "k n"]
    side: int
    roles: Tensor
    sides: Tensor
    ink: Tensor | None = None
    grain: Number = 0.0


@dataclass(frozen=True)
class Places(Mark):
    """The patches of one sample, and below each a box for each expert: full where the patch has a place there.

    A cross is where it asked for a place in vain, a black box in the last row a patch that is lost, and a frame around
    a column the deciding patch. On axes with a `PlaceTable`.

    Attributes:
      weights: (k, n) 0 to 1, how full a box is.
      refused: (k, n) where there is a cross.
      lost: (n,).
      side: the sample's class, from 0.
      roles, sides: (n,) of each patch, as `moe_lab.patch_routing.data` has them.
    """

    weights: Float[Tensor, "k n"]
    refused: Bool[Tensor, "k n"]
    lost: Bool[Tensor, " n"]
    side: int
    roles: Tensor
    sides: Tensor
