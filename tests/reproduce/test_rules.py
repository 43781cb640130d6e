"""Rules can fail: they are open at one end only where the paper states an inequality, and turn on changed numbers."""

from __future__ import annotations

import json
import math
from collections.abc import Iterator
from pathlib import Path

import numpy as np
import pytest

from moe_lab.reproduce import ledger
from moe_lab.reproduce.claim import Claim, Published, Range, Rule, half_to_double, nearer, share_from, up_to

CLAIMS = ledger.claims()
MEASURED: dict[str, float] = json.loads((Path(__file__).parent / "measured.json").read_text())
"""The number that each rule judged in a quick run at seed 0, to four digits; none where data were missing."""
_BOUND = "a bound that random scores stay half below; only a larger ratio, as of a wrong kappa, would break it"
_TIE = "both criteria keep as much, so that only the other one ahead would turn it: see test_pruning2024.py"
CANNOT_TURN: dict[str, str] = {
    "chen2022/lemma5.1/bound": _BOUND,
    "chen2022/remarkc.2/wider-noise-smoother": _BOUND,
    "chen2022/lemmac.3/close-scores": _BOUND,
    "pruning2024/figure5c/upper-bound-expert-choice": _TIE,
    "pruning2024/figure5b/upper-bound-token-choice": _TIE,
    "pruning2024/figure5c/upper-bound-token-choice": _TIE,
    "gridlock2019/figure3/a-gates-iterations": "it is 2, and twice as many are still less than 5",
}
"""By id: why no change of its number turns the verdict."""
_SPREAD = "its published deviation is as large as the entropy, or a tenth of a nat is more"
_RANDOM = "the statistic is random where the theorem holds, as far as the trials' number says"
WIDE: dict[str, str] = {
    **{
        f"chen2022/table{1 if setting < 3 else 3}/setting{setting}-nonlinear-entropy{objective}": _SPREAD
        for objective in ("", "-authors")
        for setting in (1, 2, 3, 4)
    },
    "chen2022/table4/initial-dispatch": "the largest of eight sampling errors",
    "gridlock2019/table2/same-in-both-settings": "the published difference is the largest that counts as none",
    "gridlock2019/theorem1/tensor": _RANDOM,
    "gated2019/theorem5/eq8": _RANDOM,
    "gated2019/theorem5/eq8-random-gates": _RANDOM,
    "gated2019/lemma1/tensor": _RANDOM,
}
"""By id: why half or twice the published number agrees as well."""


def agreeing(claim: Claim) -> float:
    """Returns the published number, or one that agrees where the paper has none."""
    published = claim.published.value
    if published is not None and claim.rule.verdict(np.array([published])) != "differs":
        return published
    low, high = claim.rule.agrees or claim.rule.in_kind or (math.nan, math.nan)
    return low if math.isinf(high) else high if math.isinf(low) else (low + high) / 2


def others(claim: Claim) -> Iterator[float]:
    """The numbers of other settings, models or trials of the same measurement, as if they had been confused."""
    for other in CLAIMS:
        if other.measurement is claim.measurement and other.unit == claim.unit and other.id in MEASURED:
            yield MEASURED[other.id]


def mutations(claim: Claim, number: float) -> list[float]:
    """Nothing, chance, half, double, the sign or the complement of a number, other settings', and the published one."""
    return [0.0, 0.5, 1.0, number / 2, 2 * number, -number, 1 - number, agreeing(claim), *others(claim)]


def verdict(claim: Claim, number: float) -> str:
    return claim.rule.verdict(np.array([number]))


def test_every_claim_turns_on_a_changed_measurement() -> None:
    rigid = []
    for claim in CLAIMS:
        number = MEASURED.get(claim.id, agreeing(claim))
        found = verdict(claim, number)
        if all(verdict(claim, other) == found for other in mutations(claim, number)):
            rigid.append(claim.id)
    assert rigid == list(CANNOT_TURN)


def test_a_published_number_does_not_agree_with_its_half_and_its_double() -> None:
    """Unless the paper states an inequality, or the number is 0."""
    wide = []
    for claim in CLAIMS:
        value = claim.published.value
        if not value or claim.published.bound:
            continue
        if any(verdict(claim, part * value) in ("agrees", "follows") for part in (0.5, 2.0)):
            wide.append(claim.id)
    assert wide == list(WIDE)


def test_a_rule_is_open_only_where_the_paper_states_an_inequality() -> None:
    def open_ends(bounds: Range | None) -> set[str]:
        low, high = bounds or (0.0, 0.0)
        return ({"at least"} if math.isinf(high) else set()) | ({"at most", "less than"} if math.isinf(low) else set())

    for claim in CLAIMS:
        ends = open_ends(claim.rule.agrees) | open_ends(claim.rule.in_kind)
        if claim.published.value is not None:
            assert not ends or claim.published.bound in ends, f"{claim.id}: {claim.rule.words}"


def test_what_follows_is_counted_apart() -> None:
    rule = Rule(agrees=(0.9, 1.1), in_kind=(0.5, 2.0), follows=True)
    assert [rule.verdict(np.array([number])) for number in (1.0, 0.6, 3.0)] == ["follows", "agrees in kind", "differs"]
    assert rule.words == "the mean of the trials follows if it is from 0.9 to 1.1, or agrees in kind from 0.5 to 2"
    with pytest.raises(ValueError, match="what follows has a range"):
        Rule(in_kind=(0, 1), follows=True)


def test_ranges_by_hand() -> None:
    assert half_to_double(0.6, without=1) == pytest.approx((0.2, 0.8))  # a saving of .4: from .2 to .8
    assert half_to_double(-2) == (-4, -1)
    assert nearer(0.9, 0.5) == pytest.approx(0.7)
    assert share_from(0.9) == pytest.approx((0.9, 1)) and up_to(0.1) == (0, 0.1)


def test_a_bound_in_words() -> None:
    assert Published(value=0.95, bound="at least", relation="of all").words == "at least 0.95 (of all)"
    with pytest.raises(ValueError, match="a bound needs its number"):
        Published(relation="rises", bound="at most")
