"""Marks of one image that is cut into patches, of which experts keep some: `PatchedImage`, and its furniture.

Shapes: k experts, n patches.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import Words


@dataclass(frozen=True)
class ImageAxes(Mark):
    """Furniture for a `PatchedImage`: axes in pixels of the image, from its upper left corner.

    Attributes:
      side: pixels along a side of the image, which is as large as the axes allow.
    """

    side: int


@dataclass(frozen=True)
class PatchedImage(Mark):
    """An image with the heads of the experts in the patches that they keep, and a frame around the object.

    Attributes:
      ink: (side, side) 0 for paper and 1 for ink.
      patches: along a side of the image.
      kept: (k, n) where the head of an expert stands.
      lit: (n,) the patches that are not covered.
      box: (4,) top, left, height and width of the object in pixels; nothing is framed where there is none.
      above, below: a line above the image in the colour of the frame, and one below it.
      firm: 0 where the line below is grey.
    """

    ink: Float[Tensor, "side side"]
    patches: int
    kept: Bool[Tensor, "k n"]
    lit: Bool[Tensor, " n"]
    box: Float[Tensor, " 4"]
    above: Words
    below: Words
    firm: Tensor
