"""Errata: misprints of the papers, and steps that they omit, with the computations that show them."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass

from moe_lab.core.findings import Finding, judged


@dataclass(frozen=True, kw_only=True)
class Erratum:
    """A misprint, or a step that a paper omits.

    Attributes:
      id: the paper's key and a name, such as "gridlock2019/example3-relu".
      where: the place in the paper.
      printed: what the paper has there, or that it has nothing.
      instead: what it should have.
      evidence: the reasons, in words.
      check: computes a Finding that holds where the correction is right and the printed form is not; None where
        nothing can be computed.
    """

    id: str
    where: str
    printed: str
    instead: str
    evidence: str
    check: Callable[[], Finding] | None = None

    @property
    def paper(self) -> str:
        return self.id.split("/")[0]


def compared(statement: str, *, corrected: float, printed: float, sentence: str) -> Finding:
    """Returns a Finding that holds where the correction leaves no deviation and the printed form leaves one.

    Args:
      statement: the place in the paper.
      corrected, printed: the deviations of both forms.
      sentence: which deviation is computed.
    """
    true = bool(abs(corrected) < 1e-8 and abs(printed) > 1e-4)
    numbers = {"corrected": float(corrected), "printed": float(printed)}
    words = f"{sentence}: {corrected:.2g} as corrected, {printed:.2g} as printed"
    return Finding(statement, judged(True, true), words, numbers)
