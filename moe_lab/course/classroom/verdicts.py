"""Judges an answer in a hidden test."""

from __future__ import annotations

import contextlib
import io
import warnings
from collections.abc import Callable

from moe_lab.exercises.verdict import Verdict


def show_verdict(check: Callable[[object], Verdict], answer: object) -> Verdict:
    """Judges an answer and displays the verdict, so that nbgrader's feedback holds its hint.

    nbgrader gives no points for a cell that writes to stderr, so warnings and whatever else the answer writes there
    are dropped.
    """
    from IPython.display import display

    with warnings.catch_warnings(), contextlib.redirect_stderr(io.StringIO()):
        warnings.simplefilter("ignore")
        verdict = check(answer)
    display(verdict)
    return verdict
