"""The claims of pruning2024's lemmas and theorems, as shares of the trials in which they hold.

Two cases have no claim, because nothing is stated of them: output weights a that are trained (section 4.2 keeps them
fixed) and more than two classes (footnote 1 says that the analysis can be extended). Both are in the vision models,
whose experts' second layers are trained and which have ten classes.
"""

from __future__ import annotations

from typing import Any

import xarray as xr

from moe_lab_papers.claim import Claim, Measurement, Published, Read, Rule, share_from
from moe_lab_papers.pruning2024.sources import MEASURES

_FAR = (
    "constants are hidden: T is 110, not the thousands of (9), so that neurons reach what these steps make and "
    "not l sqrt(d log l)"
)
_START = (
    "the proof's assumption is not met: it needs unimportant routers whose components along o are a margin C_p of the "
    "order of 1/d from all others, which a random start does not have. In 24 trainings from such starts 42 of 432 "
    "unimportant experts grow; where the same routers keep the order of their components, and all others are moved "
    "C_p = 1/d away from that along o, 1 of 431 does"
)

PLANTED = Measurement(
    name="pruning2024/statements-planted",
    function=f"{MEASURES}:statements",
    quick={"start": "planted", "trials": 24},
    full={"start": "planted", "trials": 100},
    seconds=(9, 36),
    device=True,
)
RANDOM = Measurement(
    name="pruning2024/statements-random",
    function=f"{MEASURES}:statements",
    quick={"start": "random", "trials": 24, "which": ("lemma 4.2", "lemma 4.4"), "later_steps": 0},
    full={"start": "random", "trials": 100, "which": ("lemma 4.2", "lemma 4.4"), "later_steps": 0},
    seconds=(9, 40),
    device=True,
)


MARGINS = Measurement.sized(
    name="pruning2024/margins",
    function=f"{MEASURES}:margins",
    sizes={"trials": (8, 40), "starts": (("margin",), ("random", "margin", "last"))},
    seconds=(4, 40),
    device=True,
)


def _holds(statement: str) -> Read:
    """Reads 1 where a statement holds and 0 where it fails; omits trials whose assumption is not met."""

    def read(data: xr.Dataset) -> Any:
        state = data["state"].sel(statement=statement)
        return state.where(state >= 0, drop=True)

    return read


def _claims(
    measurement: Measurement,
    *rows: tuple[str, str, str],
    reason: str = "",
    not_comparable: str = "",
    in_kind: bool = False,
) -> list[Claim]:
    """Returns claims that statements hold with high probability: in at least 85 % of the trials.

    Args:
      measurement: the states of the statements.
      rows: (end of the id, statement of `moe_lab.pruning`, the claim in words).
      reason: why they may differ.
      not_comparable: why they are about something else.
      in_kind: whether they agree in kind at most.
    """
    often = share_from(0.85)
    return [
        Claim(
            id=f"pruning2024/{place}",
            where=statement.split(",")[0],
            statement=words,
            published=Published(value=1, relation="with high probability"),
            measurement=measurement,
            read=_holds(statement),
            rule=Rule(in_kind=often) if in_kind else Rule(agrees=often),
            reason=reason,
            not_comparable=not_comparable,
            unit="of the trials",
        )
        for place, statement, words in rows
    ]


_IMPORTANT = "important experts, p^(0) = Omega(1), end"
_UNIMPORTANT = "unimportant experts, p^(0) = O(1/d), end"
_GREW = "experts with Delta > 1.5 log l"
_TINY = "from tiny random weights,"
CLAIMS: tuple[Claim, ...] = (
    *_claims(
        PLANTED,
        ("lemma4.1/i-proficiency", "lemma 4.1, (i) p", f"{_IMPORTANT} with p = 1"),
        ("lemma4.1/ii-gates", "lemma 4.1, (ii) gates", f"{_IMPORTANT} with gates above 1/2"),
    ),
    *_claims(
        PLANTED,
        (
            "lemma4.1/iii-neurons",
            "lemma 4.1, (iii) neurons",
            f"{_IMPORTANT} with a constant fraction of neurons that are large along o",
        ),
        reason=_FAR,
        in_kind=True,
    ),
    *_claims(
        PLANTED,
        ("lemma4.1/iv-norm-change", "lemma 4.1, (iv) Delta", f"{_IMPORTANT} with Delta > 1.5 log l"),
        ("lemma4.2/i-proficiency", "lemma 4.2, (i) p", f"{_UNIMPORTANT} with p = O(1/d)"),
        ("lemma4.2/ii-norm-change", "lemma 4.2, (ii) Delta", f"{_UNIMPORTANT} with a small Delta"),
    ),
    *_claims(
        RANDOM,
        ("lemma4.2/i-proficiency-random-start", "lemma 4.2, (i) p", f"{_TINY} {_UNIMPORTANT} with p = O(1/d)"),
        ("lemma4.2/ii-norm-change-random-start", "lemma 4.2, (ii) Delta", f"{_TINY} {_UNIMPORTANT} with a small Delta"),
        not_comparable=_START,
    ),
    Claim(
        id="pruning2024/lemma4.2/ii-norm-change-with-margin",
        where="lemma 4.2, (ii), and its proof",
        statement=f"from random weights whose routers have the margin C_p = 1/d that the proof assumes, {_UNIMPORTANT} "
        "with a small Delta",
        published=Published(value=1, relation="every one, with high probability"),
        measurement=MARGINS,
        read=lambda data: 1 - (data["grew"] / data["unimportant"]).sel(start="margin"),
        rule=Rule(agrees=share_from(0.97)),  # half as many as grow without the margin, or fewer, would still fail
        unit="of the unimportant experts",
    ),
    *_claims(
        PLANTED,
        (
            "theorem4.3/no-error",
            "theorem 4.3",
            "up to rho = gamma no test sample is wrong, without fine-tuning after pruning",
        ),
        ("lemma4.4/i-proficiency", "lemma 4.4, (i) p", f"{_GREW} have p = 1"),
        ("lemma4.4/ii-gates", "lemma 4.4, (ii) gates", f"{_GREW} have gates above 1/2"),
    ),
    *_claims(
        RANDOM,
        ("lemma4.4/i-random-start", "lemma 4.4, (i) p", f"{_TINY} {_GREW} have p = 1"),
        ("lemma4.4/ii-random-start", "lemma 4.4, (ii) gates", f"{_TINY} {_GREW} have gates above 1/2"),
    ),
    *_claims(
        PLANTED,
        (
            "lemma4.4/iii-neurons",
            "lemma 4.4, (iii) neurons",
            "fine-tuned alone, a constant fraction of their neurons grow large along o",
        ),
        reason=_FAR,
        in_kind=True,
    ),
    *_claims(
        PLANTED,
        (
            "theorem4.5/no-error",
            "theorem 4.5",
            "with fine-tuning after pruning no test sample is wrong up to one expert of each sign",
        ),
    ),
)
"""The planted routers are as short as appendix C requires; (8), (9) and (11) are far from met in both."""
