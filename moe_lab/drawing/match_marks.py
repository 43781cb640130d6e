"""Marks of estimates that are matched with true parameters: how well each points along each.

Shapes: k experts.
"""

from __future__ import annotations

from dataclasses import dataclass

from jaxtyping import Bool, Float
from torch import Tensor

from moe_lab.drawing.marks import Mark
from moe_lab.drawing.words import NOTHING, Number, Words


@dataclass(frozen=True)
class MatchTable(Mark):
    """Furniture for `Matches`: names of the true regressors above, of the gates below.

    Attributes:
      k: experts.
      note: what stands at the left under the table, beside a key to the shades; nothing for no key.
      under: a line below that.
    """

    k: Number
    note: str = ""
    under: str = ""


@dataclass(frozen=True)
class Matches(Mark):
    """|cos| of estimates (rows, matched) and true regressors (columns), below a row of gates, and a sign for each row.

    Attributes:
      cosines: (k, k) 0 where an estimate is not sought yet; cells on the diagonal are outlined.
      gates: (k - 1,) 0 where they are not sought yet.
      found: (k,) which estimates count as found.
      least: the |cos| from which on they do: no number is rounded up across it.
      head, progress: two lines above.
      style: of these lines.
    """

    cosines: Float[Tensor, "k k"]
    gates: Float[Tensor, " gates"]
    found: Bool[Tensor, " k"]
    least: float
    head: Words
    style: str
    progress: Words = NOTHING
