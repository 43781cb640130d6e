"""Marks of a plane of parameters: a loss from above, and the path of a descent over it.

Furniture: `PlaneAxes`. Of a record: `Relief` and `Trail`. Places on the plane go from -1 to 1.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Float
from torch import Tensor

from moe_lab.drawing.marks import Mark


@dataclass(frozen=True)
class PlaneAxes(Mark):
    """A plane without ticks.

    Attributes:
      x_name, y_name: where its directions lead.
      name: what a pointer calls it.
    """

    x_name: str
    y_name: str
    name: str


@dataclass(frozen=True)
class Relief(Mark):
    """A function on the plane in bands of equal steps of its root, darker where it is larger; nothing where it is NaN.

    Attributes:
      values: (P, P) at even places; rows go upwards.
    """

    values: Float[Tensor, "P P"]


@dataclass(frozen=True)
class Trail(Mark):
    """A line through places (R,), inside the plane; places that are NaN are left out.

    Attributes:
      name: for the pointer.
    """

    x: Float[Tensor, " R"]
    y: Float[Tensor, " R"]
    name: str
