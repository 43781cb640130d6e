"""The outcome of checking a statement of a paper: it holds, fails, or does not apply; with the numbers."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from typing import Literal

State = Literal["holds", "fails", "assumption not met"]


@dataclass(frozen=True)
class Finding:
    """The outcome of checking one statement.

    Attributes:
      statement: its name, such as "theorem 4.1".
      state: "assumption not met" where the paper promises nothing, whatever was measured.
      sentence: what was compared with what.
      numbers: what was measured, by name.
    """

    statement: str
    state: State
    sentence: str
    numbers: Mapping[str, float] = field(default_factory=dict)

    @property
    def holds(self) -> bool:
        return self.state == "holds"

    def __repr__(self) -> str:
        return f"{self.statement}: {self.state}. {self.sentence}"

    def __getitem__(self, name: str) -> float:
        return self.numbers[name]


def judged(met: bool, true: bool) -> State:
    """Returns the state of a statement, given whether its assumption is met and its conclusion true."""
    if not met:
        return "assumption not met"
    return "holds" if true else "fails"
