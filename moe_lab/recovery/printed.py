"""The transforms as the papers print them, compared with the solutions of the papers' own equations.

- gridlock2019, example 1 (identity): beta = -3 (1 + sigma^2), gamma = 0. Right.
- gridlock2019, example 2 (sigmoid): a rounded system, in which -.1755 should be -.1754, and -.0001 exactly 0.
- gridlock2019, example 3 (ReLU): alpha = -3 s, beta = 3 (4/pi - sigma^2 - 1), s = sqrt(2/pi). E[g g''] lost the delta
  function of g'': alpha = -1.5 s / (1 - s^2), beta = -3 - 2 alpha s - 3 sigma^2.
- gated2019, example 1 (identity): beta = -6 (1 + sigma^2), delta = 0. Right.
- gated2019, example 2 (ReLU): a system with sigma^2 in its second column. E[Y^2 | Z] = g^2 + sigma^2 adds a constant,
  which no He_j with j >= 1 sees: drop the three sigma^2.
"""

from __future__ import annotations

import math
from dataclasses import replace
from typing import NamedTuple

import numpy as np

from moe_lab.recovery.transforms import Polynomial, Transforms, polynomial

_S = math.sqrt(2 / math.pi)


class Printed(NamedTuple):
    """A polynomial as a paper prints it.

    Attributes:
      name: "P2", "P3", "Q4" or "Q2".
      where: the example in the paper.
      polynomial: with its moments, which are 0 if it is correct.
    """

    name: str
    where: str
    polynomial: Polynomial

    @property
    def right(self) -> bool:
        """Whether the moments that should be 0 are, to the three digits of the papers."""
        return max(map(abs, self.polynomial.residuals)) < 2e-3 * max(1e-3, abs(self.polynomial.strength))


def printed(g: str, sigma: float) -> list[Printed]:
    """Returns the polynomials that the two papers print for an activation.

    Args:
      g: "identity", "relu" or "sigmoid"; the papers print none for others.
      sigma: standard deviation of the noise.
    """
    variance = sigma**2
    if g == "identity":
        return [
            _printed("P3", "gridlock2019, example 1", g, sigma, (-3 * (1 + variance), 0, 1)),
            _printed("P2", "gridlock2019, example 1", g, sigma, (0, 1)),
            _printed("Q4", "gated2019, example 1", g, sigma, (0, -6 * (1 + variance), 0, 1)),
            _printed("Q2", "gated2019, example 1", g, sigma, (0, 1)),
        ]
    if g == "sigmoid":
        system = np.array([[0.2066, 0.2066], [0.0624, -0.0001]])
        alpha, beta = np.linalg.solve(system, [-0.1755 - 0.6199 * variance, -0.0936])
        return [
            _printed("P3", "gridlock2019, example 2", g, sigma, (beta, alpha, 1)),
            _printed("P2", "gridlock2019, example 2", g, sigma, (-1, 1)),
        ]
    if g == "relu":
        system = np.array(
            [
                [1.5 + 1.5 * variance, _S + variance, 0.5],
                [3 * _S * (1 + variance / 2), 1 + variance, _S / 2],
                [3, _S + variance, 0],
            ]
        )
        right_side = [-_S * (4 + 6 * variance), -(6 + 6 * variance), -_S * (12 + 6 * variance)]
        alpha, beta, gamma = np.linalg.solve(system, right_side)
        return [
            _printed("P3", "gridlock2019, example 3", g, sigma, (3 * (4 / math.pi - variance - 1), -3 * _S, 1)),
            _printed("P2", "gridlock2019, example 3", g, sigma, (-2 * _S, 1)),
            _printed("Q4", "gated2019, example 2", g, sigma, (gamma, beta, alpha, 1)),
            _printed("Q2", "gated2019, example 2", g, sigma, (-2 * _S, 1)),
        ]
    return []


def as_printed(derived: Transforms) -> Transforms:
    """Replaces P3 and P2 by those that gridlock2019 prints, if any; Q4 does not change."""
    every = printed(derived.g.name, derived.sigma)
    polynomials = {entry.name: entry.polynomial for entry in every if "gridlock" in entry.where}
    return replace(derived, p2=polynomials.get("P2", derived.p2), p3=polynomials.get("P3", derived.p3))


def _printed(name: str, where: str, g: str, sigma: float, coefficients: tuple[float, ...]) -> Printed:
    return Printed(name, where, polynomial(g, sigma, tuple(map(float, coefficients))))
