"""Numbers of the papers that follow by arithmetic from their own formulas or sizes, each computed anew.

They say that the papers' sums are right, and nothing about what is trained, so that they are no claims. Where a printed
number does not follow, there is an erratum instead.
"""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

import numpy as np

from moe_lab_papers import recovery_lemmas, recovery_measures
from moe_lab_papers.gated2019 import remarks
from moe_lab_papers.pmoe2023 import measures as bounds
from moe_lab_papers.pruning2024 import deep_measures

_N, _L, _K, _M = 16, 6, 8, 40  # section 5.1 of pmoe2023


@dataclass(frozen=True, kw_only=True)
class Formula:
    """A number that a paper prints or that its formula gives.

    Attributes:
      where: the paper's key and the place.
      words: what the number is.
      printed: the number.
      computed: computes it without the paper's formula.
      tolerance: of the difference: half of the last printed digit, or rounding.
    """

    where: str
    words: str
    printed: float
    computed: Callable[[], float]
    tolerance: float


def _advantage(quantity: str, kind: str) -> float:
    found = bounds.bounds(_N, _L, _K, _M)["advantage"]
    return float(found.sel(quantity=quantity, kind=kind))


def _error_power(symbol: str) -> float:
    return float(bounds.bounds(_N, _L, _K, _M)["error_power"].sel(symbol=symbol))


def _step() -> float:
    counted = bounds.step_operations(_N, _L, _M)["operations"]
    return float(counted.sel(kind="cnn") / counted.sel(kind="separate"))


def _strength(polynomial: str) -> float:
    """Returns the constant of linear experts, if it is the same at every sigma."""
    found = recovery_measures.stein_conditions()["strength"].sel(polynomial=polynomial, activation="identity")
    return float(found[0]) if np.ptp(found.values) < 1e-9 else float("nan")


def _saved(model: str) -> float:
    left = deep_measures.built()["bytes"].sel(model=model)
    return float(1 - left.sel(kept=2) / left.sel(kept=8))


_SIZES = f"n = {_N}, l = {_L}, k = {_K}"
FORMULAS: tuple[Formula, ...] = tuple(
    Formula(where=where, words=words, printed=printed, computed=computed, tolerance=tolerance)
    for where, words, printed, computed, tolerance in (
        (
            "pmoe2023, after theorem 4.3",
            f"the CNN's bound of N over separate training's, (n/l)^8, at {_SIZES}",
            (_N / _L) ** 8,
            lambda: _advantage("samples", "separate"),
            1e-6,
        ),
        (
            "pmoe2023, after theorem 4.3",
            f"the CNN's bound of m over separate training's, (n/l)^10, at {_SIZES}",
            (_N / _L) ** 10,
            lambda: _advantage("neurons", "separate"),
            1e-5,
        ),
        (
            "pmoe2023, after theorem 4.5",
            f"the CNN's bound of N over joint training's, n^8 / (k^4 l^6), at {_SIZES}",
            _N**8 / (_K**4 * _L**6),
            lambda: _advantage("samples", "joint"),
            1e-9,
        ),
        (
            "pmoe2023, after theorem 4.5",
            "the power of k with which joint training's error grows at fixed N",
            1 / 4,
            lambda: _error_power("k"),
            1e-9,
        ),
        (
            "pmoe2023, after theorem 4.5",
            "the power of l with which joint training's error grows at fixed N",
            3 / 8,
            lambda: _error_power("l"),
            1e-9,
        ),
        (
            "pmoe2023, table 1 and appendix N",
            f"operations until error eps, the CNN's over separate training's, n^5 / l^5, at {_SIZES}",
            (_N / _L) ** 5,
            lambda: float(bounds.bounds(_N, _L, _K, _M)["total"].sel(kind="separate")),
            1e-6,
        ),
        (
            "pmoe2023, table 1",
            "operations of a step, the CNN's over separate training's, n/l, counted in the step itself",
            _N / _L,
            _step,
            0.02 * _N / _L,
        ),
        (
            "pruning2024, section 1, figure 1",
            "the share of V-MoE B/16's memory that 75 % of its experts hold",
            0.60,
            lambda: _saved("b16"),
            0.005,
        ),
        (
            "pruning2024, section B.2, figure 8",
            "the share of E3 S/32's memory that 75 % of its experts hold",
            0.45,
            lambda: _saved("e3-s32"),
            0.005,
        ),
        ("gridlock2019, theorem 1", "c' of linear experts, at every sigma", 2.0, lambda: _strength("P2"), 1e-9),
        ("gridlock2019, theorem 1", "c of linear experts, at every sigma", 6.0, lambda: _strength("P3"), 1e-9),
        (
            "gridlock2019, appendix D.1, eq. 28",
            "the smallest eigenvalue of -Q's Hessian, over all gates of length 1 at most",
            0.1442,
            lambda: float(recovery_lemmas.concavity()["least"]),
            5e-5,
        ),
        (
            "gridlock2019, appendix G",
            "the largest eigenvalue of -Q's Hessian, over all gates of length 1 at most",
            0.25,
            lambda: float(recovery_lemmas.concavity()["largest"]),
            5e-5,
        ),
        (
            "gated2019, appendix A, eq. 10",
            "how far a mixture whose gates have a bias alone is from a network of one hidden layer",
            0.0,
            lambda: float(remarks.constant_gates()["gap"].max()),
            1e-12,
        ),
    )
)
